/**
 * An inbound message for one recipient, and the interface of its handlers. It is on stable storage before its sender gets 250, with a work
 * row (small reports are recorded immediately, see intake.ts). A handler reads it, possibly several times without changing anything, and
 * then records its effect in one transaction with the end of that row, so that a message has its effect once.
 */
import type { Mode } from '../base/mode.ts';
import type { ReturnPathClaim } from '../mail/token-address.ts';
import type { Transaction } from '../storage/operation.ts';

export type Use =
  /** `b+TOKEN@…`, the return path of a copy that was sent: a report of its delivery is expected. */
  | { kind: 'return-path'; copy: ReturnPathClaim }
  /** `u+TOKEN@…`, the mail address in List-Unsubscribe. */
  | { kind: 'unsubscribe'; copy: ReturnPathClaim }
  /**
   * `abuse@` and `postmaster@` of the bounce domain: feedback reports, and mail for operators. `receivedBytes` is the size of a message
   * that was too large to be stored completely.
   */
  | { kind: 'abuse' | 'postmaster'; receivedBytes?: number }
  | { kind: 'route'; accountId: string; mode: Mode; routeId: string };

export interface InboundMail {
  /** `inb_…`: of this mail for this recipient. */
  id: string;
  receivedAtMs: number;
  /** Empty for the null sender `<>`. */
  envelopeFrom: string;
  /** As given in RCPT. */
  recipient: string;
  use: Use;
  client: {
    address: string;
    /** As given in EHLO or HELO. */
    helo: string;
    /** TLS version such as `TLSv1.3`; null if unencrypted. */
    tls: string | null;
  };
  sizeBytes: number;
  /**
   * The message as received, byte for byte, dots unstuffed, without a Received field of Postrider. For reports, and for operator mail that
   * is too large, only the parts that a report parser needs (src/mail/report/condense.ts).
   */
  content(): Promise<Buffer>;
}

/** The leased work row of a message. */
export interface InboundLease {
  seq: number;
  fence: number;
  inboundId: string;
}

/** The findings of a handler, to be recorded. Without a lease the message has no row. */
export interface Found<F, L extends InboundLease | null = InboundLease> {
  lease: L;
  mail: InboundMail;
  finding: F;
}

export interface RecordedFindings {
  /** Numbers of rows whose lease was lost: nothing was recorded for them. */
  lost: readonly number[];
  /** Blobs that no row names anymore. */
  blobKeys: readonly string[];
}

/** Handles messages for one use. `L` includes null if messages without a row are recorded too. */
export interface Handler<F, L extends InboundLease | null = InboundLease> {
  /**
   * Returns the effect of the message and changes nothing. `Unavailable` is retried with growing delays for a week; any other exception
   * counts as a crash, and after three the message is quarantined.
   */
  read(mail: InboundMail): Promise<F>;
  /**
   * Returns the findings for a message whose content is corrupt or missing, or was unavailable for a week; undefined (or no such function)
   * quarantines it. `why` is the end of a sentence.
   */
  unreadable?(mail: InboundMail, why: string): Promise<F | undefined>;
  /**
   * Executes one operation for all messages, whose transaction calls `endInbound` (store.ts) first: only messages with a valid lease may
   * have an effect.
   */
  record(found: readonly Found<F, L>[]): Promise<RecordedFindings>;
}

// biome-ignore lint/suspicious/noExplicitAny: each has findings of its own
export type Handlers = Readonly<Record<Use['kind'], Handler<any>>>;

/** A recipient whose mail is accepted. */
export interface InboundUse {
  use: Use;
  /** Maximum size of its messages. */
  maxBytes: number;
  /** For a route: maximum messages that its account accepts per hour. */
  mailPerHour?: number;
  /** For a route: its account is suspended, so mail is deferred. */
  isSuspended?: boolean;
}

/** Finds the inbound route for an address; called for every recipient, known or not. `domain` is in A-labels. */
export type FindRoute = (address: { local: string; domain: string }) => Promise<InboundUse | undefined>;

/** Called in the transaction that records the findings. */
export type EndInbound = (
  tx: Transaction,
  leases: readonly InboundLease[],
  /** `keep`: the message is kept for readers until its content expires. */
  options: { keep: boolean },
) => Promise<{ held: ReadonlySet<number>; blobKeys: string[] }>;
