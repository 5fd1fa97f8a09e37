/**
 * Implements `postrider doctor --send-test ADDRESS`: sends a real email through the API of the running service and follows it until it is
 * delivered or bounced, with the SMTP transcript of every attempt. If the server defers the message, it waits up to ten minutes;
 * interrupting it leaves the message in the queue.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type ApiClient, type ApiOptions, apiClient, refusal, selectedTarget } from './api-client.ts';
import { type CommandCall, CommandError, type CommandOutcome, UsageError } from './command.ts';

export interface SendTestOptions extends ApiOptions {
  sendTest?: string;
  from?: string;
}

const WAIT_MS = 600_000;
const LOOK_EVERY_MS = 500;

interface Attempt {
  time: string;
  host: string | null;
  address: string | null;
  tls: string | null;
  tlsFallback?: string;
  dialogue: { atMs: number; direction: 'C' | 'S'; text: string }[];
  outcome: string;
}

interface Message {
  status: string;
  nextAttemptAt?: string;
  attempts: Attempt[];
  timeline: { eventType: string; bounce?: { reply?: string; advice?: string }; deliveryDelay?: { advice?: string } }[];
}

const UNFINISHED = new Set(['scheduled', 'queued', 'sending', 'delayed']);

/** Returns a sender address at the account's first domain that can send. */
async function defaultSender(api: ApiClient): Promise<string> {
  const answer = await api.call({ method: 'GET', path: '/domains?limit=100' });
  if (answer.status !== 200)
    throw new UsageError('--from is required, because this key cannot list the domains of the account');
  const domains = answer.body as unknown as { domain: string; status: string }[];
  const verified = domains.find(({ status }) => status === 'verified');
  if (verified) return `postmaster@${verified.domain}`;
  throw new CommandError(
    'SENDER_NOT_VERIFIED',
    'the account has no verified domain to send from; add and verify one first',
  );
}

function shown({ time, host, address, tls, tlsFallback, dialogue, outcome }: Attempt): string {
  const where = host === null ? 'no server was reached' : `${host}${address === null ? '' : ` [${address}]`}`;
  const secure = tls ?? (tlsFallback === undefined ? 'unencrypted' : `unencrypted: ${tlsFallback}`);
  const lines = dialogue.map(({ atMs, direction, text }) => `  ${String(atMs).padStart(6)} ms  ${direction}: ${text}`);
  return [`${time}  ${where}, ${secure}: ${outcome}`, ...lines].join('\n');
}

interface Following {
  api: ApiClient;
  messageId: string;
  waitMs: number;
  onAttempt(attempt: Attempt): void;
}

/** Returns the message once it is finished, or its current state after `waitMs`. */
export async function followMessage({ api, messageId, waitMs, onAttempt }: Following): Promise<Message> {
  const end = performance.now() + waitMs;
  for (let seen = 0; ; ) {
    const answer = await api.call({ method: 'GET', path: `/messages/${messageId}` });
    if (answer.status !== 200) throw new CommandError('NO_ANSWER', refusal(answer).text!);
    const message = answer.body as unknown as Message;
    for (const attempt of message.attempts.slice(seen)) onAttempt(attempt);
    seen = message.attempts.length;
    if (!UNFINISHED.has(message.status) || performance.now() >= end) return message;
    await pause(LOOK_EVERY_MS);
  }
}

function conclusion(messageId: string, { status, nextAttemptAt, timeline }: Message): string {
  if (status === 'delivered') return `delivered; check whether it is in the inbox or in the spam folder (${messageId})`;
  if (UNFINISHED.has(status)) {
    const next = nextAttemptAt === undefined ? '' : `, and Postrider retries it at ${nextAttemptAt}`;
    return `${messageId} is still queued${next}; to retry it now, run: postrider queue retry ${messageId}`;
  }
  const advice = timeline.findLast(({ bounce }) => bounce !== undefined)?.bounce?.advice;
  return `${messageId} ${status}${advice === undefined ? '' : `: ${advice}`}`;
}

export async function sendTest(call: CommandCall<SendTestOptions>, to: string): Promise<CommandOutcome> {
  const { options, streams, json, clock } = call;
  const api = apiClient(selectedTarget({ ...call, options: { ...options, live: true } }));
  if (api.isSandbox)
    throw new UsageError('--send-test requires a live key, because the sandbox does not deliver email');
  const from = options.from ?? (await defaultSender(api));
  const mail = {
    from,
    to,
    subject: 'Test of the mail service',
    text: `This test email was sent at ${new Date(clock.now()).toISOString()} to check delivery. No action is required.\n`,
    tags: ['doctor'],
  };
  const sent = await api.call({ method: 'POST', path: '/send', body: JSON.stringify(mail) });
  if (sent.status !== 202) return refusal(sent);
  const { messageId } = sent.body.data as { messageId: string };
  if (!json) streams.out(`${messageId} from ${from} to ${to}\n`);
  const onAttempt = (attempt: Attempt): void => {
    if (!json) streams.out(`${shown(attempt)}\n`);
  };
  const message = await followMessage({ api, messageId, waitMs: WAIT_MS, onAttempt });
  const { status, attempts } = message;
  return {
    data: { messageId, from, to, status, attempts },
    text: conclusion(messageId, message),
    exitCode: status === 'delivered' ? 0 : 1,
  };
}
