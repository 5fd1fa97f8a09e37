/**
 * Classifies errors of the PostgreSQL server and of the connection to it: run the transaction again, refuse for now, or a bug. Only what
 * the server itself reported before a commit is run again; if the connection is lost after a COMMIT was sent, the outcome is unknown.
 */

export interface ErrorMeaning {
  /**
   * again: the transaction was rolled back because of concurrent ones and may run again. unavailable: refuse with 503. bug: the statement
   * is wrong.
   */
  kind: 'again' | 'unavailable' | 'bug';
  /** A unique key is taken; if it still is after retries, the cause is not concurrency. */
  isKeyTaken?: boolean;
  /** The connection must be closed. */
  drop: boolean;
  /** The server itself reported this, not a pooler that lost its server (classes 08 and 40003). */
  isFromServer: boolean;
  /** A COMMIT was sent, and no reply tells whether it took effect. */
  isOutcomeUnknown?: boolean;
  reason: string;
}

/** Serialization failure, deadlock, and a unique key that a concurrent transaction took. */
const AGAIN = new Set(['40001', '40P01', '23505']);
/** A prepared statement that the server or a pooler forgot or already has. */
const STALE_STATEMENT = new Set(['26000', '42P05']);
/**
 * Classes: 08 connection; 25P03 and 25P04 session timeouts; 28 and 3D connection refused; 53 resources (disk full, too many connections);
 * 55P03 lock timeout; 57 operator intervention; 58 and XX001 storage of the server.
 */
const UNAVAILABLE = /^(08|28|3D|53|57|58|25P0[34]|25006|55P03|XX00[12])/;
const DROP = /^(08|28|3D|57P0|58|25P0[34]|25006|XX00[12])/;

function meaningOf(error: unknown): Omit<ErrorMeaning, 'isFromServer'> {
  const { code, message, severity } = error as { code?: string; message?: string; severity?: string };
  const reason = message ?? String(error);
  if (severity === undefined || code === undefined) return { kind: 'unavailable', drop: true, reason };
  const fatal = severity === 'FATAL' || severity === 'PANIC';
  if (AGAIN.has(code)) return { kind: 'again', isKeyTaken: code === '23505', drop: fatal, reason };
  if (STALE_STATEMENT.has(code) || (code === '0A000' && reason.includes('cached plan'))) {
    return { kind: 'again', drop: true, reason };
  }
  if (code === '25006') return { kind: 'unavailable', drop: true, reason: `${reason}; the server may be a standby` };
  if (UNAVAILABLE.test(code)) return { kind: 'unavailable', drop: fatal || DROP.test(code), reason };
  return { kind: fatal ? 'unavailable' : 'bug', drop: fatal, reason: `${reason} (${code})` };
}

/** Classifies the error of a statement. */
export function classifyError(error: unknown): ErrorMeaning {
  return { ...meaningOf(error), isFromServer: isFromServer(error) };
}

function isFromServer(error: unknown): boolean {
  const { code, severity } = error as { code?: string; severity?: string };
  return severity !== undefined && code !== undefined && !/^(08|40003$)/.test(code);
}

/**
 * Classifies the error of a COMMIT. A server error means a rollback; the end of a session means nothing, since the commit may have been
 * written before.
 */
export function classifyCommitError(error: unknown): ErrorMeaning {
  const meaning = classifyError(error);
  if (meaning.isFromServer && (error as { severity: string }).severity === 'ERROR') return meaning;
  return { ...meaning, kind: 'unavailable', drop: true, isOutcomeUnknown: true };
}

/** A NOTICE or WARNING that the server sent with a reply. */
export interface ServerNotice {
  code?: string | undefined;
  message?: string | undefined;
}

/**
 * Returns whether a notice means that a commit may be lost: the server stopped waiting for its synchronous standby (`canceling wait for
 * synchronous replication`, 01000, or 57P01 during shutdown), so the transaction is committed locally only. Postrider's statements raise no
 * warnings. Texts are in the server's language, codes are not.
 */
export function isCommitWarning({ code }: ServerNotice): boolean {
  return code === '01000' || code?.startsWith('57P') === true;
}

/** A COMMIT with such a warning: a failover to the standby may lose it. */
export function unconfirmedCommit(warning: string): ErrorMeaning {
  const reason = `the commit was not confirmed by the synchronous standby: ${warning}`;
  return { kind: 'unavailable', drop: true, isFromServer: true, isOutcomeUnknown: true, reason };
}

/** Returns whether a refused connection may succeed soon: the server is starting, restarting, or unreachable. */
export function isTransient(error: unknown): boolean {
  const { code, severity } = error as { code?: string; severity?: string };
  if (severity === undefined) return !(error instanceof UnsuitableServer);
  return code !== undefined && /^(57P0|53|08)/.test(code);
}

/** The server responds but cannot hold the data as it is configured; the message is for the operator. */
export class UnsuitableServer extends Error {
  override name = 'UnsuitableServer';
}

/** The server responds but accepts no writes: it is a standby, or read-only by its settings. Another host may be the primary. */
export class NotWritable extends UnsuitableServer {
  override name = 'NotWritable';
}

/** An error of a statement or a connection, with its classification. */
export class StatementError extends Error {
  override name = 'StatementError';
  readonly meaning: ErrorMeaning;

  constructor(meaning: ErrorMeaning) {
    super(meaning.reason);
    this.meaning = meaning;
  }
}
