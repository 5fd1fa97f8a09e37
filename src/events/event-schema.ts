/** OpenAPI schema of events: the common fields, and the fields of each type, of which an event has exactly one. */
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import { EVENT_TYPES, SHARED_EVENT_TYPES } from './event.ts';

const nullable = (type: 'string' | 'integer', description: string) =>
  Type.Unsafe<string | number | null>({ type: [type, 'null'], description });
const time = Type.String({ format: 'date-time' });

const whose = {
  owner: oneOf(['recipient', 'sender', 'service', 'remote'], { description: 'The party that can fix the problem.' }),
  advice: Type.String({ description: 'One sentence that explains what to do.' }),
  suppressed: Type.Boolean({ description: 'Whether the address was suppressed.' }),
};

const failureFields = {
  kind: oneOf(['hard', 'soft', 'block'], {
    description:
      'hard: the address or its domain is wrong. block: refused for policy, content, reputation, authentication or rights. soft: everything else, such as a full mailbox or an expired message.',
  }),
  category: Type.String({
    description: 'For example mailbox-not-found, mailbox-full, blocked, content-rejected, smtputf8, expired.',
  }),
  smtpCode: nullable('integer', 'Null if no server replied.'),
  enhancedCode: nullable('string', 'Enhanced status code, such as 5.1.1.'),
  reply: nullable('string', 'Reply of the server, or a description of the problem if there was none.'),
  remoteHost: nullable('string', 'The mail server that replied; null if none did.'),
  ...whose,
};

const late = Type.Optional(
  Type.Boolean({ description: 'true: reported by email after the receiving server had accepted the message.' }),
);

const engagement = {
  machine: Type.Boolean({ description: 'true: opened by a program, such as a scanner, not by a person.' }),
  userAgent: Type.String(),
};

const deliveryFields = {
  remoteHost: nullable('string', 'The mail server that accepted the message.'),
  reply: nullable('string', 'Reply of the server.'),
  tls: nullable('string', 'Protocol version, such as TLSv1.3; null if unencrypted.'),
  tlsFallback: Type.Optional(
    Type.String({ description: 'Why the connection was unencrypted although the server offers TLS.' }),
  ),
  attempts: Type.Integer(),
  latencyMs: Type.Integer({ description: 'Milliseconds from acceptance to delivery.' }),
};

const outcomes = {
  delivery: Type.Optional(named('DeliveryDetails', deliveryFields)),
  deliveryDelay: Type.Optional(
    named('DeliveryDelayDetails', {
      ...failureFields,
      nextAttemptAt: Type.Optional(Type.String({ format: 'date-time', description: 'Absent if `late` is true.' })),
      late,
    }),
  ),
  bounce: Type.Optional(named('BounceDetails', { ...failureFields, late })),
  complaint: Type.Optional(
    named('ComplaintDetails', {
      feedbackType: Type.String(),
      remoteHost: nullable('string', 'The server that sent the report.'),
      ...whose,
    }),
  ),
  reject: Type.Optional(
    named('RejectDetails', {
      reason: oneOf(['suppressed', 'cancelled']),
      simulated: Type.Optional(
        Type.Boolean({ description: 'True if the sandbox simulated the suppression: no list contains the address.' }),
      ),
      ...whose,
    }),
  ),
};

const link = (description: string) => Type.String({ description });

const reason = nullable('string', 'Explanation of any result other than a plain pass.');
const spf = closed({
  result: oneOf(['none', 'neutral', 'pass', 'fail', 'softfail', 'temperror', 'permerror']),
  domain: nullable('string', 'Domain of MAIL FROM, or the HELO name if that is empty.'),
  reason,
});
const dkim = closed({
  result: oneOf(['pass', 'fail', 'policy', 'neutral', 'temperror', 'permerror']),
  domain: nullable('string', 'The d= tag of the signature.'),
  selector: nullable('string', 'The s= tag of the signature.'),
  reason,
});
const dmarc = closed({
  result: oneOf(['none', 'pass', 'fail', 'temperror', 'permerror']),
  policy: Type.Unsafe<'none' | 'quarantine' | 'reject' | null>({
    enum: ['none', 'quarantine', 'reject', null],
    description: 'Policy of the domain for mail that fails; null without a record.',
  }),
  domain: nullable('string', 'Domain of the From header.'),
  reason,
});
const arc = closed({ result: oneOf(['none', 'pass', 'fail']), reason });

