/**
 * `npm run torture [-- --seconds 600 --nodes 3]`: several nodes on PostgreSQL and S3 under load, with a node killed every five seconds and
 * the database restarted every ten, checked against a ledger. With `--kills 500` instead: one service on the embedded database, killed that
 * often at random moments, under load; with `--power-cuts 300`: one service on a disk whose power is cut that often (root and Linux). Prints
 * what was done and its result; exits with 1 at the first broken promise. The tests run short forms of all three.
 */
import { parseArgs } from 'node:util';
import { killTrial } from '../test/faults/kill-trial.ts';
import { killUnderLoad } from '../test/faults/node-kills.ts';
import { powerCuts } from '../test/faults/power-trial.ts';
import { cannotCutPower } from '../test/kit/cut-disk.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '600' },
    nodes: { type: 'string', default: '3' },
    kills: { type: 'string' },
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
  if (values.kills !== undefined) {
    const kills = positive('kills', true);
    console.log(`${kills} kills`);
    return killTrial({ kills, workers: 8, between: [40, 250] });
  }
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
