/**
 * One email to its recipients at one destination: takes or opens a session, sends, and says per recipient what happened.
 * Five things are no attempt, and the recipient is put back to wait instead:
 *
 * - a session that had been idle turns out to be closed, or says 421 before it took anything (RFC 5321 §3.8);
 * - the peer refuses one more connection while others of ours are open there;
 * - 452 4.5.3, too many recipients, for those beyond the ones it took (RFC 5321 §4.5.3.1.10);
 * - a planned stop cancels before the final dot;
 * - the lease of one of the recipients has ended before the final dot: somebody else may have the message now.
 *
 * In none of them has the peer seen a final dot. A recipient is put back a few times at most.
 */
import type { RecipientResult, SendResult, SmtpContent } from '../net/smtp-client.ts';
import type { Prepared } from './attempt.ts';
import { receivedField } from './attempt.ts';
import { type Connections, hasShareLeft, type Line, type Opened } from './connections.ts';
import type { StreamedContent } from './large.ts';
import { type Evidence, judge, type Outcome } from './outcome.ts';
import { RELAY } from './route.ts';
import type { AttemptFacts } from './settlement.ts';
import { sendFitting } from './seven-bit.ts';
import type { Held } from './window.ts';

const MAX_RETURNS = 3;
/** More, because every connection that was being opened together is refused together. */
const MAX_RETURNS_AT_DOOR = 20;

export interface Transmission {
  /** The session to go on with, if it is still good. */
  line: Line | undefined;
  results: RecipientOutcome[];
  /** No session could be opened: others who wait for this destination need not find out for themselves. */
  unreachable: boolean;
  /** The peer took something. */
  progressed: boolean;
  /** The peer refuses one more connection while it serves others of ours. */
  crowded: boolean;
  /** The peer said 421 in a session. */
  slowed: boolean;
}

export type RecipientOutcome = { held: Held } & (
  | { kind: 'judged'; outcome: Outcome; facts: AttemptFacts }
  | { kind: 'again' }
);

export interface Transmitting {
  group: Held[];
  destination: string;
  line: Line | undefined;
  prepared: Prepared;
  connections: Connections;
  hostname: string;
  now(): number;
  /** Whether the leases of all recipients hold: no transaction begins without them, and no final dot is written. */
  holds(): boolean;
  /** Told as soon as a session is used, so that a deadline can cut it. */
  onLine(line: Line): void;
}

type Clocked = Pick<AttemptFacts, 'startedAtMs' | 'durationMs'>;

function stopwatch(now: () => number): () => Clocked {
  const startedAtMs = now();
  const start = performance.now();
  return () => ({ startedAtMs, durationMs: Math.round(performance.now() - start) });
}

function mayReturn(held: Held, most: number = MAX_RETURNS): boolean {
  return held.returns < most;
}

const EMPTY = { host: null, address: null, tls: null, dialogue: [] };

/** All are put back, and the session is as it was. */
export function nothingSent({ group }: Pick<Transmitting, 'group'>, line: Line | undefined): Transmission {
  const results = group.map((held) => ({ held, kind: 'again' as const }));
  return { line, results, unreachable: false, progressed: false, crowded: false, slowed: false };
}

/** The email itself cannot be sent. */
function unprepared(options: Transmitting, evidence: Omit<Evidence, 'relay'>, clocked: Clocked): Transmission {
  const outcome = judge({ ...evidence, relay: options.destination === RELAY });
  const facts = { ...EMPTY, ...clocked };
  const results = options.group.map((held) => ({ held, kind: 'judged' as const, outcome, facts }));
  return { line: options.line, results, unreachable: false, progressed: false, crowded: false, slowed: false };
}

function notOpened(options: Transmitting, opened: Opened & { ok: false }, clocked: Clocked): Transmission {
  const { group, connections, destination } = options;
  const outcome = judge(opened.evidence);
  const cancelled = opened.evidence.cause === 'ECANCELLED';
  // With sessions of ours inside, a refusal at the door is about their number, not about this message.
  const door = opened.evidence.stage === 'banner' || opened.evidence.stage === 'connect';
  const crowded = outcome.kind === 'temporary' && door && connections.count(destination) > 0;
  const results = group.map((held): RecipientOutcome => {
    if (cancelled || (crowded && mayReturn(held, MAX_RETURNS_AT_DOOR))) return { held, kind: 'again' };
    return { held, kind: 'judged', outcome, facts: { ...opened.facts, ...clocked } };
  });
  const unreachable = !cancelled && !crowded && (outcome.kind === 'temporary' || opened.evidence.stage === 'dns');
  return { line: undefined, results, unreachable, progressed: false, crowded, slowed: false };
}

