/**
 * `postrider send`: one email over the HTTP API, as any client would. Files to a single recipient go by the upload flow; to
 * several they go inside the request, so that the whole has to fit into the 2 MB of an email without that flow.
 */
import { STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import { parseAddressList } from '../mail/address.ts';
import { type ApiClient, apiClient, refusal, sentOutcome } from './api-client.ts';
import { type ApiOptions, apiTarget } from './api-target.ts';
import { type CommandCall, CommandError, type CommandOutcome } from './command.ts';
import { inlineAttachment, type LocalFile, localFile } from './send-files.ts';
import { sendLarge } from './send-large.ts';

interface SendOptions extends ApiOptions {
  from: string;
  to: string[];
  cc?: string[];
  bcc?: string[];
  subject: string;
  html?: string;
  text?: string;
  attach?: string[];
  idempotencyKey?: string;
}

/** The fields of POST /send but for the files. */
function mailOf({ from, to, cc, bcc, subject, html, text }: SendOptions): Record<string, unknown> {
  // Without a body an empty mail, as mail(1) sends it; the API asks for some body.
  const body = html === undefined && text === undefined ? { text: '\n' } : { html, text };
  return { from, to, subject, cc, bcc, ...body };
}

/** What the upload flow asks for: exactly one address in to, no cc, no bcc. */
function hasOneRecipient({ to, cc, bcc }: SendOptions): boolean {
  if (cc || bcc) return false;
  const count = to.reduce((sum, text) => {
    const parsed = parseAddressList(text);
    return sum + (parsed.ok ? parsed.value.length : 1);
  }, 0);
  return count === 1;
}

async function sendInline(
  { idempotencyKey }: SendOptions,
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
  const answer = await api.call({ method: 'POST', path: '/send', body: JSON.stringify(body), idempotencyKey });
  return answer.status === 202 ? sentOutcome(api, answer) : refusal(answer);
}

export async function send(call: CommandCall<SendOptions>): Promise<CommandOutcome> {
  const { options } = call;
  const content = { mail: mailOf(options), files: (options.attach ?? []).map(localFile) };
  const api = apiClient(apiTarget(call));
  const isLarge = content.files.length > 0 && hasOneRecipient(options);
  return isLarge ? sendLarge(call, api, content) : sendInline(options, api, content);
}
