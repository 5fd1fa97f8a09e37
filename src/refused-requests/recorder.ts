/**
 * Records refusals of known callers without slowing down requests: a refusal is noted in memory, and about once a second the notes are
 * written to the database in small batches. Invariants:
 *
 * - Memory is limited. While the database is unavailable it fills up, and refusals over the limit are dropped and counted.
 * - An account uses at most a fifth of the memory, and less the more others use: each may have a quarter of what is free (dynamic
 *   thresholds: Choudhury and Hahne, 1998). A flood of one account drops nothing of another's.
 * - A batch with an unknown outcome is stored again without harm.
 */
import { type Failure, type Issue, Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Counter } from '../base/metrics.ts';
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { redactDetails, redactMessage } from './redact.ts';
import { addRefusedOperation, type Owner, type RefusedRow } from './store.ts';

const HELD_BYTES = 8_000_000;
const ACCOUNT_PART = 1 / 4;
const FLUSH_MS = 1_000;
/** Rows per transaction: a millisecond or two of the storage thread. */
const BATCH_ROWS = 200;
/** After this many rows of an owner, its stored rows are trimmed. */
const TRIM_EVERY = 250;
const OWNERS_COUNTED = 10_000;
/** Memory of a row besides its characters. */
const ROW_BYTES = 400;

export interface RefusedRequest extends Owner {
  requestId: string;
  atMs: number;
  source: 'api' | 'smtp';
  /** Such as `POST /send` or `RCPT`; undefined if no command was in progress. */
  call: string | undefined;
  status: number;
  /** Error code, or the enhanced code of an SMTP reply. */
  code: string;
  message: string;
  details: readonly Issue[];
  /** Id of the API key or the SMTP credential. */
  credentialId: string | undefined;
  address: string;
}

export interface RefusedRequests extends Running {
  record(refused: RefusedRequest): void;
  /** Resolves once everything recorded before is in the database; rejects while that is unavailable. */
  flush(): Promise<void>;
}

export interface RecorderDeps {
  database: Database;
  log: Log;
  /** Counts what was dropped. */
  dropped: Counter;
  /** Memory limit, for tests. */
  heldBytes?: number;
}

interface Held {
  row: RefusedRow;
  bytes: number;
}

function rowOf(refused: RefusedRequest, number: number): RefusedRow {
  const { accountId, mode, requestId, atMs: at, source, call, status, code, credentialId, address } = refused;
  return {
    accountId,
    mode,
    at,
    number,
    requestId,
    source,
    call,
    status,
    code,
    credentialId,
    address,
    message: redactMessage(refused.message),
    details: redactDetails(refused.details),
  };
}

/** Returns the details of a refused message of a batch: `index` is from 0. */
export function detailsOfItem(index: number, { message, details }: Pick<Failure, 'message' | 'details'>): Issue[] {
  const field = `messages[${index}]`;
  if (details.length === 0) return [{ field, message }];
  return details.map((one) => ({ ...one, field: one.field === '' ? field : `${field}.${one.field}` }));
}

export function createRefusedRequests(deps: RecorderDeps): RefusedRequests {
  const { database, log, dropped, heldBytes: mostBytes = HELD_BYTES } = deps;
  let waiting: Held[] = [];
  let heldBytes = 0;
  let recorded = 0;
  const bytesOf = new Map<string, number>();
  /** Rows added per owner since its last trim. */
  const added = new Map<string, number>();
  let flushing: Promise<void> = Promise.resolve();

  const release = (held: readonly Held[]): void => {
    for (const { row, bytes } of held) {
      heldBytes -= bytes;
      const own = bytesOf.get(row.accountId)! - bytes;
      if (own > 0) bytesOf.set(row.accountId, own);
      else bytesOf.delete(row.accountId);
    }
  };

  const dueForTrim = (rows: readonly Held[]): Owner[] => {
    if (added.size > OWNERS_COUNTED) added.clear();
    const due: Owner[] = [];
    for (const { row } of rows) {
      const key = `${row.accountId} ${row.mode}`;
      const count = (added.get(key) ?? 0) + 1;
      added.set(key, count % TRIM_EVERY);
      if (count === TRIM_EVERY) due.push({ accountId: row.accountId, mode: row.mode as Mode });
    }
    return due;
  };

  /** Drops rows permanently: because of a bug, or at the end of the process. */
  const drop = (held: readonly Held[], error: Error): void => {
    dropped.inc(held.length);
    log.error({ err: error, count: held.length }, 'refused requests not recorded');
  };

  const flushNow = async (): Promise<void> => {
    const count = waiting.length;
    for (let done = 0; done < count; ) {
      const batch = waiting.slice(0, Math.min(BATCH_ROWS, count - done));
      try {
        const trim = dueForTrim(batch);
        await database.execute(addRefusedOperation, { rows: batch.map(({ row }) => row), trim });
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
    // What the database does not accept now is held, up to the memory limit.
    if (waiting.length > 0) void flush().catch(() => undefined);
  }, FLUSH_MS).unref();

  return {
    record: (refused) => {
      const own = bytesOf.get(refused.accountId) ?? 0;
      if (own >= (mostBytes - heldBytes) * ACCOUNT_PART) return dropped.inc();
      recorded += 1;
      const row = rowOf(refused, recorded);
      const bytes = ROW_BYTES + row.message.length + row.details.length;
      waiting.push({ row, bytes });
      heldBytes += bytes;
      bytesOf.set(row.accountId, own + bytes);
    },
    flush,
    stop: async () => {
      clearInterval(timer);
      await flush().catch((error: Error) => drop(waiting, error));
    },
  };
}
