/**
 * The body of POST /send and of POST /send/batch as schemas: they validate and describe. What a schema cannot say (addresses, line
 * breaks, sums) is checked in check.ts. Every string and array has a bound, so that a hostile body is refused cheaply.
 */
import { type Static, Type } from 'typebox';
import { closed, mapOf, named, oneOf } from '../http/validate.ts';

export const MAX_RECIPIENTS = 50;
const MAX_BATCH = 100;
/** Largest body of /send and /send/batch. */
export const MAX_BODY_BYTES = 16_000_000;

const content = (description: string) => Type.String({ maxLength: MAX_BODY_BYTES, description });

/** One string that may hold several addresses, or an array of such strings. */
const addresses = (description: string) =>
  Type.Union([Type.String({ maxLength: 64_000 }), Type.Array(Type.String({ maxLength: 64_000 }), { maxItems: 1000 })], {
    description,
  });

const attachment = named('Attachment', {
  name: Type.String({ minLength: 1, maxLength: 255, description: 'file name, without path' }),
  contentType: Type.String({ minLength: 1, maxLength: 255, description: 'MIME type of the file' }),
  content: Type.String({ maxLength: MAX_BODY_BYTES, description: 'the bytes in Base64' }),
  contentId: Type.Optional(
    Type.String({ minLength: 1, maxLength: 255, description: 'makes the file inline, referred to as cid: from html' }),
  ),
});

export const sendBody = closed(
  {
    from: Type.Optional(
      Type.String({
        maxLength: 1000,
        description: 'address, or display name plus address; required unless the account has a defaultFrom',
      }),
    ),
    to: Type.Optional(addresses('recipients that everyone sees; 1 to 50 in to, cc and bcc together')),
    cc: Type.Optional(addresses('further recipients that everyone sees')),
    bcc: Type.Optional(addresses('recipients that nobody sees')),
    replyTo: Type.Optional(addresses('where answers go')),
    subject: Type.Optional(Type.String({ maxLength: 100_000, description: 'at most 998 characters once filled in' })),
    html: Type.Optional(content('html body; at least one of html, text and templateId')),
    text: Type.Optional(content('text body; derived from html when absent')),
    templateId: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description: 'id or name of a stored template; subject, html and text given here stand in place of its own',
      }),
    ),
    templateVariables: Type.Optional(
      mapOf(Type.Unknown(), {
        maxProperties: 10_000,
        description: 'values of the variables in subject, html and text',
      }),
    ),
    render: Type.Optional(Type.Boolean({ description: 'false sends subject, html and text literally; default true' })),
    missingVariables: Type.Optional(oneOf(['error', 'empty', 'keep'])),
    headers: Type.Optional(
      mapOf(Type.String({ maxLength: 10_000 }), { maxProperties: 100, description: 'extra headers' }),
    ),
    attachments: Type.Optional(Type.Array(attachment, { maxItems: 100 })),
    attachmentSubmissionId: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    tags: Type.Optional(
      Type.Array(
        Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$', description: '1 to 64 characters of A-Z, a-z, 0-9, _ and -' }),
        {
          maxItems: 10,
        },
      ),
    ),
    metadata: Type.Optional(
      mapOf(Type.String({ maxLength: 10_000 }), {
        maxProperties: 20,
        description: 'returned in events; up to 20 pairs',
      }),
    ),
    sendAt: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description: 'up to 30 days ahead; a time that has passed sends at once',
      }),
    ),
    expiresAfterSeconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 259_200 })),
    retainContent: Type.Optional(oneOf(['none', '7d', '30d'])),
    enableClickTracking: Type.Optional(
      Type.Boolean({ description: 'leads the links of the html through this service, which tells of each Click' }),
    ),
    enableOpenTracking: Type.Optional(
      Type.Boolean({ description: 'adds an invisible picture to the html, which tells of each Open' }),
    ),
    listUnsubscribe: Type.Optional(
      Type.Boolean({ description: 'adds List-Unsubscribe headers for one-click unsubscribing (RFC 8058)' }),
    ),
    requireTls: Type.Optional(
      Type.Union([Type.Boolean(), Type.Literal('verified')], {
        description:
          'false, or left out: encrypted where the server offers it; true: never in the clear, which keeps off those who only listen; "verified": only to a mail server whose certificate is valid for its name. The mail waits otherwise, and bounces when it expires',
      }),
    ),
  },
  { title: 'SendRequest', description: 'One email to 1 to 50 recipients.' },
);

export type SendBody = Static<typeof sendBody>;

export const sendQuery = closed({
  dryRun: Type.Optional(Type.Boolean({ description: 'true: answer what would be sent, and send nothing' })),
});

/** Each message is checked by itself against the body of /send. */
export const batchBody = named('SendBatchRequest', {
  messages: Type.Array(Type.Unknown({ shownAs: sendBody }), { minItems: 1, maxItems: MAX_BATCH }),
});
