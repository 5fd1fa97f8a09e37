/**
 * Which messages are parked when processes crash. A message that crashes the process at every attempt is parked after three crashes, and
 * other messages are delivered in the meantime. A service that is killed repeatedly parks nothing.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { allMessages } from './ledger.ts';

for (const deadly of ['kill', 'hang'] as const) {
  test(`a message that makes its process ${deadly === 'kill' ? 'die' : 'hang'} is parked after three tries`, async (t) => {
    const sink = await smtpSink({ script: { dot: () => ({ delayMs: 5 }) } });
    const rig = await deliveryRig({ idle: true, clock: systemClock });
    const children: ChildProcess[] = [];
    t.after(async () => {
      for (const child of children) child.kill('SIGKILL');
      await rig.close();
      await sink.close();
    });
    const innocents: string[] = [];
    for (let i = 0; i < 30; i += 1) innocents.push(...(await rig.store({ to: [`before${i}@x.example`] })));
    const [guilty] = await rig.store({ to: ['guilty@x.example'], accountId: 'acc_guilty' });
    for (let i = 0; i < 30; i += 1) innocents.push(...(await rig.store({ to: [`after${i}@y.example`] })));

    const start = (): ChildProcess => {
      const script = path.join(import.meta.dirname, 'crashing-process.ts');
      const args = [script, rig.storage.folder, String(sink.port), deadly];
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      child.stdout?.on('data', (said: Buffer) => {
        // A hung process does not react to other signals.
        if (said.includes('hanging')) child.kill('SIGKILL');
      });
      children.push(child);
      return child;
    };
    for (let death = 1; death <= 3; death += 1) {
      await once(start(), 'exit');
      assert.notEqual(rig.status(guilty!), 'bounced', `after ${death} deaths`);
    }
    const left = innocents.filter((id) => rig.status(id) !== 'delivered').length;
    assert.ok(left <= innocents.length / 2, `others were delivered despite the crashes; ${left} were not`);
    start();
    await waitUntil('the crashing message to be parked', () => rig.status(guilty!) === 'bounced');
    const { bounce } = rig.events(guilty!).at(-1)!.detail;
    assert.equal(bounce!.category, 'internal');
    for (const id of innocents) await waitUntil('an unrelated message', () => rig.status(id) === 'delivered');
    assert.equal(sink.messages.filter((mail) => mail.to[0] === 'guilty@x.example').length, 0);
  });
}

test('a service killed six times with deliveries in flight parks nothing', { timeout: 300_000 }, async (t) => {
  const sink = await smtpSink({ script: { dot: { silent: true } } });
  t.after(() => sink.close());
  const service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  t.after(() => service.close());
  await service.cli('domain', 'add', service.live.accountId, 'load.example', '--verified');
  const mail = { from: 'load@load.example', subject: 'Hello', text: 'Hello' };
  for (let batch = 0; batch < 3; batch += 1) {
    const messages = Array.from({ length: 100 }, (_, i) => ({ ...mail, to: `${batch}.${i}@load.example` }));
    assert.equal((await service.api.post('/send/batch', { messages })).status, 200);
  }
  const begun = (): number => sink.commands.filter((line) => line === 'DATA').length;
  let before = 0;
  for (let kill = 0; kill < 6; kill += 1) {
    await waitUntil('attempts to run', () => begun() > before + 3);
    await service.kill('SIGKILL');
    before = begun();
    if (kill === 5) sink.setScript({});
    await service.restart();
  }
  const settled = await waitUntil(
    'all messages to be settled',
    async () => {
      const all = await allMessages(service.api);
      return all.every((one) => one.status === 'delivered' || one.status === 'bounced') && all;
    },
    60_000,
  );
  assert.deepEqual(
    settled.filter((one) => one.status === 'bounced'),
    [],
  );
  assert.equal(settled.length, 300);
});
