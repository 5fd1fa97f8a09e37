/**
 * The thread that verifies messages, so that no message can block the service. It handles several at once: while one waits for the DNS,
 * which the main thread queries, another continues. The main thread terminates it if it stops responding.
 */
import { type MessagePort, parentPort } from 'node:worker_threads';
import type { Purpose, QueryAnswer, QueryType } from '../mail-authentication/dns-query.ts';
import type { AuthenticationResults } from './authentication-results.ts';
import { type MailToVerify, verifyMail } from './verify-mail.ts';

export type ToThread =
  | { kind: 'mail'; id: number; mail: MailToVerify }
  | { kind: 'answer'; question: number; answer: QueryAnswer };

export type FromThread =
  | { kind: 'question'; id: number; question: number; purpose: Purpose; name: string; type: QueryType }
  | { kind: 'verified'; id: number; results: AuthenticationResults }
  | { kind: 'failed'; id: number; error: string };

const port: MessagePort | null = parentPort;
if (!port) throw new Error('verifier-thread.ts runs as a worker thread only');

type Question = FromThread & { kind: 'question' };

const waiting = new Map<number, (answer: QueryAnswer) => void>();
let questions = 0;

function ask({ id, purpose, name, type }: Pick<Question, 'id' | 'purpose' | 'name' | 'type'>): Promise<QueryAnswer> {
  questions += 1;
  const question = questions;
  return new Promise((resolve) => {
    waiting.set(question, resolve);
    port!.postMessage({ kind: 'question', id, question, purpose, name, type } satisfies FromThread);
  });
}

async function verify(id: number, mail: MailToVerify): Promise<FromThread> {
  try {
    const results = await verifyMail(mail, (purpose) => (name, type) => ask({ id, purpose, name, type }));
    return { kind: 'verified', id, results };
  } catch (error) {
    return { kind: 'failed', id, error: String((error as Error | undefined)?.stack ?? error) };
  }
}

port.on('message', (message: ToThread) => {
  if (message.kind === 'mail') {
    void verify(message.id, message.mail).then((done) => port.postMessage(done));
    return;
  }
  waiting.get(message.question)?.(message.answer);
  waiting.delete(message.question);
});
