/**
 * Weekly partitions of the four tables that grow with every mail, on PostgreSQL. They are created ahead and dropped once everything in them
 * has expired. A week with an unfinished message, or one changed within the retention time, is kept together with all later weeks, since
 * events of that message may be in those. SQLite has no partitions.
 */
import { idFloor } from '../base/ids.ts';
import type { Database } from '../storage/database.ts';
import { operation, type Transaction } from '../storage/operation.ts';
import { timeSeqFloor } from '../storage/rows.ts';
import { UNFINISHED } from './message.ts';

export const PARTITION_MS = 7 * 86_400_000;
const WEEKS_AHEAD = 5;
/** Other statements queue up while a table is altered, so the change gives up early and is retried in the next round. */
const LOCK_TIMEOUT_MS = 1_000;
/** Advisory lock key, unique to Postrider. */
const PARTITIONS_LOCK = 7_091_544_211;

interface Table {
  name: string;
  column: string;
  /** SQL for the first value of the column that was generated at this time. */
  floor(ms: number): string;
  settings: string;
}

const bySeq = (ms: number): string => String(timeSeqFloor(ms));
const byId = (ms: number): string => `'${idFloor('msg', ms)}'`;

const TABLES: Table[] = [
  // Content of a few kilobytes stays in its row: in TOAST it would cost two more rows and two more index entries.
  { name: 'email', column: 'seq', floor: bySeq, settings: 'WITH (toast_tuple_target = 8160)' },
  // A message is updated once or twice: free space on its page avoids index updates.
  { name: 'message', column: 'id', floor: byId, settings: 'WITH (fillfactor = 85)' },
  { name: 'attempt', column: 'message_id', floor: byId, settings: '' },
  { name: 'event', column: 'seq', floor: bySeq, settings: '' },
];

/** The week in which the numbers of time_seq() start; small numbers assigned elsewhere also fall into it. */
const FIRST_WEEK_MS = weekOf(Date.UTC(2026, 0, 1));

function weekOf(ms: number): number {
  return Math.floor(ms / PARTITION_MS) * PARTITION_MS;
}

/** Returns the first day of a week as eight digits. */
function weekName(startMs: number): string {
  return new Date(startMs).toISOString().slice(0, 10).replaceAll('-', '');
}

/** Returns the starts of the weeks that have partitions, in order, with the tables that have one. */
async function existingWeeks(tx: Transaction): Promise<Map<number, Set<string>>> {
  const rows = await tx.all<{ name: string }>(
    `SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent IN (${TABLES.map(({ name }) => `'${name}'::regclass`).join(', ')}) ORDER BY substring(c.relname FROM '[0-9]+$')`,
  );
  const weeks = new Map<number, Set<string>>();
  for (const { name } of rows) {
    const [, table, year, month, day] = /^(.+)_(\d{4})(\d\d)(\d\d)$/.exec(name) ?? [];
    if (table === undefined) continue;
    const startMs = Date.UTC(Number(year), Number(month) - 1, Number(day));
    weeks.set(startMs, (weeks.get(startMs) ?? new Set()).add(table));
  }
  return weeks;
}

