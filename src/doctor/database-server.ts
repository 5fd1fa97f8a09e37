/** Checks a PostgreSQL server for dead rows and replication slots, which make the queue slow after weeks. */
import type { ServerHealth, SnapshotHolder } from '../storage/server-health.ts';
import { type Check, ok, warn } from './check.ts';

/** Fewer dead rows are normal between two runs of autovacuum. */
const DEAD_ROWS = 1_000_000;
/** In transactions. Postrider and backups hold snapshots for a much shorter time. */
const SNAPSHOT_AGE = 5_000_000;
const RETAINED_BYTES = 10e9;

const millions = (count: number): string => `${(count / 1e6).toFixed(1)} million`;

function remedyFor({ kind, name }: SnapshotHolder): string {
  if (kind === 'replication slot') return `Start its consumer, or drop it: SELECT pg_drop_replication_slot('${name}').`;
  if (kind === 'prepared transaction') return `Commit it or roll it back: ROLLBACK PREPARED '${name}'.`;
  return 'End the session: SELECT pg_terminate_backend(pid).';
}

function checkRows({ holder, tables }: ServerHealth): Check[] {
  const isOld = holder !== null && holder.transactions > SNAPSHOT_AGE;
  const bloated = tables.filter(({ dead, live }) => dead > DEAD_ROWS && dead > live);
  const [worst] = bloated.toSorted((one, other) => other.dead - one.dead);
  if (isOld)
    return [
      warn(
        'dead rows',
        `the ${holder.kind} ${holder.name} has held a snapshot for ${millions(holder.transactions)} transactions, so VACUUM cannot remove rows that were deleted since, and the queue becomes slow`,
        remedyFor(holder),
      ),
    ];
  if (!worst) return [];
  return [
    warn(
      'dead rows',
      `the table ${worst.table} has ${millions(worst.dead)} dead rows and ${millions(worst.live)} live rows, so its queries become slow`,
      `Check that autovacuum is on and keeps up, and run VACUUM ${worst.table}.`,
    ),
  ];
}

const checkSlots = ({ slots }: ServerHealth): Check[] =>
  slots
    .filter(({ retainedBytes }) => retainedBytes > RETAINED_BYTES)
    .map(({ slot, active, retainedBytes }) =>
      warn(
        'replication slot',
        `the ${active === 1 ? '' : 'inactive '}slot ${slot} retains ${Math.round(retainedBytes / 1e9)} GB of write-ahead log, which can fill the disk of the database`,
        `Start its consumer, or drop it: SELECT pg_drop_replication_slot('${slot}'). max_slot_wal_keep_size limits what slots retain.`,
      ),
    );

/** Returns the problems, or one successful check; returns no check for SQLite. */
export function checkDatabaseServer(health: ServerHealth | null): Check[] {
  if (health === null) return [];
  const problems = [...checkRows(health), ...checkSlots(health)];
  const dead = health.tables.reduce((sum, one) => sum + one.dead, 0);
  return problems.length > 0
    ? problems
    : [ok('dead rows', `the tables have ${dead} dead rows, and nothing holds an old snapshot`)];
}
