/**
 * Many domains with the same MX hosts share one limit and one pause, and no message uses a session of another customer. Counted at the
 * peers.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { mergeProviders } from '../../src/delivery/destinations/providers.ts';
import type { Dns } from '../../src/net/dns.ts';
import { explainDestination } from '../../src/nodes/nodes.ts';
import type { RigOptions } from '../kit/delivery-rig.ts';
import { type MxRig, mxRig } from '../kit/mx-rig.ts';
import type { SinkOptions } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MINUTE = 60_000;

async function world(
  t: TestContext,
  sinks: Record<string, SinkOptions>,
  deps: RigOptions['deps'] = {},
): Promise<MxRig> {
  const mx = await mxRig(sinks, { deps });
  t.after(() => mx.close());
  return mx;
}

const domainsOf = (count: number): string[] => Array.from({ length: count }, (_, i) => `d${i}.example`);

/** Claims and sends one message after another for each domain. */
async function fill({ rig }: MxRig, domains: string[], each: number): Promise<void> {
  for (let i = 0; i < each; i += 1) await Promise.all(domains.map((domain) => rig.store({ to: [`${i}@${domain}`] })));
  rig.delivery.nudge();
}

const count = ({ rig }: MxRig, from: string): number =>
  rig.rows<{ n: number }>(`SELECT count(*) AS n FROM ${from}`)[0]!.n;

/** Delays each message, and counts the sessions that have not sent QUIT. */
function slowPeer(): { options: SinkOptions; peak(): number } {
  const open = new Set<number>();
  let peak = 0;
  const script: SinkOptions['script'] = {
    banner: ({ session }) => {
      open.add(session);
      peak = Math.max(peak, open.size);
      return undefined;
    },
    quit: ({ session }) => {
      open.delete(session);
      return undefined;
    },
    dot: { reply: '250 2.0.0 queued', delayMs: 10 },
  };
  return { options: { script }, peak: () => peak };
}

test('80 domains on one set of MX hosts share one limit, which grows from 5 to 20', async (t) => {
  const slow = slowPeer();
  const mx = await world(t, { peer: slow.options });
  const domains = domainsOf(80);
  mx.exchange('peer', 'mx.peer.example', domains);
  await fill(mx, domains, 8);
  await waitUntil('all messages to be delivered', () => count(mx, 'work') === 0, 60_000);
  const { peer } = mx.sinks;
  t.diagnostic(`${slow.peak()} connections at once, ${peer!.connections.total} in all`);
  assert.equal(peer!.messages.length, 640);
  assert.ok(slow.peak() <= 20 && slow.peak() > 5, `${slow.peak()} at once`);
  assert.ok(peer!.connections.total <= 40, `${peer!.connections.total} in all`);
});

test('provider limits apply to all hosts of its customers, and each session serves one customer', async (t) => {
  const providers = mergeProviders({
    acme: { match: ['*.acme.example'], connections: 3, messagesPerConnection: 5 },
  });
  const slow = slowPeer();
  const mx = await world(t, { peer: slow.options }, { providers });
  const domains = domainsOf(12);
  for (const domain of domains) mx.exchange('peer', `${domain.split('.')[0]}.acme.example`, [domain]);
  await fill(mx, domains, 10);
  await waitUntil('all messages to be delivered', () => count(mx, 'work') === 0, 60_000);
  const { peer } = mx.sinks;
  const bySession = Map.groupBy(peer!.messages, ({ session }) => session);
  t.diagnostic(`${slow.peak()} connections at once, ${bySession.size} sessions for 120 mails`);
  assert.equal(peer!.messages.length, 120);
  assert.ok(slow.peak() <= 3, `${slow.peak()} at once`);
  for (const mails of bySession.values()) {
    assert.ok(mails.length <= 5, `${mails.length} messages in a session`);
    assert.equal(new Set(mails.map(({ to }) => to[0]!.split('@')[1])).size, 1, 'each session serves one customer');
  }
  assert.ok(bySession.size <= 60, `${bySession.size} sessions, each only for its customer`);
});

