/**
 * What an error of the PostgreSQL server or of the way to it means: run the transaction again, refuse for now, or a bug.
 * Only what the server itself said before a commit is ever run again; after a connection that was lost behind a COMMIT nobody
 * knows whether it happened, and the outcome is unknown.
 */

export interface ErrorMeaning {
  /**
   * again: the transaction was rolled back for what others did at the same moment, and may run once more.
   * unavailable: refuse with 503. bug: our statement is wrong.
   */
  kind: 'again' | 'unavailable' | 'bug';
  /** A unique key is taken: when it still is after other runs, it was no coincidence. */
  isKeyTaken?: boolean;
  /** The connection is of no use any more. */
  drop: boolean;
  /** The server itself said this, and not a pooler of a server that it lost (classes 08 and 40003). */
  isServersWord: boolean;
  /** A COMMIT was sent, and there is no answer to it that says what became of it. */
  isOutcomeUnknown?: boolean;
  reason: string;
}

/** Serialization failure, deadlock, and a unique key that another transaction took at the same moment. */
const AGAIN = new Set(['40001', '40P01', '23505']);
/** A prepared statement that the server or a pooler in between forgot or already has. */
const STALE_STATEMENT = new Set(['26000', '42P05']);
/**
 * Classes: 08 connection, 25P03/25P04 a timeout that ended the session, 28 and 3D refused at the door, 53 resources (disk
 * full, too many connections), 55P03 lock timeout, 57 operator intervention, 58 and XX001 storage of the server.
 */
const UNAVAILABLE = /^(08|28|3D|53|57|58|25P0[34]|25006|55P03|XX00[12])/;
const DROP = /^(08|28|3D|57P0|58|25P0[34]|25006|XX00[12])/;

function meaningOf(error: unknown): Omit<ErrorMeaning, 'isServersWord'> {
  const { code, message, severity } = error as { code?: string; message?: string; severity?: string };
  const reason = message ?? String(error);
  if (severity === undefined || code === undefined) return { kind: 'unavailable', drop: true, reason };
  const fatal = severity === 'FATAL' || severity === 'PANIC';
  if (AGAIN.has(code)) return { kind: 'again', isKeyTaken: code === '23505', drop: fatal, reason };
  if (STALE_STATEMENT.has(code) || (code === '0A000' && reason.includes('cached plan'))) {
    return { kind: 'again', drop: true, reason };
  }
  if (code === '25006') return { kind: 'unavailable', drop: true, reason: `${reason}; is the server a standby?` };
  if (UNAVAILABLE.test(code)) return { kind: 'unavailable', drop: fatal || DROP.test(code), reason };
  return { kind: fatal ? 'unavailable' : 'bug', drop: fatal, reason: `${reason} (${code})` };
}

/** Classifies what a statement was rejected with. */
export function classifyError(error: unknown): ErrorMeaning {
  return { ...meaningOf(error), isServersWord: isServersWord(error) };
}

function isServersWord(error: unknown): boolean {
  const { code, severity } = error as { code?: string; severity?: string };
  return severity !== undefined && code !== undefined && !/^(08|40003$)/.test(code);
}

/**
 * Classifies what a COMMIT was rejected with. An error of the server says that it rolled back; what ends the session says nothing,
 * since that may have ended after the commit was written.
 */
export function classifyCommitError(error: unknown): ErrorMeaning {
  const meaning = classifyError(error);
  if (meaning.isServersWord && (error as { severity: string }).severity === 'ERROR') return meaning;
  return { ...meaning, kind: 'unavailable', drop: true, isOutcomeUnknown: true };
}

/** A NOTICE or WARNING that the server sent along. */
export interface ServerNotice {
  code?: string | undefined;
  message?: string | undefined;
}

/**
 * Whether a notice says that a commit may be lost: the server gave up waiting for its synchronous standby (`canceling wait for synchronous
 * replication`, 01000, or 57P01 when it is shutting down), so that the transaction is committed locally only. Our statements
 * raise no warnings of their own. Texts are in the server's language, codes are not.
 */
export function isCommitWarning({ code }: ServerNotice): boolean {
  return code === '01000' || code?.startsWith('57P') === true;
}

/** What a COMMIT means that came with such a warning: a failover to the standby may lose it, and nothing says whether it will. */
export function unconfirmedCommit(warning: string): ErrorMeaning {
  const reason = `the commit was not confirmed by the synchronous standby: ${warning}`;
  return { kind: 'unavailable', drop: true, isServersWord: true, isOutcomeUnknown: true, reason };
}

/** Whether a refused connection may be granted in a moment: the server is starting, restarting or not reachable. */
export function passesByItself(error: unknown): boolean {
  const { code, severity } = error as { code?: string; severity?: string };
  if (severity === undefined) return !(error instanceof UnsuitableServer);
  return code !== undefined && /^(57P0|53|08)/.test(code);
}

/** The server answers, but may not hold our data as it is; the message is a sentence for the operator. */
export class UnsuitableServer extends Error {
  override name = 'UnsuitableServer';
}

/** The server answers, but accepts no writes: a standby, or read-only by its settings. Another host may be the primary. */
export class NotWritable extends UnsuitableServer {
  override name = 'NotWritable';
}

/** An error of a statement or of a connection, with what it means. */
export class StatementError extends Error {
  override name = 'StatementError';
  readonly meaning: ErrorMeaning;

  constructor(meaning: ErrorMeaning) {
    super(meaning.reason);
    this.meaning = meaning;
  }
}
