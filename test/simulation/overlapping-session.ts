/**
 * A session of a server whose transactions overlap (overlapping-server.ts): it passes the requests of its client to its backend one by one,
 * and measures the session's timeouts.
 *
 *   idle ──a request, after some time──▶ running ──reply──▶ idle
 *                                          └──a lock is held──▶ waiting ──granted──▶ running
 *                                                                 └──timeout, deadlock──▶ cancelled: an error, idle
 *
 * A server notices the end of a client only between two requests: what is running, and what it has read before, ends first. A COMMIT among
 * them takes effect, and its client never learns about it.
 */
import type { SimSocket } from './network.ts';
import type { OverlappingServer } from './overlapping-server.ts';
import type { Progress } from './overlapping-thread.ts';
import {
  greeting,
  type Message,
  message,
  messagesOf,
  type Request,
  RequestReader,
  ready,
  refusal,
  textAt,
} from './postgres-protocol.ts';
import type { Waiting } from './timeline.ts';

const SETTINGS = /\b(SET(?: LOCAL)?) (lock_timeout|statement_timeout|idle_in_transaction_session_timeout) = (\d+)/g;
/** A notice stands for a notification: the backend does not listen. */
const NOTIFICATION = 'PN001';
const DEADLOCK_TIMEOUT_MS = 1_000;

const REASONS = {
  '55P03': 'canceling statement due to lock timeout',
  '57014': 'canceling statement due to statement timeout',
  '40P01': 'deadlock detected',
};

type Timeout = 'lock_timeout' | 'statement_timeout' | 'idle_in_transaction_session_timeout';

