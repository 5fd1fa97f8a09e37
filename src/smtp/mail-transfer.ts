/**
 * One mail from 354 to the reply to its dot: bytes of the connection become content on stable storage, and content
 * becomes accepted messages. 250 is said only after the commit. Content that is refused is read to its dot and thrown
 * away, so that the session goes on.
 */
import { Unavailable } from '../base/failure.ts';
import { createSubmissionReader, type SubmissionReader } from '../mail/mime/submitted.ts';
import { type ContentSink, createContentSink } from './content-sink.ts';
import { createDotReader, type DotReader } from './dots.ts';
import { addressLiteral } from './peer-address.ts';
import { BROKEN, BUSY, replyFor } from './replies.ts';
import type { Envelope, Login, SmtpServices } from './services.ts';

/** Of a host (RFC 1035 §2.3.4); a longer one is shown by its beginning, so that the Received field stays whole. */
const LONGEST_NAME = 240;

export interface MailTransfer {
  /** Takes bytes from `from` on; the position behind the final dot, or -1 while it has not come. */
  push(chunk: Buffer, from: number): number;
  /** Resolves when more bytes can be taken; undefined when they can. */
  untilReady(): Promise<void> | undefined;
  /** More came than is read of a mail that is too large. */
  isEndless(): boolean;
  /** After the dot: the reply. Never rejects. */
  finish(): Promise<{ line: string; accepted: boolean }>;
  /** The mail does not come to its end. */
  abort(): void;
}

export interface TransferOptions {
  services: SmtpServices;
  login: Login;
  envelope: Envelope;
  helo: string;
  address: string;
}

export function beginTransfer(options: TransferOptions): MailTransfer {
  const { services, envelope } = options;
  const { limits } = services;
  const sink = createContentSink(services.blobs);
  const reader = createSubmissionReader({
    sink: sink.write,
    nowMs: services.clock.now() + envelope.clockOffsetMs,
    maxBytes: limits.maxMessageBytes,
    hostname: services.hostname,
  });
  const dots: DotReader = createDotReader((content) => reader.write(content));

  return {
    push: dots.push,
    untilReady: sink.untilReady,
    isEndless: () => reader.sizeBytes > limits.maxDiscardBytes,
    abort: sink.discard,
    finish: async () => {
      try {
        return await submit(options, reader, sink);
      } catch (error) {
        sink.discard();
        const isExpected = error instanceof Unavailable;
        services.log[isExpected ? 'warn' : 'error']({ err: error }, 'a submitted mail could not be stored');
        return { line: isExpected ? BUSY : BROKEN, accepted: false };
      }
    },
  };
}

async function submit(
  { services, login, envelope, helo, address }: TransferOptions,
  reader: SubmissionReader,
  sink: ContentSink,
): Promise<{ line: string; accepted: boolean }> {
  const nowMs = services.clock.now();
  const read = reader.end();
  const refusal = read.ok ? refusalOf(services, envelope, read.mail.smtpUtf8) : lineOf(read.refusal);
  if (!read.ok || refusal !== undefined) {
    sink.discard();
    return { line: refusal ?? BROKEN, accepted: false };
  }
  const finishing = sink.finish();
  const { content, digest } = finishing instanceof Promise ? await finishing : finishing;
  const result = await services.submit.submit({
    caller: login.caller,
    nowMs,
    envelopeFrom: envelope.from,
    recipients: [...envelope.recipients.values()],
    hold: envelope.hold,
    mail: read.mail,
    content,
    digest,
    clientAddress: address,
    receivedFrom: `${helo.slice(0, LONGEST_NAME)} (${addressLiteral(address)})`,
  });
  if (!result.ok) return { line: replyFor(result.failure), accepted: false };
  return { line: `250 2.0.0 queued as ${result.value.messageId}`, accepted: true };
}

function lineOf({ code, enhanced, text }: { code: number; enhanced: string; text: string }): string {
  return `${code} ${enhanced} ${text}`;
}

function refusalOf(services: SmtpServices, envelope: Envelope, smtpUtf8: boolean): string | undefined {
  // RFC 6531 §3.4: a mail with an internationalised header needs the parameter.
  if (smtpUtf8 && !envelope.smtpUtf8) {
    return '550 5.6.7 the header is not ASCII; encode it (RFC 2047), or give SMTPUTF8 with MAIL';
  }
  return services.closedToContent() === undefined ? undefined : BUSY;
}