test('a rate set by the operator holds across domains and connections', async (t) => {
  const providers = mergeProviders({ acme: { match: ['*.acme.example'], messagesPerMinute: 60 } });
  const mx = await world(t, { peer: {} }, { providers });
  const domains = domainsOf(10);
  mx.exchange('peer', 'mx.acme.example', domains);
  await fill(mx, domains, 5);
  await waitUntil('the first', () => mx.sinks.peer!.messages.length > 0);
  for (let second = 1; second <= 20; second += 1) {
    mx.rig.clock.advance(1_000);
    await waitUntil('the next', () => mx.sinks.peer!.messages.length > second);
    assert.ok(mx.sinks.peer!.messages.length <= second + 1, `${mx.sinks.peer!.messages.length} after ${second} s`);
  }
});

test('one rate-limit reply pauses all domains of the MX hosts; one probe ends the pause', async (t) => {
  const mx = await world(t, { peer: { script: { mail: '421 4.7.28 unusual rate of mail' } } });
  const domains = domainsOf(30);
  mx.exchange('peer', 'mx.peer.example', domains);
  await fill(mx, domains, 5);
  const tries = (): number => mx.sinks.peer!.commands.filter((line) => line.startsWith('MAIL')).length;
  const until = mx.rig.clock.now() + MINUTE;
  await waitUntil('all messages to be deferred', () => count(mx, `work WHERE leased = 1 OR due < ${until}`) === 0);
  assert.equal(tries(), 1, 'from a cold start, one connection probes for all');
  assert.equal(count(mx, 'work'), 150);
  mx.rig.clock.advance(MINUTE * 1.2);
  await waitUntil('the probe', () => tries() === 2);
  const again = mx.rig.clock.now() + 2 * MINUTE;
  await waitUntil(
    'all messages to be deferred again',
    () => count(mx, `work WHERE leased = 1 OR due < ${again}`) === 0,
  );
  assert.equal(tries(), 2);
  mx.sinks.peer!.setScript({});
  mx.rig.clock.advance(10 * MINUTE);
  await waitUntil('all messages to be delivered', () => count(mx, 'work') === 0);
  assert.equal(mx.sinks.peer!.messages.length, 150);
});

test('a reply that matches a provider rule pauses it for the time in the rule', async (t) => {
  const providers = mergeProviders({
    acme: { match: ['*.acme.example'], pauses: [{ reply: '[TS99]', minutes: 45 }] },
  });
  const reply = '451 4.3.0 [ts99] deferred, see our page';
  const mx = await world(t, { peer: { script: { rcpt: reply } } }, { providers });
  const domains = domainsOf(10);
  mx.exchange('peer', 'mx.acme.example', domains);
  await fill(mx, domains, 5);
  const until = mx.rig.clock.now() + 45 * MINUTE;
  await waitUntil('all messages to be deferred', () => count(mx, `work WHERE leased = 1 OR due < ${until}`) === 0);
  assert.equal(mx.sinks.peer!.commands.filter((line) => line.startsWith('RCPT')).length, 1);
  const paused = mx.rig.delivery.state().pausedDestinations;
  assert.deepEqual(paused, [{ key: 'acme', untilMs: until }]);
});

test('a backup MX host gets only the mail of its domain', async (t) => {
  const script: SinkOptions['script'] = {
    rcpt: ({ line }) => (line.includes('refused') ? '451 4.3.0 local problem' : undefined),
  };
  const mx = await world(t, { shared: { script }, backup: {} });
  mx.exchange('shared', 'mx.shared.example', ['a.example', 'b.example']);
  mx.exchange('backup', 'mx.backup.example', ['b.example'], 20);
  const deliver = async (to: string): Promise<string> => {
    const [id] = await mx.rig.send({ to: [to] });
    await waitUntil('an attempt', () => mx.rig.attempts(id!).length === 1);
    return mx.rig.status(id!);
  };
  assert.equal(await deliver('first@b.example'), 'delivered');
  assert.equal(await deliver('refused@a.example'), 'delayed', 'over the session opened for the other domain');
  assert.equal(await deliver('refused@b.example'), 'delivered');
  assert.equal(mx.sinks.shared!.connections.total, 1);
  assert.deepEqual(
    mx.sinks.backup!.messages.map(({ to }) => to[0]),
    ['refused@b.example'],
  );
});

