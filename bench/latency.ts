/**
 * Rows "latency" and "distant receivers", by MX: messages to `--destinations` domains, each with its own MX host on loopback. Near:
 * messages per second, one for each. Distant: the same with 100 ms for each of their replies. Latency: at a fifth of the near rate, from
 * the 202 to the dot at the MX host, both measured by this process.
 *
 * node bench/latency.ts [--rounds 5] [--count 10000] [--destinations 10000] [--seconds 20] [--rows latency,distant]
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { fakeDns } from '../test/kit/fake-dns.ts';
import { type SinkStage, smtpSink } from '../test/kit/smtp-sink.ts';
import { freePort, median, onEnd, pause, percentile, readArguments, row, shown, spread, table } from './lib.ts';
import { type BenchService, startService } from './service.ts';

const options = readArguments({
  ...{ rounds: 5, count: 10_000, destinations: 10_000, seconds: 20 },
  ...{ rows: 'latency,distant', port: 0, delayMs: 0 },
});
const CONNECTIONS = 50;
const REPLIES: readonly SinkStage[] = ['banner', 'ehlo', 'mail', 'rcpt', 'data', 'dot'];

/** Runs in the process of the MX hosts, which use all addresses of 127/8; reports each message to the parent. */
async function beExchangers(): Promise<void> {
  const { port, delayMs } = options;
  const script = delayMs === 0 ? {} : Object.fromEntries(REPLIES.map((stage) => [stage, { delayMs }]));
  await smtpSink({
    ...{ host: '0.0.0.0', port, discard: true, script },
    onMessage: ({ to, at }) => process.send!({ to: to[0], atMs: at }),
  });
  process.once('disconnect', () => process.exit(0));
  process.send!({});
}

interface Exchangers {
  port: number;
  /** Unix ms at which each recipient's message was accepted. */
  taken: Map<string, number>;
}

async function startMailServers(delayMs: number): Promise<Exchangers> {
  const port = await freePort();
  const taken = new Map<string, number>();
  const args = ['--port', String(port), '--delayMs', String(delayMs)];
  const child = fork(fileURLToPath(import.meta.url), args);
  onEnd(() => child.disconnect());
  await new Promise((resolve) => child.once('message', resolve));
  child.on('message', ({ to, atMs }: { to: string; atMs: number }) => taken.set(to, atMs));
  return { port, taken };
}

const domainOf = (number: number): string => `d${number}.example`;

async function submit({ url, headers }: BenchService, to: string): Promise<number> {
  const body = JSON.stringify({ from: 'bench@bench.example', to, subject: 'Receipt', text: 'Thank you.' });
  const answer = await fetch(`${url}/send`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body,
  });
  const acceptedMs = Date.now();
  if (answer.status !== 202) throw new Error(`send: ${answer.status} ${await answer.text()}`);
  await answer.body?.cancel();
  return acceptedMs;
}

let number = 0;
const recipient = (): string => {
  number += 1;
  return `m${number}@${domainOf(number % options.destinations)}`;
};

/** Messages per second, from the first request to the last dot. */
async function rateTo(service: BenchService, { taken }: Exchangers): Promise<number> {
  const before = taken.size;
  const began = performance.now();
  let left = options.count;
  const post = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await submit(service, recipient());
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, post));
  while (taken.size - before < options.count) {
    await pause(5);
    if (performance.now() - began > 120_000) throw new Error(`${taken.size - before} of ${options.count} arrived`);
  }
  return options.count / ((performance.now() - began) / 1000);
}

/** Milliseconds from acceptance to the dot, at a steady rate. */
async function latencies(service: BenchService, { taken }: Exchangers, rate: number): Promise<number[]> {
  const accepted = new Map<string, number>();
  const sending: Promise<void>[] = [];
  const began = performance.now();
  for (let i = 0; i < rate * options.seconds; i += 1) {
    const dueMs = (i / rate) * 1000 - (performance.now() - began);
    if (dueMs > 1) await pause(dueMs);
    const to = recipient();
    sending.push(submit(service, to).then((atMs) => void accepted.set(to, atMs)));
  }
  await Promise.all(sending);
  while ([...accepted.keys()].some((to) => !taken.has(to))) await pause(50);
  return [...accepted].map(([to, atMs]) => Math.max(0, taken.get(to)! - atMs));
}

async function measure(): Promise<void> {
  const dns = await fakeDns({});
  onEnd(() => dns.close());
  for (let i = 0; i < options.destinations; i += 1) {
    dns.zone[domainOf(i)] = { MX: [[10, `mx.${domainOf(i)}`]], ttl: 3600 };
    dns.zone[`mx.${domainOf(i)}`] = { A: [`127.80.${i >> 8}.${i & 255}`], ttl: 3600 };
  }
  const serve = async (exchangers: Exchangers): Promise<BenchService> =>
    startService({
      ...{ POSTRIDER_ROUTE: 'mx', POSTRIDER_MX_PORT: String(exchangers.port), POSTRIDER_MX_ALLOW: '127.80.0.0/16' },
      POSTRIDER_DNS_SERVERS: dns.server,
    });
  const near = await startMailServers(0);
  const nearby = await serve(near);
  await rateTo(nearby, near);
  const wanted = options.rows.split(',');
  if (wanted.includes('distant')) {
    const distant = await startMailServers(100);
    const far = await serve(distant);
    await rateTo(far, distant);
    const rates = { near: [] as number[], distant: [] as number[] };
    for (let round = 0; round < options.rounds; round += 1) {
      rates.near.push(await rateTo(nearby, near));
      rates.distant.push(await rateTo(far, distant));
    }
    await far.stop();
    const ratios = rates.distant.map((rate, i) => rate / rates.near[i]!);
    table(
      ['receivers', 'relayed/s', 'x near'],
      [
        ['near', spread(rates.near), '1'],
        ['100 ms a reply', spread(rates.distant), spread(ratios)],
      ],
    );
  }
  if (!wanted.includes('latency')) return;
  const rates: number[] = [];
  for (let round = 0; round < 3; round += 1) rates.push(await rateTo(nearby, near));
  const rate = median(rates) / 5;
  const found = await latencies(nearby, near, rate);
  console.log(
    `accepted to taken, ${found.length} mails at ${shown(rate)}/s (a fifth of ${shown(median(rates))}): ` +
      `p50 ${percentile(found, 0.5)} ms, p99 ${percentile(found, 0.99)} ms`,
  );
}

if (process.send !== undefined) await beExchangers();
else await row('latency, distant receivers', 900, measure);
