/** Response schemas of the routes that send, for /openapi.json. */
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';

const detail = closed({
  field: Type.String({ description: 'Path of the field, such as attachments[0].name.' }),
  code: Type.String({ description: 'As in the details of an error response.' }),
  message: Type.String(),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
});

const recipientAnswer = named('RecipientStatus', {
  email: Type.String(),
  role: oneOf(['to', 'cc', 'bcc']),
  status: oneOf(['queued', 'scheduled', 'suppressed']),
  messageId: Type.String(),
});

const sendData = named('SendResult', {
  message: oneOf(['queued', 'scheduled', 'suppressed']),
  messageId: Type.String({ description: 'The messageId of the first recipient.' }),
  headerMessageId: Type.String({ description: 'Message-ID header of the email, the same for all recipients.' }),
  from: Type.String(),
  status: oneOf(['queued', 'scheduled', 'suppressed']),
  totalRecipients: Type.Integer(),
  recipients: Type.Array(recipientAnswer),
});

export const sendResponse = named('SendResponse', { success: Type.Literal(true), data: sendData });

/** The response of POST /send?dryRun=true. */
export const dryRunResponse = named('DryRunResponse', {
  subject: Type.String(),
  html: Type.Union([Type.String(), Type.Null()]),
  text: Type.Union([Type.String(), Type.Null()]),
  sizeBytes: Type.Integer({ description: 'Size of the complete message.' }),
  limitBytes: Type.Integer(),
  suppressed: Type.Array(Type.String(), { description: 'Recipients who are suppressed and would not get the email.' }),
  missingVariables: Type.Array(Type.String()),
  warnings: Type.Array(closed({ code: Type.String(), message: Type.String(), remedy: Type.String() })),
});

export const batchResponse = named('SendBatchResponse', {
  results: Type.Array(
    closed({
      status: Type.Integer(),
      data: Type.Optional(sendData),
      error: Type.Optional(closed({ code: Type.String(), message: Type.String(), details: Type.Array(detail) })),
      reasonCode: Type.Optional(Type.String({ description: 'With an error: the same code as in `error`.' })),
    }),
  ),
});
