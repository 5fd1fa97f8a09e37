/**
 * Records requests of known callers without slowing them down: a request is noted in memory, and about once a second the notes are written
 * to the database in small batches. Invariants:
 *
 * - Memory is limited. While the database is unavailable it fills up, and requests over the limit are omitted and counted.
 * - Failed requests are preferred: successful ones use only half of the memory, and are sampled (sampling.ts).
 * - An account uses at most a fifth of the memory, and less the more others use: each may have a quarter of what is free (dynamic
 *   thresholds: Choudhury and Hahne, 1998). A flood of one account omits nothing of another's.
 * - A batch with an unknown outcome is stored again without harm; only the counts of omitted requests may then be too high.
 */
import { type Detail, type ShownFailure, Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Counter } from '../base/metrics.ts';
import type { Mode, Owner } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { redactDetails, redactMessage, redactUserAgent, USER_AGENT_BYTES } from './redact.ts';
import { createSampling } from './sampling.ts';
import { addRequestsOperation, HOUR_MS, type HourCounts, type RequestRow } from './store.ts';

const HELD_BYTES = 8_000_000;
const ACCOUNT_PART = 1 / 4;
const SUCCEEDED_PART = 1 / 2;
/** Successful requests that a node records in a second. */
const SUCCEEDED_PER_SECOND = 500;
const FLUSH_MS = 1_000;
/** Rows per transaction: a millisecond or two of the storage thread. */
const BATCH_ROWS = 200;
/** After this many failed requests of an owner, its stored rows are trimmed. */
const TRIM_EVERY = 250;
const OWNERS_COUNTED = 10_000;
/** Limits the counts while the database is unavailable. */
const HOURS_COUNTED = 10_000;
const USER_AGENTS_KNOWN = 1_000;
/** Memory of a row besides its characters. */
const ROW_BYTES = 400;

export interface LoggedRequest extends Owner {
  requestId: string;
  /** Unix ms of the arrival. */
  atMs: number;
  source: 'api' | 'smtp';
  /** Such as `POST /send` or `RCPT`; undefined if no command was in progress. */
  call: string | undefined;
  /** The path with its ids, if the route has parameters. */
  path?: string | undefined;
  status: number;
  /** Why the request failed. `code` is an error code, or the enhanced code of an SMTP reply. */
  refusal?: { code: string; message: string; details: readonly Detail[] } | undefined;
  durationMs?: number | undefined;
  /** The first message that the request accepted. */
  messageId?: string | undefined;
  /** Id of the API key or the SMTP credential. */
  credentialId: string | undefined;
  address: string;
  userAgent?: string | undefined;
}

export interface RequestLog extends Running {
  record(request: LoggedRequest): void;
  /** Resolves once everything recorded before is in the database; rejects while that is unavailable. */
  flush(): Promise<void>;
}

export interface RequestLogDeps {
  database: Database;
  log: Log;
  /** Count the requests that were not recorded. */
  omitted: { succeeded: Counter; failed: Counter };
  /** While it returns true, few successful requests are recorded. */
  isOverloaded?: () => boolean;
  /** Whether successful requests are neither recorded nor counted. */
  failedOnly?: boolean;
  /** Memory limit, for tests. */
  heldBytes?: number;
  /** For tests. */
  succeededPerSecond?: number;
}

interface Held {
  row: RequestRow;
  bytes: number;
}

const hasFailed = ({ status }: { status: number }): boolean => status >= 400;

/** Returns the details of a refused message of a batch: `index` is from 0. */
export function detailsOfItem(index: number, { code, message, details }: ShownFailure): Detail[] {
  const field = `messages[${index}]`;
  if (details.length === 0) return [{ field, code, message }];
  return details.map((one) => ({ ...one, field: one.field === '' ? field : `${field}.${one.field}` }));
}

/** Redacts user agents; a client sends the same one with every request. */
function createUserAgents(): (userAgent: string) => string {
  const known = new Map<string, string>();
  return (given) => {
    const userAgent = given.slice(0, USER_AGENT_BYTES);
    let redacted = known.get(userAgent);
    if (redacted === undefined) {
      redacted = redactUserAgent(userAgent);
      if (known.size >= USER_AGENTS_KNOWN) known.clear();
      known.set(userAgent, redacted);
    }
    return redacted;
  };
}

/** Counts of successful requests by owner and hour. */
class HourlyCounts {
  readonly #counts = new Map<string, HourCounts>();

  add({ accountId, mode, hour, recorded, omitted }: HourCounts): void {
    const key = `${accountId} ${mode} ${hour}`;
    const counts = this.#counts.get(key);
    if (counts !== undefined) {
      counts.recorded += recorded;
      counts.omitted += omitted;
    } else if (this.#counts.size < HOURS_COUNTED) {
      this.#counts.set(key, { accountId, mode, hour, recorded, omitted });
    }
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0;
  }

  /** Returns the counts, and starts again. Their order is that of their keys, so that nodes that add to the same rows do not deadlock. */
  take(): HourCounts[] {
    const taken = [...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, counts]) => counts);
    this.#counts.clear();
    return taken;
  }
}

const hourOf = (atMs: number): number => atMs - (atMs % HOUR_MS);

