/**
 * One attempt: a group of messages of one email, to one destination. Returns the result of each message and what happens next; apply.ts
 * updates the queue and the destination. An attempt that exceeds its deadline is cut and is a temporary failure. An exception in
 * Postrider's own code is thrown and counts as a crash. If the account was suspended in the meantime, its messages are released; if an
 * address was suppressed, its message is not sent.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { sameAddressKey } from '../../mail/address.ts';
import type { Blobs } from '../../storage/blobs/blobs.ts';
import type { Database } from '../../storage/database.ts';
import { suppressedAmongOperation } from '../../suppressions/suppressions.ts';
import type { Engine } from '../../work/work.ts';
import type { Limits } from '../destinations/limits.ts';
import type { Destination, Registry } from '../destinations/registry.ts';
import type { SendLimits } from '../destinations/shares.ts';
import { classify, expiredWhileSuspended } from '../outcome/outcome.ts';
import { NO_SIGNAL, signalByRules } from '../outcome/signal.ts';
import type { DeliveryItem } from '../queue/delivery-item.ts';
import type { Results } from '../record/results.ts';
import type { Settlement } from '../record/settle.ts';
import { isRelay } from '../routing/route.ts';
import { simulateSandbox } from '../sandbox/simulate.ts';
import type { BodyHashes } from './large.ts';
import type { AttemptReport, AttemptResult } from './pass.ts';
import type { PooledSession } from './pooled-session.ts';
import { isStillVerified, type KeysFor, type PreparedEmail, prepare } from './prepare.ts';
import { nothingSent, type Progress, type Senders, type Transmission, transmit } from './transmit.ts';

export interface AttemptDeps {
  engine: Pick<Engine<DeliveryItem, Settlement>, 'isOpen' | 'holds'>;
  registry: Pick<Registry, 'pauseOf'>;
  limits: Pick<Limits, 'pauseRules'>;
  sendLimits: Pick<SendLimits, 'of'>;
  senders: Senders;
  results: Results;
  database: Pick<Database, 'execute'>;
  blobs: Blobs;
  clock: Clock;
  log: Log;
  keysFor: KeysFor;
  isSuspended(accountId: string): boolean | Promise<boolean>;
  random(): number;
  /** Deadline of the entire attempt. */
  deadlineMs: number;
}

/** An attempt later than this after the claim reads the suppression list again. */
const SUPPRESSION_MAX_AGE_MS = 60_000;

/** An attempt by SMTP that a deadline can cut. */
interface Cuttable {
  startedAtMs: number;
  pooled: PooledSession | undefined;
  isCut: boolean;
}

export class Attempts {
  readonly #deps: AttemptDeps;
  readonly #bodyHashes: BodyHashes = new Map();

  constructor(deps: AttemptDeps) {
    this.#deps = deps;
  }

  /** Attempts the group, over `session` if it fits. */
  async run(
    destination: Destination,
    group: DeliveryItem[],
    { session, progress }: { session: PooledSession | undefined; progress: Progress },
  ): Promise<AttemptReport> {
    const startedMs = this.#deps.clock.now();
    const unsent = (results: AttemptResult[]): AttemptReport => {
      return { startedMs, elapsedMs: 0, results, signal: NO_SIGNAL, pooled: session };
    };
    const { job } = group[0]!;
    if (job.mode === 'sandbox') return unsent(group.map((item) => this.#simulate(item)));
    if (await this.#isSuspended(job.accountId)) return unsent(group.map((item) => this.#suspended(item)));
    const suppressed = await this.#suppressedSinceClaim(group, startedMs);
    if (suppressed === undefined) return unsent(group.map((item) => ({ item, kind: 'released' })));
    if (suppressed.length === 0) return this.#attempt(destination, group, { session, progress, startedMs });
    const unwanted = suppressed.map((item): AttemptResult => {
      return { item, kind: 'settlement', settlement: this.#deps.results.suppressed(item) };
    });
    const wanted = group.filter((item) => !suppressed.includes(item));
    if (wanted.length === 0) return unsent(unwanted);
    const report = await this.#attempt(destination, wanted, { session, progress, startedMs });
    return { ...report, results: [...report.results, ...unwanted] };
  }

  /** Sends the group, within the deadline. */
  async #attempt(
    destination: Destination,
    group: DeliveryItem[],
    { session, progress, startedMs }: { session: PooledSession | undefined; progress: Progress; startedMs: number },
  ): Promise<AttemptReport> {
    const attempt: Cuttable = { startedAtMs: startedMs, pooled: session, isCut: false };
    const began = performance.now();
    try {
      const sending = this.#send(destination, group, attempt, progress);
      const transmission = await this.#withinDeadline(sending);
      if (transmission) {
        return { startedMs, elapsedMs: performance.now() - began, ...this.#byRules(destination, transmission) };
      }
      attempt.isCut = true;
      sending.catch(() => undefined);
    } catch (error) {
      abandon(group, attempt);
      throw error;
    }
    const results = this.#cutOff(destination, group, attempt);
    abandon(group, attempt);
    return { startedMs, elapsedMs: 0, results, signal: NO_SIGNAL, pooled: undefined };
  }

  /** Returns the result of a simulated server. */
  #simulate(item: DeliveryItem): AttemptResult {
    const { results, random } = this.#deps;
    const settlement = simulateSandbox(item.job, { nowMs: results.nowOf(item), random: random() });
    return { item, kind: 'settlement', settlement };
  }

  async #isSuspended(accountId: string): Promise<boolean> {
    try {
      return await this.#deps.isSuspended(accountId);
    } catch (error) {
      this.#deps.log.warn({ error: (error as Error).message }, 'account status lookup failed');
      return true;
    }
  }

  /**
   * Returns the messages whose address was suppressed while they waited in memory, which a stalled destination can make long. Undefined if
   * the list cannot be read.
   */
  async #suppressedSinceClaim(group: readonly DeliveryItem[], nowMs: number): Promise<DeliveryItem[] | undefined> {
    const old = group.filter(({ claimedMs }) => nowMs - claimedMs > SUPPRESSION_MAX_AGE_MS);
    if (old.length === 0) return [];
    const { accountId, mode } = old[0]!.job;
    const keyOf = ({ job }: DeliveryItem): string => sameAddressKey(job.recipient);
    const addresses = old.map((item) => ({ accountId, mode, email: keyOf(item) }));
    try {
      const found = await this.#deps.database.execute(suppressedAmongOperation, { addresses, nowMs });
      return old.filter((item) => found.includes(keyOf(item)));
    } catch (error) {
      this.#deps.log.warn({ error: (error as Error).message }, 'suppression lookup failed');
      return undefined;
    }
  }

  /** Releases a message of a suspended account; bounces it if its lifetime has ended. */
  #suspended(item: DeliveryItem): AttemptResult {
    const { results } = this.#deps;
    if (results.nowOf(item) < item.job.expiresAt) return { item, kind: 'released' };
    return {
      item,
      kind: 'settlement',
      settlement: results.of(item, { outcome: expiredWhileSuspended(), facts: null }),
    };
  }

