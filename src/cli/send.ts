/**
 * `postrider send`: one email over the HTTP API, as any client would. Files are attached inline, so that the whole has to
 * fit into the 2 MB of an email without the upload flow.
 */
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { STANDARD_EMAIL_BYTES } from '../accounts/accounts.ts';
import {
  type Command,
  type CommandCall,
  CommandError,
  type OptionValues,
  optional,
  required,
  UsageError,
} from './command.ts';

const TIMEOUT_MS = 60_000;
const CONTENT_TYPES: Record<string, string> = {
  '.csv': 'text/csv',
  '.gif': 'image/gif',
  '.html': 'text/html',
  '.ics': 'text/calendar',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.json': 'application/json',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain',
  '.xml': 'application/xml',
  '.zip': 'application/zip',
};

function list(options: OptionValues, name: string): string[] {
  const value = options[name];
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

function attachment(file: string): { name: string; contentType: string; content: string } {
  let sizeBytes: number;
  try {
    sizeBytes = statSync(file).size;
  } catch {
    throw new CommandError('NO_FILE', `${file} cannot be read`);
  }
  if (sizeBytes > STANDARD_EMAIL_BYTES) {
    throw new CommandError(
      'EMAIL_SIZE_EXCEEDED',
      `${file} has ${sizeBytes} bytes; an email without the upload flow (POST /attachments) is at most ${STANDARD_EMAIL_BYTES}`,
    );
  }
  const contentType = CONTENT_TYPES[path.extname(file).toLowerCase()] ?? 'application/octet-stream';
  return { name: path.basename(file), contentType, content: readFileSync(file).toString('base64') };
}

function body(options: OptionValues, morePositionals: string[]): Record<string, unknown> {
  const files = list(options, 'attach');
  if (files.length === 0 && morePositionals.length > 0) {
    throw new UsageError(`unexpected argument ${morePositionals[0]}`);
  }
  const request: Record<string, unknown> = {
    from: required(options, 'from'),
    to: list(options, 'to'),
    subject: required(options, 'subject'),
  };
  if (list(options, 'to').length === 0) throw new UsageError('--to is required');
  for (const name of ['cc', 'bcc']) if (list(options, name).length > 0) request[name] = list(options, name);
  for (const name of ['html', 'text']) {
    const value = optional(options, name);
    if (value !== undefined) request[name] = value;
  }
  if (request.html === undefined && request.text === undefined) throw new UsageError('give --html or --text');
  const attachments = [...files, ...morePositionals].map(attachment);
  if (attachments.length > 0) request.attachments = attachments;
  return request;
}

function setting(call: CommandCall, name: string, variable: string): string {
  const value = optional(call.options, name) ?? call.environment[variable];
  if (!value) throw new UsageError(`--${name} or ${variable} is required`);
  return value;
}

async function post(url: string, init: RequestInit): Promise<{ status: number; answer: Record<string, unknown> }> {
  try {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
    const answer = (await response.json()) as Record<string, unknown>;
    return { status: response.status, answer };
  } catch (error) {
    const { message, cause } = error as Error & { cause?: { code?: string } };
    throw new CommandError('NO_ANSWER', `${url} did not answer as the API does: ${cause?.code ?? message}`);
  }
}

export const sendCommand: Command = {
  words: 'send',
  usage: '--from F --to T --subject S [--html H] [--text T] [--attach FILE…]',
  summary:
    'send an email over the API (also --cc, --bcc, --idempotency-key; --url, --id, --key or POSTRIDER_URL, _ID, _KEY)',
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
    url: { type: 'string' },
    id: { type: 'string' },
    key: { type: 'string' },
  },
  positionals: [],
  morePositionals: true,
  run: async (call) => {
    const base = optional(call.options, 'url') ?? call.environment.POSTRIDER_URL ?? 'http://localhost:3000';
    if (!URL.canParse(base)) throw new UsageError('--url must be an address such as https://mail.example.com');
    const content = JSON.stringify(body(call.options, call.positionals));
    const idempotencyKey = optional(call.options, 'idempotency-key');
    const { status, answer } = await post(`${base.replace(/\/+$/, '')}/send`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'X-Api-Key': setting(call, 'key', 'POSTRIDER_KEY'),
        'X-Id': setting(call, 'id', 'POSTRIDER_ID'),
        ...(idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }),
      },
      body: content,
    });
    if (status === 202) {
      const { messageId, status: state } = answer.data as { messageId: string; status: string };
      return { data: answer, text: `${messageId} ${state}` };
    }
    const { error } = answer as {
      error?: { code?: string; message?: string; details?: { field: string; message: string }[] };
    };
    const details = (error?.details ?? []).map((one) => `\n  ${one.field} ${one.message}`).join('');
    return {
      data: answer,
      text: `refused with ${status} ${error?.code ?? ''}: ${error?.message ?? ''}${details}`,
      exitCode: 1,
    };
  },
};
