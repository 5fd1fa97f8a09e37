/**
 * The thread that verifies messages, so that no message can block the service. It handles several at once: while one waits for the DNS,
 * which the main thread queries, another continues. The main thread terminates it if it stops responding.
 */
import { type MessagePort, parentPort } from 'node:worker_threads';
import type { AuthenticationResults } from './authentication-results.ts';
import { type MailToVerify, verifyMail } from './verify-mail.ts';

/** Result of one query; `code` as in node:dns/promises, such as ENOTFOUND. */
export type DnsReply = { records: unknown[] } | { code: string };

export type ToThread =
  | { kind: 'mail'; id: number; mail: MailToVerify }
  | { kind: 'reply'; question: number; reply: DnsReply };

export type FromThread =
  | { kind: 'question'; id: number; question: number; name: string; type: string }
  | { kind: 'verified'; id: number; results: AuthenticationResults }
  | { kind: 'failed'; id: number; error: string };

const port: MessagePort | null = parentPort;
if (!port) throw new Error('verifier-thread.ts runs as a worker thread only');

const waiting = new Map<number, (reply: DnsReply) => void>();
let questions = 0;

async function ask(id: number, name: string, type: string): Promise<unknown[]> {
  questions += 1;
  const question = questions;
  const reply = await new Promise<DnsReply>((resolve) => {
    waiting.set(question, resolve);
    port!.postMessage({ kind: 'question', id, question, name, type } satisfies FromThread);
  });
  if ('records' in reply) return reply.records;
  throw Object.assign(new Error(`${type} of ${name}: ${reply.code}`), { code: reply.code });
}

async function verify(id: number, mail: MailToVerify): Promise<FromThread> {
  try {
    return { kind: 'verified', id, results: await verifyMail(mail, (name, type) => ask(id, name, type)) };
  } catch (error) {
    return { kind: 'failed', id, error: String((error as Error | undefined)?.stack ?? error) };
  }
}

port.on('message', (message: ToThread) => {
  if (message.kind === 'mail') {
    void verify(message.id, message.mail).then((done) => port.postMessage(done));
    return;
  }
  waiting.get(message.question)?.(message.reply);
  waiting.delete(message.question);
});
