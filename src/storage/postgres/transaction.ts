/**
 * Transactions of one connection. Statements are sent without waiting when nothing depends on their result: BEGIN goes out with the first
 * statement, and statements that an operation does not await go out with the COMMIT.
 *
 *   open ──COMMIT──▶ committing ──the server confirms──▶ committed: resolves
 *    │                   ├──with a warning: the server stopped waiting for a standby──▶ outcome unknown: a failover may lose it
 *    │                   ├──an ERROR of the server──▶ rolled back: rejects with it
 *    │                   └──no reply, the session's end, a pooler's error──▶ outcome unknown: rejects, and is never run again
 *    ├──a statement fails──▶ failed: the COMMIT after it rolls back; rejects with the first error
 *    ├──the connection is lost──▶ nothing was committed: rejects, unless a COMMIT was sent already
 *    └──the operation throws──▶ ROLLBACK: rejects with the first error of a statement, or the thrown error
 *
 * A read-only transaction has no unknown outcome. Timeouts and synchronous_commit are set once per connection, and through a pooler with
 * every BEGIN, since PgBouncer does not pass them as connection parameters. A server setting that is changed while sessions are open
 * therefore weakens no commit. A process that stops during a transaction loses its locks after IDLE_MS.
 *
 * For PostgreSQL, `?` becomes `$1`, `$2` …, once per text. Statements that are used repeatedly are prepared on the server under a name;
 * texts that are built for one query (list filters) stay unnamed, so that the server's memory does not grow with their number.
 */
import type { Client, QueryResult } from 'pg';
import type { Row, SqlValue, Transaction } from '../operation.ts';
import { classifyCommitError, classifyError, StatementError, unconfirmedCommit } from './errors.ts';

interface Statement {
  text: string;
  /** The name to prepare it under, from its third use on. */
  name: string | undefined;
}

interface Known {
  text: string;
  uses: number;
  named: Statement | undefined;
}

const MAX_KNOWN = 1_000;
const MAX_NAMED = 250;
const NAME_FROM_USE = 3;

/** Translates a statement; literals and quoted names keep their question marks. */
export function translate(sql: string): string {
  let text = '';
  let parameters = 0;
  let quote = '';
  for (const character of sql) {
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if (character === "'" || character === '"') quote = character;
    else if (character === '?') {
      parameters += 1;
      text += `$${parameters}`;
      continue;
    }
    text += character;
  }
  return text;
}

/** Caches the statements of one connection by text. */
export function statementNames(): (sql: string) => Statement {
  const known = new Map<string, Known>();
  let names = 0;
  return (sql) => {
    let found = known.get(sql);
    if (!found) {
      found = { text: translate(sql), uses: 0, named: undefined };
      if (known.size < MAX_KNOWN) known.set(sql, found);
    }
    if (found.named) return found.named;
    found.uses += 1;
    if (found.uses >= NAME_FROM_USE && names < MAX_NAMED) {
      names += 1;
      found.named = { text: found.text, name: `postrider_${names}` };
      return found.named;
    }
    return { text: found.text, name: undefined };
  };
}

const LOCK_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 20_000;
const IDLE_MS = 10_000;
export const SLOW_MS = 600_000;

/**
 * Every statement finds few rows by an index. Plans that scan and hash complete tables only look cheaper if statistics are stale or wrong.
 */
const SETTINGS = {
  lock_timeout: LOCK_TIMEOUT_MS,
  statement_timeout: STATEMENT_TIMEOUT_MS,
  idle_in_transaction_session_timeout: IDLE_MS,
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  max_parallel_workers_per_gather: 0,
  jit: 'off',
};

export const settings = (verb: 'SET' | 'SET LOCAL', values: Record<string, string | number> = SETTINGS): string =>
  Object.entries(values)
    .map(([name, value]) => `; ${verb} ${name} = ${value}`)
    .join('')
    .slice(2);

const BEGIN = {
  write: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
  slow: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
  read: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
};
/** How a transaction is run; `slow` is a write that may take minutes. */
export type TransactionMode = keyof typeof BEGIN;

/** Session settings must be repeated in every transaction if a pooler shares sessions. */
function beginText(mode: TransactionMode, { direct, synchronousCommit }: Session): string {
  const parts = [BEGIN[mode]];
  if (!direct) {
    parts.push(settings('SET LOCAL'));
    // Settings that another client of the pooler left in the session must not weaken a commit.
    if (mode !== 'read') parts.push(settings('SET LOCAL', { synchronous_commit: synchronousCommit }));
  }
  if (mode === 'slow') parts.push(settings('SET LOCAL', { statement_timeout: SLOW_MS }));
  return parts.join('; ');
}

