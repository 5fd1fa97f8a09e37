/**
 * Verifies SPF, DKIM, DMARC, and ARC of inbound messages (RFC 8601). Always returns within limits: a message has 200 DNS queries, each
 * purpose its own part of them, and 20 s from the first, of which the last quarter is for DMARC alone; further queries fail as temporary.
 * If more than 16 messages are being verified, each has 2 s, so that a flood from domains with unresponsive DNS servers does not delay
 * other mail. The work is done in a thread (verifier-thread.ts) that starts with the first message, ends after a minute without one, and is
 * terminated if a message takes longer than 30 s. That message is not verified, and its results say so; the other messages in the thread
 * are verified again, once.
 */
import { Worker } from 'node:worker_threads';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { moduleUrl } from '../base/program-files.ts';
import type { Purpose, QueryAnswer, QueryType } from '../mail-authentication/dns-query.ts';
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { type AuthenticationResults, notVerified } from './authentication-results.ts';
import type { FromThread, ToThread } from './verifier-thread.ts';
import type { MailToVerify } from './verify-mail.ts';

export interface MailVerifier extends Running {
  /** Never rejects. */
  verify(mail: MailToVerify): Promise<AuthenticationResults>;
}

export interface MailVerifierOptions {
  dns: Dns;
  log: Log;
  /** Default 20,000. */
  dnsMs?: number;
  /** The same limit while many messages are being verified; default 2,000. */
  busyDnsMs?: number;
  /** Time in addition to that for the DNS; default 10,000. */
  workMs?: number;
  /** Default 60,000. */
  idleMs?: number;
}

/**
 * RFC 7208 §4.6.4 allows SPF some 120 queries in the worst case. Ten signatures and an ARC chain need 20 keys. The policy for DMARC takes up to
 * 10 queries, which are sent before those for alignment.
 */
const MOST_QUESTIONS: Record<Purpose, number> = { spf: 130, keys: 20, dmarc: 50 };
/** Share of the time. Alignment is checked after SPF and DKIM, which therefore do not get all of it. */
const TIME_SHARE: Record<Purpose, number> = { spf: 0.75, keys: 0.75, dmarc: 1 };
/** Number of messages that may use the full DNS time. */
const BUSY_FROM = 16;
/** Heap of the thread, excluding the bytes of the messages. */
const HEAP_MEGABYTES = 192;
const INTERRUPTED = 'Verification timed out or failed.';
const LATE: QueryAnswer = { status: 'temporary', cause: 'ETIMEOUT' };
const TOO_MANY: QueryAnswer = { status: 'temporary', cause: 'ETOOMANY' };

interface Allotment {
  mail: MailToVerify;
  settle(results: AuthenticationResults): void;
  questions: Record<Purpose, number>;
  dnsMs: number;
  /** Time of the first query, by performance.now(). */
  dnsSince: number | undefined;
  timer: NodeJS.Timeout;
  /** A thread has ended under it. */
  isRetry: boolean;
}

interface Thread {
  worker: Worker;
  mails: Map<number, Allotment>;
  idle: NodeJS.Timeout | undefined;
  isOver: boolean;
}

class Verifier implements MailVerifier {
  readonly #options: Required<MailVerifierOptions>;
  #thread: Thread | undefined;
  #count = 0;

  constructor(options: MailVerifierOptions) {
    this.#options = { dnsMs: 20_000, busyDnsMs: 2_000, workMs: 10_000, idleMs: 60_000, ...options };
  }

  verify(mail: MailToVerify): Promise<AuthenticationResults> {
    return new Promise((settle) => this.#begin({ mail, settle, isRetry: false }));
  }

  #begin({ mail, settle, isRetry }: Pick<Allotment, 'mail' | 'settle' | 'isRetry'>): void {
    const { workMs } = this.#options;
    this.#thread ??= this.#start();
    const thread = this.#thread;
    const dnsMs = this.#options[thread.mails.size < BUSY_FROM ? 'dnsMs' : 'busyDnsMs'];
    clearTimeout(thread.idle);
    this.#count += 1;
    const id = this.#count;
    const timer = setTimeout(() => this.#tookTooLong(thread, id), dnsMs + workMs);
    const questions = { spf: 0, keys: 0, dmarc: 0 };
    thread.mails.set(id, { mail, settle, isRetry, questions, dnsMs, dnsSince: undefined, timer });
    // A copy, which is transferred to the thread, because the message is parsed here at the same time.
    const content = new Uint8Array(mail.content);
    const message: ToThread = { kind: 'mail', id, mail: { ...mail, content } };
    thread.worker.postMessage(message, [content.buffer]);
  }

  #tookTooLong(thread: Thread, id: number): void {
    this.#settle(thread, id, notVerified(INTERRUPTED));
    void this.#end(thread, 'a message took too long to verify');
  }

