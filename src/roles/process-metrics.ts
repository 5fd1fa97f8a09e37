/** Metrics of the process and its database: versions, duration of operations, and connections to a database server. */
import type { GaugeOptions, Metrics } from '../base/metrics.ts';
import { VERSION } from '../config.ts';
import type { Database, PoolState } from '../storage/database.ts';
import type { Operation } from '../storage/operation.ts';

export function measureBuild({ readGaugeFrom }: Metrics): void {
  const build = { name: 'postrider_build_info', help: 'Version of Postrider and of Node.js; always 1.' };
  readGaugeFrom(build, () => [{ labels: { version: VERSION, node: process.versions.node }, value: 1 }]);
}

/** Returns the database with each operation timed, failed ones too. */
export function measureDatabase(database: Database, metrics: Metrics): Database {
  const { operationSeconds } = metrics;
  if (database.pool) measurePool(metrics, database.pool);
  const execute = <A, R>(op: Operation<A, R>, args: A): Promise<R> => {
    const startedMs = performance.now();
    const result = database.execute(op, args);
    const note = (): void => operationSeconds[op.mode].observe((performance.now() - startedMs) / 1000);
    // The caller gets the original promise, so measuring does not delay it.
    result.then(note, note);
    return result;
  };
  return { ...database, execute };
}

function measurePool({ readGaugeFrom }: Metrics, pool: () => PoolState): void {
  const max: GaugeOptions = {
    name: 'postrider_database_pool_max_connections',
    help: 'Connections that this process opens to the database server at most.',
    combined: 'sum',
  };
  readGaugeFrom(max, () => [{ labels: {}, value: pool().max }]);
  const connections: GaugeOptions = {
    name: 'postrider_database_pool_connections',
    help: 'Connections of this process to the database server, by state.',
    combined: 'sum',
  };
  readGaugeFrom(connections, () => {
    const { inUse, idle } = pool();
    return [
      { labels: { state: 'in-use' }, value: inUse },
      { labels: { state: 'idle' }, value: idle },
    ];
  });
  const waiting: GaugeOptions = {
    name: 'postrider_database_pool_waiting_operations',
    help: 'Database operations that wait for a connection.',
    combined: 'sum',
  };
  readGaugeFrom(waiting, () => [{ labels: {}, value: pool().waiting }]);
}
