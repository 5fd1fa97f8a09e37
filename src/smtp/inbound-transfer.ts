/**
 * One inbound mail, from 354 to the reply to its dot: 250 is sent once it is on stable storage. Mail for routes is stored byte for byte. Of
 * a report only the parts that its readers need are stored; the content that it returns is dropped while it streams in. Refused mail is
 * read to its dot and discarded, and the session continues.
 *
 * Refused are a CR or LF that is not part of CRLF, which a later reader could take for the end of the mail, and NUL, as in submission; mail
 * that has passed more than 30 servers, which is in a loop (RFC 5321 §6.3); and mail that is too large. Lines of any length and bytes above
 * 0x7F are accepted: bounces quote what others have sent, and none of it is sent on.
 */
import { Unavailable } from '../base/failure.ts';
import { ReportCondenser } from '../mail/report/condense.ts';
import type { SubmittedContent } from '../send/send.ts';
import { type ContentSink, createContentSink } from './content-sink.ts';
import { BROKEN, BUSY, type MailTransfer, type SmtpServices, TOO_LARGE } from './dialogue.ts';
import { createDotReader } from './mail-transfer.ts';

const MAX_RECEIVED = 30;
/** Bytes of the header in which Received fields are counted. */
const COUNTED_BYTES = 262_144;
const CR = 13;
const LF = 10;

const LOOP = `554 5.4.6 mail loop: more than ${MAX_RECEIVED} Received fields`;
const BARE = '550 5.6.0 invalid message: bare CR or LF, or a NUL character';
const STRAY = /\0|\r(?!\n)|(?<!\r)\n/;

/** There are no idempotency keys here, and the digest of submissions would hold the header in memory until it ends. */
const NO_DIGEST = { update: () => undefined, digest: () => Buffer.alloc(0) };

export interface InboundReader {
  /** Bytes between DATA and the dot, dots unstuffed, split anywhere. */
  write(chunk: Buffer): void;
  /** Returns the reply that refuses the mail; undefined if it can be kept. */
  refusal(): string | undefined;
  readonly sizeBytes: number;
}

export function createInboundReader({
  sink,
  maxBytes,
}: {
  sink(chunk: Buffer): void;
  maxBytes: number;
}): InboundReader {
  let sizeBytes = 0;
  let isStray = false;
  let lastByte = LF;
  // Joined once: a header may arrive byte by byte.
  let header: string[] | undefined = [];
  let headerBytes = 0;
  let tail = '\r\n';
  let received = 0;

  const countReceived = (text: string): void => {
    if (header === undefined) return;
    const seen = tail + text;
    const end = seen.indexOf('\r\n\r\n');
    header.push(end === -1 ? text : text.slice(0, Math.max(0, end - tail.length)));
    headerBytes += text.length;
    tail = seen.slice(-3);
    if (end === -1 && headerBytes < COUNTED_BYTES) return;
    received = fieldsOf(header);
    header = undefined;
  };

  return {
    get sizeBytes() {
      return sizeBytes;
    },
    write: (chunk) => {
      sizeBytes += chunk.length;
      if (isStray || sizeBytes > maxBytes || chunk.length === 0) return;
      const text = chunk.toString('latin1');
      // The first and last byte of a piece are checked with its neighbor.
      const from = lastByte === CR && chunk[0] === LF ? 1 : 0;
      const isEndOpen = chunk.at(-1) === CR;
      isStray =
        (lastByte === CR && chunk[0] !== LF) || STRAY.test(text.slice(from, isEndOpen ? text.length - 1 : text.length));
      lastByte = chunk.at(-1)!;
      if (isStray) return;
      countReceived(text);
      sink(chunk);
    },
    refusal: () => {
      if (sizeBytes > maxBytes) return TOO_LARGE(maxBytes);
      if (isStray || lastByte === CR) return BARE;
      if (header !== undefined) received = fieldsOf(header);
      return received > MAX_RECEIVED ? LOOP : undefined;
    },
  };
}