  async stop(): Promise<void> {
    const thread = this.#thread;
    if (!thread) return;
    for (const id of [...thread.mails.keys()]) this.#settle(thread, id, notVerified(INTERRUPTED));
    await this.#end(thread);
  }

  #start(): Thread {
    const worker = new Worker(moduleUrl('inbound-routes/verifier-thread'), {
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MEGABYTES },
    });
    const thread: Thread = { worker, mails: new Map(), idle: undefined, isOver: false };
    worker.on('message', (message: FromThread) => this.#onMessage(thread, message));
    worker.on('error', (error) => void this.#end(thread, String(error)));
    worker.on('exit', () => void this.#end(thread, 'the thread exited unexpectedly'));
    return thread;
  }

  #onMessage(thread: Thread, message: FromThread): void {
    if (message.kind === 'question') {
      void this.#answer(thread, message);
      return;
    }
    if (message.kind === 'verified') this.#settle(thread, message.id, message.results);
    else {
      this.#options.log.error({ error: message.error }, 'inbound message authentication failed to run');
      this.#settle(thread, message.id, notVerified(INTERRUPTED));
    }
    if (thread.mails.size === 0) thread.idle = setTimeout(() => this.#end(thread), this.#options.idleMs).unref();
  }

  #settle(thread: Thread, id: number, results: AuthenticationResults): void {
    const mail = thread.mails.get(id);
    thread.mails.delete(id);
    clearTimeout(mail?.timer);
    mail?.settle(results);
  }

  /** Ends the thread and moves its remaining messages to the next one. */
  async #end(thread: Thread, cause?: string): Promise<void> {
    if (this.#thread === thread) this.#thread = undefined;
    clearTimeout(thread.idle);
    if (cause !== undefined && !thread.isOver)
      this.#options.log.error({ cause, beside: thread.mails.size }, 'mail verifier thread terminated');
    thread.isOver = true;
    for (const [id, inHand] of [...thread.mails]) {
      if (inHand.isRetry) this.#settle(thread, id, notVerified(INTERRUPTED));
      else {
        clearTimeout(inHand.timer);
        thread.mails.delete(id);
        this.#begin({ ...inHand, isRetry: true });
      }
    }
    await thread.worker.terminate();
  }

  async #answer(thread: Thread, asked: FromThread & { kind: 'question' }): Promise<void> {
    const { id, question, purpose, name, type } = asked;
    const mail = thread.mails.get(id);
    if (!mail) return;
    mail.questions[purpose] += 1;
    mail.dnsSince ??= performance.now();
    const leftMs = mail.dnsSince + mail.dnsMs * TIME_SHARE[purpose] - performance.now();
    const answer =
      mail.questions[purpose] > MOST_QUESTIONS[purpose] ? TOO_MANY : await this.#inTime(name, type, leftMs);
    thread.worker.postMessage({ kind: 'answer', question, answer } satisfies ToThread);
  }

  async #inTime(name: string, type: QueryType, leftMs: number): Promise<QueryAnswer> {
    if (leftMs <= 0) return LATE;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<QueryAnswer>((resolve) => {
      timer = setTimeout(() => resolve(LATE), leftMs);
    });
    const answer = await Promise.race([lookUp(this.#options.dns, name, type), late]);
    clearTimeout(timer);
    return answer;
  }
}

export function createMailVerifier(options: MailVerifierOptions): MailVerifier {
  return new Verifier(options);
}

async function lookUp(dns: Dns, name: string, type: QueryType): Promise<QueryAnswer> {
  switch (type) {
    case 'TXT':
      return plain(await dns.resolveTxt(name), (texts) => texts);
    case 'MX':
      return plain(await dns.resolveMx(name), ({ hosts }) => hosts.map(({ host }) => host));
    case 'CNAME':
      return plain(await dns.resolveCname(name), (target) => [target]);
    case 'PTR':
      return plain(await dns.resolvePtr(name), (names) => names);
    case 'A':
      return plain(await dns.resolveA(name), (addresses) => addresses);
    case 'AAAA':
      return plain(await dns.resolveAaaa(name), (addresses) => addresses);
  }
}

/** Returns the answer as text; an answer without text is `no-data`. */
function plain<T>(answer: DnsAnswer<T>, texts: (value: T) => string[]): QueryAnswer {
  if (answer.status === 'temporary') return { status: 'temporary', cause: answer.cause };
  if (answer.status !== 'found') return { status: answer.status };
  const value = texts(answer.value);
  return value.length > 0 ? { status: 'found', value } : { status: 'no-data' };
}
