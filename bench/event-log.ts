/**
 * Row "event log": a page of 100 of `GET /events` with a million events in the log, compared with a thousand, with and without filters and
 * periods. Both services run at the same time; rounds alternate. The long log is in its state after housekeeping.
 *
 * node bench/event-log.ts [--long 1000000] [--short 1000] [--requests 200] [--rounds 5]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { noteSegmentOperation } from '../src/events/read-store.ts';
import { createEventCursors } from '../src/events/stream.ts';
import { dataDirectory } from '../src/storage/data-directory.ts';
import { runWithin } from '../src/storage/operation.ts';
import { openSqlite } from '../src/storage/sqlite/connection.ts';
import { median, onEnd, readArguments, row, shown, spread, table, WORK } from './lib.ts';
import { type BenchService, startService } from './service.ts';

const options = readArguments({ long: 1_000_000, short: 1_000, requests: 200, rounds: 5 });

/**
 * Adds events of delivered messages, 5 ms apart, one in four a bounce, with ids in the service's form and order; returns the first one's
 * Unix ms.
 */
async function fillLog(folder: string, accountId: string, events: number): Promise<number> {
  const connection = openSqlite(dataDirectory(folder).databaseFile, { readOnly: false });
  const emails = events / 2;
  const startMs = Date.now() - emails * 10;
  const numbers = (count: number): string =>
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
  connection.raw.exec('PRAGMA synchronous = OFF; BEGIN');
  connection.raw.exec(`INSERT INTO email (seq, account_id, mode, source, header_from, header_to, envelope_from, subject,
      header_message_id, tags, metadata, options, size_bytes, created_at, retain)
    ${numbers(emails)} SELECT i, '${accountId}', 'live', 'http', 'Shop <a@bench.example>', '{}', 'a@bench.example',
      'Order ' || i, '<' || i || '@bench.example>', '["order"]', '{"order":"' || i || '"}', '{}', 2000,
      ${startMs} + i * 10, '30d' FROM n`);
  connection.raw.exec(`INSERT INTO message SELECT account_id, mode, 'msg_' || printf('%021d', seq), seq,
      'person' || seq || '@example.com', 'to', 'delivered', 1, NULL, NULL, NULL, created_at, created_at, created_at
    FROM email WHERE account_id = '${accountId}'`);
  connection.raw.exec(`INSERT INTO event (account_id, mode, id, type, message_id, at, detail)
    ${numbers(events)} SELECT '${accountId}', 'live', 'evt_' || printf('%021d', i),
      CASE WHEN i % 2 = 1 THEN 'Send' WHEN i % 8 = 0 THEN 'Bounce' ELSE 'Delivery' END,
      'msg_' || printf('%021d', (i + 1) / 2), ${startMs} + i * 5,
      CASE WHEN i % 2 = 1 THEN '{}' ELSE '{"delivery":{"remoteHost":"mx.example.com","reply":"250 2.0.0 OK"}}' END FROM n`);
  connection.raw.exec('COMMIT');
  for (let more = true; more; ) more = await runWithin(connection, noteSegmentOperation, { nowMs: Date.now() });
  connection.close();
  return startMs;
}

interface Log {
  service: BenchService;
  /** A cursor in the middle of the log. */
  cursor: string;
  events: number;
  startMs: number;
}

async function prepare(events: number): Promise<Log> {
  const folder = mkdtempSync(path.join(WORK, 'events-'));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  const secretKey = Buffer.alloc(32, 7);
  const settings = { POSTRIDER_ROLES: 'api', POSTRIDER_SECRET_KEY: secretKey.toString('base64') };
  const first = await startService(settings, folder);
  await first.stop();
  const startMs = await fillLog(folder, first.headers['x-id']!, events);
  const service = await startService(settings, folder);
  const middle = events / 2;
  const cursor = createEventCursors(secretKey).textOf({ position: middle, seq: middle });
  return { service, cursor, events, startMs };
}

const timeAt = ({ startMs, events }: Log, share: number): string =>
  new Date(startMs + events * share * 5).toISOString();

/** Paths of a page of 100. */
const PAGES: [name: string, query: (log: Log) => string][] = [
  ['newest first', () => ''],
  ['followed from the middle', ({ cursor }) => `&order=asc&cursor=${cursor}`],
  ['eventType=Delivery', () => '&eventType=Delivery'],
  ['eventType=Bounce', () => '&eventType=Bounce'],
  ['of one message', ({ events }) => `&messageId=msg_${String(events / 4).padStart(21, '0')}`],
  ['until the first tenth', (log) => `&until=${timeAt(log, 0.1)}`],
  ['since the last tenth, oldest first', (log) => `&order=asc&since=${timeAt(log, 0.9)}`],
];

async function milliseconds({ service }: Log, query: string, requests: number): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < requests; i += 1) {
    const began = performance.now();
    const response = await fetch(`${service.url}/events?limit=100${query}`, { headers: service.headers });
    const text = await response.text();
    times.push(performance.now() - began);
    if (response.status !== 200) throw new Error(text);
  }
  return median(times);
}

await row('event log', 900, async () => {
  const short = await prepare(options.short);
  const long = await prepare(options.long);
  const rows: string[][] = [];
  let worst = 0;
  for (const [name, query] of PAGES) {
    const times: { short: number[]; long: number[] } = { short: [], long: [] };
    for (let round = -1; round < options.rounds; round += 1) {
      const shortMs = await milliseconds(short, query(short), options.requests);
      const longMs = await milliseconds(long, query(long), options.requests);
      // The first round is a warm-up.
      if (round < 0) continue;
      times.short.push(shortMs);
      times.long.push(longMs);
    }
    const ratio = median(times.long) / median(times.short);
    worst = Math.max(worst, ratio);
    rows.push([name, spread(times.short), spread(times.long), shown(ratio)]);
  }
  table(['page of 100', `ms at ${options.short}`, `ms at ${options.long}`, 'ratio'], rows);
  console.log(`\nworst ratio ${shown(worst)} (at most 1.5; goal 1.1)`);
});