  /** Resolves with undefined if the deadline passes first. */
  async #withinDeadline(sending: Promise<Transmission>): Promise<Transmission | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const overdue = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), this.#deps.deadlineMs);
    });
    try {
      return await Promise.race([sending, overdue]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #send(
    destination: Destination,
    group: DeliveryItem[],
    attempt: Cuttable,
    progress: Progress,
  ): Promise<Transmission> {
    const { engine, registry, sendLimits, senders, clock } = this.#deps;
    const prepared = await this.#prepare(group[0]!);
    const { recipient } = group[0]!.job;
    const { key } = destination;
    // A pause, a stop, or a storage failure may have happened in the meantime: start nothing then.
    if (!engine.isOpen || registry.pauseOf(key)) return nothingSent(group, attempt.pooled);
    const holds = (): boolean => group.every((item) => item.state !== 'running' || engine.holds(item));
    return transmit({
      group,
      destination: key,
      prepared,
      pooled: attempt.pooled,
      senders,
      shares: sendLimits.of(key),
      holds,
      mayBegin: () => holds() && !registry.pauseOf(key),
      nowMs: () => clock.now(),
      progress: {
        ...progress,
        usesSession: (used) => {
          attempt.pooled = used;
          senders.missingDomains.exists(recipient);
          if (!attempt.isCut) return progress.usesSession(used);
          // A hung attempt has resumed: it was settled as a failure and must not send.
          used.session.destroy();
          throw new Error('the attempt was cut off before it sent anything');
        },
      },
    });
  }

  /** Prepares the content to send, once for all recipients of the email in memory. */
  async #prepare({ email, job }: DeliveryItem): Promise<PreparedEmail> {
    const { blobs, keysFor, log } = this.#deps;
    if (email.prepared && !(await isStillVerified(job, keysFor).catch(() => false))) email.prepared = undefined;
    email.prepared ??= prepare(job, email.inline, { blobs, keysFor, log, bodyHashes: this.#bodyHashes });
    const prepared = await email.prepared;
    if (!prepared.ok) email.prepared = undefined;
    return prepared;
  }

  #byRules({ key }: Destination, transmission: Transmission): Transmission {
    const refusals = transmission.results.flatMap((one) =>
      one.kind === 'classified' ? [{ outcome: one.outcome, host: one.facts.host }] : [],
    );
    const signal = signalByRules(this.#deps.limits.pauseRules(key), transmission.signal, refusals);
    return { ...transmission, signal };
  }

  #cutOff(destination: Destination, group: DeliveryItem[], { startedAtMs, pooled }: Cuttable): AttemptResult[] {
    const { results, log, deadlineMs } = this.#deps;
    log.error({ messageId: group[0]!.job.messageId, deadlineMs }, 'delivery attempt timed out');
    const message = `the attempt did not end within ${Math.round(deadlineMs / 1000)} s and was cut off`;
    const outcome = classify({ stage: 'connect', cause: 'EDEADLINE', message, relay: isRelay(destination.key) });
    const session = pooled?.session;
    const facts = {
      startedAtMs,
      durationMs: deadlineMs,
      host: session?.remoteHost ?? null,
      address: session?.remoteAddress ?? null,
      sourceAddress: session?.sourceAddress,
      tls: session?.tls ?? null,
      tlsFallback: session?.tlsFallback,
      dialogue: [],
    };
    return group.map((item) => ({ item, kind: 'settlement', settlement: results.of(item, { outcome, facts }) }));
  }
}

/** Closes the session, which can no longer be used, and drops the content, which may be the cause. */
function abandon(group: readonly DeliveryItem[], { pooled }: Cuttable): void {
  group[0]!.email.prepared = undefined;
  pooled?.session.destroy();
}
