/**
 * Processes inbound messages, as a kind of work of the engine (src/work/engine.ts). The handler of the recipient's use reads a message, and
 * its findings are recorded in one transaction with the end of the work row. Lanes are served in round-robin order (per sent copy, per
 * client address, per account), so that no message waits for those of others; the number and the bytes of messages in memory are limited.
 *
 * If something is unavailable (storage, DNS), the message is retried with growing delays for a week. After that, or if its content is
 * corrupt, its handler decides how it ends, or it is quarantined. A message on which the code fails three times is quarantined too: it is
 * kept for analysis and not retried.
 */
import { inboundDelayMs, jitter, LATEST_INBOUND_WAITS_MS } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { BlobDamaged, type Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import {
  type ClaimRequest,
  type ClaimResult,
  claimedItem,
  Engine,
  type EngineOptions,
  type WorkKind,
} from '../work/work.ts';
import type { Found, Handler, Handlers, InboundLease, InboundMail, Use } from './inbound-mail.ts';
import { createInboundQueue, type InboundItem } from './queue.ts';
import {
  claimInboundOperation,
  clampInboundOperation,
  deferInboundOperation,
  INBOUND_WORK,
  type InboundJob,
  keepInboundOperation,
  type UnprocessedInbound,
} from './store.ts';

const STOP_WITHIN_MS = 21_000;
/** A week, by the waits between them. */
const MOST_RETRIES = 34;
/** Reports within this interval are claimed, looked up, and recorded together, which halves the load of the storage thread. */
const CLAIM_GAP_MS = 100;

export interface InboundWorkerDeps extends EngineOptions {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  handlers: Handlers;
  /** Uniform in [0, 1). */
  random(): number;
  /** Called when events may have been written. */
  onRecorded(): void;
}

export interface InboundWorker extends Running {
  /** Signals that there may be new messages; cheap. */
  nudge(): void;
}

type Result = { seq: number; fence: number } & (
  | { kind: 'found'; use: Use['kind']; found: Found<unknown> }
  | { kind: 'unread'; unread: UnprocessedInbound }
);

class InboundWork implements WorkKind<InboundItem, Result> {
  readonly kind = INBOUND_WORK;
  readonly crashDelayMs = 60_000;
  readonly claimGapMs = CLAIM_GAP_MS;
  readonly queue = createInboundQueue();
  readonly engine: Engine<InboundItem, Result>;
  readonly #deps: InboundWorkerDeps;

  constructor(deps: InboundWorkerDeps) {
    this.#deps = deps;
    this.engine = new Engine(deps, this);
  }

  async claim(request: ClaimRequest): Promise<ClaimResult<InboundItem>> {
    const { database } = this.#deps;
    const leaseUntilMs = request.nowMs + request.leaseMs;
    const { jobs, ...claimed } = await database.execute(claimInboundOperation, request);
    return { items: jobs.map((job) => claimedItem(job, leaseUntilMs)), ...claimed };
  }

  deadLetter({ job }: InboundItem): Result {
    return this.#unread(job, null);
  }

  withoutAttempt(): undefined {}

  start(): void {
    while (this.engine.isOpen) {
      const item = this.queue.next();
      if (!item) return;
      if (this.engine.holds(item)) void this.#run(item);
      else this.engine.release(item);
    }
  }

  async #run(item: InboundItem): Promise<void> {
    await this.engine.run([item], async () => this.engine.settle(item, await this.#read(item.job)));
    this.start();
  }

  async #read(job: InboundJob): Promise<Result> {
    const { seq, fence } = job;
    const { kind: use } = job.mail.use;
    const mail: InboundMail = { ...job.mail, content: () => this.#content(job) };
    try {
      const finding: unknown = await (this.#deps.handlers[use] as Handler<unknown>).read(mail);
      return { seq, fence, kind: 'found', use, found: { lease: leaseOf(job), mail, finding } };
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      if (error instanceof BlobDamaged || error instanceof ContentMissing || job.attempts >= MOST_RETRIES)
        return await this.#givenUp(mail, { job, error });
      const { clock, log, random } = this.#deps;
      const againAtMs = clock.now() + jitter(inboundDelayMs(job.attempts + 1), random());
      log.warn({ inboundId: job.mail.id, error: error.message }, 'inbound message deferred');
      return this.#unread(job, againAtMs);
    }
  }

  /** Ends a message that is not read again. */
  async #givenUp(mail: InboundMail, { job, error }: { job: InboundJob; error: Unavailable }): Promise<Result> {
    const { id: inboundId, use } = mail;
    this.#deps.log.error({ inboundId, error: error.message }, 'inbound message cannot be read');
    const finding: unknown = await (this.#deps.handlers[use.kind] as Handler<unknown>).unreadable?.(mail, whyOf(error));
    if (finding === undefined) return this.#unread(job, null);
    const { seq, fence } = job;
    return { seq, fence, kind: 'found', use: use.kind, found: { lease: leaseOf(job), mail, finding } };
  }

  #unread(job: InboundJob, againAtMs: number | null): Result {
    const { use } = job.mail;
    const owner = use.kind === 'route' ? use : { accountId: '', mode: 'live' as const };
    const { accountId, mode } = owner;
    if (againAtMs === null) this.#deps.log.error({ inboundId: job.mail.id, accountId }, 'inbound message quarantined');
    return {
      seq: job.seq,
      fence: job.fence,
      kind: 'unread',
      unread: { ...leaseOf(job), accountId, mode, againAtMs },
    };
  }

  async #content({ content, blobKey, mail }: InboundJob): Promise<Buffer> {
    if (content) return Buffer.from(content.buffer, content.byteOffset, content.byteLength);
    const stored = blobKey === null ? undefined : await this.#deps.blobs.get(blobKey);
    if (!stored) throw new ContentMissing(mail.id);
    return stored;
  }

  async record(results: Result[]): Promise<number[]> {
    const { database, handlers, blobs, onRecorded } = this.#deps;
    const lost: number[] = [];
    const unread = results.flatMap((one) => (one.kind === 'unread' ? [one.unread] : []));
    if (unread.length > 0) lost.push(...(await database.execute(deferInboundOperation, unread)));
    const found = results.filter((one) => one.kind === 'found');
    for (const use of new Set(found.map((one) => one.use))) {
      const handler = handlers[use] as Handler<unknown>;
      const recorded = await handler.record(found.filter((one) => one.use === use).map((one) => withLease(one)));
      lost.push(...recorded.lost);
      dropBlobs(blobs, recorded.blobKeys);
    }
    if (found.length > 0) onRecorded();
    return lost;
  }

  /** The findings are lost if the lease is: the next holder of the row reads the message again. */
  isFinal(): boolean {
    return false;
  }

  repairSchedule(): Promise<number> {
    const { database, clock } = this.#deps;
    return database.execute(clampInboundOperation, {
      nowMs: clock.now(),
      latestMs: LATEST_INBOUND_WAITS_MS,
      crashPauseMs: this.crashDelayMs,
    });
  }

  tick(): void {}
}

/** The blob of a message does not exist. */
class ContentMissing extends Unavailable {
  override name = 'ContentMissing';

  constructor(inboundId: string) {
    super(`the content of ${inboundId} is not stored`);
  }
}

function whyOf(error: Unavailable): string {
  if (error instanceof BlobDamaged) return 'its stored content is corrupt';
  return error instanceof ContentMissing
    ? 'its stored content is missing'
    : 'its stored content was unavailable for a week';
}

function leaseOf({ seq, fence, mail }: InboundJob): InboundLease {
  return { seq, fence, inboundId: mail.id };
}

/** The row may be leased under a newer fence by now (settler.ts). */
function withLease({ seq, fence, found }: Result & { kind: 'found' }): Found<unknown> {
  return { ...found, lease: { ...found.lease, seq, fence } };
}

export function startInboundWorker(deps: InboundWorkerDeps): InboundWorker {
  const { engine } = new InboundWork(deps);
  engine.begin();
  return {
    nudge: () => engine.nudge(),
    stop: async () => void (await engine.stop(STOP_WITHIN_MS)),
  };
}

/** Creates a handler that keeps messages unchanged for later inspection. */
export function createKeeper(database: Database): Handler<null> {
  return {
    read: () => Promise.resolve(null),
    record: async (found) => ({
      lost: await database.execute(
        keepInboundOperation,
        found.map(({ lease }) => lease),
      ),
      blobKeys: [],
    }),
  };
}
