/**
 * Verifies mail that came in: SPF, DKIM, DMARC and ARC (RFC 8601). Always answers, and within bounds: a mail has 150 questions to the DNS and 20 s
 * for all of them, after which every further one fails as temporary. The work itself is done in a thread (verifier-thread.ts) that is
 * started by the first mail, ended after a minute without one, and ended too when a mail is not done 10 s after its last question
 * can have been answered; what was in it then is not verified, and its results say so.
 *
 * The thread loads 35 MB of code (tldts, joi), which is why it does not stay.
 */
import { Worker } from 'node:worker_threads';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { type AuthenticationResults, notVerified } from './authentication-results.ts';
import type { DnsReply, FromThread, ToThread } from './verifier-thread.ts';
import type { MailToVerify } from './verify-mail.ts';

export interface MailVerifier extends Running {
  /** Never rejects. */
  verify(mail: Omit<MailToVerify, 'hostname'>): Promise<AuthenticationResults>;
}

export interface MailVerifierOptions {
  dns: Dns;
  /** Of this server, for the explanations of SPF records. */
  hostname: string;
  log: Log;
  /** Default 20,000. */
  dnsMs?: number;
  /** Beyond the time for the DNS; default 10,000. */
  workMs?: number;
  /** Default 60,000. */
  idleMs?: number;
}

/** RFC 7208 §4.6.4 allows SPF some 120, in the worst case; the other three need a few each. */
const MOST_QUESTIONS = 150;
/** Of what mail is made into there, the bytes of the mails not counted. */
const HEAP_MEGABYTES = 192;
const INTERRUPTED = 'Verifying took too long, or failed.';

interface InHand {
  settle(results: AuthenticationResults): void;
  questions: number;
  /** By performance.now(). */
  dnsUntil: number;
  timer: NodeJS.Timeout;
}

/** One thread and the mails in it, until it ends. */
interface Thread {
  worker: Worker;
  mails: Map<number, InHand>;
  idle: NodeJS.Timeout | undefined;
}

class Verifier implements MailVerifier {
  readonly #options: Required<MailVerifierOptions>;
  #thread: Thread | undefined;
  #count = 0;

  constructor(options: MailVerifierOptions) {
    this.#options = { dnsMs: 20_000, workMs: 10_000, idleMs: 60_000, ...options };
  }

  verify(mail: Omit<MailToVerify, 'hostname'>): Promise<AuthenticationResults> {
    const { dnsMs, workMs, hostname } = this.#options;
    this.#thread ??= this.#start();
    const thread = this.#thread;
    clearTimeout(thread.idle);
    this.#count += 1;
    const id = this.#count;
    return new Promise((settle) => {
      const timer = setTimeout(() => this.#end(thread, 'a mail took too long'), dnsMs + workMs);
      thread.mails.set(id, { settle, questions: 0, dnsUntil: performance.now() + dnsMs, timer });
      // A copy, which moves to the thread: the mail is being read here at the same time.
      const content = new Uint8Array(mail.content);
      const message: ToThread = { kind: 'mail', id, mail: { ...mail, content, hostname } };
      thread.worker.postMessage(message, [content.buffer]);
    });
  }

  async stop(): Promise<void> {
    if (this.#thread) await this.#end(this.#thread);
  }

  #start(): Thread {
    const worker = new Worker(new URL('./verifier-thread.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MEGABYTES },
    });
    const thread: Thread = { worker, mails: new Map(), idle: undefined };
    worker.on('message', (message: FromThread) => this.#onMessage(thread, message));
    worker.on('error', (error) => void this.#end(thread, String(error)));
    worker.on('exit', () => void this.#end(thread, 'the thread has ended'));
    return thread;
  }

  #onMessage(thread: Thread, message: FromThread): void {
    if (message.kind === 'question') {
      void this.#answer(thread, message);
      return;
    }
    if (message.kind === 'verified') this.#settle(thread, message.id, message.results);
    else {
      this.#options.log.error({ error: message.error }, 'a mail that came in could not be verified');
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

  /** Ends the thread; `cause` is logged where it had mails. */
  async #end(thread: Thread, cause?: string): Promise<void> {
    if (this.#thread === thread) this.#thread = undefined;
    clearTimeout(thread.idle);
    const { size } = thread.mails;
    if (size > 0 && cause !== undefined)
      this.#options.log.error({ cause, mails: size }, 'mail that came in could not be verified');
    for (const id of [...thread.mails.keys()]) this.#settle(thread, id, notVerified(INTERRUPTED));
    await thread.worker.terminate();
  }

  async #answer(thread: Thread, { id, question, name, type }: FromThread & { kind: 'question' }): Promise<void> {
    const mail = thread.mails.get(id);
    if (!mail) return;
    mail.questions += 1;
    const reply = await this.#reply(mail, name, type);
    thread.worker.postMessage({ kind: 'reply', question, reply } satisfies ToThread);
  }

  async #reply({ questions, dnsUntil }: InHand, name: string, type: string): Promise<DnsReply> {
    const leftMs = dnsUntil - performance.now();
    if (leftMs <= 0) return { code: 'ETIMEOUT' };
    if (questions > MOST_QUESTIONS) return { code: 'ETOOMANY' };
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<DnsReply>((resolve) => {
      timer = setTimeout(() => resolve({ code: 'ETIMEOUT' }), leftMs);
    });
    const reply = await Promise.race([lookUp(this.#options.dns, name, type), late]);
    clearTimeout(timer);
    return reply;
  }
}

export function createMailVerifier(options: MailVerifierOptions): MailVerifier {
  return new Verifier(options);
}

/** One question, with its records as node:dns/promises has them. */
async function lookUp(dns: Dns, name: string, type: string): Promise<DnsReply> {
  switch (type) {
    case 'TXT':
      return replyOf(await dns.resolveTxt(name), (texts) => texts.map((text) => [text]));
    case 'MX':
      return replyOf(await dns.resolveMx(name), ({ hosts }) =>
        hosts.map(({ host: exchange, preference: priority }) => ({ exchange, priority })),
      );
    case 'CNAME':
      return replyOf(await dns.resolveCname(name), (target) => [target]);
    case 'PTR':
      return replyOf(await dns.resolvePtr(addressOf(name)), (names) => names);
    case 'A':
    case 'AAAA':
      return replyOf(await dns.resolveAddresses(name), (addresses) =>
        addresses.filter((address) => address.includes(':') === (type === 'AAAA')),
      );
    default:
      return { code: 'ENOTIMP' };
  }
}

function replyOf<T>(answer: DnsAnswer<T>, convert: (value: T) => unknown[]): DnsReply {
  if (answer.status === 'temporary') return { code: answer.cause };
  if (answer.status === 'no-such-domain') return { code: 'ENOTFOUND' };
  const records = answer.status === 'found' ? convert(answer.value) : [];
  return records.length > 0 ? { records } : { code: 'ENODATA' };
}

/** The address that a name below in-addr.arpa or ip6.arpa stands for. */
function addressOf(name: string): string {
  const labels = name.split('.').slice(0, -2).toReversed();
  return name.endsWith('.in-addr.arpa') ? labels.join('.') : labels.join('').replace(/.{4}(?=.)/g, '$&:');
}
