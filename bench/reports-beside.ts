/**
 * Row "acceptance beside 100 bounces a second": POST /send over 50 connections with delivery in the same process, while delivery reports
 * arrive, each about its own message and over its own connection: alternately at a Postfix sink, for the same machine load, and at the
 * inbound port, where they become events. With pipelining, reports arrive as most servers send them; otherwise each command waits for the
 * previous reply.
 *
 * node bench/reports-beside.ts [--rounds 6] [--seconds 5] [--connections 50] [--reports 100] [--pipelined 0]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { bounceAddresses, bring, tokenAddress } from '../test/kit/bounce-receiver.ts';
import { deliveryReport } from '../test/kit/report-mail.ts';
import {
  freePort,
  median,
  onEnd,
  pause,
  readArguments,
  row,
  run,
  shown,
  spread,
  start,
  table,
  WORK,
  waitForPort,
} from './lib.ts';
import { startService } from './service.ts';

const options = readArguments({ rounds: 6, seconds: 5, connections: 50, reports: 100, pipelined: 0 });
const line = 'Hello Ada, your order has shipped and will arrive on Tuesday. ';
const mail = {
  from: 'Shop <orders@bench.example>',
  subject: 'Your order has shipped',
  text: line.repeat(8),
  html: line.repeat(15),
};

interface Answer extends Array<unknown> {
  results: { data: { messageId: string; recipients: { email: string }[] } }[];
}

interface Known {
  id: string;
  recipient: string;
}

/** Sends messages and waits until all are delivered. */
async function delivered(url: string, headers: Record<string, string>, count: number): Promise<Known[]> {
  const known: Known[] = [];
  const call = async (place: string, body?: object) => {
    const init = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    const answer = await fetch(url + place, { ...init, headers: { ...headers, 'content-type': 'application/json' } });
    return (await answer.json()) as Answer;
  };
  while (known.length < count) {
    const messages = Array.from({ length: 100 }, (_, i) => ({ ...mail, to: `ann${known.length + i}@sink.example` }));
    for (const { data } of (await call('/send/batch', { messages })).results)
      known.push({ id: data.messageId, recipient: data.recipients[0]!.email });
  }
  for (;;) {
    const waiting = await Promise.all(
      ['queued', 'delayed'].map(async (status) => (await call(`/messages?status=${status}&limit=1`)).length),
    );
    if (waiting.every((one) => one === 0)) return known;
    await pause(200);
  }
}

/** Sends a number of reports per second until stopped, each over its own connection; returns how many were accepted. */
function bringing(port: number, known: readonly Known[]): () => Promise<number> {
  let taken = 0;
  const under = new Set<Promise<unknown>>();
  let next = 0;
  const timer = setInterval(() => {
    const one = known[next++];
    if (!one) throw new Error('not enough messages');
    const report = { to: tokenAddress('bounce', one.id), content: deliveryReport(one) };
    const done = bring(port, report, { isPipelined: options.pipelined > 0 }).then((reply) => {
      if (!reply.startsWith('250')) throw new Error(reply);
      taken += 1;
      under.delete(done);
    });
    under.add(done);
  }, 1_000 / options.reports);
  return async () => {
    clearInterval(timer);
    await Promise.all(under);
    return taken;
  };
}

await row(`acceptance beside ${options.reports} bounces a second`, 600, async () => {
  const folder = mkdtempSync(path.join(WORK, 'reports-'));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  const sinkPort = await freePort();
  start('smtp-sink', ['-u', 'nobody', `127.0.0.1:${sinkPort}`, '1000']);
  await waitForPort(sinkPort);
  const inboundPort = await freePort();
  const service = await startService({
    ...{
      ...bounceAddresses,
      POSTRIDER_INBOUND_PORT: String(inboundPort),
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sinkPort}`,
    },
    ...{ POSTRIDER_ROLES: 'api,delivery,webhooks,inbound', POSTRIDER_INBOUND_MAX_CONNECTIONS_PER_ADDRESS: '1000' },
  });
  const known = await delivered(
    service.url,
    service.headers,
    Math.ceil(options.reports * options.seconds * 1.2) * (options.rounds + 2),
  );
  const lua = path.join(folder, 'send.lua');
  const headers = Object.entries({ 'content-type': 'application/json', ...service.headers });
  const body = JSON.stringify({ ...mail, to: 'rcpt@sink.example' });
  writeFileSync(path.join(folder, 'body.json'), body);
  writeFileSync(
    lua,
    `local f = io.open("${folder}/body.json", "rb")\nwrk.method = "POST"\nwrk.body = f:read("*a")\n` +
      headers.map(([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}\n`).join(''),
  );
  const perRun = options.reports * options.seconds * 1.2;
  const measure = async (isHere: boolean) => {
    const stop = bringing(isHere ? inboundPort : sinkPort, isHere ? known.splice(0, perRun) : known.slice(0, perRun));
    const wrk = [
      '-t1',
      `-c${options.connections}`,
      `-d${options.seconds}s`,
      '--latency',
      '-s',
      lua,
      `${service.url}/send`,
    ];
    const { out } = await run('wrk', wrk, { timeoutMs: (options.seconds + 20) * 1_000 });
    const taken = await stop();
    const rate = Number(/Requests\/sec:\s+([\d.]+)/.exec(out)?.[1]);
    const p99 = /99%\s+([\d.]+)(us|ms|s)/.exec(out)!;
    const p99Ms = Number(p99[1]) * { us: 0.001, ms: 1, s: 1_000 }[p99[2] as 'us' | 'ms' | 's'];
    return { rate, p99Ms, taken: taken / options.seconds };
  };
  const results: Record<'elsewhere' | 'here', Awaited<ReturnType<typeof measure>>[]> = { elsewhere: [], here: [] };
  for (let round = -1; round < options.rounds; round += 1) {
    for (const which of round % 2 ? (['here', 'elsewhere'] as const) : (['elsewhere', 'here'] as const)) {
      const one = await measure(which === 'here');
      if (round >= 0) results[which].push(one);
      await pause(300);
    }
  }
  table(
    ['reports go', 'req/s', 'x elsewhere', 'p99 ms', 'reports/s'],
    (['elsewhere', 'here'] as const).map((which) => [
      which,
      spread(results[which].map((one) => one.rate)),
      spread(results[which].map((one, i) => one.rate / results.elsewhere[i]!.rate)),
      spread(results[which].map((one) => one.p99Ms)),
      shown(median(results[which].map((one) => one.taken))),
    ]),
  );
});
