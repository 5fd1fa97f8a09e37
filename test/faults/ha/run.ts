/**
 * `node test/faults/ha/run.ts --kind kill --mode sync --times 20`: fails a highly available PostgreSQL under two nodes of Postrider that
 * often, and prints one row of the table in docs/guides/postgresql-failover.md. With --logs, the logs are kept in that folder. Needs root
 * and Debian's packages patroni, etcd-server, haproxy, and postgresql.
 */
import { parseArgs } from 'node:util';
import { noPatroni, TIMING } from './cluster.ts';
import { KIND_TEXTS, KINDS, type Kind } from './failures.ts';
import { haTrial, type TrialReport } from './trial.ts';

const { values } = parseArgs({
  options: {
    kind: { type: 'string', default: 'kill' },
    mode: { type: 'string', default: 'sync' },
    times: { type: 'string', default: '20' },
    rate: { type: 'string', default: '50' },
    workers: { type: 'string', default: '64' },
    members: { type: 'string', default: '3' },
    via: { type: 'string', default: 'hosts' },
    failsafe: { type: 'boolean', default: false },
    logs: { type: 'string' },
  },
});

function oneOf<T extends string>(name: keyof typeof values, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === values[name]);
  if (found !== undefined) return found;
  console.error(`--${name} is one of ${allowed.join(', ')}`);
  process.exit(2);
}

function positive(name: keyof typeof values): number {
  const value = Number(values[name]);
  if (Number.isInteger(value) && value > 0) return value;
  console.error(`--${name} is a positive whole number`);
  process.exit(2);
}

function medianAndMost(gaps: number[]): string {
  const sorted = gaps.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const median = (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
  return `${median.toFixed(1)} (${sorted.at(-1)!.toFixed(1)})`;
}

function row(kind: Kind, mode: string, report: TrialReport): string {
  const duplicated = report.unexplained === 0 ? report.duplicated : `${report.duplicated} (${report.unexplained}!)`;
  const cells = [
    KIND_TEXTS[kind],
    mode,
    values.via,
    report.failovers,
    report.accepted,
    report.lost,
    report.forgotten,
    report.goneAtMost,
    duplicated,
    report.stuck,
    medianAndMost(report.acceptGaps),
    medianAndMost(report.deliveryGaps),
  ];
  return `| ${cells.join(' | ')} |`;
}

if (noPatroni) {
  console.error(noPatroni);
  process.exit(1);
}
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  // The services end with this process, and the keeper of the network then removes the hosts.
  process.once(signal, () => process.exit(code));
}
const kind = oneOf('kind', KINDS);
const mode = oneOf('mode', ['sync', 'async'] as const);
const options = {
  mode,
  rate: positive('rate'),
  workers: positive('workers'),
  members: positive('members'),
  via: oneOf('via', ['hosts', 'haproxy']),
};
console.log(`Patroni: ${JSON.stringify(TIMING)}; ${JSON.stringify(values)}`);
const report = await haTrial({
  ...options,
  via: options.via as 'hosts' | 'haproxy',
  failsafe: values.failsafe,
  ...(values.logs === undefined ? {} : { logs: values.logs }),
  kinds: Array.from({ length: positive('times') }, () => kind),
  report: console.log,
});
console.log(JSON.stringify(report));
console.log(
  '| failure | replication | connected through | failovers | accepted | lost | delivered, but forgotten | lost or forgotten in one failover, at most | duplicated | stuck | s without a 202, median (longest) | s without a delivery |',
);
console.log(row(kind, mode, report));
process.exitCode =
  report.stuck > 0 || report.strange.length > 0 || (mode === 'sync' && report.lost + report.forgotten > 0) ? 1 : 0;
