/**
 * Runs a scenario on each database and compares the results of its operations. Ids and times are the same in every run; numbers that a
 * database generates are replaced by their order of appearance, bytes by hex, so everything else must be exactly equal. Every operation
 * that ran is recorded.
 */
import assert from 'node:assert/strict';
import type { IdPrefix } from '../../src/base/ids.ts';
import type { Database } from '../../src/storage/database.ts';
import { eachCall, findOperation, type Operation } from '../../src/storage/operation.ts';
import { DIALECTS, type TempDatabase, tempDatabase } from '../kit/temp-database.ts';
import { waitUntil } from '../kit/wait-until.ts';

export interface Stage {
  readonly database: Database;
  /** The time of the scenario: the real time in whole seconds, the same in all runs. */
  readonly nowMs: number;
  /** Returns the next id of this kind; ids sort by `atMs`. */
  id(prefix: IdPrefix, atMs?: number): string;
  /** Runs the operation and records its result under the operation's name. */
  act<A, R>(op: Operation<A, R>, args: NoInfer<A>): Promise<R>;
  /** The same for a list of rows without a guaranteed order. */
  actUnordered<A, R>(op: Operation<A, R[]>, args: NoInfer<A>): Promise<R[]>;
  /** The same for an operation that returns row numbers. */
  actNumbers<A, R>(op: Operation<A, R[]>, args: NoInfer<A>): Promise<R[]>;
}

export type Scenario = (stage: Stage) => Promise<void>;

/** Members with numbers that the database generates. */
const NUMBERED = new Set([
  'ref',
  'seq',
  'emailSeq',
  'email_seq',
  'workSeq',
  'eventSeq',
  'event_seq',
  'lastSeq',
  'last',
]);
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * Differences between databases: the position of events (every page shows their order), the database's clock about nodes, the oldest
 * transaction of the server, and for how long claimed work had been due.
 */
const OWN = new Set(['position', 'startedAt', 'seenAt', 'xid', 'database', 'seconds', 'overdueMs']);

/** They follow the log. */
const FOLLOWERS = new Set([
  'events.latest',
  'events.read',
  'events.readPage',
  'events.placeOf',
  'statistics.countStep',
  'statistics.stale',
]);

/** Names of the operations that ran on each variant. */
export const covered = new Map<Variant, Set<string>>();

/** PostgreSQL runs many calls of some operations together, and individually if that fails: both ways are compared. */
const VARIANTS = [...DIALECTS, 'postgres, each alone'] as const;
export type Variant = (typeof VARIANTS)[number] | 'postgres through a pooler';

const START_MS = Math.floor(Date.now() / 1_000) * 1_000;

function timeText(ms: number): string {
  let text = '';
  for (let rest = ms, i = 0; i < 8; i += 1, rest = Math.floor(rest / 62)) text = ALPHABET[rest % 62] + text;
  return text;
}

function comparable(value: unknown, label: (key: string, seq: number) => string): unknown {
  if (value instanceof Uint8Array) return `bytes:${Buffer.from(value).toString('hex')}`;
  if (value instanceof Map) return comparable([...value], label);
  if (Array.isArray(value)) return value.map((one) => comparable(one, label));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries('lost' in value && Array.isArray(value.lost) ? { ...value, lost: value.lost.length } : value)
      .filter(([key, member]) => member !== undefined && !OWN.has(key))
      .map(([key, member]) => [
        key,
        NUMBERED.has(key) && typeof member === 'number' ? label(key, member) : comparable(member, label),
      ]),
  );
}

function labels(): (key: string, seq: number) => string {
  const known = new Map<string, number>();
  return (key, seq) => {
    const name = `${key}:${seq}`;
    if (!known.has(name)) known.set(name, [...known.keys()].filter((one) => one.startsWith(`${key}:`)).length + 1);
    return `${key}#${known.get(name)}`;
  };
}

interface Recorded {
  op: string;
  answer: unknown;
}

