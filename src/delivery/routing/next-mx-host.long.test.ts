/**
 * A domain with several MX hosts, the first of which fails in the middle of a message. Counted at all of them: which are tried, when, and
 * that no recipient gets a duplicate.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { blackHole, noBlackHoles } from '../../../test/kit/black-hole.ts';
import { deliveryRig, type Rig } from '../../../test/kit/delivery-rig.ts';
import { type FakeDns, fakeDns } from '../../../test/kit/fake-dns.ts';
import { freePort } from '../../../test/kit/free-ports.ts';
import { type SinkAction, type SinkOptions, type SmtpSink, smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { parseCidrs } from '../../net/address-guard.ts';
import { openDns } from '../../net/dns.ts';
import { orderHosts } from './route.ts';

let dns: FakeDns;
let resolver: ReturnType<typeof openDns>;
let rig: Rig;
let port: number;
const sinks: SmtpSink[] = [];

before(async () => {
  port = await freePort();
  dns = await fakeDns({});
  resolver = openDns({ servers: [dns.server] });
  rig = await makeRig();
});

after(async () => {
  await rig?.close();
  for (const sink of sinks) await sink.close();
  resolver?.close();
  await dns?.close();
});

function makeRig(): Promise<Rig> {
  const allowed = parseCidrs('127.0.0.0/8, ::1');
  assert.ok(allowed.ok);
  return deliveryRig({
    routing: { route: { kind: 'mx' }, dns: resolver, mxPort: port, mxAllow: allowed.cidrs },
    deps: { timeouts: { envelopeMs: 5_000, dotMs: 5_000 } },
  });
}

let addresses = 0;

/** Creates a domain whose MX hosts have preferences 10, 20, …; null is an address without a listener. */
async function domain(name: string, exchangers: (SinkOptions | null)[]): Promise<SmtpSink[]> {
  const started: SmtpSink[] = [];
  const mx: [number, string][] = [];
  for (const [index, options] of exchangers.entries()) {
    addresses += 1;
    const address = `127.0.2.${addresses}`;
    const host = `mx${index + 1}.${name}`;
    dns.zone[host] = { A: [address] };
    mx.push([(index + 1) * 10, host]);
    if (options) started.push(await smtpSink({ ...options, host: address, port }));
  }
  dns.zone[name] = { MX: mx };
  sinks.push(...started);
  return started;
}

const typesOf = (id: string): string[] => rig.events(id).map((one) => one.type);
const event = (id: string, type: string) =>
  waitUntil(`${type} of ${id}, which has ${typesOf(id)}`, () => rig.events(id).find((one) => one.type === type));
const copies = (sink: SmtpSink, recipient: string): number =>
  sink.messages.filter((one) => one.to.includes(recipient)).length;
const asked = (sink: SmtpSink, verb: string): number => sink.commands.filter((line) => line.startsWith(verb)).length;

const FAULTS: Record<string, SinkAction> = {
  stall: { silent: true },
  reset: { drop: true },
  '421': '421 4.3.2 closing',
  '4xx': '451 4.3.0 later',
  garbage: 'what is this',
};

for (const stage of ['rcpt', 'data', 'dot'] as const) {
  test(`after a failure at ${stage} of the first MX host, the second gets the message once`, async () => {
    await Promise.all(
      Object.entries(FAULTS).map(async ([fault, action]) => {
        const cell = `${fault}-${stage}.example`;
        const [first, second] = (await domain(cell, [{ script: { [stage]: action } }, {}])) as [SmtpSink, SmtpSink];
        const recipient = `ann@${cell}`;
        const [id] = (await rig.send({ to: [recipient] })) as [string];
        if (stage === 'dot') {
          await event(id, 'DeliveryDelay');
          assert.equal(
            second.connections.total,
            0,
            `${cell}: no other server gets it immediately, since the first may have it`,
          );
          rig.clock.advance(70_000);
        }
        const { detail } = await event(id, 'Delivery');
        assert.equal(detail.delivery!.remoteHost, `mx2.${cell}`);
        assert.equal(detail.delivery!.attempts, stage === 'dot' ? 2 : 1);
        assert.equal(copies(second, recipient), 1, cell);
        assert.equal(asked(first, 'MAIL'), 1, `${cell}: the first server was tried once`);
        // A dot without a readable reply: this sink counts it as accepted.
        const unknown = stage === 'dot' && (fault === 'stall' || fault === 'reset');
        assert.equal(copies(first, recipient), unknown ? 1 : 0, cell);
        assert.deepEqual([...first.violations, ...second.violations], []);
      }),
    );
  });
}

