/**
 * Replaces the environment of this process: time, timers, randomness and thread pool results come from the current timeline from the moment
 * this module is loaded, for everything loaded after it. The product does not notice: Node's modules are the same objects with other
 * functions. Only for processes that simulate.
 */
// First: it uses the real turns of the event loop.
import './timeline.ts';
import crypto from 'node:crypto';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import { promisify, types } from 'node:util';
import type { Disk } from './disk.ts';
import type { DnsWorld } from './dns.ts';
import { keyPairOf } from './key-pairs.ts';
import type { Network } from './network.ts';
import { type Random, seededRandom } from './random.ts';
import type { SimulatedThreads } from './threads.ts';
import type { Process, Timeline, Waiting } from './timeline.ts';

export interface Present {
  timeline: Timeline;
  /** Unix ms at the start of the timeline. */
  startMs: number;
  /** By how much the wall clock was set since, ms. */
  setMs: number;
  random: Random;
  network: Network;
  dns: DnsWorld;
  disk: Disk;
  threads: SimulatedThreads;
}

let present: Present | undefined;

/** Starts another scenario; everything that waits in the previous one is forgotten. */
export function enterWorld(next: Present): void {
  present = next;
}

/** Whether no scenario was started yet. */
export const isBeforeWorlds = (): boolean => present === undefined;

/** Returns the running scenario; without one, simulated functions must not be called. */
export function here(): Present {
  if (present === undefined) throw new Error('no simulation is running');
  return present;
}

/** Modules loaded before the first scenario see a clock that stands still. */
const monotonicMs = (): number => present?.timeline.nowMs ?? 0;
const skewMs = (): number => present?.timeline.process.skewMs ?? 0;
const wallMs = (): number => (present?.startMs ?? 0) + (present?.setMs ?? 0) + skewMs() + monotonicMs();

const early = seededRandom('before the first world');
let filled = 0;
const randomness = (): Random => {
  filled += 1;
  return present?.random ?? early;
};

const RealDate = Date;

class SimulatedDate extends RealDate {
  constructor(...parts: unknown[]) {
    if (parts.length === 0) super(Math.floor(wallMs()));
    else super(...(parts as []));
  }

  static override now(): number {
    return Math.floor(wallMs());
  }
}

/** Has the parts of Node's class that are used here. */
class Timer {
  #waiting: Waiting | undefined;
  readonly #run: () => void;
  readonly #ms: number;
  readonly #repeats: boolean;

  constructor(run: () => void, ms: number | undefined, repeats: boolean) {
    this.#run = run;
    this.#ms = ms !== undefined && ms >= 1 ? Math.min(ms, 2_147_483_647) : 1;
    this.#repeats = repeats;
    this.#arm(here().timeline.process);
  }

  #arm(process: Process): void {
    const { timeline } = here();
    this.#waiting = timeline.after(
      this.#ms,
      'timer',
      () => {
        this.#waiting = undefined;
        this.#run();
        if (this.#repeats && !this.#isClosed) this.#arm(process);
      },
      process,
    );
  }

  #isClosed = false;

  refresh(): this {
    this.#cancel();
    this.#arm(here().timeline.process);
    return this;
  }

  #cancel(): void {
    if (this.#waiting) this.#waiting.run = undefined;
    this.#waiting = undefined;
  }

  close(): this {
    this.#isClosed = true;
    this.#cancel();
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

type Callback = (...args: unknown[]) => void;

const startTimer =
  (repeats: boolean) =>
  (run: Callback, ms?: number, ...args: unknown[]): Timer =>
    new Timer(() => run(...args), ms, repeats);

const stopTimer = (timer: unknown): void => {
  if (timer instanceof Timer) timer.close();
};

const startImmediate = (run: Callback, ...args: unknown[]): Waiting & { unref(): unknown; ref(): unknown } => {
  const waiting = here().timeline.soon('immediate', () => run(...args));
  return Object.assign(waiting, { unref: () => waiting, ref: () => waiting });
};

const stopImmediate = (waiting: Waiting | undefined): void => {
  if (waiting) waiting.run = undefined;
};

/** timers/promises: ends early by its signal. */
function sleep<T>(ms?: number, value?: T, { signal }: { signal?: AbortSignal } = {}): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      timer.close();
      reject(new DOMException('The operation was aborted', 'AbortError'));
    };
    const timer = new Timer(
      () => {
        signal?.removeEventListener('abort', abort);
        resolve(value as T);
      },
      ms,
      false,
    );
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}

function replaceTime(): void {
  const setTimeout = startTimer(false);
  const setInterval = startTimer(true);
  const replaced = {
    setTimeout,
    setInterval,
    setImmediate: startImmediate,
    clearTimeout: stopTimer,
    clearInterval: stopTimer,
    clearImmediate: stopImmediate,
  };
  Object.assign(globalThis, replaced, { Date: SimulatedDate });
  Object.assign(timers, replaced);
  Object.assign(timersPromises, {
    setTimeout: sleep,
    setImmediate: (value: unknown) => new Promise((resolve) => startImmediate(() => resolve(value))),
  });
  Object.defineProperty(performance, 'now', { value: monotonicMs, configurable: true });
  Object.defineProperty(performance, 'timeOrigin', { get: () => wallMs() - monotonicMs(), configurable: true });
}

