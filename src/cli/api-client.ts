/**
 * The HTTP API as a command calls it, JSON both ways. A refusal is an answer like any other; only what is no
 * answer of the API is thrown.
 */
import type { ApiTarget } from './api-target.ts';
import { CommandError, type CommandOutcome } from './command.ts';

const TIMEOUT_MS = 60_000;

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
  /** Nothing that is sent with this key leaves the machine. */
  isSandbox: boolean;
  call(call: ApiCall): Promise<ApiAnswer>;
}

export function apiHeaders({ apiKey, accountId }: ApiTarget): Record<string, string> {
  return { 'X-Api-Key': apiKey, 'X-Id': accountId };
}

export function apiClient(target: ApiTarget): ApiClient {
  const { base, accountId } = target;
  return {
    base,
    accountId,
    isSandbox: target.apiKey.startsWith('pr_test_'),
    call: async ({ method, path, body, idempotencyKey }) => {
      const headers = apiHeaders(target);
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

/** What POST /send accepted, as the outcome of the command; a sandbox is named, since nobody will get that mail. */
export function sentOutcome({ isSandbox }: ApiClient, { body }: ApiAnswer): CommandOutcome {
  const { messageId, status } = body.data as { messageId: string; status: string };
  return { data: body, text: `${messageId} ${status}${isSandbox ? ' in the sandbox' : ''}` };
}