/** A domain whose preferred MX host is a provider name without an address, and whose second one is its own. */
function borrow({ dns, sinks }: MxRig, name: string, domain: string): void {
  dns.zone[`mx.${domain}`] = { A: [sinks[name]!.host] };
  dns.zone[domain] = {
    MX: [
      [10, 'nobody.acme.example'],
      [20, `mx.${domain}`],
    ],
  };
}

for (const [what, banner] of [
  ['requests time', '421 4.7.0 too fast, try again in 3600 seconds'],
  ['blocks our host', '554 5.7.1 client host blocked using zen.spamhaus.org'],
] as const) {
  test(`a domain listing a provider before its own MX host, which ${what}, stops only its own mail`, async (t) => {
    const providers = mergeProviders({ acme: { match: ['*.acme.example'] } });
    const mx = await world(
      t,
      { acme: {}, other: { script: { banner: { reply: banner, drop: true } } } },
      { providers },
    );
    mx.exchange('acme', 'mx.acme.example', ['good.example']);
    borrow(mx, 'other', 'other.example');
    const [theirs] = (await mx.rig.send({ to: ['a@other.example'] })) as [string];
    await waitUntil('an attempt', () => mx.rig.status(theirs) === 'delayed');
    const { pausedDestinations, blockedDestinations } = mx.rig.delivery.state();
    assert.deepEqual(
      pausedDestinations.map(({ key }) => key),
      ['mx.other.example'],
    );
    assert.ok(blockedDestinations.every(({ key }) => key === 'mx.other.example'));
    const [good] = (await mx.rig.send({ to: ['b@good.example'] })) as [string];
    await waitUntil('the mail of others', () => mx.rig.status(good) === 'delivered');
    const [next] = (await mx.rig.send({ to: ['c@other.example'] })) as [string];
    await waitUntil('the next message to be deferred', () => mx.rig.status(next) === 'delayed');
    assert.equal(mx.sinks.other!.connections.total, 1, 'the requested time is respected');
  });
}

test('a domain listing a provider before its own silent MX host uses none of its connections', async (t) => {
  const providers = mergeProviders({ acme: { match: ['*.acme.example'], connections: 2 } });
  const mx = await world(
    t,
    { acme: {}, other: { script: { rcpt: { silent: true } } } },
    { providers, stopGraceMs: 100 },
  );
  mx.exchange('acme', 'mx.acme.example', ['good.example']);
  borrow(mx, 'other', 'other.example');
  await fill(mx, ['other.example'], 20);
  await waitUntil('a session that hangs', () => mx.sinks.other!.connections.now > 0);
  const ids = await mx.rig.send({ to: ['a@good.example', 'b@good.example'] });
  await waitUntil('the mail of others', () => ids.every((id) => mx.rig.status(id) === 'delivered'));
  assert.equal(mx.sinks.other!.connections.now, 1, 'an unknown host gets one session');
});

test('an MX host name without a dot is no shared destination', async (t) => {
  const providers = mergeProviders({ acme: { match: ['*.acme.example'] } });
  const mx = await world(t, { peer: {} }, { providers });
  const names = ['sandbox', 'relay', 'fallback', 'acme'];
  for (const name of names) mx.exchange('peer', name, [`${name}.example`]);
  const ids = await Promise.all(names.map((name) => mx.rig.send({ to: [`a@${name}.example`] })));
  await waitUntil('all messages to be delivered', () => ids.flat().every((id) => mx.rig.status(id) === 'delivered'));
  assert.equal(mx.sinks.peer!.messages.length, names.length, 'counted at the peer');
});

test('a provider customer whose host is gone bounces alone, without slowing others', async (t) => {
  const providers = mergeProviders({ acme: { match: ['*.acme.example'] } });
  const mx = await world(t, { peer: {} }, { providers });
  const good = domainsOf(5);
  for (const domain of good) mx.exchange('peer', `${domain.split('.')[0]}.acme.example`, [domain]);
  mx.dns.zone['gone.example'] = { MX: [[10, 'gone.acme.example']] };
  await mx.rig.store({ to: ['0@gone.example'] });
  await fill(mx, ['gone.example', ...good], 4);
  await waitUntil('all to be settled', () => count(mx, 'work') === 0);
  assert.equal(mx.sinks.peer!.messages.length, 20);
  assert.equal(count(mx, "message WHERE status = 'bounced'"), 5);
});