function rowOf(request: LoggedRequest, number: number, userAgentOf: (userAgent: string) => string): RequestRow {
  const { refusal, userAgent } = request;
  return {
    accountId: request.accountId,
    mode: request.mode,
    at: request.atMs,
    number,
    requestId: request.requestId,
    source: request.source,
    call: request.call,
    path: request.path,
    status: request.status,
    code: refusal?.code,
    message: refusal && redactMessage(refusal.message),
    details: refusal && redactDetails(refusal.details),
    durationMs: request.durationMs,
    messageId: request.messageId,
    credentialId: request.credentialId,
    address: request.address,
    userAgent: userAgent === undefined ? undefined : userAgentOf(userAgent),
  };
}

/** Returns a function that counts the failed requests among added rows, and returns the owners that are due for a trim. */
function createTrims(): (rows: readonly RequestRow[]) => Owner[] {
  /** Failed requests added per owner since its last trim. */
  const added = new Map<string, number>();
  return (rows) => {
    if (added.size > OWNERS_COUNTED) added.clear();
    const due: Owner[] = [];
    for (const row of rows) {
      if (!hasFailed(row)) continue;
      const key = `${row.accountId} ${row.mode}`;
      const count = (added.get(key) ?? 0) + 1;
      added.set(key, count % TRIM_EVERY);
      if (count === TRIM_EVERY) due.push({ accountId: row.accountId, mode: row.mode as Mode });
    }
    return due;
  };
}

export function createRequestLog(deps: RequestLogDeps): RequestLog {
  const { database, log, omitted, isOverloaded = () => false, heldBytes: mostBytes = HELD_BYTES } = deps;
  const sampling = createSampling(deps.succeededPerSecond ?? SUCCEEDED_PER_SECOND);
  const userAgentOf = createUserAgents();
  const dueForTrim = createTrims();
  const omittedByHour = new HourlyCounts();
  let waiting: Held[] = [];
  let heldBytes = 0;
  let recorded = 0;
  const bytesOf = new Map<string, number>();
  let flushing: Promise<void> = Promise.resolve();

  const release = (held: readonly Held[]): void => {
    for (const { row, bytes } of held) {
      heldBytes -= bytes;
      const own = bytesOf.get(row.accountId)! - bytes;
      if (own > 0) bytesOf.set(row.accountId, own);
      else bytesOf.delete(row.accountId);
    }
  };

  const countOmitted = (
    { status, accountId, mode }: Pick<RequestRow, 'accountId' | 'mode' | 'status'>,
    atMs: number,
  ) => {
    if (hasFailed({ status })) return omitted.failed.inc();
    omitted.succeeded.inc();
    return omittedByHour.add({ accountId, mode, hour: hourOf(atMs), recorded: 0, omitted: 1 });
  };

  /** Omits rows permanently: because of a bug, or at the end of the process. */
  const drop = (held: readonly Held[], error: Error): void => {
    for (const { row } of held) countOmitted(row, row.at);
    log.error({ err: error, count: held.length }, 'requests not recorded');
  };

  /** Writes the rows, with the counts of their successful requests and of those omitted since the last batch. */
  const write = async (batch: readonly Held[]): Promise<void> => {
    const rows = batch.map(({ row }) => row);
    const taken = omittedByHour.take();
    const counts = new HourlyCounts();
    for (const omittedOfHour of taken) counts.add(omittedOfHour);
    for (const { status, accountId, mode, at } of rows) {
      if (!hasFailed({ status })) counts.add({ accountId, mode, hour: hourOf(at), recorded: 1, omitted: 0 });
    }
    try {
      await database.execute(addRequestsOperation, { rows, counts: counts.take(), trim: dueForTrim(rows) });
    } catch (error) {
      for (const omittedOfHour of taken) omittedByHour.add(omittedOfHour);
      throw error;
    }
  };

  const flushNow = async (): Promise<void> => {
    const count = waiting.length;
    if (count === 0 && !omittedByHour.isEmpty) await write([]);
    for (let done = 0; done < count; ) {
      const batch = waiting.slice(0, Math.min(BATCH_ROWS, count - done));
      try {
        await write(batch);
      } catch (error) {
        if (error instanceof Unavailable) throw error;
        drop(batch, error as Error);
      }
      waiting = waiting.slice(batch.length);
      release(batch);
      done += batch.length;
    }
  };

  const flush = (): Promise<void> => {
    const flushed = flushing.then(flushNow);
    flushing = flushed.catch(() => undefined);
    return flushed;
  };

  const timer = setInterval(() => {
    sampling.tick(isOverloaded());
    // Rows that the database does not accept now are held, up to the memory limit.
    if (waiting.length > 0 || !omittedByHour.isEmpty) void flush().catch(() => undefined);
  }, FLUSH_MS).unref();

  return {
    record: (request) => {
      const { accountId } = request;
      const isPreferred = hasFailed(request);
      if (!isPreferred && deps.failedOnly) return;
      if (!isPreferred && !sampling.admits(accountId)) return countOmitted(request, request.atMs);
      const own = bytesOf.get(accountId) ?? 0;
      const usableBytes = isPreferred ? mostBytes : mostBytes * SUCCEEDED_PART;
      if (own >= (usableBytes - heldBytes) * ACCOUNT_PART) return countOmitted(request, request.atMs);
      recorded += 1;
      const row = rowOf(request, recorded, userAgentOf);
      const bytes = ROW_BYTES + (row.message?.length ?? 0) + (row.details?.length ?? 0);
      waiting.push({ row, bytes });
      heldBytes += bytes;
      bytesOf.set(accountId, own + bytes);
    },
    flush,
    stop: async () => {
      clearInterval(timer);
      await flush().catch((error: Error) => drop(waiting, error));
    },
  };
}
