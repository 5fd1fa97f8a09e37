/**
 * Row "two processes": relay with DKIM on PostgreSQL, HTTP in, with one process of `postrider serve --processes` and with two, in turns.
 * The load generator, the sink, and PostgreSQL use the same cores. What a larger machine does is therefore projected from the processor
 * time of a message: a process stops when its main thread uses a whole core, and a machine when all its cores are used.
 *
 *   node bench/processes.ts [--rounds 5] [--count 4000] [--connections 50]
 */
import { tempPostgres } from '../test/kit/temp-postgres.ts';
import { freePort, median, pause, readArguments, row, shown, spread, table } from './lib.ts';
import { startSink } from './peers.ts';
import { postMany } from './post-many.ts';
import { mainThreadSeconds, processorSeconds, startService } from './service.ts';

const options = readArguments({ rounds: 5, count: 4000, connections: 50, size: 5120 });
const COUNTS = [1, 2] as const;
const CORES = [2, 8, 16];

/** Rate in messages per second, and processor time in ms per message. */
interface Figures {
  rate: number;
  mainThreads: number;
  processes: number;
  database: number;
}

interface System {
  measure(): Promise<Figures>;
  figures: Figures[];
}

async function startSystem(count: number): Promise<System> {
  const sink = await startSink(await freePort());
  const postgres = await tempPostgres();
  const environment = {
    POSTRIDER_DATABASE_URL: postgres.url,
    POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
    POSTRIDER_HTTP_PORT: String(await freePort()),
    POSTRIDER_SMTP_PORT: String(await freePort()),
  };
  const service = await startService(environment, undefined, undefined, ['--processes', String(count)]);
  const supervisor = service.child.process.pid!;
  const spent = (): Omit<Figures, 'rate'> => ({
    mainThreads: mainThreadSeconds(supervisor),
    processes: processorSeconds(supervisor, { tree: true }),
    database: processorSeconds(postgres.server.pid(), { tree: true }),
  });
  const measure = async (): Promise<Figures> => {
    const seen = await sink.quiet();
    const before = spent();
    const began = performance.now();
    await postMany({ ...options, url: new URL(service.url), headers: service.headers });
    if (!(await sink.reached(seen + options.count, 120_000))) throw new Error('the sink has not seen all messages');
    const rate = options.count / ((performance.now() - began) / 1000);
    const after = spent();
    const each = (name: keyof typeof after): number => ((after[name] - before[name]) / options.count) * 1000;
    return { rate, mainThreads: each('mainThreads'), processes: each('processes'), database: each('database') };
  };
  return { measure, figures: [] };
}

await row('relay with DKIM, one and two processes', 900, async () => {
  const systems = new Map<number, System>();
  for (const count of COUNTS) systems.set(count, await startSystem(count));
  await pause(3_000);
  for (const { measure } of systems.values()) await measure();
  for (let round = 0; round < options.rounds; round += 1) {
    for (const { measure, figures } of round % 2 ? [...systems.values()].reverse() : systems.values()) {
      figures.push(await measure());
      await pause(500);
    }
  }
  const of = (count: number, name: keyof Figures): number[] => systems.get(count)!.figures.map((one) => one[name]);
  table(
    ['processes', 'messages/s', 'main threads: cpu ms/msg', 'processes: cpu ms/msg', 'database: cpu ms/msg'],
    COUNTS.map((count) => [
      String(count),
      spread(of(count, 'rate')),
      spread(of(count, 'mainThreads')),
      spread(of(count, 'processes')),
      spread(of(count, 'database')),
    ]),
  );
  console.log(
    `two processes: ${spread(of(2, 'rate').map((rate, i) => rate / of(1, 'rate')[i]!))} times the rate of one`,
  );
  const total = (count: number): number => median(of(count, 'processes')) + median(of(count, 'database'));
  const mostOfOne = 1000 / median(of(1, 'mainThreads'));
  for (const cores of CORES) {
    const one = Math.min(mostOfOne, (cores * 1000) / total(1));
    const many = (cores * 1000) / total(2);
    const needed = Math.ceil((many * median(of(2, 'mainThreads'))) / 1000);
    console.log(
      `projected for ${cores} cores without other load: one process ${shown(one)}/s, ${needed} processes ${shown(many)}/s (${shown(many / one)} times)`,
    );
  }
});