function fieldsOf(header: readonly string[]): number {
  return header.join('').match(/^received[ \t]*:/gim)?.length ?? 0;
}

export interface StoredContent {
  content: SubmittedContent;
  sizeBytes: number;
}

/** The stored forms of an inbound message, as requested. */
export interface StoredMail {
  /** The message as received; undefined if it is too large to be stored whole. */
  whole: StoredContent | undefined;
  /** The condensed form for the report parser (src/mail/report/condense.ts). */
  report: StoredContent | undefined;
  /** Size of the message as received, in bytes. */
  receivedBytes: number;
}

export interface InboundTransferOptions {
  services: SmtpServices;
  /** Larger mail is refused. */
  maxBytes: number;
  /** A message up to this size is stored as received; 0 if no recipient needs that. */
  wholeBytes: number;
  /** Whether the parts that a report needs are stored. */
  isReport: boolean;
  /** Returns the id of the mail. */
  store(mail: StoredMail): Promise<string>;
}

interface MailSink {
  write(chunk: Buffer): void;
  untilReady(): Promise<void> | undefined;
  finish(): Promise<Omit<StoredMail, 'receivedBytes'>>;
  discard(): void;
}

/** Stores the mail as received, the parts of a report, or both, separately. */
function createMailSink({ services, wholeBytes, isReport }: InboundTransferOptions): MailSink {
  const whole = wholeBytes > 0 ? createContentSink(services.blobs, () => NO_DIGEST) : undefined;
  const report = isReport ? createContentSink(services.blobs, () => NO_DIGEST) : undefined;
  let receivedBytes = 0;
  let reportBytes = 0;
  const condenser = new ReportCondenser((piece) => {
    reportBytes += piece.length;
    report?.write(piece);
  });
  const finished = async (sink: ContentSink | undefined, sizeBytes: number): Promise<StoredContent | undefined> =>
    sink && { content: (await sink.finish()).content, sizeBytes };

  return {
    write: (chunk) => {
      receivedBytes += chunk.length;
      if (receivedBytes <= wholeBytes) whole?.write(chunk);
      else whole?.discard();
      if (report) condenser.write(chunk);
    },
    untilReady: () => whole?.untilReady() ?? report?.untilReady(),
    finish: async () => {
      condenser.end();
      return {
        whole: receivedBytes <= wholeBytes ? await finished(whole, receivedBytes) : undefined,
        report: await finished(report, reportBytes),
      };
    },
    discard: () => {
      whole?.discard();
      report?.discard();
    },
  };
}

export function beginInboundTransfer(options: InboundTransferOptions): MailTransfer {
  const { services, maxBytes, store } = options;
  const sink = createMailSink(options);
  const reader = createInboundReader({ sink: sink.write, maxBytes });
  const dots = createDotReader((content) => reader.write(content));
  const keep = async (): Promise<{ line: string; accepted: boolean }> => {
    const refusal = reader.refusal() ?? (services.closedToContent() === undefined ? undefined : BUSY);
    if (refusal === LOOP) services.metrics.inboundRoutes['too-many-hops'].inc();
    if (refusal !== undefined) {
      sink.discard();
      return { line: refusal, accepted: false };
    }
    const id = await store({ ...(await sink.finish()), receivedBytes: reader.sizeBytes });
    return { line: `250 2.0.0 queued as ${id}`, accepted: true };
  };
  return {
    push: dots.push,
    untilReady: sink.untilReady,
    isEndless: () => reader.sizeBytes > services.limits.maxDiscardBytes,
    abort: sink.discard,
    finish: async () => {
      try {
        return await keep();
      } catch (error) {
        sink.discard();
        const isExpected = error instanceof Unavailable;
        services.log[isExpected ? 'warn' : 'error']({ err: error }, 'inbound message could not be stored');
        return { line: isExpected ? BUSY : BROKEN, accepted: false };
      }
    },
  };
}
