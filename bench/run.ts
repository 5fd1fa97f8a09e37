/**
 * `npm run bench [-- row …]`: runs the rows of the benchmarks one after the other, each in a process of its own, since
 * they compete for the same cores. Without arguments all of them.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const rows = ['accept-http', 'relay-dkim', 'micro', 'webhook-fanout', 'start-idle'];
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !rows.includes(name));
if (unknown.length > 0) {
  console.error(`unknown row ${unknown.join(', ')}; known: ${rows.join(', ')}`);
  process.exit(2);
}
let failed = 0;
for (const name of asked.length > 0 ? asked : rows) {
  const file = fileURLToPath(new URL(`./${name}.ts`, import.meta.url));
  const { status } = spawnSync(process.execPath, [file], { stdio: 'inherit' });
  if (status !== 0) failed += 1;
}
process.exit(failed === 0 ? 0 : 1);