/** Returns the bytes of the view, whatever its element type. */
const bytesOf = (view: ArrayBufferView): Uint8Array => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

function fill<T extends ArrayBufferView | ArrayBuffer>(into: T, offset = 0, size?: number): T {
  const bytes = types.isAnyArrayBuffer(into) ? new Uint8Array(into) : bytesOf(into as ArrayBufferView);
  randomness().fill(bytes.subarray(offset, size === undefined ? undefined : offset + size));
  return into;
}

function randomInt(low: number, high?: number): number {
  const [from, below] = high === undefined ? [0, low] : [low, high];
  return from + randomness().below(below - from);
}

/**
 * Signatures and password hashes of the right shape that cost nothing: their security is tested with the real ones, and a simulated second
 * must not take a real one. Equal input gives equal output.
 */
function cheapBytes(length: number, ...parts: (string | Uint8Array)[]): Buffer {
  const hash = crypto.createHash('sha256');
  for (const part of parts) hash.update(part);
  const digest = hash.digest();
  return Buffer.alloc(length, digest);
}

/** Duration of a thread pool task. */
const POOL_MS = 2;

type Done<T> = (error: Error | null, value: T) => void;

function inPool<T>(label: string, value: T, done: Done<T>): void {
  const { timeline } = here();
  timeline.after(POOL_MS, `pool ${label}`, () => done(null, value));
}

function replaceRandomness(): void {
  const bytes = (size: number): Buffer => fill(Buffer.alloc(size));
  Math.random = () => randomness().next();
  const realSign = crypto.sign;
  const realKeyPair = crypto.generateKeyPairSync as (type: string, options: object) => object;
  Object.assign(crypto.webcrypto, { getRandomValues: fill });
  Object.assign(crypto, {
    randomInt,
    randomFillSync: fill,
    randomBytes: (size: number, done?: Done<Buffer>) => (done ? inPool('random', bytes(size), done) : bytes(size)),
    randomUUID: () =>
      bytes(16)
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
    sign: (...args: Parameters<typeof crypto.sign>) => {
      const [, data, key, done] = args;
      const type = (key as crypto.KeyObject).asymmetricKeyType;
      if (type !== 'rsa' && type !== 'ed25519') return Reflect.apply(realSign, crypto, args);
      const signature = cheapBytes(type === 'rsa' ? 256 : 64, data as Uint8Array);
      if (!done) return signature;
      return inPool('sign', signature, done as Done<Buffer>);
    },
    generateKeyPair: Object.assign(() => undefined, {
      [promisify.custom]: (type: string, options = {}) => {
        const pair = keyPairOf(type, randomness()) ?? realKeyPair(type, options);
        return new Promise((resolve) => inPool('keys', pair, (_, one) => resolve(one)));
      },
    }),
    argon2: (_: string, { message, nonce, tagLength }: Argon2, done: Done<Buffer>) =>
      inPool('argon2', cheapBytes(tagLength, message, nonce), done),
  });
}

interface Argon2 {
  message: string | Uint8Array;
  nonce: Uint8Array;
  tagLength: number;
}

/** WebCrypto functions without the thread pool: SHA-256 and its HMAC, which sign calls to an object store. */
function replaceWebCrypto(): void {
  const bytes = (buffer: Buffer): ArrayBuffer => new Uint8Array(buffer).buffer;
  Object.assign(crypto.webcrypto.subtle, {
    digest: async (_: string, data: ArrayBufferView) =>
      bytes(crypto.createHash('sha256').update(bytesOf(data)).digest()),
    importKey: async (_: string, key: ArrayBuffer | Uint8Array) => Buffer.from(key as Uint8Array),
    sign: async (_: string, key: Buffer, data: ArrayBufferView) =>
      bytes(crypto.createHmac('sha256', key).update(bytesOf(data)).digest()),
  });
}

replaceTime();
replaceRandomness();
replaceWebCrypto();
syncBuiltinESMExports();

/** The product takes characters from a buffer of random bytes; a scenario starts with a new one. Returns how often bytes were drawn. */
export const timesFilled = (): number => filled;

/** undici keeps one tick with its timers for the entire process; here each timer belongs to the node that set it. */
const undiciTimers = createRequire(import.meta.url)('undici/lib/util/timers.js') as Record<string, unknown>;
const [setSlow, stopSlow] = [startTimer(false), stopTimer];
Object.assign(undiciTimers, {
  setTimeout: setSlow,
  clearTimeout: stopSlow,
  setFastTimeout: setSlow,
  clearFastTimeout: stopSlow,
});
