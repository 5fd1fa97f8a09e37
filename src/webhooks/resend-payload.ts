/**
 * Events in the form of Resend's webhooks: their names, which are those of its public SDK, and their payloads. An event about one copy of
 * an email has the UUID of the email's first message, and in `to` the recipient of the copy.
 */
import { hash } from 'node:crypto';
import { iso } from '../base/clock.ts';
import { uuidAt, uuidOf } from '../base/uuid-id.ts';
import type { EventType } from '../events/events.ts';
import { sameEmail } from '../messages/messages.ts';
import type { Transaction } from '../storage/operation.ts';
import { rowset } from '../storage/rows.ts';

/** The names that events of a type can have. */
const NAMES: Readonly<Record<EventType, readonly string[]>> = {
  Send: ['email.sent', 'email.scheduled'],
  Delivery: ['email.delivered'],
  DeliveryDelay: ['email.delivery_delayed'],
  Bounce: ['email.bounced', 'email.failed'],
  Complaint: ['email.complained'],
  Reject: ['email.suppressed'],
  Open: ['email.opened'],
  Click: ['email.clicked'],
  Unsubscribe: [],
  Inbound: ['email.received'],
};

/** Returns the types of Postrider's events that can have one of these names. */
export function typesOfResend(names: readonly string[]): EventType[] {
  const types = Object.keys(NAMES) as EventType[];
  return types.filter((type) => NAMES[type].some((name) => names.includes(name)));
}

/** Returns all names that events of these types can have. */
export function resendNamesOf(types: readonly EventType[]): string[] {
  return types.flatMap((type) => NAMES[type]);
}

/** An event with the fields of its email that the payload contains. */
export interface ResendEvent {
  seq: number;
  type: EventType;
  messageId: string;
  /** Unix ms. */
  at: number;
  /** JSON. */
  detail: string;
  /** The following fields are of the email, and null for inbound mail. */
  recipient: string | null;
  headerFrom: string | null;
  subject: string | null;
  metadata: string | null;
  headerMessageId: string | null;
  templateId: string | null;
  acceptedAt: number | null;
  sendAt: number | null;
  firstId: string | null;
}

export interface ResendPayload {
  name: string;
  /** The JSON body of the request. */
  body: string;
}

interface Failure {
  kind: string;
  category: string;
  reply: string | null;
  advice: string;
}

interface Detail {
  bounce?: Failure;
  deliveryDelay?: Failure;
  reject?: { reason: string; advice: string };
  click?: { url: string; userAgent: string };
  inbound?: Inbound;
}

interface Inbound {
  envelope: { to: string };
  headers: { name: string; value: string }[];
  headerMessageId: string | null;
  attachments: { name: string; contentType: string; contentId: string | null }[];
}

const BOUNCE_TYPES: Readonly<Record<string, string>> = { hard: 'Permanent', soft: 'Transient', block: 'Undetermined' };
const BOUNCE_SUBTYPES: Readonly<Record<string, string>> = {
  'mailbox-not-found': 'NoEmail',
  'mailbox-full': 'MailboxFull',
  'content-rejected': 'ContentRejected',
  'message-too-large': 'MessageTooLarge',
};

/** Returns the name of an event; undefined if it has none, such as that of a cancelled message. */
function nameOf({ type, at, sendAt }: ResendEvent, { bounce, reject }: Detail): string | undefined {
  if (type === 'Send') return sendAt !== null && sendAt > at ? 'email.scheduled' : 'email.sent';
  if (type === 'Bounce') return bounce?.category === 'internal' ? 'email.failed' : 'email.bounced';
  if (type === 'Reject') return reject?.reason === 'suppressed' ? 'email.suppressed' : undefined;
  return NAMES[type][0];
}

function outcomeOf(name: string, { at }: ResendEvent, { bounce, reject, click }: Detail): Record<string, unknown> {
  if (name === 'email.failed') return { failed: { reason: bounce?.reply ?? bounce?.advice ?? 'internal error' } };
  if (bounce !== undefined) {
    const message = bounce.reply ?? bounce.advice;
    const subType = BOUNCE_SUBTYPES[bounce.category] ?? 'General';
    return { bounce: { message, type: BOUNCE_TYPES[bounce.kind] ?? 'Undetermined', subType } };
  }
  if (reject !== undefined) return { suppressed: { message: reject.advice, type: 'OnAccountSuppressionList' } };
  // Postrider does not record the IP addresses of recipients.
  if (click !== undefined)
    return { click: { ipAddress: '', link: click.url, timestamp: iso(at), userAgent: click.userAgent } };
  return {};
}

