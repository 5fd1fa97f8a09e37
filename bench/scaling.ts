/**
 * Row "scaling 1 → 2 nodes": relay with DKIM on PostgreSQL. A machine with two cores cannot run two nodes and their database at full speed.
 * So the cost of a message is measured with one node and with two, each with the same load, and projected: nodes on separate machines have
 * 2 × cost(1) / cost(2) the throughput, while the database keeps up.
 *
 *   node bench/scaling.ts [--rounds 5] [--count 3000] [--connections 40]
 */
import { tempPostgres } from '../test/kit/temp-postgres.ts';
import { freePort, median, pause, readArguments, row, shown, spread, table } from './lib.ts';
import { startSink } from './peers.ts';
import { postMany } from './post-many.ts';
import { type BenchService, processorSeconds, startService } from './service.ts';

const options = readArguments({ rounds: 5, count: 3000, connections: 40, size: 5120 });

interface Cost {
  nodesMs: number;
  databaseMs: number;
  rate: number;
}

await row('scaling 1 → 2 nodes', 900, async () => {
  const sink = await startSink(await freePort());
  const postgres = await tempPostgres();
  const env = { POSTRIDER_DATABASE_URL: postgres.url, POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` };
  const secret = { POSTRIDER_SECRET_KEY: Buffer.alloc(32, 7).toString('base64') };
  const first = await startService({ ...env, ...secret });
  const measured: Record<'one' | 'two', Cost[]> = { one: [], two: [] };

  const measure = async (nodes: BenchService[]): Promise<Cost> => {
    const before = await sink.quiet();
    const spent = (): number => nodes.reduce((sum, node) => sum + processorSeconds(node.child.process.pid!), 0);
    const database = (): number => processorSeconds(postgres.server.pid(), { tree: true });
    const [nodesBefore, databaseBefore] = [spent(), database()];
    const began = performance.now();
    // Every node gets the load of a single one, as with its own machine.
    const part = { count: options.count, connections: options.connections };
    const total = options.count * nodes.length;
    await Promise.all(
      nodes.map((node) => postMany({ url: new URL(node.url), headers: node.headers, size: options.size, ...part })),
    );
    if (!(await sink.reached(before + total, 120_000))) throw new Error('the sink has not seen all mail');
    const seconds = (performance.now() - began) / 1000;
    const perMessage = (spentSeconds: number): number => (spentSeconds / total) * 1000;
    return {
      nodesMs: perMessage(spent() - nodesBefore),
      databaseMs: perMessage(database() - databaseBefore),
      rate: total / seconds,
    };
  };

  await measure([first]);
  for (let round = 0; round < options.rounds; round += 1) {
    measured.one.push(await measure([first]));
    const second = await startService({ ...env, ...secret }, undefined, first);
    await pause(3_000);
    await measure([second]);
    measured.two.push(await measure([first, second]));
    await second.stop();
    await pause(1_000);
  }
  table(
    ['nodes', 'messages/s here', 'nodes: cpu ms/msg', 'database: cpu ms/msg'],
    (['one', 'two'] as const).map((name) => [
      name,
      spread(measured[name].map((cost) => cost.rate)),
      spread(measured[name].map((cost) => cost.nodesMs)),
      spread(measured[name].map((cost) => cost.databaseMs)),
    ]),
  );
  const factors = measured.one.map((cost, i) => (2 * cost.nodesMs) / measured.two[i]!.nodesMs);
  const databaseMs = median(measured.two.map((cost) => cost.databaseMs));
  const nodeMs = median(measured.two.map((cost) => cost.nodesMs));
  console.log(`projected: two nodes carry ${spread(factors)} times what one does`);
  console.log(
    `one core of the database keeps up with ${shown(nodeMs / databaseMs)} cores of nodes (${shown(1000 / databaseMs)} messages/s here)`,
  );
});
