/**
 * Fills a stopped service's database with messages of the past ten weeks: nearly all of them settled, nine tenths without stored content.
 * One in 50 bounced; one in 10,000 has the tag "rare"; only the oldest has the subject "Needle" and goes to needle@example.org.
 */
import pg from 'pg';
import { idFloor } from '../src/base/ids.ts';
import { silentLog } from '../src/base/log.ts';
import { makePartitions } from '../src/messages/partition-store.ts';
import { dataDirectory } from '../src/storage/data-directory.ts';
import { openPostgresDatabase } from '../src/storage/postgres/database.ts';
import { parsePostgresUrl } from '../src/storage/postgres/url.ts';
import { timeSeqFloor } from '../src/storage/rows.ts';
import { openSqlite } from '../src/storage/sqlite/connection.ts';

const AT_ONCE = 10_000;
const SPAN_MS = 70 * 86_400_000;
const WEEK_MS = 7 * 86_400_000;

interface Part {
  accountId: string;
  first: number;
  count: number;
  isOldest: boolean;
  keepsContent: boolean;
  ms: number;
  /** Sequence number of the email before the first. */
  seq: number;
}

function statements(numbers: string, zeros: (bytes: number) => string, padded: string, part: Part): string[] {
  const { accountId, isOldest, keepsContent, ms, seq, first } = part;
  const needle = (found: string, other: string): string =>
    isOldest ? `CASE WHEN i = 1 THEN ${found} ELSE ${other} END` : other;
  return [
    `INSERT INTO email (seq, account_id, mode, source, header_from, header_to, envelope_from, subject, header_message_id, tags,
       metadata, options, size_bytes, content, created_at, retain)
     SELECT ${seq} + i, '${accountId}', 'live', 'http', 'Shop <a@bench.example>', '{}', 'a@bench.example',
       ${needle("'Needle'", `'Your order ' || (${first} + i) || ' is on its way'`)}, '<' || (${first} + i) || '@bench.example>',
       CASE WHEN i = 7 THEN '["order","rare"]' ELSE '["order"]' END, '{"order":"' || (${first} + i) || '"}', '{}', 2000,
       ${keepsContent ? zeros(1_500) : 'NULL'}, ${ms}, '30d' FROM ${numbers}`,
    `INSERT INTO message (account_id, mode, id, email_seq, recipient, role, status, attempts, expires_at, created_at, updated_at)
     SELECT '${accountId}', 'live', '${idFloor('msg', ms)}' || ${padded}, ${seq} + i,
       ${needle("'needle@example.org'", `'person' || (${first} + i) || '@example.com'`)}, 'to',
       CASE WHEN i % 50 = 0 THEN 'bounced' ELSE 'delivered' END, 1, ${ms}, ${ms}, ${ms} FROM ${numbers}`,
  ];
}

function* partsOf(accountId: string, messages: number, seqOf: (ms: number, first: number) => number): Generator<Part> {
  const startMs = Date.now() - SPAN_MS;
  for (let first = 0; first < messages; first += AT_ONCE) {
    const ms = Math.floor(startMs + (first / messages) * SPAN_MS);
    const count = Math.min(AT_ONCE, messages - first);
    const rest = { isOldest: first === 0, keepsContent: first >= messages * 0.9, ms, seq: seqOf(ms, first) };
    yield { accountId, first, count, ...rest };
  }
}

/** `firstSeq`: above the numbers of all existing emails. */
export function fillSqlite(folder: string, accountId: string, messages: number, firstSeq: number): void {
  const connection = openSqlite(dataDirectory(folder).databaseFile, { readOnly: false });
  connection.raw.exec('PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 10000');
  for (const part of partsOf(accountId, messages, (_, first) => firstSeq + first)) {
    const numbers = `(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${part.count}) SELECT i FROM n)`;
    connection.begin();
    for (const sql of statements(numbers, (bytes) => `zeroblob(${bytes})`, "printf('%013d', i)", part))
      connection.raw.exec(sql);
    connection.commit();
  }
  connection.close();
}

/** `firstSeq`: above the numbers that other accounts used at that time. */
export async function fillPostgres(url: string, accountId: string, messages: number, firstSeq: number): Promise<void> {
  const database = await openPostgresDatabase({ address: parsePostgresUrl(url), log: silentLog });
  const importedMs = Array.from({ length: 11 }, (_, week) => Date.now() - week * WEEK_MS);
  await makePartitions(database, { nowMs: Date.now(), importedMs });
  await database.close();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('SET synchronous_commit = off');
  for (const part of partsOf(accountId, messages, (ms) => timeSeqFloor(ms) + firstSeq)) {
    const numbers = `generate_series(1, ${part.count}) AS n (i)`;
    const zeros = (bytes: number): string => `decode(repeat('00', ${bytes}), 'hex')`;
    for (const sql of statements(numbers, zeros, "lpad(i::text, 13, '0')", part)) await client.query(sql);
  }
  await client.query('VACUUM ANALYZE email');
  await client.query('VACUUM ANALYZE message');
  await client.end();
}
