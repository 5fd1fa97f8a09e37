/**
 * Row "incidents": `GET /incidents` of an account with a million delayed messages of 400 causes, a thousand bounces and half as many
 * messages before their first attempt, on both databases: the list, and one incident; the minimum of the rounds, since other processes only
 * add time.
 *
 * node bench/incidents.ts [--messages 1000000] [--rounds 7]
 */
import { createIncidents } from '../src/incidents/incidents.ts';
import { dataDirectory } from '../src/storage/data-directory.ts';
import type { Database } from '../src/storage/database.ts';
import { connectPostgres } from '../src/storage/postgres/connection.ts';
import { parsePostgresUrl } from '../src/storage/postgres/url.ts';
import { openSqlite } from '../src/storage/sqlite/connection.ts';
import { DIALECTS, type TempDatabase, tempDatabase } from '../test/kit/temp-database.ts';
import { onEnd, readArguments, row, shown, table } from './lib.ts';

const options = readArguments({ messages: 1_000_000, rounds: 7, causes: 400, bounces: 1_000 });
const ACCOUNT = 'acc_bench';
const nowMs = Date.now();

/** Returns the statements for a dialect; `n (i)` counts from 1. */
function statements(dialect: Database['dialect']): string[] {
  const isServer = dialect === 'postgres';
  const numbers = (count: number): string =>
    isServer
      ? `WITH n (i) AS (SELECT generate_series(1, ${count}))`
      : `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
  const padded = (number: string): string =>
    isServer ? `lpad(CAST(${number} AS TEXT), 21, '0')` : `printf('%021d', ${number})`;
  const all = Math.round(options.messages * 1.5) + options.bounces;
  const id = (number: string): string => `'msg_' || ${padded(number)}`;
  const cause = `${padded(`i % ${options.causes}`)} || ' 421 4.7.0 rate-limited remote'`;
  const isDelayed = `i <= ${options.messages}`;
  const detail = `'{"bounce":{"owner":"remote","category":"policy","smtpCode":550,"enhancedCode":"5.7.1","reply":"550 5.7.1 refused ' || i || '"}}'`;
  return [
    `INSERT INTO message (account_id, mode, id, email_seq, recipient, role, status, attempts, work_seq, next_attempt_at, expires_at,
       created_at, updated_at) ${numbers(all)}
     SELECT '${ACCOUNT}', 'live', ${id('i')}, 1, 'u' || i || '@d' || (i % ${options.causes}) || '.example', 'to', 'delayed', 1, i,
       ${nowMs}, ${nowMs}, ${nowMs}, ${nowMs} FROM n`,
    `INSERT INTO work (seq, kind, account_id, mode, subject, ref, lane, due, leased, fence, attempts, crashes, held, cause, failed_at)
     ${numbers(Math.round(options.messages * 1.5))}
     SELECT i, 'delivery', '${ACCOUNT}', 'live', ${id('i')}, 1, '${ACCOUNT}/d.example', ${nowMs} + i, 0, 0, 1, 0, 0,
       CASE WHEN ${isDelayed} THEN substr(${cause}, 2) END, CASE WHEN ${isDelayed} THEN ${nowMs} END FROM n`,
    `INSERT INTO event (account_id, mode, id, type, message_id, at, detail) ${numbers(options.bounces)}
     SELECT '${ACCOUNT}', 'live', 'evt_' || i, 'Bounce', ${id(`(${all} - i)`)}, ${nowMs}, ${detail} FROM n`,
  ];
}

async function fill({ database, folder, url }: TempDatabase): Promise<void> {
  if (url === undefined) {
    const connection = openSqlite(dataDirectory(folder).databaseFile, { readOnly: false });
    connection.raw.exec('PRAGMA synchronous = OFF; BEGIN');
    for (const sql of statements('sqlite')) connection.raw.exec(sql);
    connection.raw.exec('COMMIT');
    connection.close();
    return;
  }
  const { client, destroy } = await connectPostgres(parsePostgresUrl(url));
  await client.query('SET statement_timeout = 0');
  for (const sql of statements(database.dialect)) await client.query(sql);
  await client.query('VACUUM ANALYZE');
  destroy();
}

await row('incidents', 900, async () => {
  const rows: string[][] = [];
  for (const dialect of DIALECTS) {
    const temp = await tempDatabase(dialect);
    onEnd(() => void temp.close());
    await fill(temp);
    const { database } = temp;
    let longestMs = 0;
    const timed: Database = {
      ...database,
      execute: async (op, args) => {
        const began = performance.now();
        const answer = await database.execute(op, args);
        longestMs = Math.max(longestMs, performance.now() - began);
        return answer;
      },
    };
    const incidents = createIncidents({ database: timed, clockOffsetMs: async () => 0, nowMs: () => Date.now() });
    const owner = { accountId: ACCOUNT, mode: 'live' } as const;
    const lists: number[] = [];
    const finds: number[] = [];
    const parts: number[] = [];
    const processor: number[] = [];
    for (let round = 0; round <= options.rounds; round += 1) {
      longestMs = 0;
      const used = process.cpuUsage();
      const began = performance.now();
      const found = await incidents.list(owner);
      const shownOnes = await incidents.show(owner, found.slice(0, 25));
      const listedAt = performance.now();
      const { user, system } = process.cpuUsage(used);
      const one = await incidents.find(owner, found[1]!.incidentId);
      const foundAt = performance.now();
      if (shownOnes.length !== 25 || one === undefined)
        throw new Error(`${found.length} incidents, ${shownOnes.length} shown`);
      // The first round is a warm-up.
      if (round === 0) continue;
      lists.push(listedAt - began);
      finds.push(foundAt - listedAt);
      parts.push(longestMs);
      processor.push((user + system) / 1000);
    }
    rows.push([dialect, ...[lists, processor, finds, parts].map((times) => shown(Math.min(...times)))]);
  }
  table(['database', 'list of 25, ms', 'of this process, ms', 'one incident, ms', 'longest read, ms'], rows);
});
