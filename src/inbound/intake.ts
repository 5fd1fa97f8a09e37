/**
 * Accepts inbound messages before their sender gets 250. A single small report for a return path is processed during DATA: read and
 * recorded in one transaction, by the worker's handlers, but without storing the message or a work row. All other messages are stored with
 * their work. This includes reports that cannot be processed right now, and those that arrive while many are in progress.
 *
 * Reports within a tenth of a second are recorded together, because each commit is expensive. The delay never exceeds that interval, and it
 * is skipped if enough reports are waiting or if they arrive one after another over a single connection. A report that is delivered again
 * after an unknown commit still has its effect once (late-store.ts).
 */
import type { Found, Handler, InboundLease, InboundMail } from './inbound-mail.ts';
import type { NewInbound } from './store.ts';

const GAP_MS = 100;
/** With this many reports, recording starts immediately: ten connections of a server with one report each. */
const ENOUGH = 8;
/** Further reports are stored. */
const MOST_IN_HAND = 64;

export interface IntakeDeps {
  reports: Handler<unknown, InboundLease | null>;
  store(mails: NewInbound[]): Promise<void>;
  /** Called when events may have been written. */
  onRecorded(): void;
}

export interface Intake {
  /** Resolves once the message, for each of its recipients, or its effect is on stable storage. */
  take(mails: NewInbound[]): Promise<void>;
}

interface Waiting {
  mail: InboundMail;
  /** Whether it is recorded; otherwise it has to be stored. */
  end(isRecorded: boolean): void;
}

/** Returns the message if it is a small report. */
function smallReport(mails: readonly NewInbound[]): InboundMail | undefined {
  const [only] = mails;
  if (mails.length !== 1 || only === undefined || only.content === null || only.use.kind !== 'return-path')
    return undefined;
  const { content, blobKey: _, nowMs: __, ...facts } = only;
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  return { ...facts, content: () => Promise.resolve(bytes) };
}

class ReportIntake implements Intake {
  readonly #deps: IntakeDeps;
  #waiting: Waiting[] = [];
  #inHand = 0;
  /** Whether the last group had several reports. */
  #hadCompany = false;
  #timer: NodeJS.Timeout | undefined;
  /** By performance.now(). */
  #nextMs = 0;

  constructor(deps: IntakeDeps) {
    this.#deps = deps;
  }

  async take(mails: NewInbound[]): Promise<void> {
    const report = this.#inHand < MOST_IN_HAND ? smallReport(mails) : undefined;
    if (report === undefined || !(await this.#recorded(report))) await this.#deps.store(mails);
  }

  #recorded(mail: InboundMail): Promise<boolean> {
    this.#inHand += 1;
    return new Promise((end) => {
      this.#waiting.push({ mail, end });
      const isAlone = this.#inHand === 1 && !this.#hadCompany;
      if (isAlone || this.#waiting.length >= ENOUGH) void this.#deal();
      else this.#timer ??= setTimeout(() => void this.#deal(), Math.max(0, this.#nextMs - performance.now()));
    });
  }

  async #deal(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#nextMs = performance.now() + GAP_MS;
    const group = this.#waiting.splice(0);
    this.#hadCompany = group.length > 1;
    const recorded = await this.#record(group);
    this.#inHand -= group.length;
    for (const { mail, end } of group) end(recorded.has(mail));
    if (recorded.size > 0) this.#deps.onRecorded();
  }

  /** Returns the recorded messages. Others are stored, so that the worker retries them and logs the error. */
  async #record(group: readonly Waiting[]): Promise<ReadonlySet<InboundMail>> {
    const { reports } = this.#deps;
    const read = await Promise.allSettled(
      group.map(async ({ mail }): Promise<Found<unknown, null>> => {
        return { lease: null, mail, finding: await reports.read(mail) };
      }),
    );
    const found = read.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    try {
      if (found.length > 0) await reports.record(found);
    } catch {
      return new Set();
    }
    return new Set(found.map(({ mail }) => mail));
  }
}

export function createIntake(deps: IntakeDeps): Intake {
  return new ReportIntake(deps);
}
