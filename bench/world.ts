/**
 * Row "the world": one service between three tenants and a hundred MX hosts, each with its own address: 5 tarpits, 5 that reply 421 (three
 * for the number of connections, two for the message rate), 10 that greylist, one with broken TLS, and healthy ones. Messages arrive at a
 * steady rate; results are taken at the MX hosts: nothing lost, no duplicates, few refused connections, and the delivery time to the
 * healthy ones. Exceeding a limit ends the program with 1.
 *
 * node bench/world.ts [--minutes 10] [--rate 20] [--seed 1]
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { fakeDns } from '../test/kit/fake-dns.ts';
import { end, freePort, onEnd, pause, percentile, readArguments, row, shown, table } from './lib.ts';
import { startService } from './service.ts';
import { addTenant, type Tenant } from './tenants.ts';
import { type Exchanger, KINDS, type Kind, openExchanger } from './world-exchangers.ts';

const options = readArguments({ minutes: 10, rate: 20, seed: 1 });
const EXCHANGERS = 100;
const TENANTS = 3;
/** This part of the messages goes to the five that reply 421, in addition to their share of the others: enough to reach their limits. */
const LIMITED_PART = 0.1;
/** After the last message: time for greylisted and paused ones to arrive. */
const DRAIN_MS = 20 * 60_000;
/** The limits of docs/explanation/performance.md. */
const MAX_REFUSED = 0.01;
const MAX_P99_MS = 2_000;
/**
 * Maximum cost of discovering a limit of three connections at one host, whatever its share of a short run: twice as many
 * (docs/explanation/promises.md).
 */
const MAX_DISCOVERY = 6;

/** A sequence that is the same for the same seed (mulberry32). */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

interface Sent {
  exchanger: Exchanger;
  atMs: number;
}

async function submit(url: string, tenant: Tenant, to: string): Promise<void> {
  const body = JSON.stringify({
    from: `Shop <orders@${tenant.domain}>`,
    to: [to],
    subject: 'Receipt',
    text: 'Thank you.',
  });
  const headers = { ...tenant.headers, 'content-type': 'application/json', 'idempotency-key': to };
  for (;;) {
    const answer = await fetch(`${url}/send`, { method: 'POST', headers, body }).catch(() => undefined);
    if (answer?.status === 202) return;
    const text = await answer?.text();
    if (answer && answer.status !== 503 && answer.status !== 429) throw new Error(`send: ${answer.status} ${text}`);
    await pause(200);
  }
}

