/**
 * `npm run bench [-- row …]`: runs the benchmark rows in sequence, each in its own process, since they compete for the same cores. Without
 * arguments all of them.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Script and options of each row. */
const ROWS: Record<string, string[]> = {
  'accept-http': ['accept-http.ts'],
  'accept-postgres': ['accept-http.ts', '--postgres', '1'],
  'smtp-accept': ['smtp.ts', '--row', 'accept'],
  'smtp-connections': ['smtp.ts', '--row', 'connections'],
  'smtp-relay': ['smtp.ts', '--row', 'relay'],
  'smtp-relay-dkim': ['smtp.ts', '--row', 'dkim'],
  'relay-dkim': ['relay-dkim.ts'],
  'relay-postgres': ['relay-dkim.ts', '--systems', 'postrider,postrider-postgres'],
  scaling: ['scaling.ts'],
  processes: ['processes.ts'],
  cells: ['cells.ts'],
  'open-transaction': ['open-transaction.ts'],
  claims: ['claims.ts'],
  world: ['world.ts'],
  latency: ['latency.ts'],
  deferred: ['deferred.ts'],
  'reports-beside': ['reports-beside.ts'],
  'long-queue': ['long-queue.ts'],
  micro: ['micro.ts'],
  'webhook-fanout': ['webhook-fanout.ts'],
  'event-log': ['event-log.ts'],
  search: ['search.ts'],
  'search-postgres': ['search.ts', '--postgres', '1'],
  statistics: ['statistics.ts'],
  'start-idle': ['start-idle.ts'],
  'large-delivery': ['large-delivery.ts'],
  upload: ['upload.ts'],
  'large-memory': ['large-memory.ts'],
};

const asked = process.argv.slice(2);
const names = asked.length > 0 ? asked : Object.keys(ROWS);
const unknown = names.filter((name) => !Object.hasOwn(ROWS, name));
if (unknown.length > 0) {
  console.error(`unknown row ${unknown.join(', ')}; known: ${Object.keys(ROWS).join(', ')}`);
  process.exit(2);
}
let failed = 0;
for (const name of names) {
  const [script, ...options] = ROWS[name]!;
  const file = fileURLToPath(new URL(`./${script}`, import.meta.url));
  const { status } = spawnSync(process.execPath, [file, ...options], { stdio: 'inherit' });
  if (status !== 0) failed += 1;
}
process.exit(failed === 0 ? 0 : 1);