test('the next MX host gets only recipients that are neither accepted nor permanently rejected', async () => {
  const script: SinkOptions['script'] = {
    rcpt: ({ line }) =>
      line.includes('later') ? '450 4.2.0 later' : line.includes('gone') ? '550 5.1.1 no such user' : undefined,
  };
  const [first, second] = (await domain('mix.example', [{ script }, {}])) as [SmtpSink, SmtpSink];
  const to = ['ok@mix.example', 'later@mix.example', 'gone@mix.example'];
  const [ok, later, gone] = (await rig.send({ to })) as [string, string, string];
  assert.equal((await event(ok, 'Delivery')).detail.delivery!.remoteHost, 'mx1.mix.example');
  assert.equal((await event(later, 'Delivery')).detail.delivery!.remoteHost, 'mx2.mix.example');
  assert.equal((await event(gone, 'Bounce')).detail.bounce!.remoteHost, 'mx1.mix.example');
  assert.deepEqual(
    first.messages.map((one) => one.to),
    [['ok@mix.example']],
  );
  assert.deepEqual(
    second.messages.map((one) => one.to),
    [['later@mix.example']],
  );
  const transcript = (rig.attempts(later)[0] as unknown as { dialogue: { text: string }[] }).dialogue.map(
    (one) => one.text,
  );
  assert.ok(
    transcript.includes('450 4.2.0 later') && transcript.includes('250 2.0.0 queued'),
    'the transcript contains both sessions',
  );
});

test('finished recipients are recorded immediately, while another one waits for the next MX host', async () => {
  const script: SinkOptions['script'] = {
    rcpt: ({ line }) => (line.includes('later') ? '450 4.2.0 later' : undefined),
  };
  let release = (): void => {};
  const held = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined);
  });
  const slow: SinkOptions['script'] = { banner: () => held };
  const [, second] = (await domain('wait.example', [{ script }, { script: slow }])) as [SmtpSink, SmtpSink];
  const [ok, later] = (await rig.send({ to: ['ok@wait.example', 'later@wait.example'] })) as [string, string];
  await event(ok, 'Delivery');
  assert.deepEqual(typesOf(later), ['Send']);
  release();
  await event(later, 'Delivery');
  assert.equal(second.accepted, 1);
});

test('a rate limit does not continue at the next MX host, but greylisting does', async () => {
  const rate = { script: { rcpt: '450 4.7.28 too many messages, slow down' } };
  const [, spared] = (await domain('rate.example', [rate, {}])) as [SmtpSink, SmtpSink];
  const [limited] = (await rig.send({ to: ['ann@rate.example'] })) as [string];
  assert.equal((await event(limited, 'DeliveryDelay')).detail.deliveryDelay!.category, 'rate-limited');
  assert.equal(spared.connections.total, 0);
  const grey = { script: { rcpt: '451 4.7.1 greylisted, come back later' } };
  const [, knows] = (await domain('grey.example', [grey, {}])) as [SmtpSink, SmtpSink];
  const [greylisted] = (await rig.send({ to: ['ann@grey.example'] })) as [string];
  await event(greylisted, 'Delivery');
  assert.equal(knows.accepted, 1);
});