await row('the world', options.minutes * 60 + DRAIN_MS / 1000 + 120, async () => {
  const port = await freePort();
  const dns = await fakeDns({});
  onEnd(() => dns.close());
  const exchangers: Exchanger[] = [];
  for (const { kind, count } of KINDS(EXCHANGERS)) {
    for (let i = 0; i < count; i += 1) {
      const number = exchangers.length;
      const host = `127.77.${number >> 6}.${(number & 63) + 1}`;
      const exchanger = await openExchanger({ kind, number, host, port });
      onEnd(() => exchanger.sink.close());
      dns.zone[exchanger.domain] = { MX: [[10, `mx.${exchanger.domain}`]] };
      dns.zone[`mx.${exchanger.domain}`] = { A: [host] };
      exchangers.push(exchanger);
    }
  }
  const service = await startService({
    POSTRIDER_ROUTE: 'mx',
    POSTRIDER_MX_PORT: String(port),
    POSTRIDER_MX_ALLOW: '127.77.0.0/16',
    POSTRIDER_DNS_SERVERS: dns.server,
    POSTRIDER_RATE_LIMIT: 'off',
  });
  const tenants: Tenant[] = [];
  for (let i = 0; i < TENANTS; i += 1) tenants.push(await addTenant(service, `tenant${i}.example`));

  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const random = sequence(options.seed);
  const limited = exchangers.filter(({ kind }) => kind === 'connection limit' || kind === 'rate limit');
  const sent = new Map<string, Sent>();
  const began = performance.now();
  const sending: Promise<void>[] = [];
  const total = Math.round(options.minutes * 60 * options.rate);
  for (let i = 0; i < total; i += 1) {
    const dueMs = (i / options.rate) * 1_000 - (performance.now() - began);
    if (dueMs > 0) await pause(dueMs);
    const some = random() < LIMITED_PART ? limited : exchangers;
    const exchanger = some[Math.floor(random() * some.length)]!;
    const to = `m${i}@${exchanger.domain}`;
    sent.set(to, { exchanger, atMs: Date.now() });
    sending.push(submit(service.url, tenants[i % TENANTS]!, to));
  }
  await Promise.all(sending);
  delay.disable();
  const taken = (): number => exchangers.reduce((sum, { arrivals }) => sum + arrivals.size, 0);
  const drainedBy = performance.now() + DRAIN_MS;
  while (taken() < sent.size && performance.now() < drainedBy) await pause(500);
  // A duplicate would follow soon after the first copy.
  await pause(3_000);

  const broken: string[] = [];
  const bound = (isKept: boolean, words: string): void => {
    if (!isKept) broken.push(words);
  };
  const summary = (kind: Kind | 'all') => {
    const some = exchangers.filter((one) => kind === 'all' || one.kind === kind);
    const mails = [...sent].filter(([, { exchanger }]) => some.includes(exchanger));
    const latencies = mails.flatMap(([to, { exchanger, atMs }]) => {
      const arrivedMs = exchanger.arrivals.get(to)?.atMs;
      return arrivedMs === undefined ? [] : [arrivedMs - atMs];
    });
    const copies = some.flatMap(({ arrivals }) => [...arrivals.values()]);
    return {
      exchangers: some.length,
      mails: mails.length,
      lost: mails.length - latencies.length,
      duplicates: copies.reduce((sum, { copies: count }) => sum + count - 1, 0),
      connections: some.reduce((sum, { sink }) => sum + sink.connections.total, 0),
      refused: some.reduce((sum, one) => sum + one.refused, 0),
      p50: percentile(latencies, 0.5),
      p99: percentile(latencies, 0.99),
    };
  };
  const kinds: (Kind | 'all')[] = [...KINDS(EXCHANGERS).map(({ kind }) => kind), 'all'];
  const rows = kinds.map((kind) => ({ kind, ...summary(kind) }));
  table(
    ['exchangers', '', 'mails', 'lost', 'twice', 'connections', 'refused', 'of offers', 'p50 ms', 'p99 ms'],
    rows.map((one) => [
      one.kind,
      one.exchangers,
      one.mails,
      one.lost,
      one.duplicates,
      one.connections,
      one.refused,
      `${((one.refused / (one.mails + one.refused)) * 100).toFixed(2)} %`,
      shown(one.p50),
      shown(one.p99),
    ]),
  );
  console.log(
    `${options.rate} mails a second for ${options.minutes} min; event loop of the peers p99 ${shown(delay.percentile(99) / 1e6)} ms`,
  );
  const all = rows.at(-1)!;
  bound(all.lost === 0, `${all.lost} mails were lost`);
  bound(all.duplicates === 0, `${all.duplicates} mails came twice`);
  // As a share of what was offered to a host: messages, and connections that it refused.
  bound(
    all.refused / (all.mails + all.refused) < MAX_REFUSED,
    `${all.refused} of ${all.mails + all.refused} offers were refused`,
  );
  for (const { domain, refused, offers, kind } of exchangers) {
    bound(
      refused <= Math.max(MAX_DISCOVERY, offers() * MAX_REFUSED),
      `${domain} (${kind}) refused ${refused} of ${offers()} offers`,
    );
  }
  const healthy = rows.find(({ kind }) => kind === 'healthy')!;
  bound(healthy.p99 < MAX_P99_MS, `p99 of healthy exchangers is ${shown(healthy.p99)} ms`);
  const violations = exchangers.flatMap(({ sink }) => sink.violations);
  bound(violations.length === 0, `the exchangers saw violations: ${violations.slice(0, 3).join(', ')}`);
  for (const words of broken) console.error(`broken: ${words}`);
  if (broken.length > 0) await end(1);
});
