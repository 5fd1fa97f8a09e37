/**
 * Runs one scenario on each database and compares what its operations answer. Ids and times are the same in every run;
 * numbers that a database gives out itself are replaced by the order in which they appeared, bytes by their hex, so that
 * all the rest has to be equal to the letter. Every operation that took part is remembered.
 */
import assert from 'node:assert/strict';
import type { IdPrefix } from '../../src/base/ids.ts';
import type { Database } from '../../src/storage/database.ts';
import { findOperation, type Operation } from '../../src/storage/operation.ts';
import { DIALECTS, type Dialect, type TempDatabase, tempDatabase } from '../kit/temp-database.ts';

export interface Stage {
  readonly dialect: Dialect;
  readonly database: Database;
  /** The time of the scenario: the real one, to the second, the same in all runs. */
  readonly nowMs: number;
  /** The next id of this kind; the later the `atMs`, the greater. */
  id(prefix: IdPrefix, atMs?: number): string;
  /** Runs the operation and records its answer under the operation's name. */
  act<A, R>(op: Operation<A, R>, args: NoInfer<A>): Promise<R>;
  /** The same for a list of rows whose order no statement promises. */
  actUnordered<A, R>(op: Operation<A, R[]>, args: NoInfer<A>): Promise<R[]>;
  /** The same for an operation that answers numbers of rows. */
  actNumbers<A>(op: Operation<A, number[]>, args: NoInfer<A>): Promise<number[]>;
}

export type Scenario = (stage: Stage) => Promise<void>;

/** Members that hold numbers which the database gives out. */
const NUMBERED = new Set(['seq', 'emailSeq', 'email_seq', 'workSeq', 'eventSeq', 'event_seq', 'lastSeq', 'last']);
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Names of the operations that were run on each dialect. */
export const covered: Record<Dialect, Set<string>> = { sqlite: new Set(), postgres: new Set() };

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
      // Where events lie is each database's own affair; that they lie in order shows in every page.
      .filter(([key, member]) => member !== undefined && key !== 'position')
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

const opened = new Map<Dialect, Promise<TempDatabase>>();

/** One database of each kind for all scenarios, which take turns. */
function databaseOf(dialect: Dialect): Promise<TempDatabase> {
  let temp = opened.get(dialect);
  if (!temp) {
    temp = tempDatabase(dialect);
    opened.set(dialect, temp);
  }
  return temp;
}

export async function closeAll(): Promise<void> {
  for (const temp of opened.values()) await (await temp).close();
}

async function perform(scenario: Scenario, dialect: Dialect): Promise<Recorded[]> {
  const temp = await databaseOf(dialect);
  const { database } = temp;
  const transcript: Recorded[] = [];
  const labelsOf = new Map<string, (key: string, seq: number) => string>();
  let made = 0;
  const run = async <A, R>(op: Operation<A, R>, args: A): Promise<R> => {
    findOperation(op.name);
    covered[dialect].add(op.name);
    return database.execute(op, args);
  };
  const keep = (op: string, answer: unknown): void => {
    if (!labelsOf.has(op)) labelsOf.set(op, labels());
    transcript.push({ op, answer: comparable(answer, labelsOf.get(op)!) });
  };
  try {
    await scenario({
      dialect,
      database,
      nowMs: START_MS,
      id: (prefix, atMs = START_MS) => {
        made += 1;
        return `${prefix}_${timeText(atMs)}${String(made).padStart(13, '0')}`;
      },
      act: async (op, args) => {
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

/** Performs the scenario on every database; their transcripts have to be equal, and not empty. */
export async function compare(scenario: Scenario): Promise<void> {
  const [first, ...others] = await Promise.all(DIALECTS.map((dialect) => perform(scenario, dialect)));
  assert.ok(first!.length > 0, 'the scenario did something');
  for (const other of others) {
    for (const [index, record] of first!.entries()) assert.deepEqual(other[index], record, `step ${index + 1}`);
    assert.equal(other.length, first!.length);
  }
}
