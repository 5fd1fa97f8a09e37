/**
 * Changes that are recorded in the audit log. An operation defined by `change()` has a trail; if it is executed through `changedBy()`, the
 * same transaction stores an entry with the resource before and after. Guarantees:
 * - a change and its entry are committed together, or neither is;
 * - a change without effect on the columns that a trail records or compares writes no entry;
 * - only columns that a trail names are recorded, and no trail names a secret.
 * The database refuses to change or delete entries younger than 400 days (see the audit migration).
 */
import { isDeepStrictEqual } from 'node:util';
import type { Actor } from '../base/actor.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import {
  findOperation,
  locked,
  type Operation,
  operation,
  runWithin,
  type SqlValue,
  type Transaction,
} from '../storage/operation.ts';
import { insertMany, table } from '../storage/rows.ts';

/** Who makes a change, from where, and when. */
export interface Origin {
  readonly atMs: number;
  readonly actor: Actor;
  /** Used if the changed row does not name its account. */
  readonly accountId: string | null;
  readonly mode: Mode | null;
  readonly address: string | null;
  readonly requestId: string | null;
}

interface Trail<A, R> {
  /** Name in `GET /audit`: `webhook.replace`. The part before the dot is the resource. */
  readonly action: string | ((args: A) => string);
  /** The table of the changed row, and its columns. Only the columns in `shows` are recorded. */
  readonly table?: string;
  readonly shows?: readonly string[];
  /** Further columns that are compared: a change of them alone is recorded too, without the values. */
  readonly compares?: readonly string[];
  /** Columns that identify the row; by default the `id` of the arguments. */
  readonly where?: (args: A) => Readonly<Record<string, SqlValue>>;
  /** Id of the resource; by default the value that identifies the row. */
  readonly resourceId?: (args: A, result: R) => string | null;
  /** For a change without a single row: what it did, or undefined if nothing changed. */
  readonly did?: (args: A, result: R) => Shown | undefined;
}

type Shown = Readonly<Record<string, unknown>>;

const AUDIT = table('audit', {
  id: 'text',
  accountId: 'text?',
  mode: 'text?',
  at: 'int',
  actorKind: 'text',
  actorId: 'text?',
  actorName: 'text?',
  address: 'text?',
  requestId: 'text?',
  action: 'text',
  resource: 'text',
  resourceId: 'text?',
  beforeChange: 'text?',
  afterChange: 'text?',
});

/** Longer texts (a template's html) are cut; template versions are stored completely elsewhere. */
const SHOWN_TEXT = 2_000;

const trails = new Map<string, Trail<never, never>>();

/** Defines an operation that writes an audit entry if it is executed through `changedBy()`; otherwise it behaves as `operation()`. */
export function change<A, R>(
  name: string,
  run: (tx: Transaction, args: A) => Promise<R> | R,
  trail: Trail<NoInfer<A>, NoInfer<R>>,
): Operation<A, R> {
  trails.set(name, trail);
  return operation(name, 'write', run);
}

/** Returns the database with an origin: changes executed through it write audit entries with that origin. */
export function changedBy(database: Database, by: Origin): Database {
  const execute = <A, R>(op: Operation<A, R>, args: A): Promise<R> =>
    trails.has(op.name)
      ? (database.execute(changeOperation, { name: op.name, args, by, id: newId('aud', by.atMs) }) as Promise<R>)
      : database.execute(op, args);
  return { ...database, execute };
}

interface Change {
  name: string;
  args: unknown;
  by: Origin;
  id: string;
}

export const changeOperation = operation('audit.change', 'write', async (tx, { name, args, by, id }: Change) => {
  const trail = trails.get(name) as Trail<unknown, unknown>;
  const rowBefore = await readRow(tx, trail, args);
  const result = await runWithin(tx, findOperation(name), args);
  const rowAfter = await readRow(tx, trail, args);
  const before = shownOf(trail, rowBefore);
  const after = trail.did?.(args, result) ?? shownOf(trail, rowAfter);
  if (JSON.stringify(before) === JSON.stringify(after) && isSame(trail, rowBefore, rowAfter)) return result;
  const row = rowAfter ?? rowBefore;
  const resourceId = resourceIdOf(trail, args, result);
  await append(tx, { id, by, action: actionOf(trail, args), resourceId, before, after, ...ownerOf(row, by) });
  return result;
});

