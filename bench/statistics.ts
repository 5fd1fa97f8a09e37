/**
 * Row "statistics": how fast an uncounted log is counted, as at the first start after an upgrade, and the duration of a call afterwards,
 * without HTTP. The log has the events of one account, with 10 tags, 20 templates and 500 domains, four
 * of them of mailbox providers.
 *
 * node bench/statistics.ts [--events 1000000] [--days 90] [--calls 40] [--database sqlite|postgres]
 */
import type { Caller } from '../src/accounts/accounts.ts';
import { statisticsRoutes } from '../src/api/statistics.ts';
import { iso, systemClock } from '../src/base/clock.ts';
import { countAll } from '../src/statistics/statistics.ts';
import { dataDirectory } from '../src/storage/data-directory.ts';
import { eachCall } from '../src/storage/operation.ts';
import { openSqlite } from '../src/storage/sqlite/connection.ts';
import { type TempDatabase, tempDatabase } from '../test/kit/temp-database.ts';
import { median, onEnd, readArguments, row, shown, spread, table } from './lib.ts';

const options = readArguments({ events: 1_000_000, days: 90, calls: 40, database: 'sqlite' });
const ACCOUNT = 'acc_bench';

/** A Send and a Delivery for each message, one bounce in twenty, and as many opens as a quarter of the messages. */
function fillStatements(numbers: (count: number) => string, events: number): string[] {
  const emails = Math.round(events / 2.25);
  const startMs = Date.now() - options.days * 86_400_000;
  const stepMs = Math.floor((options.days * 86_400_000) / emails);
  const event = (every: number, shiftMs: number, type: string, detail: string): string =>
    `INSERT INTO event (account_id, mode, seq, id, type, message_id, at, detail)
     SELECT '${ACCOUNT}', 'live', ${shiftMs} * ${emails} + i, 'evt_${shiftMs}_' || i, ${type}, 'msg_' || i, ${startMs} + i * ${stepMs} + ${shiftMs}, ${detail}
     FROM (${numbers(emails)}) AS n WHERE i % ${every} = 0`;
  return [
    `INSERT INTO account (id, name, plan, status, approved_email_bytes, settings, created_at)
     VALUES ('${ACCOUNT}', 'Bench', 'paid', 'active', 2000000, '{}', 1)`,
    `INSERT INTO email (seq, account_id, mode, source, header_from, header_to, envelope_from, subject, header_message_id, tags, metadata,
       options, size_bytes, created_at, retain, template_id)
     SELECT i, '${ACCOUNT}', 'live', 'http', 'Shop <a@bench.example>', '{}', 'a@bench.example', 'Order', '<' || i || '@bench.example>',
       '["tag_' || (i % 10) || '"]', '{}', '{}', 2000, ${startMs} + i * ${stepMs}, '30d', 'tpl_' || (i % 20)
     FROM (${numbers(emails)}) AS n`,
    `INSERT INTO message (account_id, mode, id, email_seq, recipient, role, status, attempts, expires_at, created_at, updated_at)
     SELECT '${ACCOUNT}', 'live', 'msg_' || i, i,
       'person@' || CASE i % 499 WHEN 0 THEN 'gmail.com' WHEN 1 THEN 'outlook.com' WHEN 2 THEN 'yahoo.com' WHEN 3 THEN 'gmx.de'
         ELSE (i % 499) || '.example' END,
        'to', 'delivered', 1, 1, 1, 1
     FROM (${numbers(emails)}) AS n`,
    event(1, 0, "'Send'", "'{}'"),
    event(
      1,
      1,
      "CASE WHEN i % 20 = 0 THEN 'Bounce' ELSE 'Delivery' END",
      `CASE WHEN i % 20 = 0 THEN '{"bounce":{"kind":"hard"}}' ELSE '{"delivery":{"latencyMs":' || (i % 8999) || '}}' END`,
    ),
    event(4, 2, "'Open'", "'{}'"),
  ];
}

async function fill(temp: TempDatabase, events: number): Promise<void> {
  if (temp.database.dialect === 'postgres') {
    const numbers = (count: number): string => `SELECT generate_series(1, CAST(${count} AS BIGINT)) AS i`;
    for (const sql of [...fillStatements(numbers, events), 'ANALYZE'])
      await temp.database.execute(
        { name: 'bench.fill', mode: 'write', slow: true, run: eachCall((tx) => tx.run(sql)) },
        null,
      );
    return;
  }
  const connection = openSqlite(dataDirectory(temp.folder).databaseFile, { readOnly: false });
  connection.raw.exec('PRAGMA synchronous = OFF; BEGIN');
  const numbers = (count: number): string =>
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count}) SELECT i FROM n`;
  for (const sql of fillStatements(numbers, events)) connection.raw.exec(sql);
  connection.raw.exec('COMMIT');
  connection.close();
}

const CALLS: [name: string, days: number, interval: string, groupBy: string][] = [
  ['90 days by day', 89, 'day', 'none'],
  ['90 days by day and tag', 89, 'day', 'tag'],
  ['90 days by day and domain', 89, 'day', 'recipientDomain'],
  ['7 days by hour', 7, 'hour', 'none'],
  ['31 days by hour and domain', 31, 'hour', 'recipientDomain'],
  ['90 days by day and provider', 89, 'day', 'mailboxProvider'],
  ['31 days by hour and provider', 31, 'hour', 'mailboxProvider'],
];

await row('statistics', 900, async () => {
  const temp = await tempDatabase(options.database === 'postgres' ? 'postgres' : 'sqlite');
  onEnd(() => temp.close());
  const { database } = temp;
  await fill(temp, options.events);
  const began = performance.now();
  await countAll(database);
  const seconds = (performance.now() - began) / 1_000;
  console.log(`${options.events} events counted in ${shown(seconds)} s: ${shown(options.events / seconds)} a second`);

  const route = statisticsRoutes({ database, clock: systemClock })[0]!;
  const caller = { account: { id: ACCOUNT }, mode: 'live' } as Caller;
  const rows: (string | number)[][] = [];
  for (const [name, days, interval, groupBy] of CALLS) {
    const times: number[] = [];
    let sizeBytes = 0;
    for (let call = -5; call < options.calls; call += 1) {
      const startedMs = performance.now();
      const query = { since: iso(Date.now() - days * 86_400_000), interval, groupBy };
      const answer = await route.handle({ caller, query } as unknown as Parameters<typeof route.handle>[0]);
      if (!answer.ok || !('body' in answer)) throw new Error('no answer');
      sizeBytes = JSON.stringify(answer.body).length;
      if (call >= 0) times.push(performance.now() - startedMs);
    }
    rows.push([name, spread(times), shown(sizeBytes / 1_000), shown(median(times))]);
  }
  table(['call', 'ms', 'KB', 'median'], rows);
});
