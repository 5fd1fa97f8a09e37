/**
 * The HTTP API as a command calls it: address, account and key from options or their environment variables, JSON both ways.
 * A refusal is an answer like any other; only what is no answer of the API is thrown.
 */
import { type CommandCall, CommandError, type CommandOutcome, optional, UsageError } from './command.ts';

const TIMEOUT_MS = 60_000;

/** Options of every command that calls the API. */
export const API_OPTIONS = { url: { type: 'string' }, id: { type: 'string' }, key: { type: 'string' } } as const;

export interface ApiAnswer {
  status: number;
  body: Record<string, unknown>;
}

export interface ApiCall {
  method: 'GET' | 'POST';
  path: string;
  body?: string;
  idempotencyKey?: string | undefined;
}

export interface ApiClient {
  /** Address without a slash at its end. */
  base: string;
  accountId: string;
  call(call: ApiCall): Promise<ApiAnswer>;
}

function setting(call: CommandCall, name: string, variable: string): string {
  const value = optional(call.options, name) ?? call.environment[variable];
  if (!value) throw new UsageError(`--${name} or ${variable} is required`);
  return value;
}

/** Where the API is, and who calls it. */
export interface ApiPlace {
  /** Address without a slash at its end. */
  base: string;
  apiKey: string;
  accountId: string;
}

/** The API that the call names; UsageError when something of its place is missing. */
export function apiPlace(call: CommandCall): ApiPlace {
  const given = optional(call.options, 'url') ?? call.environment.POSTRIDER_URL ?? 'http://localhost:3000';
  if (!URL.canParse(given)) throw new UsageError('--url must be an address such as https://mail.example.com');
  const base = given.replace(/\/+$/, '');
  const apiKey = setting(call, 'key', 'POSTRIDER_KEY');
  const accountId = setting(call, 'id', 'POSTRIDER_ID');
  return { base, apiKey, accountId };
}

export function apiHeaders({ apiKey, accountId }: ApiPlace): Record<string, string> {
  return { 'X-Api-Key': apiKey, 'X-Id': accountId };
}

export function apiClient(given: CommandCall): ApiClient {
  const place = apiPlace(given);
  const { base, accountId } = place;
  return {
    base,
    accountId,
    call: async ({ method, path, body, idempotencyKey }) => {
      const headers = apiHeaders(place);
      if (body !== undefined) headers['Content-Type'] = 'application/json';
      if (idempotencyKey !== undefined) headers['Idempotency-Key'] = idempotencyKey;
      try {
        const signal = AbortSignal.timeout(TIMEOUT_MS);
        const response = await fetch(base + path, { method, headers, signal, ...(body !== undefined && { body }) });
        return { status: response.status, body: (await response.json()) as Record<string, unknown> };
      } catch (error) {
        const { message, cause } = error as Error & { cause?: { code?: string } };
        throw new CommandError('NO_ANSWER', `${base}${path} did not answer as the API does: ${cause?.code ?? message}`);
      }
    },
  };
}

/** A refusal of the API as the outcome of the command. */
export function refusal({ status, body }: ApiAnswer): CommandOutcome {
  const { error } = body as {
    error?: { code?: string; message?: string; details?: { field: string; message: string }[] };
  };
  const details = (error?.details ?? []).map((one) => `\n  ${one.field} ${one.message}`).join('');
  const text = `refused with ${status} ${error?.code ?? ''}: ${error?.message ?? ''}${details}`;
  return { data: body, text, exitCode: 1 };
}
