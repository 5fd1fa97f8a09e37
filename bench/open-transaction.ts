/**
 * Row "queue beside an open transaction": relay with DKIM on PostgreSQL while another session keeps a transaction open, for example a
 * backup or a forgotten psql. PostgreSQL then cannot remove the rows of finished work, and a queue that reads past them becomes slower.
 * Compared are the last rounds with the transaction and rounds before it, and the size of the table of work.
 *
 *   node bench/open-transaction.ts [--minutes 10] [--count 3000] [--connections 40]
 */
import pg from 'pg';
import { tempPostgres } from '../test/kit/temp-postgres.ts';
import { freePort, median, onEnd, readArguments, row, shown, spread, table } from './lib.ts';
import { startSink } from './peers.ts';
import { postMany } from './post-many.ts';
import { processorSeconds, startService } from './service.ts';

const options = readArguments({ minutes: 10, count: 3000, connections: 40, size: 5120 });
/** Rounds before the transaction, and those at its end that are compared with them. */
const ROUNDS = 5;

interface Round {
  rate: number;
  /** Processor time of the database per message. */
  databaseMs: number;
  workMegabytes: number;
  /** Pages of 8 KB that a search for due work reads: a complete one, and one that looks back a few seconds like most. */
  completePages: number;
  usualPages: number;
}

const LOOK_BACK_MS = 6_000;

/** Returns how many pages a search for due work reads that is like a claim of the delivery role. */
async function pagesOfSearch(client: pg.Client, since: string): Promise<number> {
  const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
    SELECT seq FROM work WHERE kind = 'delivery' AND held = 0 AND due <= (SELECT now_ms()) ${since} ORDER BY due LIMIT 1`);
  const { Plan } = rows[0]['QUERY PLAN'][0];
  return Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks'];
}

await row('queue beside an open transaction', options.minutes * 60 + 600, async () => {
  const sink = await startSink(await freePort());
  const postgres = await tempPostgres();
  const service = await startService({
    POSTRIDER_DATABASE_URL: postgres.url,
    POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
  });
  const session = new pg.Client({ connectionString: postgres.url });
  await session.connect();
  onEnd(() => session.end());
  const observer = new pg.Client({ connectionString: postgres.url });
  await observer.connect();
  onEnd(() => observer.end());

  const measure = async (): Promise<Round> => {
    const before = await sink.quiet();
    const database = (): number => processorSeconds(postgres.server.pid(), { tree: true });
    const databaseBefore = database();
    const began = performance.now();
    await postMany({
      url: new URL(service.url),
      headers: service.headers,
      count: options.count,
      connections: options.connections,
      size: options.size,
    });
    if (!(await sink.reached(before + options.count, 120_000))) throw new Error('the sink has not seen all mail');
    const seconds = (performance.now() - began) / 1000;
    const { rows } = await observer.query("SELECT pg_total_relation_size('work')::float8 / 1048576 AS megabytes");
    return {
      rate: options.count / seconds,
      databaseMs: ((database() - databaseBefore) / options.count) * 1000,
      workMegabytes: rows[0].megabytes,
      completePages: await pagesOfSearch(observer, ''),
      usualPages: await pagesOfSearch(observer, `AND due >= (SELECT now_ms()) - ${LOOK_BACK_MS}`),
    };
  };

  await measure();
  const plain: Round[] = [];
  for (let round = 0; round < ROUNDS; round += 1) plain.push(await measure());
  await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM work');
  const held: Round[] = [];
  for (const until = performance.now() + options.minutes * 60_000; performance.now() < until; ) {
    held.push(await measure());
  }
  await session.query('COMMIT');
  const last = held.slice(-ROUNDS);
  table(
    ['', 'messages/s', 'database: cpu ms/msg', 'work, MB', 'pages: complete search', 'usual search'],
    (
      [
        ['before', plain],
        [`after ${held.length * options.count} messages`, last],
      ] as const
    ).map(([name, rounds]) => [
      name,
      spread(rounds.map((one) => one.rate)),
      spread(rounds.map((one) => one.databaseMs)),
      spread(rounds.map((one) => one.workMegabytes)),
      spread(rounds.map((one) => one.completePages)),
      spread(rounds.map((one) => one.usualPages)),
    ]),
  );
  const rate = (rounds: readonly Round[]): number => median(rounds.map((one) => one.rate));
  console.log(`with the transaction, the rate is ${shown(rate(last) / rate(plain))} of that before it`);
});