test('the published node state explains the connection limit', async (t) => {
  const providers = mergeProviders({ acme: { match: ['*.acme.example'], connections: 2 } });
  const mx = await world(t, { peer: { script: { dot: { reply: '250 2.0.0 queued', delayMs: 50 } } } }, { providers });
  const domains = domainsOf(4);
  mx.exchange('peer', 'mx.acme.example', domains);
  await fill(mx, domains, 40);
  await waitUntil('half the messages to be delivered', () => mx.sinks.peer!.messages.length >= 80);
  const [shown] = mx.rig.delivery.published();
  assert.deepEqual([shown!.key, [...shown!.domains!].sort()], ['acme', domains]);
  assert.equal(shown!.limitReason, 'the limit of the provider acme');
  assert.ok(shown!.messageMs! >= 50, `${shown!.messageMs} ms`);
  const { messagesPerSecond, text } = explainDestination([shown!], { depth: 80, nextAttemptMs: null, replies: [] });
  assert.ok(messagesPerSecond! <= 40, text);
  const times = mx.sinks.peer!.messages.map(({ at }) => at);
  const observed = (times.length - 1) / ((times.at(-1)! - times[0]!) / 1_000);
  assert.ok(observed <= 41 && observed >= messagesPerSecond! * 0.5, `${observed} messages/s; ${text}`);
});

const found = <T>(value: T) => Promise.resolve({ status: 'found', value, secure: false });

test('a pause applies to the servers of a domain whose first lookup failed', async (t) => {
  const busy: SinkOptions = { script: { banner: { reply: '421 4.7.0 busy, try again in 90 seconds', drop: true } } };
  const asked: string[] = [];
  const dns = {
    resolveMx: (domain: string) => {
      asked.push(domain);
      if (asked.length === 1) return Promise.resolve({ status: 'temporary', cause: 'ESERVFAIL' });
      return found({ nullMx: false, hosts: [{ host: 'mx.busy.example', preference: 10 }] });
    },
    resolveAddresses: () => found([mx.sinks.busy!.host]),
  };
  const mx = await mxRig({ busy }, { routing: { dns: dns as unknown as Dns } });
  t.after(() => mx.close());
  const sendTo = async (recipient: string, delayed: number): Promise<number> => {
    await mx.rig.store({ to: [recipient] });
    mx.rig.delivery.nudge();
    await waitUntil('the message to be deferred', () => count(mx, "message WHERE status = 'delayed'") === delayed);
    return mx.sinks.busy!.connections.total;
  };
  assert.equal(await sendTo('ann@a.example', 1), 1);
  assert.deepEqual(asked.slice(0, 2), ['a.example', 'a.example'], 'the attempt looked them up again');
  assert.equal(await sendTo('ben@a.example', 2), 1);
  assert.equal(await sendTo('cat@b.example', 3), 1, 'their other domains are paused as well');
});

test('a domain whose MX hosts change at each lookup is retried later without connecting', async (t) => {
  let asked = 0;
  const dns = {
    resolveMx: () => {
      asked += 1;
      return found({ nullMx: false, hosts: [{ host: `mx${asked % 2}.example`, preference: 10 }] });
    },
    resolveAddresses: () => found(['127.0.0.2']),
  };
  const mx = await mxRig({ peer: {} }, { routing: { dns: dns as unknown as Dns } });
  t.after(() => mx.close());
  const [id] = await mx.rig.store({ to: ['ann@a.example'] });
  mx.rig.delivery.nudge();
  await waitUntil('the message to be deferred', () => count(mx, "message WHERE status = 'delayed'") === 1);
  const [attempt] = mx.rig.attempts(id!);
  assert.match(attempt!.reply, /the MX hosts of a\.example changed during the lookup/);
  assert.deepEqual([mx.sinks.peer!.connections.total, asked < 12], [0, true], `${asked} lookups`);
});