/** Compares the complete values, of which long ones are recorded in part. */
function isSame<A, R>({ shows = [], compares = [] }: Trail<A, R>, before: Shown = {}, after: Shown = {}): boolean {
  return [...shows, ...compares].every((column) => isDeepStrictEqual(before[column], after[column]));
}

function ownerOf(row: Shown | undefined, by: Origin): { accountId: string | null; mode: string | null } {
  const named = row as { account_id?: string; mode?: string } | undefined;
  return { accountId: named?.account_id ?? by.accountId, mode: named?.mode ?? by.mode };
}

async function readRow<A, R>(tx: Transaction, trail: Trail<A, R>, args: A): Promise<Shown | undefined> {
  if (trail.table === undefined) return undefined;
  const keys = Object.entries(keyOf(trail, args));
  const found = keys.map(([column]) => `${column} = ?`).join(' AND ');
  return tx.get<Shown>(`SELECT * FROM ${trail.table} WHERE ${found} ${locked(tx)}`, ...keys.map(([, value]) => value));
}

function keyOf<A, R>(trail: Trail<A, R>, args: A): Readonly<Record<string, SqlValue>> {
  return trail.where?.(args) ?? { id: (args as { id: string }).id };
}

function actionOf<A, R>({ action }: Trail<A, R>, args: A): string {
  return typeof action === 'string' ? action : action(args);
}

function resourceIdOf<A, R>(trail: Trail<A, R>, args: A, result: R): string | null {
  if (trail.resourceId !== undefined) return trail.resourceId(args, result);
  return trail.table === undefined ? null : String(Object.values(keyOf(trail, args)).at(-1));
}

/** Returns the recorded columns, by their API names. */
function shownOf<A, R>({ shows = [] }: Trail<A, R>, row: Shown | undefined): Shown | undefined {
  if (row === undefined) return undefined;
  return Object.fromEntries(shows.map((column) => [fieldName(column), shownValue(column, row[column])]));
}

function fieldName(column: string): string {
  return column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function shownValue(column: string, value: unknown): unknown {
  if (typeof value === 'number' && /_(at|until|since)$/.test(column)) return new Date(value).toISOString();
  if (typeof value === 'number' && column.endsWith('_required')) return value === 1;
  if (typeof value !== 'string') return value ?? null;
  if (value.length > SHOWN_TEXT) return `${value.slice(0, SHOWN_TEXT).toWellFormed()}… (${value.length} characters)`;
  return /^[[{]/.test(value) ? parsed(value) : value;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

interface Entry {
  id: string;
  by: Origin;
  accountId: string | null;
  mode: string | null;
  action: string;
  resourceId: string | null;
  before?: Shown | undefined;
  after?: Shown | undefined;
}

async function append(tx: Transaction, { by, action, before, after, ...row }: Entry): Promise<void> {
  const { actor, atMs: at, address, requestId } = by;
  await insertMany(tx, AUDIT, [
    {
      ...row,
      at,
      address,
      requestId,
      action,
      resource: action.slice(0, action.indexOf('.')),
      actorKind: actor.kind,
      actorId: actor.id || null,
      actorName: actor.name || null,
      beforeChange: before === undefined ? null : JSON.stringify(before),
      afterChange: after === undefined ? null : JSON.stringify(after),
    },
  ]);
}

/** Writes an audit entry alone, for a change that spans many transactions. */
export const recordChangeOperation = change(
  'audit.record',
  (_tx, _asked: { action: string; resourceId: string | null; requested: Shown }) => undefined,
  {
    action: ({ action }) => action,
    resourceId: ({ resourceId }) => resourceId,
    did: ({ requested }) => requested,
  },
);
