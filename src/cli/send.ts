/**
 * `postrider send`: one email over the HTTP API, as any client would. Files to a single recipient go by the upload flow; to
 * several they go inside the request, so that the whole has to fit into the 2 MB of an email without that flow.
 */
import { STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { parseAddressList } from '../mail/address.ts';
import { type ApiClient, apiClient, refusal, sentOutcome } from './api-client.ts';
import { API_OPTIONS, API_OPTIONS_HELP, apiPlace } from './api-place.ts';
import {
  type Command,
  type CommandCall,
  CommandError,
  type CommandOutcome,
  type OptionValues,
  optional,
  required,
  UsageError,
} from './command.ts';
import { inlineAttachment, type LocalFile, localFile } from './send-files.ts';
import { sendLarge } from './send-large.ts';

function list(options: OptionValues, name: string): string[] {
  const value = options[name];
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

function filesOf({ options, positionals }: CommandCall): LocalFile[] {
  const files = list(options, 'attach');
  if (files.length === 0 && positionals.length > 0) throw new UsageError(`unexpected argument ${positionals[0]}`);
  return [...files, ...positionals].map(localFile);
}

/** The fields of POST /send but for the files. */
function mailOf(options: OptionValues): Record<string, unknown> {
  const to = list(options, 'to');
  const mail: Record<string, unknown> = {
    from: required(options, 'from'),
    to,
    subject: required(options, 'subject'),
  };
  if (to.length === 0) throw new UsageError('--to is required');
  for (const name of ['cc', 'bcc']) if (list(options, name).length > 0) mail[name] = list(options, name);
  for (const name of ['html', 'text']) {
    const value = optional(options, name);
    if (value !== undefined) mail[name] = value;
  }
  // An empty mail, as mail(1) sends it; the API asks for some body.
  if (mail.html === undefined && mail.text === undefined) mail.text = '\n';
  return mail;
}

/** What the upload flow asks for: exactly one address in to, no cc, no bcc. */
function hasOneRecipient(options: OptionValues): boolean {
  if (list(options, 'cc').length + list(options, 'bcc').length > 0) return false;
  const count = list(options, 'to').reduce((sum, text) => {
    const parsed = parseAddressList(text);
    return sum + (parsed.ok ? parsed.value.length : 1);
  }, 0);
  return count === 1;
}

async function sendInline(
  { options }: CommandCall,
  api: ApiClient,
  { mail, files }: { mail: Record<string, unknown>; files: LocalFile[] },
): Promise<CommandOutcome> {
  const tooLarge = files.find((file) => file.sizeBytes > STANDARD_EMAIL_BYTES);
  if (tooLarge) {
    throw new CommandError(
      'EMAIL_SIZE_EXCEEDED',
      `${tooLarge.path} has ${tooLarge.sizeBytes} bytes; an email to several recipients is at most ${STANDARD_EMAIL_BYTES}, send it to one recipient at a time`,
    );
  }
  const body = files.length === 0 ? mail : { ...mail, attachments: files.map(inlineAttachment) };
  const idempotencyKey = optional(options, 'idempotency-key');
  const answer = await api.call({ method: 'POST', path: '/send', body: JSON.stringify(body), idempotencyKey });
  if (answer.status !== 202) return refusal(answer);
  return sentOutcome(api, answer);
}

export const sendCommand: Command = {
  words: 'send',
  usage: '--from F --to T --subject S [--html H] [--text T] [--attach FILE…]',
  summary: `send an email over the API; repeat an interrupted one to continue it (also --cc, --bcc, --idempotency-key; ${API_OPTIONS_HELP})`,
  options: {
    from: { type: 'string' },
    to: { type: 'string', multiple: true },
    cc: { type: 'string', multiple: true },
    bcc: { type: 'string', multiple: true },
    subject: { type: 'string' },
    html: { type: 'string' },
    text: { type: 'string' },
    attach: { type: 'string', multiple: true },
    'idempotency-key': { type: 'string' },
    ...API_OPTIONS,
  },
  positionals: [],
  morePositionals: true,
  run: async (call) => {
    const what = { mail: mailOf(call.options), files: filesOf(call) };
    const api = apiClient(apiPlace(call));
    const isLarge = what.files.length > 0 && hasOneRecipient(call.options);
    return isLarge ? sendLarge(call, api, what) : sendInline(call, api, what);
  },
};
