/**
 * The cost of cells (docs/decisions/0029-cells.md): each is an installation with its own database, and HAProxy routes API requests to the
 * cell of the account in X-Id. Relay with DKIM, with one cell and with two, each with the same load. A machine with two cores cannot run
 * both at full speed, so the processor time of a message is compared: cells on separate machines have 2 × cost(1) / cost(2) the throughput.
 *
 *   node bench/cells.ts [--rounds 5] [--count 3000] [--connections 40]
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { startPostgres } from '../test/kit/temp-postgres.ts';
import { freePort, onEnd, pause, readArguments, row, spread, start, stop, table, WORK } from './lib.ts';
import { startSink } from './peers.ts';
import { postMany } from './post-many.ts';
import { type BenchService, processorSeconds, startService } from './service.ts';

const options = readArguments({ rounds: 5, count: 3000, connections: 40, size: 5120 });

interface Cell {
  service: BenchService;
  databasePid: number;
}

/** Milliseconds of processor time per message. */
interface Cost {
  nodes: number;
  databases: number;
  proxy: number;
}

async function startCell(sinkPort: number): Promise<Cell> {
  const postgres = await startPostgres();
  onEnd(() => postgres.stopServer('immediate'));
  const service = await startService({
    POSTRIDER_DATABASE_URL: postgres.url('postgres'),
    POSTRIDER_ROUTE: `smtp://127.0.0.1:${sinkPort}`,
  });
  return { service, databasePid: postgres.pid() };
}

/** Starts HAProxy with a map of accounts to cells. An account that is not in it gets an error, never another cell. */
async function startProxy(cells: readonly Cell[]): Promise<{ url: URL; pid: number }> {
  const folder = mkdtempSync(path.join(WORK, 'cells-'));
  const port = await freePort();
  const accounts = path.join(folder, 'accounts.map');
  writeFileSync(accounts, cells.map(({ service }, i) => `${service.headers['x-id']} cell${i}\n`).join(''));
  const backends = cells.map(
    ({ service }, i) => `backend cell${i}\n  server node ${new URL(service.url).host} check\n`,
  );
  const file = path.join(folder, 'haproxy.cfg');
  writeFileSync(
    file,
    `defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend api
  bind 127.0.0.1:${port}
  http-request return status 404 unless { req.hdr(X-Id),map(${accounts}) -m found }
  use_backend %[req.hdr(X-Id),map(${accounts})]
${backends.join('')}`,
  );
  const child = start('haproxy', ['-f', file], {});
  onEnd(() => stop(child, 5_000));
  await pause(1_000);
  return { url: new URL(`http://127.0.0.1:${port}`), pid: child.process.pid! };
}

await row('cells 1 → 2', 900, async () => {
  const sink = await startSink(await freePort());
  const cells = [await startCell(sink.port), await startCell(sink.port)];
  const proxy = await startProxy(cells);
  const measured: Record<'one' | 'two', Cost[]> = { one: [], two: [] };

  const measure = async (used: readonly Cell[]): Promise<Cost> => {
    const before = await sink.quiet();
    const spent = (): Cost => ({
      nodes: used.reduce((sum, { service }) => sum + processorSeconds(service.child.process.pid!), 0),
      databases: used.reduce((sum, { databasePid }) => sum + processorSeconds(databasePid, { tree: true }), 0),
      proxy: processorSeconds(proxy.pid),
    });
    const spentBefore = spent();
    const part = { url: proxy.url, count: options.count, connections: options.connections, size: options.size };
    const total = options.count * used.length;
    await Promise.all(used.map(({ service }) => postMany({ ...part, headers: service.headers })));
    if (!(await sink.reached(before + total, 120_000))) throw new Error('the sink has not seen all mail');
    const spentAfter = spent();
    const perMessage = (of: keyof Cost): number => ((spentAfter[of] - spentBefore[of]) / total) * 1000;
    return { nodes: perMessage('nodes'), databases: perMessage('databases'), proxy: perMessage('proxy') };
  };

  await measure(cells);
  for (let round = 0; round < options.rounds; round += 1) {
    measured.one.push(await measure(cells.slice(0, 1)));
    measured.two.push(await measure(cells));
  }
  table(
    ['cells', 'nodes: cpu ms/msg', 'databases: cpu ms/msg', 'HAProxy: cpu ms/msg'],
    (['one', 'two'] as const).map((name) => [
      name,
      spread(measured[name].map((cost) => cost.nodes)),
      spread(measured[name].map((cost) => cost.databases)),
      spread(measured[name].map((cost) => cost.proxy)),
    ]),
  );
  const factors = measured.one.map((one, i) => {
    const two = measured.two[i]!;
    return (2 * (one.nodes + one.databases)) / (two.nodes + two.databases);
  });
  console.log(`projected: two cells carry ${spread(factors)} times what one does`);
});
