/**
 * A mail that came in from outside, for one of its recipients, and what those have to offer who deal with it. It stands on stable
 * storage before its sender hears 250, with a row of work (a small report: recorded, see intake.ts); who deals with it reads it (as often as it takes: nothing is changed
 * meanwhile) and then records what it means in one transaction with the end of that row, so that a mail has its effect once.
 */
import type { Mode } from '../base/mode.ts';
import type { ReturnPathClaim } from '../mail/token-address.ts';
import type { Transaction } from '../storage/operation.ts';

/** What a recipient is for. */
export type Use =
  /** `b+TOKEN@…`, the return path of a copy that was sent: a report of its delivery is expected. */
  | { kind: 'return-path'; copy: ReturnPathClaim }
  /** `u+TOKEN@…`, the mail address in List-Unsubscribe. */
  | { kind: 'unsubscribe'; copy: ReturnPathClaim }
  /**
   * `abuse@` and `postmaster@` of the bounce domain: feedback reports, and mail for operators. `receivedBytes` is the size of a mail that
   * was too large to be stored as it came.
   */
  | { kind: 'abuse' | 'postmaster'; receivedBytes?: number }
  | { kind: 'route'; accountId: string; mode: Mode; routeId: string };

export interface InboundMail {
  /** `inb_…`: of this mail for this recipient. */
  id: string;
  receivedAtMs: number;
  /** Empty for the null sender `<>`. */
  envelopeFrom: string;
  /** As it was given with RCPT. */
  recipient: string;
  use: Use;
  client: {
    address: string;
    /** As EHLO or HELO gave it. */
    helo: string;
    /** Such as `TLSv1.3`; null in the clear. */
    tls: string | null;
  };
  /** Of the stored content. */
  sizeBytes: number;
  /**
   * As received, byte for byte, dots unstuffed; without a Received field of our own. Of a report, and of mail to operators that is too
   * large, what a reader of reports needs (src/mail/report/condense.ts).
   */
  content(): Promise<Buffer>;
}

/** The row of work of a mail that is in hand. */
export interface InboundLease {
  seq: number;
  fence: number;
  inboundId: string;
}

/** What a handler found in a mail, on its way to be recorded. Without a lease the mail has no row. */
export interface Found<F, L extends InboundLease | null = InboundLease> {
  lease: L;
  mail: InboundMail;
  finding: F;
}

export interface RecordedFindings {
  /** Numbers of rows whose lease had been lost: nothing of these was recorded. */
  lost: readonly number[];
  /** Blobs that nothing names any more. */
  blobKeys: readonly string[];
}

/** What is done with the mails of one use; `L` has null where mails without a row are recorded too. */
export interface Handler<F, L extends InboundLease | null = InboundLease> {
  /**
   * Says what the mail means, and changes nothing. `Unavailable` is tried again later, with growing waits, for a week; any other
   * exception counts as a crash, and after three the mail is set aside.
   */
  read(mail: InboundMail): Promise<F>;
  /**
   * What is recorded of a mail whose content is not what was stored, or was away for a week; undefined, as where there is no such
   * function, sets it aside. `why` is the end of a sentence.
   */
  unreadable?(mail: InboundMail, why: string): Promise<F | undefined>;
  /**
   * Runs one operation for all of them, in whose transaction `endInbound` (store.ts) is asked first: only what it still holds may
   * have an effect.
   */
  record(found: readonly Found<F, L>[]): Promise<RecordedFindings>;
}

/** By what the recipient is for. */
// biome-ignore lint/suspicious/noExplicitAny: each has findings of its own
export type Handlers = Readonly<Record<Use['kind'], Handler<any>>>;

/** A recipient that mail is taken for. */
export interface Taken {
  use: Use;
  /** Of the content of its mail. */
  maxBytes: number;
  /** Of a route: how many mails its account takes in an hour. */
  mailPerHour?: number;
}

/** The route of a user for an address; asked of every recipient, known or not. `domain` is in A-labels. */
export type FindRoute = (address: { local: string; domain: string }) => Promise<Taken | undefined>;

/** In the transaction that records what the mails mean. */
export type EndInbound = (
  tx: Transaction,
  leases: readonly InboundLease[],
  /** `keep`: the mail stays, for who may read it later, until its content is past its time. */
  options: { keep: boolean },
) => Promise<{ held: ReadonlySet<number>; blobKeys: string[] }>;
