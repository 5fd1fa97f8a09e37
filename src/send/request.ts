/**
 * The bodies of POST /send and POST /send/batch as schemas, which both validate and document. What a schema cannot express (addresses, line
 * breaks, sums) is checked in check.ts. Every string and array has a limit, so that a hostile body is refused cheaply.
 */
import type { Static } from 'typebox';
import { Type } from '../http/schema-type.ts';
import { closed, mapOf, named, oneOf } from '../http/validate.ts';

export const MAX_RECIPIENTS = 50;
const MAX_BATCH = 100;
/** Maximum body size of /send and /send/batch. */
export const MAX_BODY_BYTES = 16_000_000;

const content = (description: string) => Type.String({ maxLength: MAX_BODY_BYTES, description });

/** One string that may hold several addresses, or an array of such strings. */
const addresses = (description: string) =>
  Type.Union([Type.String({ maxLength: 64_000 }), Type.Array(Type.String({ maxLength: 64_000 }), { maxItems: 1000 })], {
    description,
  });

const attachment = named('Attachment', {
  name: Type.String({ minLength: 1, maxLength: 255, description: 'File name, without path.' }),
  contentType: Type.String({ minLength: 1, maxLength: 255, description: 'MIME type of the file.' }),
  content: Type.String({ maxLength: MAX_BODY_BYTES, description: 'Content in Base64.' }),
  contentId: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'Makes the file inline; cid: URLs in the HTML refer to it.',
    }),
  ),
});

export const sendBody = closed(
  {
    from: Type.Optional(
      Type.String({
        maxLength: 1000,
        description:
          'Sender: an address, or a display name and an address. Required unless the account has a defaultFrom.',
      }),
    ),
    to: Type.Optional(addresses('Recipients; 1 to 50 in to, cc, and bcc together.')),
    cc: Type.Optional(addresses('More recipients, visible to all recipients.')),
    bcc: Type.Optional(addresses('More recipients, hidden from all other recipients.')),
    replyTo: Type.Optional(addresses('Addresses that receive replies.')),
    subject: Type.Optional(Type.String({ maxLength: 100_000, description: 'At most 998 characters after rendering.' })),
    html: Type.Optional(content('HTML body. At least one of html, text, and templateId is required.')),
    text: Type.Optional(content('Text body; derived from html if absent.')),
    templateId: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        description:
          'ID or name of a stored template. subject, html, and text in the request replace those of the template.',
      }),
    ),
    templateVariables: Type.Optional(
      mapOf(Type.Unknown(), {
        maxProperties: 10_000,
        description: 'Values of the variables in subject, html, and text.',
      }),
    ),
    render: Type.Optional(
      Type.Boolean({
        description: 'false: subject, html, and text are sent without replacing variables. true by default.',
      }),
    ),
    missingVariables: Type.Optional(oneOf(['error', 'empty', 'keep'])),
    headers: Type.Optional(
      mapOf(Type.String({ maxLength: 10_000 }), {
        maxProperties: 100,
        description: 'More headers to add to the message.',
      }),
    ),
    attachments: Type.Optional(Type.Array(attachment, { maxItems: 100 })),
    attachmentSubmissionId: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    tags: Type.Optional(
      Type.Array(
        Type.String({
          pattern: '^[A-Za-z0-9_-]{1,64}$',
          phrase: 'must be 1 to 64 characters: A-Z, a-z, 0-9, _, and -',
          description: '1 to 64 characters: A-Z, a-z, 0-9, _, and -.',
        }),
        {
          maxItems: 10,
        },
      ),
    ),
    metadata: Type.Optional(
      mapOf(Type.String({ maxLength: 10_000 }), {
        maxProperties: 20,
        description: 'Returned in events; up to 20 pairs.',
      }),
    ),
    sendAt: Type.Optional(
      Type.String({
        format: 'date-time',
        maxLength: 40,
        description: 'Up to 30 days ahead; a time in the past sends immediately.',
      }),
    ),
    expiresAfterSeconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 259_200 })),
    retainContent: Type.Optional(oneOf(['none', '7d', '30d'])),
    enableClickTracking: Type.Optional(
      Type.Boolean({
        description: 'true: links in the HTML go through Postrider, which records a Click event for each visit.',
      }),
    ),
    enableOpenTracking: Type.Optional(
      Type.Boolean({
        description: 'true: the HTML gets a tracking pixel, and Postrider records an Open event when it is loaded.',
      }),
    ),
    listUnsubscribe: Type.Optional(
      Type.Boolean({ description: 'true: adds List-Unsubscribe headers for one-click unsubscribe (RFC 8058).' }),
    ),
    requireTls: Type.Optional(
      Type.Union([Type.Boolean(), Type.Literal('verified')], {
        description:
          'false, or omitted: encrypted if the server supports it. true: never unencrypted, which protects against passive eavesdropping. "verified": only to a mail server whose certificate is valid for its name. Otherwise the email is deferred, and bounces when it expires.',
      }),
    ),
  },
  { title: 'SendRequest', description: 'One email to 1 to 50 recipients.' },
);

export type SendBody = Static<typeof sendBody>;

export const sendQuery = closed({
  dryRun: Type.Optional(Type.Boolean({ description: 'true: returns what would be sent, without sending it.' })),
});

/** Each message is checked separately against the body of /send. */
export const batchBody = named('SendBatchRequest', {
  messages: Type.Array(Type.Unknown({ shownAs: sendBody }), { minItems: 1, maxItems: MAX_BATCH }),
});
