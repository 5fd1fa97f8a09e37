/**
 * `npm run torture [-- --seconds 600 --nodes 3]`: several nodes on PostgreSQL and S3 under load, with a node killed every five seconds and
 * the database restarted every ten, checked against a ledger. With `--power-cuts 300` instead: one service on a disk whose power is cut
 * that often, under load (root and Linux). Prints what was done and its result; exits with 1 at the first broken promise. The tests run the
 * same for a minute.
 */
import { parseArgs } from 'node:util';
import { killUnderLoad } from '../test/faults/node-kills.ts';
import { powerCuts } from '../test/faults/power-trial.ts';
import { cannotCutPower } from '../test/kit/cut-disk.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '600' },
    nodes: { type: 'string', default: '3' },
    'power-cuts': { type: 'string' },
  },
});

function positive(name: keyof typeof values, isWhole: boolean): number {
  const value = Number(values[name]);
  if (value > 0 && (!isWhole || Number.isInteger(value))) return value;
  console.error(`--${name} is a positive number`);
  process.exit(2);
}

async function run(): Promise<object> {
  if (values['power-cuts'] === undefined) {
    const [seconds, nodes] = [positive('seconds', false), positive('nodes', true)];
    console.log(`${nodes} nodes under fire for ${seconds} seconds`);
    return killUnderLoad({ seconds, nodes });
  }
  const reason = cannotCutPower();
  if (reason) throw new Error(reason);
  const cuts = positive('power-cuts', true);
  console.log(`${cuts} power cuts`);
  return powerCuts(cuts, (one) => console.log(JSON.stringify(one)));
}

try {
  console.log(JSON.stringify(await run(), null, 2));
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
