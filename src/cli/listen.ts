/**
 * Implements `postrider listen`: follows the events of an account and posts each to the developer's machine, in order, signed like a
 * webhook, with a secret that is valid until the command ends. Nothing needs to be reachable from outside. A broken connection is resumed
 * at the same position; the receiver's response is displayed and not retried. Exits with 0 on SIGINT. It prints that it is ready, and the
 * secret, once the stream is open: no event after that is missed. With --json each line is one object: first the ready line, then one per
 * event.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { WEBHOOK_USER_AGENT } from '../config.ts';
import { newSecret, secretKeyOf, signedHeaders } from '../webhooks/webhooks.ts';
import { type ApiOptions, type ApiTarget, apiHeaders, apiTarget, jsonBody, refusal } from './api-client.ts';

import { type CommandCall, CommandError, type CommandOutcome, UsageError } from './command.ts';
import { networkReason, notTheApi } from './network-error.ts';

const FORWARD_TIMEOUT_MS = 15_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

interface Message {
  id: string | undefined;
  data: string | undefined;
  retryMs: number | undefined;
}

/** Parses one block of a stream of server-sent events. */
function parseBlock(block: string): Message {
  const message: Message = { id: undefined, data: undefined, retryMs: undefined };
  for (const line of block.split('\n')) {
    const [, name, value = ''] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name === 'id') message.id = value;
    if (name === 'data') message.data = message.data === undefined ? value : `${message.data}\n${value}`;
    if (name === 'retry' && /^\d{1,6}$/.test(value)) message.retryMs = Number(value);
  }
  return message;
}

async function* messagesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Message> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      yield parseBlock(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

interface Forwarded {
  status: number | null;
  error: string | null;
  latencyMs: number;
}

async function post(url: string, headers: Record<string, string>, body: string): Promise<Forwarded> {
  const startedMs = performance.now();
  const elapsedMs = (): number => Math.round(performance.now() - startedMs);
  try {
    const signal = AbortSignal.timeout(FORWARD_TIMEOUT_MS);
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal });
    await response.body?.cancel();
    return { status: response.status, error: null, latencyMs: elapsedMs() };
  } catch (error) {
    return { status: null, error: networkReason(error), latencyMs: elapsedMs() };
  }
}

interface Listening {
  call: CommandCall;
  api: ApiTarget;
  forward: string;
  signal: AbortSignal;
  /** Called once, when the stream is open for the first time. */
  ready(): void;
  deliver(body: string): Promise<void>;
}

/** Follows until the signal; returns an error response that retrying cannot change. */
async function follow({ call, api, signal, ready, deliver }: Listening): Promise<CommandOutcome> {
  let lastId: string | undefined;
  let retryMs = FIRST_PAUSE_MS;
  let failures = 0;
  let isReady = false;
  while (!signal.aborted) {
    try {
      const headers = { ...apiHeaders(api), ...(lastId === undefined ? {} : { 'Last-Event-ID': lastId }) };
      const response = await fetch(`${api.base}/events/stream`, { headers, signal, redirect: 'manual' });
      if (response.status !== 200) {
        const { status, headers: received } = response;
        if (status >= 500 || status === 429) throw new Error(`the service returned ${status}`);
        const body = jsonBody(await response.text());
        if (body !== undefined) return refusal({ status, body });
        throw new CommandError(
          'NO_ANSWER',
          notTheApi(`${api.base}/events/stream`, status, received.get('content-type')),
        );
      }
      // The service responds once it knows the log position at which the stream starts.
      if (!isReady) ready();
      isReady = true;
      for await (const message of messagesOf(response.body as ReadableStream<Uint8Array>)) {
        failures = 0;
        if (message.retryMs !== undefined) retryMs = message.retryMs;
        if (message.data !== undefined) await deliver(message.data);
        if (message.id !== undefined) lastId = message.id;
        if (signal.aborted) break;
      }
    } catch (error) {
      if (signal.aborted) break;
      if (error instanceof CommandError) throw error;
      failures += 1;
      const what = isReady ? 'the event stream was interrupted' : `cannot connect to ${api.base}`;
      if (failures === 1) call.streams.err(`postrider: ${what}: ${networkReason(error)}; reconnecting\n`);
    }
    const pauseMs = Math.min(retryMs * 2 ** Math.max(0, failures - 1), LONGEST_PAUSE_MS);
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  }
  return { exitCode: 0 };
}

/** Aborts on the first SIGINT or SIGTERM; a second one ends the process immediately. */
function untilSignalled(): { signal: AbortSignal; done(): void } {
  const controller = new AbortController();
  const names = ['SIGINT', 'SIGTERM'] as const;
  const stop = (): void => {
    done();
    controller.abort();
  };
  const done = (): void => {
    for (const name of names) process.off(name, stop);
  };
  for (const name of names) process.on(name, stop);
  return { signal: controller.signal, done };
}

export async function listen(call: CommandCall<ApiOptions & { forward: string }>): Promise<CommandOutcome> {
  const { json, streams, clock, options } = call;
  const { forward } = options;
  if (!/^https?:\/\//i.test(forward) || !URL.canParse(forward)) {
    throw new UsageError('--forward must be an HTTP or HTTPS URL, such as http://localhost:4000/hook');
  }
  const api = apiTarget(call);
  const secret = newSecret();
  const key = secretKeyOf(secret)!;
  const ready = (): void => {
    if (json) streams.out(`${JSON.stringify({ ready: true, forward, secret })}\n`);
    else
      streams.out(
        `Ready. Forwarding the events of ${api.accountId} to ${forward}\nThe webhook secret of this session is ${secret}\n`,
      );
  };
  const deliver = async (body: string): Promise<void> => {
    const event = JSON.parse(body) as { eventId: string; eventType: string; messageId: string; recipient: string };
    const { eventId, eventType, messageId, recipient } = event;
    const signed = signedHeaders({ id: eventId, body }, [key], clock.now());
    const done = await post(forward, { 'user-agent': WEBHOOK_USER_AGENT, ...signed }, body);
    if (json) streams.out(`${JSON.stringify({ eventId, eventType, messageId, recipient, ...done })}\n`);
    else streams.out(`${done.status ?? done.error} ${done.latencyMs} ms  ${eventType} ${recipient} ${messageId}\n`);
  };
  const { signal, done } = untilSignalled();
  try {
    return await follow({ call, api, forward, signal, ready, deliver });
  } finally {
    done();
  }
}