function isSilentClose(result: RecipientResult): boolean {
  const early = result.stage === 'mail' || result.stage === 'reset';
  return early && !result.local && (result.reply === undefined || result.reply.code === 421);
}

function isTooMany(result: RecipientResult, sent: SendResult): boolean {
  const { reply } = result;
  if (result.stage !== 'rcpt' || reply?.code !== 452) return false;
  const said = reply.enhanced === '4.5.3' || /too many recipients/i.test(reply.text);
  return said && sent.recipients.some((other) => other.accepted);
}

function judgeSent(
  options: Transmitting,
  sending: { line: Line; sent: SendResult; reused: boolean; clocked: Clocked },
): RecipientOutcome[] {
  const { line, sent, reused, clocked } = sending;
  const { session } = line;
  const dialogue = line.used === 1 ? [...session.opening, ...sent.dialogue] : sent.dialogue;
  const facts: AttemptFacts = {
    ...clocked,
    host: session.remoteHost,
    address: session.remoteAddress,
    tls: session.tls ?? null,
    dialogue,
  };
  return options.group.map((held, index): RecipientOutcome => {
    const result = sent.recipients[index]!;
    const cancelled = result.cause === 'ECANCELLED' && result.stage !== 'dot';
    const again = isTooMany(result, sent) || (reused && isSilentClose(result));
    if (cancelled || (again && mayReturn(held))) return { held, kind: 'again' };
    const outcome = judge({ ...result, relay: options.destination === RELAY });
    return { held, kind: 'judged', outcome, facts };
  });
}

function isTemporaryAtMail(results: RecipientOutcome[], sent: SendResult): boolean {
  return (
    sent.recipients.every((one) => one.stage === 'mail' || one.stage === 'reset') &&
    results.every((one) => one.kind === 'judged' && one.outcome.kind === 'temporary')
  );
}

/** Streamed content with its head; read from the beginning each time it is sent. */
function behind(head: Buffer, content: StreamedContent): SmtpContent {
  return {
    async *[Symbol.asyncIterator]() {
      yield head;
      yield* content.read();
    },
  };
}

/** Never rejects because of a peer. */
export async function transmit(options: Transmitting): Promise<Transmission> {
  const { group, destination, prepared, connections } = options;
  const elapsed = stopwatch(options.now);
  if (!prepared.ok) return unprepared(options, prepared.evidence, elapsed());
  const { job } = group[0]!;
  const received = receivedField(job, options.hostname);
  const head = Buffer.from(`${received}${prepared.signatures}`, 'latin1');
  const { content } = prepared;
  const message = {
    mailFrom: job.envelopeFrom,
    recipients: group.map((held) => held.job.recipient),
    content: Buffer.isBuffer(content) ? [head, content] : behind(head, content),
    sizeBytes: head.length + (Buffer.isBuffer(content) ? content.length : content.sizeBytes),
    smtpUtf8: job.options.smtpUtf8,
    eightBit: job.options.eightBit,
    requireTls: job.options.requireTls,
    mayEnd: options.holds,
  };

  let line = options.line?.session.usable && hasShareLeft(options.line) ? options.line : undefined;
  if (options.line && !line) connections.release(options.line);
  line ??= connections.take(destination);
  for (;;) {
    if (!line) {
      const opened = await connections.open(destination);
      if (!opened.ok) return notOpened(options, opened, elapsed());
      line = opened.line;
    }
    if (!options.holds()) return nothingSent(options, line);
    options.onLine(line);
    const reused = line.used > 0;
    line.used += 1;
    const sent = await sendFitting(line.session, { message, prepared, received });
    const results = judgeSent(options, { line, sent, reused, clocked: elapsed() });
    const progressed = sent.recipients.some((one) => one.accepted);
    // RFC 5321 §5.1: a temporary refusal before any recipient was named leaves the next exchanger to be asked.
    if (line.rest.length > 0 && isTemporaryAtMail(results, sent)) {
      const next = await connections.open(destination, line.rest);
      if (next.ok) {
        connections.release(line);
        line = next.line;
        continue;
      }
    }
    const slowed = sent.recipients.some((one) => one.reply?.code === 421);
    const good = line.session.usable ? line : undefined;
    return { line: good, results, unreachable: false, progressed, crowded: false, slowed };
  }
}
