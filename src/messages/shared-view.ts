/**
 * The view of a message through a shared link: its status and delivery, and nothing about others. Tags, metadata, opens, and clicks are
 * left out. One SMTP session serves several recipients of an email, including blind copies, so lines about other recipients are removed.
 */
import { iso } from '../base/clock.ts';
import { detailFieldsOf, type EventRow, eventBody, SHARED_EVENT_TYPES } from '../events/events.ts';
import { type MessageRow, messageBody } from './message.ts';
import type { ShareGrant } from './share-token.ts';

interface Line {
  atMs: number;
  direction: 'C' | 'S';
  text: string;
}

interface AttemptView {
  dialogue: Line[];
}

const SHOWN = [
  ...(['messageId', 'status', 'mode', 'from', 'to', 'role', 'subject', 'sizeBytes', 'headerMessageId'] as const),
  ...(['createdAt', 'sendAt', 'nextAttemptAt', 'expiresAt'] as const),
];
const SHOWN_DETAILS = detailFieldsOf(SHARED_EVENT_TYPES);
const SHOWN_EVENTS: ReadonlySet<unknown> = new Set(SHARED_EVENT_TYPES);

type Json = Record<string, unknown>;

function only(names: readonly string[], of: Json): Json {
  return Object.fromEntries(names.filter((name) => of[name] !== undefined).map((name) => [name, of[name]]));
}

const RCPT = /^RCPT TO:<([^>]*)>/i;
/** Replaces lines in the middle of a session that was too long to keep. */
const CUT = '…';

/**
 * Returns the session without lines about other recipients. With pipelining, replies come after all commands, so replies between the
 * envelope and the content cannot be attributed to one recipient: they are removed too, and the attempt's own reply is shown separately.
 */
export function ownLines(lines: readonly Line[], recipient: string): Line[] {
  const named = new Set(lines.flatMap(({ text }) => RCPT.exec(text)?.[1] ?? []));
  const isShared = named.size > 1 || lines.some(({ text }) => text === CUT);
  if (!isShared) return [...lines];
  let inEnvelope = false;
  return lines.filter(({ direction, text }) => {
    const rcpt = direction === 'C' ? RCPT.exec(text)?.[1] : undefined;
    if (direction === 'C') inEnvelope = rcpt !== undefined || (inEnvelope && /^DATA$/i.test(text));
    else if (text === CUT) inEnvelope = true;
    if (rcpt !== undefined) return rcpt.toLowerCase() === recipient.toLowerCase();
    return direction === 'C' || !inEnvelope;
  });
}

function attemptView(record: string, recipient: string): Json {
  const attempt = JSON.parse(record) as AttemptView & Json;
  return { ...attempt, dialogue: ownLines(attempt.dialogue, recipient) };
}

export function sharedBody(
  grant: ShareGrant,
  { row, attempts, timeline }: { row: MessageRow; attempts: readonly string[]; timeline: readonly EventRow[] },
): Json {
  const events = timeline.map((event) => eventBody(event) as Json);
  return {
    ...only(SHOWN, messageBody(row)),
    ...(grant.hideSubject && { subject: '' }),
    validUntil: iso(grant.expiresAtMs),
    subjectHidden: grant.hideSubject,
    contentHidden: isContentHidden(grant),
    attempts: attempts.map((record) => attemptView(record, row.recipient)),
    timeline: events
      .filter(({ eventType }) => SHOWN_EVENTS.has(eventType))
      .map((event) => only(['eventId', 'eventType', 'timestamp', ...SHOWN_DETAILS], event)),
  };
}

/** The content includes the subject, so hiding the subject hides it too. */
export const isContentHidden = ({ hideSubject, hideContent }: ShareGrant): boolean => hideSubject || hideContent;