export class OverlappingSession {
  readonly pid: number;
  isListening = false;
  readonly #server: OverlappingServer;
  readonly #socket: SimSocket;
  readonly #reader = new RequestReader();
  readonly #timeouts: Record<Timeout, number> = {
    lock_timeout: 0,
    statement_timeout: 0,
    idle_in_transaction_session_timeout: 0,
  };
  /** Those of the current transaction. */
  #local: Partial<Record<Timeout, number>> = {};
  /** Texts of prepared statements by name. */
  readonly #texts = new Map<string, string>();
  #requests: Request[] = [];
  #isRunning = false;
  #startedMs = 0;
  /** The client is gone. */
  #isOver = false;
  /** The backend is gone. */
  #isAbandoned = false;
  /** As in ReadyForQuery. */
  #status = 'I';
  #timers: Waiting[] = [];

  constructor(server: OverlappingServer, { socket, pid }: { socket: SimSocket; pid: number }) {
    this.#server = server;
    this.#socket = socket;
    this.pid = pid;
    socket.on('data', (chunk: Buffer) => this.#received(chunk));
    for (const event of ['error', 'close', 'end']) socket.on(event, () => this.#ended());
  }

  /** Whether it has a transaction, or something to do. */
  get isBusy(): boolean {
    return this.#isRunning || this.#requests.length > 0 || this.#status !== 'I';
  }

  /** Text of the current statement. */
  get text(): string {
    const [request] = this.#requests;
    const bind = request?.messages.find(({ type }) => type === 'B');
    if (request?.text !== '' || !bind) return request?.text ?? '';
    return this.#texts.get(textAt(bind.body, textAt(bind.body, 0).next).text) ?? '';
  }

  send(bytes: Buffer): void {
    if (!this.#isOver && this.#socket.writable) this.#socket.write(bytes);
  }

  /** The server crashed. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#isOver = true;
    this.#stopTimers();
    this.#socket.resetAndDestroy();
  }

  /** The backend ran the request, or waits for a lock. */
  progressed({ state, bytes }: Progress): void {
    this.#stopTimers();
    if (state === 'waiting') this.#waits();
    else this.#answer(Buffer.from(bytes), state);
  }

  #received(chunk: Buffer): void {
    if (this.#isOver) return;
    const wasStarted = this.#reader.isStarted;
    const { requests, isEnd } = this.#reader.read(chunk);
    if (!wasStarted && this.#reader.isStarted) this.send(greeting(this.pid));
    this.#requests.push(...requests);
    if (isEnd) this.#ended();
    this.#pump();
  }

  /** The connection ended. */
  #ended(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket.destroy();
    if (!this.#server.drawRunsOn()) this.#requests.splice(this.#isRunning ? 1 : 0);
    this.#pump();
  }

  #pump(): void {
    if (this.#isRunning || this.#isAbandoned) return;
    this.#stopTimers();
    const request = this.#requests[0];
    if (request === undefined) {
      if (this.#isOver) this.#server.end(this);
      else this.#idle();
      return;
    }
    this.#isRunning = true;
    const isCommit = request.isQuery && /^COMMIT\b/.test(request.text);
    this.#after(this.#server.tookMs(isCommit), () => {
      if (isCommit && this.#status === 'T') this.#server.onCommit();
      if (!this.#isAbandoned) this.#run(request);
    });
  }

  #run(request: Request): void {
    const { timeline } = this.#server;
    this.#startedMs = timeline.nowMs;
    if (request.isQuery && /^LISTEN\b/.test(request.text)) {
      this.isListening = true;
      this.#answer(Buffer.concat([message('C', 'LISTEN'), ready(this.#status)]));
      return;
    }
    this.#server.exec(this, Buffer.concat(request.messages.map((one) => this.#rewritten(one))));
  }

  #answer(bytes: Buffer, state: Progress['state'] = 'done'): void {
    const { messages } = messagesOf(bytes);
    const said = messages.filter((one) => one.type !== 'N' || !this.#isNotification(one));
    const last = said.at(-1);
    if (last?.type === 'Z') this.#status = last.body.toString('latin1');
    if (this.#status === 'I') this.#local = {};
    this.#requests.shift();
    this.#isRunning = false;
    this.send(Buffer.concat(said.map((one) => one.bytes)));
    if (state === 'ended') this.#close();
    else this.#pump();
  }

  /** The server ends the session. */
  #close(): void {
    this.#isOver = true;
    this.#isAbandoned = true;
    this.#socket.end();
    this.#server.end(this);
  }

  /** Passes a notification to the sessions that listen. */
  #isNotification({ body }: Message): boolean {
    const fields = new Map(
      body
        .toString('utf8')
        .split('\0')
        .map((field) => [field[0], field.slice(1)]),
    );
    if (fields.get('C') !== NOTIFICATION) return false;
    this.#server.notify(this, { channel: fields.get('D') ?? '', payload: fields.get('M') ?? '' });
    return true;
  }

  #waits(): void {
    this.#server.count('lock wait');
    const lockMs = this.#timeout('lock_timeout');
    const statementMs = this.#timeout('statement_timeout');
    if (lockMs > 0) this.#after(lockMs, () => this.#cancel('55P03'));
    const spentMs = this.#server.timeline.nowMs - this.#startedMs;
    if (statementMs > 0) this.#after(Math.max(0, statementMs - spentMs), () => this.#cancel('57014'));
    this.#after(DEADLOCK_TIMEOUT_MS, () => {
      if (this.#server.isDeadlocked(this)) this.#cancel('40P01');
    });
  }

  #cancel(code: keyof typeof REASONS): void {
    this.#stopTimers();
    this.#server.count(code === '40P01' ? 'a deadlock' : 'lock timeout');
    const { messages } = messagesOf(Buffer.from(this.#server.cancel(this).bytes));
    const said = messages.map(({ type, bytes }) => (type === 'E' ? refusal('ERROR', code, REASONS[code]) : bytes));
    this.#answer(Buffer.concat(said));
    this.#server.settled();
  }

  /** A transaction with an inactive client loses its locks. */
  #idle(): void {
    const idleMs = this.#timeout('idle_in_transaction_session_timeout');
    if (this.#status === 'I' || idleMs === 0) return;
    this.#after(idleMs, () => {
      this.send(refusal('FATAL', '25P03', 'terminating connection due to idle-in-transaction timeout'));
      this.#close();
    });
  }

  #timeout(name: Timeout): number {
    return this.#local[name] ?? this.#timeouts[name];
  }

  #after(ms: number, run: () => void): void {
    const { timeline } = this.#server;
    this.#timers.push(timeline.after(ms, 'database', run, timeline.world));
  }

  #stopTimers(): void {
    for (const timer of this.#timers.splice(0)) this.#server.timeline.cancel(timer);
  }

  /** Timeouts, the time and notifications are the server's of the simulation, and so is the number of the session. */
  #rewritten({ type, body, bytes }: Message): Buffer {
    if (type === 'Q') return message('Q', this.#ownText(textAt(body, 0).text));
    if (type !== 'P') return bytes;
    const name = textAt(body, 0);
    const text = textAt(body, name.next);
    this.#texts.set(name.text, text.text);
    return message('P', name.text, this.#ownText(text.text), body.subarray(text.next));
  }

  #ownText(text: string): string {
    return text
      .replaceAll(SETTINGS, (_, verb: string, name: Timeout, ms: string) => {
        (verb === 'SET' ? this.#timeouts : this.#local)[name] = Number(ms);
        return `${verb} ${name} = 0`;
      })
      .replaceAll('pg_backend_pid()', String(this.pid))
      .replaceAll('clock_timestamp()', 'simulated_time()')
      .replaceAll('pg_notify(', 'simulated_notify(');
  }
}