test('a permanent failure at a later MX host does not override a deferral by a better one', async () => {
  const [first] = await domain('stale.example', [
    { script: { rcpt: '451 4.3.0 later' } },
    { script: { rcpt: '550 5.7.1 relaying denied' } },
  ]);
  const [id] = (await rig.send({ to: ['ann@stale.example'] })) as [string];
  const { deliveryDelay } = (await event(id, 'DeliveryDelay')).detail;
  assert.deepEqual([deliveryDelay!.remoteHost, deliveryDelay!.smtpCode], ['mx1.stale.example', 451]);
  first!.setScript({});
  rig.clock.advance(70_000);
  await event(id, 'Delivery');
  assert.equal(first!.accepted, 1);
});

test('a permanent failure at a later MX host applies if the better one is unreachable', async () => {
  const refusing: SinkOptions = { script: { rcpt: '550 5.1.1 no such user' } };
  const [second] = (await domain('absent.example', [null, refusing])) as [SmtpSink];
  const [id] = (await rig.send({ to: ['ann@absent.example'] })) as [string];
  const { bounce } = (await event(id, 'Bounce')).detail;
  assert.deepEqual([bounce!.smtpCode, bounce!.remoteHost, bounce!.suppressed], [550, 'mx2.absent.example', true]);
  assert.equal(rig.attempts(id).length, 1);
  assert.equal(asked(second, 'RCPT'), 1);
});

test('an attempt sends the message to at most three MX hosts', async () => {
  const later = { script: { rcpt: '451 4.3.0 later' } };
  const four = await domain('many.example', [later, later, later, later]);
  const [id] = (await rig.send({ to: ['ann@many.example'] })) as [string];
  await event(id, 'DeliveryDelay');
  assert.deepEqual(
    four.map((sink) => asked(sink, 'RCPT')),
    [1, 1, 1, 0],
  );
});

test('an MX host that asks for time is respected, even if the next one is unreachable', async () => {
  const script = { banner: '421 4.7.0 too many connections from your address' };
  const [busy] = (await domain('alone.example', [{ script }, null])) as [SmtpSink];
  for (const user of ['one', 'two', 'three', 'four']) {
    const [id] = (await rig.send({ to: [`${user}@alone.example`] })) as [string];
    const { deliveryDelay } = (await event(id, 'DeliveryDelay')).detail;
    assert.deepEqual([deliveryDelay!.remoteHost, deliveryDelay!.smtpCode], ['mx1.alone.example', 421]);
  }
  assert.equal(busy.connections.total, 1);
  busy.setScript({});
  rig.clock.advance(70_000);
  await waitUntil('all to be delivered', () => busy.accepted === 4);
});

test('an MX host that stalled or hung up is tried last for a while, then first again', async () => {
  const [first, second] = (await domain('sick.example', [{ script: { rcpt: { drop: true } } }, {}])) as [
    SmtpSink,
    SmtpSink,
  ];
  const send = async (user: string): Promise<void> => {
    const [id] = (await rig.send({ to: [`${user}@sick.example`] })) as [string];
    await event(id, 'Delivery');
    second.dropAll();
    await waitUntil('all sessions to end', () => rig.delivery.state().connections === 0);
  };
  for (const sink of sinks) sink.dropAll();
  await send('one');
  await send('two');
  await send('three');
  assert.deepEqual([first.connections.total, second.connections.total], [1, 3]);
  first.setScript({});
  rig.clock.advance(301_000);
  await send('four');
  assert.equal(first.accepted, 1, 'the better host may have recovered');
});

test('a message deferred by an MX host does not continue at one that just rejected the connection', async () => {
  const full: SinkOptions = {
    script: { banner: { reply: '421 4.7.0 too many connections from your address', drop: true } },
  };
  // Each message opens its own session.
  const later: SinkOptions = { script: { rcpt: '451 4.3.0 later', rset: { drop: true } } };
  const [first, second] = (await domain('full.example', [full, later])) as [SmtpSink, SmtpSink];
  for (let i = 0; i < 5; i += 1) {
    const [id] = (await rig.send({ to: [`${i}@full.example`] })) as [string];
    const { detail } = await event(id, 'DeliveryDelay');
    assert.equal(detail.deliveryDelay!.smtpCode, 451);
  }
  assert.equal(asked(second, 'RCPT'), 5);
  assert.equal(first.connections.total, 1, 'one connection within the minute');
});