const authentication = named('AuthenticationResults', {
  spf,
  dkim: Type.Array(dkim, { description: 'One entry per signature; empty without signatures.' }),
  dmarc,
  arc,
});

export const inboundContentSchema = named('InboundContent', {
  inboundId: Type.String(),
  inboundRouteId: Type.String(),
  envelope: closed({
    from: Type.String({ description: 'Empty for bounces and other automatic messages.' }),
    to: Type.String(),
  }),
  headers: Type.Array(closed({ name: Type.String(), value: Type.String() }), {
    description: 'All header fields, in their original order.',
  }),
  headerMessageId: nullable('string', 'Message-ID header of the message.'),
  text: nullable('string', 'The text part, or text derived from the HTML if there is none.'),
  html: nullable('string', 'The HTML part as received. Display it only in a sandbox.'),
  replyText: nullable('string', 'The text without the quoted mail below it and without a signature.'),
  textTruncated: Type.Boolean({ description: 'Whether the text was truncated. rawUrl has the complete message.' }),
  htmlTruncated: Type.Boolean(),
  attachments: Type.Array(
    closed({
      name: Type.String(),
      contentType: Type.String(),
      sizeBytes: Type.Integer(),
      contentId: nullable('string', 'Content-ID of an inline file, which cid: URLs in the HTML refer to.'),
      url: link('Returns the file without a key until linksExpireAt.'),
    }),
  ),
  rawUrl: link('URL of the message as received, valid until linksExpireAt.'),
  linksExpireAt: time,
  sizeBytes: Type.Integer(),
  inReplyTo: nullable(
    'string',
    'The messageId that it replies to, found by In-Reply-To, References, or reply+MESSAGEID@.',
  ),
  autoReply: Type.Boolean({ description: 'true: sent automatically, for example an out-of-office reply.' }),
  authentication: Type.Optional(authentication),
  unreadable: Type.Array(Type.String(), {
    description: 'Parts that could not be parsed, one sentence each. rawUrl has the complete message.',
  }),
});

/** An event as returned for a share link of its message. */
export const sharedEventSchema = named('SharedEvent', {
  eventId: Type.String(),
  eventType: oneOf([...SHARED_EVENT_TYPES]),
  timestamp: time,
  ...outcomes,
});

/** An event as returned by the API; only the member of its own type is present. */
export const eventSchema = named('Event', {
  eventId: Type.String(),
  eventType: oneOf([...EVENT_TYPES]),
  messageId: Type.String(),
  timestamp: time,
  mode: oneOf(['live', 'sandbox']),
  recipient: Type.String(),
  from: Type.String(),
  subject: Type.String(),
  headerMessageId: nullable('string', 'Message-ID header of the email; null for inbound mail without one.'),
  tags: Type.Array(Type.String()),
  metadata: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
  envid: Type.Optional(
    Type.String({ description: 'ENVID of the SMTP client that submitted the message, decoded from xtext (RFC 3461).' }),
  ),
  test: Type.Optional(Type.Boolean({ description: 'true: sent by POST /webhooks/{id}/test.' })),
  ...outcomes,
  open: Type.Optional(closed(engagement)),
  click: Type.Optional(closed({ url: Type.String(), ...engagement })),
  unsubscribe: Type.Optional(
    closed({ method: Type.String({ description: 'How the recipient unsubscribed: page, one-click, or mail.' }) }),
  ),
  inbound: Type.Optional(inboundContentSchema),
});
