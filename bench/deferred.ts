/**
 * Row "deferred mail comes due": messages deferred at one moment are due again by the schedule, spread over a fifth of the step, for some
 * hundred destinations or for one. Counts at the receiver: the most within one second, and that each arrives once, while another account
 * sends over HTTP. Exceeding a limit ends the program with 1.
 *
 * node bench/deferred.ts [--count 50000] [--destinations 300] [--attempts 2]
 */

import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { deliveryDelayMs, jitter } from '../src/base/backoff.ts';
import { dataDirectory } from '../src/storage/data-directory.ts';
import { fakeDns } from '../test/kit/fake-dns.ts';
import { runningMs } from '../test/kit/running-time.ts';
import { smtpSink } from '../test/kit/smtp-sink.ts';
import { fillQueue } from './fill-queue.ts';
import { end, freePort, onEnd, pause, percentile, readArguments, row, shown, table, WORK } from './lib.ts';
import { residentMegabytes, startService } from './service.ts';
import { addTenant, type Tenant } from './tenants.ts';

/** Number of earlier attempts: after 2 the step is five minutes, a fifth of which is one minute. */
const options = readArguments({ count: 50_000, destinations: 300, attempts: 2 });
const STEP_MS = deliveryDelayMs(options.attempts);
const SPREAD_MS = STEP_MS / 5;
/** Time for the service to start. */
const LEAD_MS = 25_000;
/** Jobs in memory, from WINDOW_LIMITS in src/delivery/queue/window.ts. */
const MOST_LEASED = 2_000;
const MOST_P99_MS = 500;
/** Maximum part of all in one second: three times its share, since a late machine catches up. */
const MOST_PART = 3 / (SPREAD_MS / 1_000);
const OTHERS_EVERY_MS = 50;

/** Marks all work as deferred at one moment, so that the first of it is due when the service has started; returns the number of rows. */
function deferAll(file: string): number {
  const database = new DatabaseSync(file);
  const firstMs = Date.now() + LEAD_MS;
  const deferredMs = firstMs - 0.9 * STEP_MS;
  const rows = database.prepare('SELECT seq, account_id AS account, mode, subject FROM work').all() as {
    seq: number;
    account: string;
    mode: string;
    subject: string;
  }[];
  const work = database.prepare('UPDATE work SET attempts = ?, due = ? WHERE seq = ?');
  const message = database.prepare(
    `UPDATE message SET status = 'delayed', attempts = ?, next_attempt_at = ? WHERE account_id = ? AND mode = ? AND id = ?`,
  );
  database.exec('BEGIN');
  for (const { seq, account, mode, subject } of rows) {
    const due = Math.round(deferredMs + jitter(STEP_MS, Math.random()));
    work.run(options.attempts, due, seq);
    message.run(options.attempts, due, account, mode, subject);
  }
  database.exec('COMMIT');
  database.close();
  return firstMs;
}

/** Sends until it is stopped; returns the duration of each send, without pauses of this process. */
async function sendOn(url: string, { domain, headers }: Tenant, goesOn: () => boolean): Promise<number[]> {
  const took: number[] = [];
  const body = JSON.stringify({ from: `shop@${domain}`, to: ['one@other.example'], subject: 'Hello', text: 'Hello' });
  while (goesOn()) {
    const began = runningMs();
    const answer = await fetch(`${url}/send`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
    });
    if (answer.status !== 202) throw new Error(`send: ${answer.status} ${await answer.text()}`);
    await answer.arrayBuffer();
    took.push(runningMs() - began);
    await pause(OTHERS_EVERY_MS);
  }
  return took;
}

await row('deferred mail comes due', SPREAD_MS / 1_000 + 600, async () => {
  const { count, destinations } = options;
  const port = await freePort();
  const dns = await fakeDns({});
  onEnd(() => dns.close());
  const arrivals = new Map<string, number>();
  const perSecond = new Map<number, number>();
  let copies = 0;
  const onMessage = ({ to, at }: { to: string[]; at: number }): void => {
    if (to[0] === 'one@other.example') return;
    copies += 1;
    arrivals.set(to[0]!, at);
    const second = Math.floor(at / 1_000);
    perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
  };
  for (let i = 0; i <= destinations; i += 1) {
    const host = `127.78.${i >> 7}.${(i & 127) + 1}`;
    const sink = await smtpSink({ host, port, discard: true, onMessage });
    onEnd(() => sink.close());
    dns.zone[i === destinations ? 'other.example' : `d${i}.example`] = { A: [host] };
  }
  const folder = mkdtempSync(path.join(WORK, 'deferred-'));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  const settings = {
    POSTRIDER_ROUTE: 'mx',
    POSTRIDER_MX_PORT: String(port),
    POSTRIDER_MX_ALLOW: '127.78.0.0/16',
    POSTRIDER_DNS_SERVERS: dns.server,
    POSTRIDER_RATE_LIMIT: 'off',
  };
  const first = await startService({ ...settings, POSTRIDER_ROLES: 'api' }, folder);
  const tenant = await addTenant(first, 'tenant.example');
  await first.stop();
  await fillQueue(folder, first.headers['x-id']!, count, (i) => `m${i}@d${i % destinations}.example`);
  const { databaseFile } = dataDirectory(folder);
  const firstMs = deferAll(databaseFile);
  const service = await startService(settings, folder);
  if (Date.now() > firstMs) throw new Error('the service started too late');

  const reader = new DatabaseSync(databaseFile, { readOnly: true });
  onEnd(() => reader.close());
  const leased = reader.prepare('SELECT count(*) AS n FROM work WHERE leased = 1');
  let [mostLeased, mostMegabytes] = [0, 0];
  const isDone = (): boolean => arrivals.size >= count;
  const sending = sendOn(service.url, tenant, () => !isDone());
  while (!isDone()) {
    mostLeased = Math.max(mostLeased, (leased.get() as { n: number }).n);
    mostMegabytes = Math.max(mostMegabytes, residentMegabytes(service.child.process.pid!));
    await pause(500);
  }
  const took = await sending;
  const lastMs = Math.max(...arrivals.values());
  // A duplicate would follow soon after the first copy.
  await pause(3_000);

  const seconds = [...perSecond.values()];
  const most = Math.max(...seconds);
  const p99 = percentile(took, 0.99);
  table(
    ['destinations', 'mails', 'copies', 'due within s', 'arrived within s', 'a second: even', 'p50', 'most', 'of all'],
    [
      [
        destinations,
        count,
        copies,
        SPREAD_MS / 1_000,
        shown((lastMs - firstMs) / 1_000),
        shown(count / (SPREAD_MS / 1_000)),
        percentile(seconds, 0.5),
        most,
        `${((most / count) * 100).toFixed(1)} %`,
      ],
    ],
  );
  console.log(`most in memory ${mostLeased} (leases), ${shown(mostMegabytes)} MB resident`);
  console.log(
    `POST /send of another account: ${took.length}, p50 ${shown(percentile(took, 0.5))}, p99 ${shown(p99)} ms`,
  );
  const broken: string[] = [];
  if (copies !== count) broken.push(`${copies - count} came twice`);
  if (most > count * MOST_PART) broken.push(`${most} of ${count} came within one second`);
  if (mostLeased > MOST_LEASED) broken.push(`${mostLeased} were in memory`);
  if (p99 > MOST_P99_MS) broken.push(`p99 of another account is ${shown(p99)} ms`);
  for (const words of broken) console.error(`broken: ${words}`);
  if (broken.length > 0) await end(1);
});
