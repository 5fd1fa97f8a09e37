/**
 * A session of the simulated database server: its session state, and what it answers without touching the database. It parses the
 * protocol's messages; those that need the engine wait until the server gives it to this session.
 */
import type { SimSocket } from './network.ts';
import {
  greeting,
  type Message,
  message,
  type Request,
  RequestReader,
  ready,
  refusal,
  textAt,
} from './postgres-protocol.ts';
import type { Process, Timeline } from './timeline.ts';

const IDLE = 'I';
const ABORTED = 'E';
const SETTINGS = /\b(lock_timeout|statement_timeout|idle_in_transaction_session_timeout) = (\d+)/g;

/** The part of the server that sessions use. */
export interface Backend {
  readonly timeline: Timeline;
  readonly sessions: Set<Session>;
  /** Calls `held` once the session has the engine; the session keeps it until `release`. */
  acquire(session: Session): void;
  /** The session no longer wants the engine. */
  forget(session: Session): void;
  release(session: Session): void;
  exec(session: Session, bytes: Buffer): Message[];
  tookMs(isCommit: boolean): number;
  waitedInVain(): void;
}

interface Timeouts {
  lock_timeout: number;
  statement_timeout: number;
  idle_in_transaction_session_timeout: number;
}

export class Session {
  readonly pid: number;
  isListening = false;
  readonly #server: Backend;
  readonly #socket: SimSocket;
  readonly #timeouts: Timeouts = { lock_timeout: 0, statement_timeout: 0, idle_in_transaction_session_timeout: 0 };
  readonly #reader = new RequestReader();
  #isOver = false;
  readonly #requests: Request[] = [];
  #running = false;
  /** The state that the client sees: a BEGIN is not executed before a statement follows. */
  #status = IDLE;
  #begun: string | undefined;
  #holdsEngine = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(server: Backend, { socket, pid }: { socket: SimSocket; pid: number }) {
    this.#server = server;
    this.#socket = socket;
    this.pid = pid;
    socket.on('data', (chunk: Buffer) => this.#received(chunk));
    socket.on('error', () => this.kill(undefined));
    socket.on('close', () => this.kill(undefined));
    socket.on('end', () => this.kill(undefined));
  }

  /** Whether its client can continue: the connection works, and the client is not paused. */
  get isWell(): boolean {
    const client = this.#socket.remoteProcess;
    const isFrozen = (client?.frozenUntilMs ?? 0) > this.#server.timeline.nowMs - 20_000;
    return !this.#socket.isAlone && !this.#socket.isCut && !isFrozen;
  }

  get client(): Process | undefined {
    return this.#socket.remoteProcess;
  }