/** The part of a connection that a transaction uses. */
export interface Session {
  readonly client: Client;
  /** There is no pooler that shares sessions, so prepared statements persist. */
  readonly direct: boolean;
  /** The synchronous_commit level of transactions, regardless of later changes of the server's setting. */
  readonly synchronousCommit: string;
  /** Translates a statement, and names it if it is used often. */
  statementOf(sql: string): Statement;
  /** The server's last warning; cleared at the start of a transaction. */
  warning: string | undefined;
  /** Set once the connection must be closed. */
  readonly broken: string | undefined;
}

/** PostgreSQL does not store NUL in texts; it is replaced so that the text keeps its length. */
function asParameter(value: SqlValue): unknown {
  return typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\uFFFD') : value;
}

/**
 * Runs one transaction; rejects with StatementError, or with the error that `work` threw. Unless it resolves, nothing was committed, except
 * for an unknown outcome.
 */
export async function transact<R>(
  session: Session,
  mode: TransactionMode,
  work: (tx: Transaction) => Promise<R> | R,
): Promise<R> {
  const statements = new Statements(session);
  statements.begin(mode);
  let value: R;
  try {
    value = await work(statements.transaction());
  } catch (error) {
    statements.close();
    await session.client.query('ROLLBACK').catch(() => undefined);
    throw statements.firstError ?? error;
  }
  statements.close();
  await commit(session, mode, statements);
  return value;
}

async function commit(session: Session, mode: TransactionMode, statements: Statements): Promise<void> {
  // A transaction that is already lost gets no COMMIT.
  const wasLost = statements.firstError !== undefined || session.broken !== undefined;
  let ended: QueryResult;
  try {
    corkWrites(session.client);
    ended = await session.client.query('COMMIT');
  } catch (error) {
    const { firstError } = statements;
    if (mode === 'read' || wasLost) throw firstError ?? new StatementError(classifyError(error));
    // The COMMIT after a refused statement commits nothing, whatever its own reply is.
    throw firstError?.meaning.isFromServer ? firstError : new StatementError(classifyCommitError(error));
  }
  // The COMMIT of a failed transaction rolls it back and reports that. Earlier statements were answered before it.
  if (statements.firstError) throw statements.firstError;
  if (ended.command !== 'COMMIT') throw new Error('the transaction was rolled back without an error');
  if (mode !== 'read' && session.warning !== undefined) throw new StatementError(unconfirmedCommit(session.warning));
}

/**
 * Sends the statements of one turn of the event loop in one write. The driver writes each statement separately, and each write is a system
 * call that wakes the server's process.
 */
function corkWrites({ connection: { stream } }: Client): void {
  stream.cork();
  process.nextTick(() => stream.uncork());
}

/** The statements of one transaction. After a failed one, the others only report that the transaction is aborted. */
class Statements {
  firstError: StatementError | undefined;
  readonly #session: Session;
  #isClosed = false;

  constructor(session: Session) {
    this.#session = session;
  }

  begin(mode: TransactionMode): void {
    this.#session.warning = undefined;
    corkWrites(this.#session.client);
    void this.#watch(this.#session.client.query(beginText(mode, this.#session)));
  }

  close(): void {
    this.#isClosed = true;
  }

  transaction(): Transaction {
    return {
      dialect: 'postgres',
      all: <T = Row>(sql: string, ...params: SqlValue[]) => this.#send(sql, params, ({ rows }) => rows as T[]),
      get: <T = Row>(sql: string, ...params: SqlValue[]) =>
        this.#send(sql, params, ({ rows }) => rows[0] as T | undefined),
      run: (sql: string, ...params: SqlValue[]) => this.#send(sql, params, ({ rowCount }) => rowCount ?? 0),
    };
  }

  #send<T>(sql: string, params: SqlValue[], pick: (result: QueryResult) => T): Promise<T> {
    if (this.#isClosed) throw new Error('a statement was sent after its operation had ended');
    const { client, direct } = this.#session;
    const { text, name } = this.#session.statementOf(sql);
    const values = params.map(asParameter);
    corkWrites(client);
    // Watched from the start, so that an error is known before the reply to a COMMIT that was sent after it.
    const result = this.#watch(client.query(direct && name !== undefined ? { text, name, values } : { text, values }));
    const picked = result.then(pick);
    picked.catch(() => undefined);
    return picked;
  }

  /** Keeps the first error, so that the promise need not be awaited. */
  #watch<T>(sent: Promise<T>): Promise<T> {
    const watched = sent.catch((error: unknown) => {
      this.firstError ??= new StatementError(classifyError(error));
      throw this.firstError;
    });
    watched.catch(() => undefined);
    return watched;
  }
}
