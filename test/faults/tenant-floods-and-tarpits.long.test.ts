import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openDns } from '../../src/net/dns.ts';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { relayRig } from '../kit/relay-rig.ts';
import { runningMs } from '../kit/running-time.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const FLOOD = 1_500;

test("single messages go out immediately despite another tenant's backlog and a tarpit domain", async (t) => {
  const dns = await fakeDns({ 'tarpit.example': { A: ['127.0.0.2'] }, 'busy.example': { A: ['127.0.0.3'] } });
  for (let i = 0; i < 20; i += 1) dns.zone[`d${i}.example`] = { A: ['127.0.0.3'] };
  const good = await smtpSink({ host: '127.0.0.3' });
  const tarpit = await smtpSink({ host: '127.0.0.2', port: good.port, script: { banner: { dripMs: 1_000 } } });
  const resolver = openDns({ servers: [dns.server], timeoutMs: 30_000, tries: 1 });
  const allowed = parseCidrs('127.0.0.0/8');
  assert.ok(allowed.ok);
  const rig = await deliveryRig({
    routing: { route: { kind: 'mx' }, dns: resolver, mxPort: good.port, mxAllow: allowed.cidrs },
    deps: { limits: { jobs: 200, lane: 40, account: 80, destination: 50 }, stopGraceMs: 200 },
  });
  t.after(async () => {
    await rig.close();
    resolver.close();
    await Promise.all([good.close(), tarpit.close(), dns.close()]);
  });
  const flood = await Promise.all(
    Array.from(
      { length: FLOOD },
      async (_, i) => (await rig.store({ accountId: 'acc_flood', to: [`${i}@busy.example`] }))[0]!,
    ),
  );
  for (let account = 0; account < 5; account += 1) {
    for (let i = 0; i < 60; i += 1) await rig.store({ accountId: `acc_slow${account}`, to: [`${i}@tarpit.example`] });
  }
  rig.delivery.nudge();
  const latencies: number[] = [];
  for (let i = 0; i < 20; i += 1) {
    const start = runningMs();
    const mail = { accountId: `acc_other${i}`, to: [`one@d${i}.example`] };
    const [id] = rig.delivery.hasCapacity(1, 100) ? await rig.send(mail) : await rig.store(mail);
    await waitUntil('a message of another tenant', () => rig.status(id!) === 'delivered');
    latencies.push(runningMs() - start);
  }
  assert.ok(Math.max(...latencies) < 2_000, `slowest of the others took ${Math.round(Math.max(...latencies))} ms`);
  assert.ok(rig.delivery.state().window <= 300, `window ${rig.delivery.state().window}`);
  assert.ok(tarpit.connections.peak <= 20, `${tarpit.connections.peak} connections to the tarpit`);
  assert.ok(good.connections.peak <= 60, `${good.connections.peak} connections`);
  const last = flood.at(-1)!;
  await waitUntil(
    'the backlog to drain',
    () => rig.rows<{ n: number }>("SELECT count(*) AS n FROM work WHERE account_id = 'acc_flood'")[0]!.n === 0,
    60_000,
  );
  assert.equal(rig.status(last), 'delivered');
  const copies = new Set(good.messages.map((mail) => mail.to[0]));
  assert.equal(copies.size, FLOOD + 20);
  assert.equal(good.messages.length, FLOOD + 20, 'no duplicates');
});

test('rows held before a restart are found again', async (t) => {
  const { sink, rig } = await relayRig(t, {}, { idle: true });
  for (let i = 0; i < 30; i += 1) await rig.store({ to: [`${i}@x.example`] });
  rig.tamper('UPDATE work SET held = 1');
  await rig.restart();
  await waitUntil('all messages to be delivered', () => sink.accepted === 30);
});