  send(bytes: Buffer): void {
    if (!this.#isOver && this.#socket.writable) this.#socket.write(bytes);
  }

  reset(): void {
    this.#socket.resetAndDestroy();
    this.kill(undefined);
  }

  /** Ends the session, including an open transaction. */
  kill(last: Buffer | undefined): void {
    if (this.#isOver) return;
    if (last) this.send(last);
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#server.sessions.delete(this);
    this.#server.forget(this);
    if (this.#holdsEngine) {
      this.#server.exec(this, message('Q', 'ROLLBACK'));
      this.#holdsEngine = false;
      this.#server.release(this);
    }
    if (last) this.#socket.end();
    else this.#socket.destroy();
  }

  #received(chunk: Buffer): void {
    const wasStarted = this.#reader.isStarted;
    const { requests, isEnd } = this.#reader.read(chunk);
    if (!wasStarted && this.#reader.isStarted) this.send(greeting(this.pid));
    this.#requests.push(...requests);
    if (isEnd) this.kill(undefined);
    this.#pump();
  }

  #pump(): void {
    if (this.#running || this.#isOver) return;
    const request = this.#requests[0];
    if (request === undefined) {
      this.#idle();
      return;
    }
    clearTimeout(this.#timer);
    this.#running = true;
    const known = this.#holdsEngine ? undefined : this.#withoutEngine(request);
    if (known) {
      this.#answer(known, 0.02);
      return;
    }
    const { lock_timeout: lockMs } = this.#timeouts;
    if (lockMs > 0) this.#timer = setTimeout(() => this.#waitedInVain(), lockMs);
    this.#server.acquire(this);
  }

  /** Answers what needs no lock: a BEGIN, the end of an empty transaction, and everything after an error. */
  #withoutEngine({ isQuery, text }: Request): Buffer | undefined {
    if (this.#status === IDLE) {
      if (!isQuery || !/^BEGIN\b/.test(text)) return undefined;
      this.#begun = text;
      this.#status = 'T';
      return Buffer.concat([message('C', 'BEGIN'), ready('T')]);
    }
    if (isQuery && /^(COMMIT|ROLLBACK)\b/.test(text)) {
      const word = this.#status === ABORTED ? 'ROLLBACK' : text;
      this.#begun = undefined;
      this.#status = IDLE;
      return Buffer.concat([message('C', word), ready(IDLE)]);
    }
    if (this.#status !== ABORTED) return undefined;
    const reason = 'current transaction is aborted, commands ignored until end of transaction block';
    return Buffer.concat([refusal('ERROR', '25P02', reason), ready(ABORTED)]);
  }

  #waitedInVain(): void {
    this.#server.forget(this);
    this.#server.waitedInVain();
    if (this.#status !== IDLE) this.#status = ABORTED;
    const text = 'canceling statement due to lock timeout';
    this.#answer(Buffer.concat([refusal('ERROR', '55P03', text), ready(this.#status)]), 0.02);
  }

  /** The session has the engine: the first request runs. */
  held(): void {
    clearTimeout(this.#timer);
    this.#holdsEngine = true;
    const request = this.#requests[0]!;
    if (this.#begun !== undefined) {
      this.#server.exec(this, message('Q', this.#settings(this.#begun)));
      this.#begun = undefined;
    }
    const isCommit = request.isQuery && /^COMMIT\b/.test(request.text);
    const bytes = Buffer.concat(request.messages.map((one) => this.#rewritten(one)));
    const said = this.#server.exec(this, bytes);
    const last = said.at(-1);
    this.#status = last?.type === 'Z' ? last.body.toString('latin1') : ABORTED;
    if (request.isQuery && /^LISTEN\b/.test(request.text)) this.isListening = true;
    this.#answer(Buffer.concat(said.map((one) => one.bytes)), this.#server.tookMs(isCommit));
  }

  #answer(bytes: Buffer, afterMs: number): void {
    const { timeline } = this.#server;
    timeline.after(
      afterMs,
      'database',
      () => {
        if (this.#isOver) return;
        this.#requests.shift();
        this.#running = false;
        this.send(bytes);
        if (this.#status === IDLE && this.#holdsEngine) {
          this.#holdsEngine = false;
          this.#server.release(this);
        }
        this.#pump();
      },
      timeline.world,
    );
  }

  /** A transaction with an inactive client loses its locks. */
  #idle(): void {
    const { idle_in_transaction_session_timeout: idleMs } = this.#timeouts;
    clearTimeout(this.#timer);
    if (!this.#holdsEngine || idleMs === 0) return;
    this.#timer = setTimeout(() => {
      this.kill(refusal('FATAL', '25P03', 'terminating connection due to idle-in-transaction timeout'));
    }, idleMs);
  }

  #settings(text: string): string {
    return text.replaceAll(SETTINGS, (_, name: keyof Timeouts, ms: string) => {
      this.#timeouts[name] = Number(ms);
      return `${name} = 0`;
    });
  }

  /** Names that belong to a session get its process id. */
  #rewritten({ type, body, bytes }: Message): Buffer {
    const own = (name: string): string => (name === '' ? '' : `${this.pid}_${name}`);
    if (type === 'Q') return message('Q', this.#ownText(textAt(body, 0).text));
    if (type === 'P') {
      const name = textAt(body, 0);
      const text = textAt(body, name.next);
      return message('P', own(name.text), this.#ownText(text.text), body.subarray(text.next));
    }
    if (type === 'B') {
      const portal = textAt(body, 0);
      const name = textAt(body, portal.next);
      return message('B', portal.text, own(name.text), body.subarray(name.next));
    }
    if ((type === 'D' || type === 'C') && body[0] === 'S'.charCodeAt(0)) {
      return message(type, body.subarray(0, 1), own(textAt(body, 1).text));
    }
    return bytes;
  }

  #ownText(text: string): string {
    return this.#settings(text).replaceAll('pg_backend_pid()', String(this.pid));
  }
}
