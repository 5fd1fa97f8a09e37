/**
 * One mail from 354 to the reply to its dot: bytes of the connection become content on stable storage, and content becomes accepted
 * messages. 250 is only sent after the commit. Refused content is read to its dot and discarded, so that the session continues.
 *
 * Also parses DATA (RFC 5321 §4.1.1.4, §4.5.2): finds the end of the mail and removes the stuffing dots, in any pieces. The only end is
 * CRLF.CRLF, where the CRLF that ended the DATA command counts as the first: a dot after a bare CR, a bare LF, or a NUL is content, which
 * the reader of the content refuses. Nothing is copied.
 */
import { Unavailable } from '../base/failure.ts';
import { createSubmissionReader, type SubmissionReader, type SubmittedMail } from '../mail/mime/submitted.ts';
import { quote } from '../mail/mime/submitted-refusal.ts';
import type { Submit } from '../send/send.ts';
import { type ContentSink, createContentSink } from './content-sink.ts';
import {
  BROKEN,
  BUSY,
  type Login,
  type MailTransfer,
  replyFor,
  type SmtpServices,
  type SubmissionEnvelope,
} from './dialogue.ts';
import { addressLiteral } from './session-wire.ts';

const CR = 13;
const LF = 10;
const DOT = 46;
const LINE_DOT = Buffer.from('\r\n.');
const CR_BYTES = Buffer.from('\r');

/** How much of CRLF.CRLF was received. The CR after the dot is held back, because it is content only if no LF follows. */
type Seen = 'nothing' | 'CR' | 'CRLF' | 'CRLF.' | 'CRLF.CR';

interface DotReader {
  /**
   * Reads bytes from `from` on and passes their content to the sink. Returns the position after the final CRLF.CRLF, or -1 if it has not
   * arrived; after it, push must not be called again.
   */
  push(chunk: Buffer, from: number): number;
}

export function createDotReader(sink: (content: Buffer) => void): DotReader {
  let seen: Seen = 'CRLF';

  const give = (chunk: Buffer, from: number, to: number): void => {
    if (to > from) sink(from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to));
  };

  /** The state after a chunk that ends within a possible CRLF.CRLF. */
  const rest = (chunk: Buffer, from: number): Seen => {
    const last = chunk.length - 1;
    if (chunk[last] === CR) return 'CR';
    return chunk[last] === LF && last > from && chunk[last - 1] === CR ? 'CRLF' : 'nothing';
  };

  return {
    push: (chunk, from) => {
      let at = from;
      let start = from;
      while (at < chunk.length) {
        const byte = chunk[at]!;
        switch (seen) {
          case 'nothing': {
            const found = chunk.indexOf(LINE_DOT, at);
            if (found === -1) {
              seen = rest(chunk, at);
              give(chunk, start, chunk.length);
              return -1;
            }
            at = found + 2;
            seen = 'CRLF';
            break;
          }
          case 'CR':
            // Processed again as ordinary content: it may start a CRLF itself.
            if (byte === LF) at += 1;
            seen = byte === LF ? 'CRLF' : 'nothing';
            break;
          case 'CRLF':
            if (byte === DOT) {
              give(chunk, start, at);
              at += 1;
              start = at;
              seen = 'CRLF.';
            } else seen = 'nothing';
            break;
          case 'CRLF.':
            if (byte === CR) {
              at += 1;
              start = at;
              seen = 'CRLF.CR';
            } else seen = 'nothing';
            break;
          case 'CRLF.CR':
            if (byte === LF) {
              seen = 'CRLF';
              return at + 1;
            }
            sink(CR_BYTES);
            seen = 'CR';
            break;
        }
      }
      give(chunk, start, chunk.length);
      return -1;
    },
  };
}

/** Maximum length of a host name (RFC 1035 §2.3.4). Longer names are truncated in the Received field. */
const LONGEST_NAME = 240;

interface TransferOptions {
  services: SmtpServices;
  submit: Submit;
  login: Login;
  envelope: SubmissionEnvelope;
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
        services.log[isExpected ? 'warn' : 'error']({ err: error }, 'submitted message could not be stored');
        return { line: isExpected ? BUSY : BROKEN, accepted: false };
      }
    },
  };
}

async function submit(
  { services, submit: door, login, envelope, helo, address }: TransferOptions,
  reader: SubmissionReader,
  sink: ContentSink,
): Promise<{ line: string; accepted: boolean }> {
  const nowMs = services.clock.now();
  const read = reader.end();
  const refusal = read.ok ? refusalOf(services, envelope, read.mail) : lineOf(read.refusal);
  if (!read.ok || refusal !== undefined) {
    sink.discard();
    return { line: refusal ?? BROKEN, accepted: false };
  }
  const finishing = sink.finish();
  const { content, digest } = finishing instanceof Promise ? await finishing : finishing;
  const traceparent = services.tracer?.begin(undefined);
  const startMs = performance.timeOrigin + performance.now();
  const result = await door.submit({
    caller: login.caller,
    nowMs,
    envelopeFrom: envelope.from,
    recipients: [...envelope.recipients.values()],
    hold: envelope.hold,
    reports: { envid: envelope.envid, ret: envelope.ret, recipients: envelope.reports },
    defaultReports: login.caller.deliveryReports === 'failures' ? 'failures' : undefined,
    mail: read.mail,
    content,
    digest,
    origin: { clientAddress: address, traceparent },
    receivedFrom: `${helo.slice(0, LONGEST_NAME)} (${addressLiteral(address)})`,
  });
  if (traceparent !== undefined) {
    services.tracer?.end({
      context: traceparent,
      parent: undefined,
      name: 'SMTP DATA',
      kind: 'server',
      startMs,
      endMs: performance.timeOrigin + performance.now(),
      attributes: { 'postrider.message_id': result.ok ? result.value.messageId : undefined },
      hasFailed: !result.ok,
    });
  }
  if (!result.ok) return { line: replyFor(result.failure), accepted: false };
  return { line: `250 2.0.0 queued as ${result.value.messageId}`, accepted: true };
}

function lineOf({ code, enhanced, text }: { code: number; enhanced: string; text: string }): string {
  return `${code} ${enhanced} ${text}`;
}

function refusalOf(
  services: SmtpServices,
  envelope: SubmissionEnvelope,
  { smtpUtf8, utf8Field }: SubmittedMail,
): string | undefined {
  // RFC 6531 §3.4: a message with an internationalized header requires the parameter.
  if (smtpUtf8 && !envelope.smtpUtf8) {
    const field = utf8Field === undefined ? '' : ` field ${quote(utf8Field.name)} (line ${utf8Field.line})`;
    return `550 5.6.7 the header${field} has non-ASCII characters; encode its value (RFC 2047), or add SMTPUTF8 to MAIL FROM:<...>`;
  }
  return services.closedToContent() === undefined ? undefined : BUSY;
}
