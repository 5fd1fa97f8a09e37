/**
 * Load with a ledger, for tests that kill things under load. Every attempted key and every acknowledged id is written to a file outside the
 * service's data directory and synced before the load continues, so the service's promises are known whatever happens to it. A request
 * without a 202 is retried with the same key until it gets one, as a customer would.
 */
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Answer, Api } from '../kit/api.ts';
import type { SinkMessage } from '../kit/smtp-sink.ts';

export interface Acknowledged {
  key: string;
  messageId: string;
  /** The response said that an earlier request had been accepted. */
  replayed: boolean;
  /** Requests with this key that were cut off without a response. */
  unanswered: number;
  /** Unix milliseconds at which the 202 was read. */
  at: number;
}

export interface Ledger {
  attempted: Set<string>;
  acknowledged: Map<string, Acknowledged>;
  /** Responses other than 202, 409, 429, 503, and the 500 of an unknown outcome. */
  strange: string[];
  attempt(key: string): void;
  acknowledge(one: Acknowledged): void;
  close(): void;
}

export function openLedger(): Ledger {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-ledger-'));
  const file = openSync(path.join(folder, 'ledger'), 'a');
  const attempted = new Set<string>();
  const acknowledged = new Map<string, Acknowledged>();
  return {
    attempted,
    acknowledged,
    strange: [],
    attempt: (key) => {
      attempted.add(key);
    },
    acknowledge: (one) => {
      writeSync(file, `${JSON.stringify(one)}\n`);
      fsyncSync(file);
      acknowledged.set(one.key, one);
    },
    close: () => {
      closeSync(file);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The address of a key, and the key of an address. */
export const addressOf = (key: string): string => `${key}@load.example`;
export const keyOf = (address: string): string => address.slice(0, address.indexOf('@'));

export interface Load {
  /** Starts no new keys, and resolves when every started key has its 202. */
  finish(): Promise<void>;
  /** Gives up keys without a 202, after a failed trial. */
  abandon(): void;
}

export interface LoadOptions {
  api: Api;
  ledger: Ledger;
  from: string;
  /** Number of concurrent requests. */
  workers: number;
  /** How long each worker waits after a message; not at all by default. */
  restMs?: number;
  /** Distinguishes the keys of one load from those of another. */
  prefix: string;
  /**
   * Sends the message of a key, which is the same at every call; a small one by default. Called again after a delay if there is no
   * response.
   */
  request?: (key: string) => Promise<Answer | undefined>;
}

/** Resolves after a delay, since a rejected client does not retry immediately. */
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The message of a key by default. */
export const smallMail = (from: string, key: string) => ({
  from,
  to: addressOf(key),
  subject: `Load ${key}`,
  text: `This is ${key}.\n${'All work and no play makes a dull load. '.repeat(20)}\n`,
});

export function startLoad(options: LoadOptions): Load {
  const { api, ledger } = options;
  let next = 0;
  let finishing = false;
  let abandoned = false;

  const sendSmall = (key: string): Promise<Answer> =>
    api.post('/send', smallMail(options.from, key), { 'Idempotency-Key': key });
  const request = options.request ?? sendSmall;

  const sendUntilAccepted = async (key: string): Promise<void> => {
    ledger.attempt(key);
    let unanswered = 0;
    while (!abandoned) {
      let answer: Answer | undefined;
      try {
        answer = await request(key);
      } catch (error) {
        // A refused connection was never a request; a broken one may have been accepted.
        if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED') unanswered += 1;
      }
      if (answer?.status === 202) {
        const replayed = answer.headers['idempotent-replayed'] === 'true';
        ledger.acknowledge({ key, messageId: answer.body.data.messageId, replayed, unanswered, at: Date.now() });
        return;
      }
      if (answer?.status === 500 && /^Postrider cannot tell whether/.test(answer.body.error?.message)) unanswered += 1;
      else if (answer && ![409, 429, 503].includes(answer.status))
        ledger.strange.push(`${answer.status} ${answer.text}`);
      await pause(20);
    }
  };

  const worker = async (): Promise<void> => {
    while (!finishing) {
      next += 1;
      await sendUntilAccepted(`${options.prefix}${next}`);
      if (options.restMs) await pause(options.restMs);
    }
  };
  const workers = Array.from({ length: options.workers }, worker);
  return {
    finish: async () => {
      finishing = true;
      await Promise.all(workers);
    },
    abandon: () => {
      finishing = true;
      abandoned = true;
    },
  };
}

/** One copy of a message at the receiving server. */
export interface Copy {
  headerMessageId: string;
  /** Unix milliseconds at which the dot was answered, or would have been. */
  at: number;
}

/** Copies per key, oldest first; the key `?address` for messages that no load has sent. */
export function copiesByKey(messages: SinkMessage[]): Map<string, Copy[]> {
  const copies = new Map<string, Copy[]>();
  for (const message of messages) {
    const headerMessageId = /^message-id:\s*(\S+)/im.exec(message.content.toString('latin1'))?.[1] ?? '';
    for (const address of message.to) {
      const list = copies.get(keyOf(address)) ?? [];
      list.push({ headerMessageId, at: message.at });
      copies.set(keyOf(address), list);
    }
  }
  for (const list of copies.values()) list.sort((a, b) => a.at - b.at);
  return copies;
}

/** Every message of the account, page by page. */
export async function allMessages(api: Api): Promise<{ messageId: string; to: string; status: string }[]> {
  const all: { messageId: string; to: string; status: string }[] = [];
  let cursor = '';
  for (;;) {
    const answer = await api.get(`/messages?limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    if (answer.status !== 200) throw new Error(`GET /messages: ${answer.status} ${answer.text}`);
    all.push(...(answer.body as unknown as typeof all));
    cursor = answer.headers['x-next-cursor'] ?? '';
    if (!cursor) return all;
  }
}