test('five MX hosts without a listener do not block later ones', async () => {
  const [sixth] = await domain('dead.example', [null, null, null, null, null, {}, {}]);
  const [id] = (await rig.send({ to: ['ann@dead.example'] })) as [string];
  await event(id, 'DeliveryDelay');
  assert.equal(sixth!.connections.total, 0);
  rig.clock.advance(70_000);
  assert.equal((await event(id, 'Delivery')).detail.delivery!.remoteHost, 'mx6.dead.example');
});

test('five MX hosts without a listener do not block later ones after a restart', async () => {
  const [seventh] = await domain('forgot.example', [null, null, null, null, null, null, {}]);
  const [id] = (await rig.send({ to: ['ann@forgot.example'] })) as [string];
  await event(id, 'DeliveryDelay');
  await rig.restart();
  assert.equal(seventh!.connections.total, 0);
  rig.clock.advance(70_000);
  assert.equal((await event(id, 'Delivery')).detail.delivery!.attempts, 2);
  assert.equal(seventh!.accepted, 1);
});

test('five MX hosts without an address do not block later ones', async () => {
  await domain('names.example', [{}, {}, {}, {}, {}, {}]);
  for (const host of [1, 2, 3, 4, 5]) delete dns.zone[`mx${host}.names.example`];
  const [id] = (await rig.send({ to: ['ann@names.example'] })) as [string];
  const { deliveryDelay } = (await event(id, 'DeliveryDelay')).detail;
  assert.match(String(deliveryDelay!.reply), /that were looked up have no usable address/);
  rig.clock.advance(70_000);
  assert.equal((await event(id, 'Delivery')).detail.delivery!.remoteHost, 'mx6.names.example');
});

test('an unreachable IPv6 address delays the connection only briefly', { skip: noBlackHoles }, async () => {
  const [sink] = (await domain('hole.example', [{}])) as [SmtpSink];
  dns.zone['mx1.hole.example']!.AAAA = ['::1'];
  const hole = await blackHole('::1', port);
  try {
    const [id] = (await rig.send({ to: ['ann@hole.example'] })) as [string];
    await event(id, 'Delivery');
    const [attempt] = rig.attempts(id) as unknown as { address: string; durationMs: number }[];
    assert.equal(attempt!.address, sink.host);
    assert.ok(attempt!.durationMs >= 240 && attempt!.durationMs < 5_000, `${attempt!.durationMs} ms`);
    assert.equal(sink.connections.total, 1);
  } finally {
    await hole.close();
  }
});

test('MX hosts are ordered by preference, randomly within one, with failed ones last', () => {
  const exchangers = ['a', 'b', 'c', 'd'].map((host) => ({ host, preference: host === 'd' ? 20 : 10 }));
  const orders = (isBackedOff: (host: string) => boolean): string[] => {
    const ordered = Array.from({ length: 300 }, () =>
      orderHosts(exchangers, { isBackedOff, attempts: 3, emailSeq: 1 }),
    );
    return [...new Set(ordered.map((one) => one.map(({ host }) => host).join('')))].sort();
  };
  assert.deepEqual(
    orders(() => false),
    ['abcd', 'acbd', 'bacd', 'bcad', 'cabd', 'cbad'],
  );
  assert.deepEqual(
    orders((host) => host === 'a'),
    ['bcda', 'cbda'],
  );
});

test('with more than five MX hosts, each attempt starts five further', () => {
  const exchangers = [...'abcdefg'].map((host, index) => ({ host, preference: index }));
  const order = (attempts: number): string =>
    orderHosts(exchangers, { isBackedOff: (host) => host === 'f', attempts, emailSeq: 1 })
      .map(({ host }) => host)
      .join('');
  assert.deepEqual([0, 1, 2].map(order), ['abcdegf', 'gabcdef', 'degabcf']);
});
