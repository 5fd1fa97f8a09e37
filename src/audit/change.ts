/**
 * Changes that leave a row in the audit log. An operation defined by `change()` has a trail; executed through `changedBy()` it runs
 * in one transaction with the row that shows its resource before and after it. Always true:
 * - a change and its row are committed together, or neither is;
 * - what changes nothing of what the trail shows leaves no row;
 * - only columns that a trail names are shown, and no trail names a secret.
 * The database refuses to change or remove rows younger than 400 days (the migration of audit).
 */
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

/** Somebody, somewhere, at some time. */
export interface Origin {
  readonly atMs: number;
  readonly actor: Actor;
  /** Where the changed row does not name its account. */
  readonly accountId: string | null;
  readonly mode: Mode | null;
  /** Of the client. */
  readonly address: string | null;
  readonly requestId: string | null;
}

interface Trail<A, R> {
  /** As `GET /audit` names it: `webhook.replace`. What stands before the dot is the resource. */
  readonly action: string | ((args: A) => string);
  /** The row that is changed: its table, by these columns. Shown are those of `shows`. */
  readonly table?: string;
  readonly shows?: readonly string[];
  /** How the row is found; by `id` of the arguments when left out. */
  readonly where?: (args: A) => Readonly<Record<string, SqlValue>>;
  /** Id of the resource; what found the row when left out. */
  readonly resourceId?: (args: A, result: R) => string | null;
  /** For a change that no single row shows: what it did, or undefined when nothing was changed. */
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

/** Longer texts (a template's html) are cut: the versions of a template are kept whole elsewhere. */
const SHOWN_TEXT = 2_000;

/** By the name of the operation. */
const trails = new Map<string, Trail<never, never>>();

/** Defines an operation that leaves a row when somebody asks for it through `changedBy()`; else as `operation()`. */
export function change<A, R>(
  name: string,
  run: (tx: Transaction, args: A) => Promise<R> | R,
  trail: Trail<NoInfer<A>, NoInfer<R>>,
): Operation<A, R> {
  trails.set(name, trail);
  return operation(name, 'write', run);
}

/** The database in the hands of somebody: what changes something leaves a row that names them. */
export function changedBy(database: Database, by: Origin): Database {
  const execute = <A, R>(op: Operation<A, R>, args: A): Promise<R> =>
    trails.has(op.name)
      ? (database.execute(changeOperation, { name: op.name, args, by, id: newId('aud', by.atMs) }) as Promise<R>)
      : database.execute(op, args);
  return { ...database, execute };
}

interface Change {
  /** Of the operation. */
  name: string;
  args: unknown;
  by: Origin;
  /** Of the row. */
  id: string;
}

export const changeOperation = operation('audit.change', 'write', async (tx, { name, args, by, id }: Change) => {
  const trail = trails.get(name) as Trail<unknown, unknown>;
  const rowBefore = await readRow(tx, trail, args);
  const result = await runWithin(tx, findOperation(name), args);
  const rowAfter = await readRow(tx, trail, args);
  const before = shownOf(trail, rowBefore);
  const after = trail.did?.(args, result) ?? shownOf(trail, rowAfter);
  if (JSON.stringify(before) === JSON.stringify(after)) return result;
  const row = rowAfter ?? rowBefore;
  const resourceId = resourceIdOf(trail, args, result);
  await append(tx, { ...{ id, by, action: actionOf(trail, args), resourceId, before, after }, ...ownerOf(row, by) });
  return result;
});

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

/** The columns that may be shown, by the names of the API. */
function shownOf<A, R>({ shows = [] }: Trail<A, R>, row: Shown | undefined): Shown | undefined {
  if (row === undefined) return undefined;
  return Object.fromEntries(shows.map((column) => [fieldName(column), shownValue(column, row[column])]));
}

function fieldName(column: string): string {
  return column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function shownValue(column: string, value: unknown): unknown {
  if (typeof value === 'number' && /_(at|until|since)$/.test(column)) return new Date(value).toISOString();
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
      ...{ ...row, at, address, requestId, action, resource: action.slice(0, action.indexOf('.')) },
      ...{ actorKind: actor.kind, actorId: actor.id || null, actorName: actor.name || null },
      beforeChange: before === undefined ? null : JSON.stringify(before),
      afterChange: after === undefined ? null : JSON.stringify(after),
    },
  ]);
}

/** A row by itself, executed in the name of somebody: for a change that takes many transactions. */
export const recordChangeOperation = change(
  'audit.record',
  (_tx, _asked: { action: string; resourceId: string | null; asked: Shown }) => undefined,
  {
    action: ({ action }) => action,
    resourceId: ({ resourceId }) => resourceId,
    did: ({ asked }) => asked,
  },
);