/** Returns the id of a file of inbound mail. */
export function inboundFileUuid(inboundId: string, atMs: number, index: number): string {
  return uuidAt(atMs, hash('sha256', `${inboundId}/${index}`, 'buffer'));
}

/** Returns the addresses of a header field as they are written. */
export function addressesOf(headers: Inbound['headers'], name: string): string[] {
  const values = headers.filter((one) => one.name.toLowerCase() === name).map((one) => one.value);
  return values.flatMap((value) => value.match(/(?:"(?:[^"\\]|\\.)*"|[^",])+/g) ?? []).map((one) => one.trim());
}

function received(event: ResendEvent, inbound: Inbound): Record<string, unknown> {
  const { headers } = inbound;
  const fieldOf = (name: string): string => headers.find((one) => one.name.toLowerCase() === name)?.value ?? '';
  return {
    email_id: uuidOf(event.messageId),
    created_at: iso(event.at),
    from: fieldOf('from'),
    to: addressesOf(headers, 'to'),
    bcc: addressesOf(headers, 'bcc'),
    cc: addressesOf(headers, 'cc'),
    received_for: [inbound.envelope.to],
    message_id: inbound.headerMessageId ?? '',
    subject: fieldOf('subject'),
    attachments: inbound.attachments.map((file, index) => ({
      id: inboundFileUuid(event.messageId, event.at, index),
      filename: file.name,
      content_type: file.contentType,
      content_disposition: file.contentId === null ? 'attachment' : 'inline',
      content_id: file.contentId,
    })),
  };
}

/** Returns the payload of an event; undefined if it has no counterpart. */
export function resendPayload(event: ResendEvent): ResendPayload | undefined {
  const detail = JSON.parse(event.detail) as Detail;
  const name = nameOf(event, detail);
  if (name === undefined) return undefined;
  const data =
    detail.inbound === undefined
      ? {
          email_id: uuidOf(event.firstId ?? event.messageId),
          message_id: event.headerMessageId,
          created_at: iso(event.acceptedAt ?? event.at),
          from: event.headerFrom,
          to: [event.recipient],
          subject: event.subject,
          ...(event.templateId !== null && { template_id: uuidOf(event.templateId) }),
          tags: JSON.parse(event.metadata ?? '{}') as unknown,
          ...outcomeOf(name, event, detail),
        }
      : received(event, detail.inbound);
  return { name, body: JSON.stringify({ type: name, created_at: iso(event.at), data }) };
}

/** Reads the payloads of events by their numbers, except those without a counterpart. */
export async function readResendPayloads(
  tx: Transaction,
  seqs: readonly number[],
): Promise<Map<number, ResendPayload>> {
  if (seqs.length === 0) return new Map();
  const requested = rowset(
    tx,
    'requested',
    { seq: 'int' },
    seqs.map((seq) => ({ seq })),
  );
  const rows = await tx.all<ResendEvent>(
    `SELECT v.seq, v.type, v.message_id AS "messageId", v.at, coalesce(i.detail, v.detail) AS detail, m.recipient,
       e.header_from AS "headerFrom", e.subject, e.metadata, e.header_message_id AS "headerMessageId",
       e.template_id AS "templateId", e.created_at AS "acceptedAt", m.send_at AS "sendAt",
       (SELECT min(o.id) FROM email f JOIN message o ON o.account_id = f.account_id AND o.mode = f.mode
          AND o.email_seq = f.seq WHERE ${sameEmail('f', 'e')}) AS "firstId"
     FROM ${requested.sql} JOIN event v ON v.seq = requested.seq
       LEFT JOIN message m ON m.account_id = v.account_id AND m.mode = v.mode AND m.id = v.message_id
       LEFT JOIN email e ON e.seq = m.email_seq
       LEFT JOIN inbound_message i ON v.type = 'Inbound' AND i.id = v.message_id`,
    ...requested.params,
  );
  const payloads = rows.map((row) => [row.seq, resendPayload(row)] as const);
  return new Map(payloads.filter((one): one is readonly [number, ResendPayload] => one[1] !== undefined));
}
