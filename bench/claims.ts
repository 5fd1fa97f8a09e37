/**
 * Row "claims": the duration of a claim of 100 rows on PostgreSQL, by the number of due rows, and while another session keeps a transaction
 * open, so that PostgreSQL cannot remove finished rows: first claims compared with those after `--finished` rows. Each claim includes the
 * search for a row in quarantine.
 *
 *   node bench/claims.ts [--most 1000000] [--finished 300000]
 */
import pg from 'pg';
import { silentLog } from '../src/base/log.ts';
import { operation } from '../src/storage/operation.ts';
import { openPostgresDatabase } from '../src/storage/postgres/database.ts';
import { migratePostgres } from '../src/storage/postgres/migrate.ts';
import { parsePostgresUrl } from '../src/storage/postgres/url.ts';
import { SearchWindow } from '../src/work/search-window.ts';
import { type Claim, type ClaimExtent, claim, finish, takenOf } from '../src/work/work.ts';
import { tempPostgres } from '../test/kit/temp-postgres.ts';
import { onEnd, readArguments, row, shown, spread, table } from './lib.ts';

const options = readArguments({ most: 1_000_000, finished: 300_000 });
const LIMIT = 100;
/** Claims that are measured. */
const CLAIMS = 50;
const KIND = 'bench';

const claimAndFinish = operation('bench.claimAndFinish', 'write', async (tx, request: Claim): Promise<ClaimExtent> => {
  const rows = await claim(tx, request);
  await finish(tx, rows);
  return takenOf(rows);
});

await row('claims', 1_800, async () => {
  const postgres = await tempPostgres();
  onEnd(() => postgres.drop());
  const address = parsePostgresUrl(postgres.url);
  await migratePostgres({ address, log: silentLog, nowMs: Date.now() });
  const database = await openPostgresDatabase({ address, log: silentLog });
  onEnd(() => database.close());
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  onEnd(() => client.end());

  const fill = async (rows: number): Promise<void> => {
    await client.query('TRUNCATE work');
    await client.query(
      `INSERT INTO work (kind, account_id, mode, subject, ref, lane, due, leased, fence, attempts, crashes, held)
       SELECT $1, 'account', 'live', 'subject', 0, 'lane' || i % 1000, now_ms() - $2 + i, 0, 0, 0, 0, 0
       FROM generate_series(1::bigint, $2) i`,
      [KIND, rows],
    );
    await client.query('VACUUM ANALYZE work');
  };

  const searches = new SearchWindow();
  /** Returns the durations of claims, in ms. */
  const measure = async (claims: number): Promise<number[]> => {
    const durations: number[] = [];
    for (let i = 0; i < claims; i += 1) {
      const began = performance.now();
      const request = { kind: KIND, nowMs: Date.now(), leaseMs: 60_000, limit: LIMIT, quarantined: true };
      const { rows, overdueMs } = await database.execute(claimAndFinish, { ...request, lookBackMs: searches.next() });
      searches.found(overdueMs);
      durations.push(performance.now() - began);
      if (rows < LIMIT) throw new Error('no more due rows');
    }
    return durations;
  };

  const lines: string[][] = [];
  for (let due = CLAIMS * LIMIT * 2; due <= options.most; due *= 10) {
    await fill(due);
    await measure(5);
    lines.push([`${due} due`, spread(await measure(CLAIMS))]);
  }
  await fill(options.finished + 2 * CLAIMS * LIMIT);
  const session = new pg.Client({ connectionString: postgres.url });
  await session.connect();
  onEnd(() => session.end());
  await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM work');
  lines.push(['open transaction, first claims', spread(await measure(CLAIMS))]);
  const all = await measure(options.finished / LIMIT);
  lines.push([`open transaction, after ${options.finished} rows`, spread(await measure(CLAIMS))]);
  await session.query('ROLLBACK');
  table(['', `ms per claim of ${LIMIT} rows`], lines);
  console.log(`slowest claim beside the open transaction: ${shown(Math.max(...all))} ms`);
});