/** One node at a time changes partitions. The others wait, since none may write before they exist. */
async function begin(tx: Transaction): Promise<void> {
  await tx.all(`SELECT pg_advisory_xact_lock(${PARTITIONS_LOCK})`);
  await tx.run(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
}

interface WantedPartitions {
  nowMs: number;
  /**
   * For an import, before its rows are inserted: creation times of its messages. Creates their weeks too, and one partition before all
   * weeks for rows that were numbered elsewhere, since each new week scans the default partition.
   */
  importedMs?: number[];
}

/** Creates the partitions of one table for the previous, the current, and the coming weeks; returns how many were missing. */
export const makePartitionsOperation = operation(
  'messages.makePartitions',
  'write',
  async (tx, { nowMs, importedMs, table: wantedTable }: WantedPartitions & { table: string }): Promise<number> => {
    if (tx.dialect === 'sqlite') return 0;
    await begin(tx);
    const weeks = await existingWeeks(tx);
    const thisWeekMs = weekOf(nowMs);
    const wanted = new Set((importedMs ?? []).map(weekOf));
    for (let week = -1; week <= WEEKS_AHEAD; week += 1) wanted.add(thisWeekMs + week * PARTITION_MS);
    const table = TABLES.find(({ name }) => name === wantedTable)!;
    let made = 0;
    for (const startMs of [...wanted].sort((a, b) => a - b)) {
      if (weeks.get(startMs)?.has(table.name) || (table.floor === bySeq && startMs <= FIRST_WEEK_MS)) continue;
      if (await makePartition(tx, table, startMs)) made += 1;
    }
    const firstMs = Math.min(...[...wanted, ...weeks.keys()].filter((startMs) => startMs > FIRST_WEEK_MS));
    if (importedMs !== undefined && Number.isFinite(firstMs)) await makeEarly(tx, table, firstMs);
    return made;
  },
);

/**
 * Creates the partitions of all tables; returns how many were missing. Each table has a transaction of its own: a transaction that locks
 * one table exclusively and waits for another deadlocks with statements that join them.
 */
export async function makePartitions(database: Pick<Database, 'execute'>, wanted: WantedPartitions): Promise<number> {
  let made = 0;
  for (const { name: table } of TABLES) made += await database.execute(makePartitionsOperation, { ...wanted, table });
  return made;
}

/** Numbers from other databases are small and sort before those of all weeks. */
async function makeEarly(tx: Transaction, { name, floor, settings }: Table, firstMs: number): Promise<void> {
  if (floor !== bySeq) return;
  const stray = await tx.get(`SELECT 1 AS found FROM ${name}_rest WHERE seq < ${floor(firstMs)} LIMIT 1`);
  if (stray !== undefined) return;
  await tx.run(
    `CREATE TABLE IF NOT EXISTS ${name}_early PARTITION OF ${name} FOR VALUES FROM (MINVALUE) TO (${floor(firstMs)}) ${settings}`,
  );
}

/** Returns whether this week and the next have their partitions, so that new ones are not urgent. */
export const hasWeeksOperation = operation(
  'messages.hasWeeks',
  'read',
  async (tx, { nowMs }: { nowMs: number }): Promise<boolean> => {
    if (tx.dialect === 'sqlite') return true;
    const weeks = await existingWeeks(tx);
    return [0, PARTITION_MS].every((clockOffsetMs) => weeks.get(weekOf(nowMs) + clockOffsetMs)?.size === TABLES.length);
  },
);

/** Returns false if the default partition already has rows of this week, which then have to stay there. */
async function makePartition(tx: Transaction, table: Table, startMs: number): Promise<boolean> {
  const { name, column, floor, settings } = table;
  const [from, to] = [floor(startMs), floor(startMs + PARTITION_MS)];
  const stray = await tx.get(
    `SELECT 1 AS found FROM ${name}_rest WHERE ${column} >= ${from} AND ${column} < ${to} LIMIT 1`,
  );
  if (stray !== undefined) return false;
  await tx.run(
    `CREATE TABLE ${name}_${weekName(startMs)} PARTITION OF ${name} FOR VALUES FROM (${from}) TO (${to}) ${settings}`,
  );
  return true;
}

/** Drops the oldest week if all of it is from before `beforeMs` and finished; returns whether there may be another one. */
export const dropOldestWeekOperation = operation(
  'messages.dropOldestWeek',
  'write',
  async (tx, { beforeMs }: { beforeMs: number }): Promise<boolean> => {
    if (tx.dialect === 'sqlite') return false;
    await begin(tx);
    const [oldest] = await existingWeeks(tx);
    if (oldest === undefined) return false;
    const [startMs, tables] = oldest;
    if (startMs + PARTITION_MS > beforeMs || (await isNeeded(tx, startMs, { tables, beforeMs }))) return false;
    for (const table of tables) await tx.run(`DROP TABLE ${table}_${weekName(startMs)}`);
    const ids = [idFloor('msg', startMs), idFloor('msg', startMs + PARTITION_MS)];
    // Late events of its messages are in later weeks.
    await tx.run('DELETE FROM event WHERE message_id >= ? AND message_id < ?', ...ids);
    // Messages without a partition of their own are in the default partition.
    if (!tables.has('message')) await tx.run('DELETE FROM message WHERE id >= ? AND id < ?', ...ids);
    await tx.run('DELETE FROM message_share WHERE message_id >= ? AND message_id < ?', ...ids);
    if (!tables.has('attempt')) await tx.run('DELETE FROM attempt WHERE message_id >= ? AND message_id < ?', ...ids);
    return true;
  },
  { slow: true },
);

async function isNeeded(
  tx: Transaction,
  startMs: number,
  { tables, beforeMs }: { tables: ReadonlySet<string>; beforeMs: number },
): Promise<boolean> {
  const week = weekName(startMs);
  if (tables.has('email')) {
    // Blobs are removed by name, together with the content that they hold.
    const named = await tx.get(`SELECT 1 AS found FROM email_${week} WHERE blob_key IS NOT NULL LIMIT 1`);
    if (named !== undefined) return true;
  }
  // Checks all messages of the week: without a partition they are in the default one, though their emails may be in this week's.
  const row = await tx.get(
    `SELECT 1 AS found FROM message WHERE id >= ? AND id < ?
       AND (status IN ${UNFINISHED} OR (mode = 'live' AND updated_at > ?)) LIMIT 1`,
    idFloor('msg', startMs),
    idFloor('msg', startMs + PARTITION_MS),
    beforeMs,
  );
  return row !== undefined;
}