const opened = new Map<Variant, Promise<TempDatabase>>();

/** One database of each kind for all scenarios, which run in sequence. */
function databaseOf(variant: Variant): Promise<TempDatabase> {
  const dialect = variant === 'sqlite' ? 'sqlite' : 'postgres';
  let temp = opened.get(variant);
  if (!temp) {
    temp = tempDatabase(dialect);
    opened.set(variant, temp);
  }
  return temp;
}

/** Uses this database for the variant; closed with the others. */
export function provide(variant: Variant, temp: TempDatabase): void {
  opened.set(variant, Promise.resolve(temp));
}

export async function closeAll(): Promise<void> {
  for (const temp of opened.values()) await (await temp).close();
}

/** Following the log shows no event that a running transaction on the server might still precede. */
async function untilSettled(database: Database): Promise<void> {
  if (database.dialect === 'sqlite') return;
  const bounds = (end: 'xmin' | 'xmax'): Promise<number> =>
    database.execute(
      {
        name: `test.${end}`,
        mode: 'read',
        run: eachCall(async (tx) => {
          const row = await tx.get<{ id: number }>(
            `SELECT pg_snapshot_${end}(pg_current_snapshot())::text::bigint AS id`,
          );
          return row!.id;
        }),
      },
      null,
    );
  const end = await bounds('xmax');
  await waitUntil('earlier transactions to end', async () => (await bounds('xmin')) >= end);
}

async function perform(scenario: Scenario, variant: Variant): Promise<Recorded[]> {
  const temp = await databaseOf(variant);
  const { database } = temp;
  const transcript: Recorded[] = [];
  const labelsOf = new Map<string, (key: string, seq: number) => string>();
  let made = 0;
  const taken = covered.get(variant) ?? new Set();
  covered.set(variant, taken);
  const run = async <A, R>(op: Operation<A, R>, args: A): Promise<R> => {
    findOperation(op.name);
    taken.add(op.name);
    if (variant !== 'postgres, each alone') return database.execute(op, args);
    return database.execute({ ...op, isSet: false }, args);
  };
  const keep = (op: string, answer: unknown): void => {
    if (!labelsOf.has(op)) labelsOf.set(op, labels());
    transcript.push({ op, answer: comparable(answer, labelsOf.get(op)!) });
  };
  try {
    await scenario({
      database,
      nowMs: START_MS,
      id: (prefix, atMs = START_MS) => {
        made += 1;
        return `${prefix}_${timeText(atMs)}${String(made).padStart(13, '0')}`;
      },
      act: async (op, args) => {
        if (FOLLOWERS.has(op.name)) await untilSettled(database);
        const answer = await run(op, args);
        keep(op.name, answer);
        return answer;
      },
      actUnordered: async (op, args) => {
        const answer = await run(op, args);
        keep(op.name, (comparable(answer, () => '') as unknown[]).map((one) => JSON.stringify(one)).sort());
        return answer;
      },
      actNumbers: async (op, args) => {
        const answer = await run(op, args);
        keep(op.name, answer.length);
        return answer;
      },
    });
    return transcript;
  } finally {
    await temp.empty();
  }
}

/** Runs the scenario on every variant; the transcripts must be equal and not empty. */
export async function compare(scenario: Scenario, variants: readonly Variant[] = VARIANTS): Promise<void> {
  const performed = await Promise.allSettled(variants.map((variant) => perform(scenario, variant)));
  // All have ended, so that none still uses its database when the next scenario begins.
  const [first, ...others] = performed.map((one) => {
    if (one.status === 'rejected') throw one.reason;
    return one.value;
  });
  assert.ok(first!.length > 0, 'the scenario did something');
  for (const [way, other] of others.entries()) {
    for (const [index, record] of first!.entries()) {
      assert.deepEqual(other[index], record, `${variants[way + 1]}, step ${index + 1}`);
    }
    assert.equal(other.length, first!.length);
  }
}
