/**
 * A client that starts a fixed number of messages per second, whatever the responses, each with its own idempotency key. Every fifth is
 * scheduled, so that messages wait in the database when it fails. A request without a 202 is repeated at the other node with the same key
 * until it gets one, as documented. Like the workers of an application, a limited number of requests runs at the same time, and further
 * messages wait. Keeps the time of each acceptance.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Answer, Api } from '../../kit/api.ts';
import { smallMail } from '../ledger.ts';

/** The pause before a repeated request grows from the first to the second. */
const RETRY_MS = [300, 2_000] as const;
const REQUEST_TIMEOUT_MS = 15_000;
const SCHEDULED_MS = 10_000;

export interface Accepted {
  messageId: string;
  /** Unix milliseconds at which the 202 was read. */
  at: number;
}

export interface HaClient {
  readonly accepted: Map<string, Accepted>;
  /** Keys that have no 202 yet. */
  readonly pending: number;
  /** Responses that a client may not repeat. */
  readonly strange: string[];
  /** Counts of the responses that were repeated, by status; 0 for none. */
  readonly repeated: Record<number, number>;
  /** Starts no new messages, and resolves when each has its 202. */
  finish(): Promise<void>;
  /** Gives up messages without a 202. */
  abandon(): void;
}

const UNKNOWN = /^Postrider cannot tell whether/;

/** Starts the load through these nodes, in turn. */
export function startClient(nodes: Api[], options: { from: string; rate: number; workers: number }): HaClient {
  const accepted = new Map<string, Accepted>();
  const strange: string[] = [];
  const repeated: Record<number, number> = {};
  let next = 0;
  let done = 0;
  let isFinishing = false;
  let isAbandoned = false;

  const request = async (key: string, body: object, node: Api): Promise<Answer | undefined> => {
    try {
      return await node.call({
        method: 'POST',
        path: '/send',
        body,
        headers: { 'Idempotency-Key': key },
        timeoutMs: REQUEST_TIMEOUT_MS,
      });
    } catch {
      return undefined;
    }
  };
  const send = async (number: number): Promise<void> => {
    const key = `m${number}`;
    const sendAt = number % 5 === 0 ? { sendAt: new Date(Date.now() + SCHEDULED_MS).toISOString() } : {};
    const body = { ...smallMail(options.from, key), ...sendAt };
    let pauseMs: number = RETRY_MS[0];
    for (let turn = number; !isAbandoned; turn += 1) {
      const answer = await request(key, body, nodes[turn % nodes.length]!);
      if (answer?.status === 202) {
        accepted.set(key, { messageId: answer.body.data.messageId, at: Date.now() });
        return;
      }
      const status = answer?.status ?? 0;
      repeated[status] = (repeated[status] ?? 0) + 1;
      const isUnknown = status === 500 && UNKNOWN.test(answer?.body.error?.message);
      if (answer && !isUnknown && ![409, 429, 503].includes(status)) strange.push(`${status} ${answer.text}`);
      await wait(pauseMs * (0.5 + Math.random()));
      pauseMs = Math.min(RETRY_MS[1], pauseMs * 1.5);
    }
  };
  const startedAt = performance.now();
  let due = 0;
  const timer = setInterval(() => {
    due = Math.floor(((performance.now() - startedAt) / 1_000) * options.rate);
  }, 20);
  const worker = async (): Promise<void> => {
    while (!isAbandoned && !(isFinishing && next >= due)) {
      if (next >= due) {
        // Idle workers together look for work a few thousand times per second.
        await wait(Math.max(10, options.workers / 5));
        continue;
      }
      next += 1;
      await send(next);
      done += 1;
    }
  };
  const workers = Array.from({ length: options.workers }, worker);
  return {
    accepted,
    strange,
    repeated,
    get pending() {
      return due - done;
    },
    finish: async () => {
      clearInterval(timer);
      isFinishing = true;
      await Promise.all(workers);
    },
    abandon: () => {
      clearInterval(timer);
      isAbandoned = true;
    },
  };
}
