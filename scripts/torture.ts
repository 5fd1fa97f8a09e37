/**
 * `npm run torture [-- --seconds 600 --nodes 3]`: several nodes on PostgreSQL and S3 under load, a node killed every five seconds
 * and the database restarted every ten, for as long as asked, judged by a ledger. Prints what was done and what came of it;
 * exits with 1 at the first broken promise. The tests run the same for a minute.
 */
import { parseArgs } from 'node:util';
import { underFire } from '../test/faults/nodes-fire.ts';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '600' }, nodes: { type: 'string', default: '3' } },
});
const [seconds, nodes] = [Number(values.seconds), Number(values.nodes)];
if (!(seconds > 0) || !(Number.isInteger(nodes) && nodes > 0)) {
  console.error('--seconds and --nodes are positive numbers');
  process.exit(2);
}
console.log(`${nodes} nodes under fire for ${seconds} seconds`);
try {
  const report = await underFire({ seconds, nodes });
  console.log(JSON.stringify(report, null, 2));
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
