/**
 * Takes what came in, before its sender hears 250. A report that comes alone to a return path and is small is dealt with at its dot: read, and
 * recorded in one transaction, by what the worker reads and records with, but without a row of the mail and of work. All else is
 * stored with its work. So is a report that cannot be dealt with right now, whatever the reason, and what comes while many are in hand:
 * who sends a flood waits in his own lane.
 *
 * Reports of a tenth of a second are dealt with together: one at a time, each costs a commit. Nobody waits longer, nobody waits once
 * some have come, nor while they come one after the other: who brings a backlog over one connection waits for nothing. A report
 * that is taken again, because it is not known what became of a commit, has its effect once all the same (late-store.ts).
 */
import type { Found, Handler, InboundLease, InboundMail } from './inbound-mail.ts';
import type { NewInbound } from './store.ts';

const GAP_MS = 100;
/** So many do not wait for more: ten connections of a server, one report each, go on at once. */
const ENOUGH = 8;
/** Beyond these they are stored. */
const MOST_IN_HAND = 64;

export interface IntakeDeps {
  /** Of mail to return paths. */
  reports: Handler<unknown, InboundLease | null>;
  /** Stores mails with their work. */
  store(mails: NewInbound[]): Promise<void>;
  /** Events may have been written. */
  onRecorded(): void;
}

export interface Intake {
  /** Resolves once what came in, for each of its recipients, is on stable storage, or its effect is. */
  take(mails: NewInbound[]): Promise<void>;
}

interface Waiting {
  mail: InboundMail;
  /** Whether it is recorded; otherwise it has to be stored. */
  end(isRecorded: boolean): void;
}

/** The mail, where it is a report that may be dealt with at its dot. */
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
  /** Of those that were dealt with last. */
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

  /** Answers what was recorded. Who has a row of work is tried again by the worker, which also says what is wrong. */
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
