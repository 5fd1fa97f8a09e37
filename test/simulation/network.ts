/**
 * The simulated network: listeners by address and port, and connections of byte streams between processes. The seed decides how
 * long bytes take, where they are cut into pieces, and which connections are reset, fall silent or stand half open. Bytes of one
 * direction keep their order. A process that dies leaves its peers a reset, or nothing at all where its machine lost power.
 */
import { Duplex } from 'node:stream';
import type { Random } from './random.ts';
import type { Process, Timeline } from './timeline.ts';

export type OnConnection = (socket: SimSocket) => void;

interface Listener {
  process: Process;
  receive: OnConnection;
}

export interface NetworkFaults {
  /** Of a connection: that it is reset, or goes silent, at some byte of its first some kilobytes. */
  resets: number;
  silences: number;
  /** That nobody answers a SYN. */
  blackHoles: number;
}

/** What befalls a connection when so many bytes have passed in both directions together. */
interface Fate {
  atBytes: number;
  kind: 'reset' | 'silence';
}

const FATE_WITHIN_BYTES = 3_000;

export class Network {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly faults: NetworkFaults;
  readonly counts: Record<string, number> = {};
  readonly #listeners = new Map<string, Listener>();
  readonly sockets = new Set<SimSocket>();
  #nextPort = 32_768;

  constructor(timeline: Timeline, { random, faults }: { random: Random; faults: NetworkFaults }) {
    this.timeline = timeline;
    this.random = random;
    this.faults = faults;
  }

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  /** Connections of our nodes; what the rest of the world keeps open does not matter to anybody. */
  get ours(): number {
    let count = 0;
    for (const { process } of this.sockets) if (process !== this.timeline.world && !process.isDead) count += 1;
    return count;
  }

  listen(at: string, receive: OnConnection): void {
    this.#listeners.set(at, { process: this.timeline.process, receive });
  }

  close(at: string): void {
    this.#listeners.delete(at);
  }

  latencyMs(): number {
    // Mostly quick, now and then a retransmission.
    return this.random.chance(0.02) ? this.random.between(50, 3_000) : this.random.between(0.2, 30);
  }

  /** The end of the one who dials; it emits `connect` or an error. */
  connect(to: { host: string; port: number }, from: string): SimSocket {
    const socket = new SimSocket(this, this.timeline.process, { address: to.host, port: to.port });
    socket.localAddress = from;
    socket.localPort = this.#nextPort++;
    socket.connecting = true;
    if (this.random.chance(this.faults.blackHoles)) {
      this.count('a connection that nobody answers');
      return socket;
    }
    this.timeline.after(this.latencyMs(), 'dial', () => this.#arrive(socket, to), this.timeline.world);
    return socket;
  }

  #arrive(socket: SimSocket, to: { host: string; port: number }): void {
    const { timeline } = this;
    const listener = this.#listeners.get(`${to.host}:${to.port}`) ?? this.#listeners.get(`*:${to.port}`);
    if (listener === undefined || listener.process.isDead) {
      timeline.after(0.2, 'refused', () => socket.fail('ECONNREFUSED'), socket.process);
      return;
    }
    const peer = new SimSocket(this, listener.process, { address: socket.localAddress, port: socket.localPort });
    peer.localAddress = to.host;
    peer.localPort = to.port;
    const fate = this.#fate();
    socket.join(peer, fate);
    peer.join(socket, fate);
    timeline.after(0.1, 'accepted', () => listener.receive(peer), listener.process);
    timeline.after(this.latencyMs(), 'connected', () => socket.connected(), socket.process);
  }

  #fate(): Fate | undefined {
    const draw = this.random.next();
    const { resets, silences } = this.faults;
    const atBytes = this.random.below(FATE_WITHIN_BYTES);
    if (draw < resets) return { atBytes, kind: 'reset' };
    return draw < resets + silences ? { atBytes, kind: 'silence' } : undefined;
  }

  /** What the peers of a process see of its death: nothing where the power went. */
  died(process: Process, { silently }: { silently: boolean }): void {
    for (const [at, listener] of this.#listeners) if (listener.process === process) this.#listeners.delete(at);
    for (const socket of [...this.sockets]) if (socket.process === process) socket.abandon(silently);
  }
}

/** One end of a connection; what a net.Socket is to those who use it. */
export class SimSocket extends Duplex {
  readonly network: Network;
  readonly process: Process;
  readonly remoteAddress: string;
  readonly remotePort: number;
  readonly remoteFamily = 'IPv4';
  localAddress = '';
  localPort = 0;
  connecting = false;
  timeout = 0;
  /** Bytes that arrived, of those the other end wrote. */
  #peer: SimSocket | undefined;
  #fate: Fate | undefined;
  #passed = { bytes: 0 };
  #arrivesAtMs = 0;
  #isSilent = false;
  #idle: NodeJS.Timeout | undefined;
  #held: { chunk: Buffer; done: (error?: Error | null) => void }[] = [];

  constructor(network: Network, process: Process, remote: { address: string; port: number }) {
    super({ allowHalfOpen: true });
    this.network = network;
    this.process = process;
    this.remoteAddress = remote.address;
    this.remotePort = remote.port;
    network.sockets.add(this);
  }

  /** That something befell the connection: what was sent may not have arrived. */
  get isCut(): boolean {
    return this.#isSilent;
  }

  /** That nobody is at the other end any more. */
  get isAlone(): boolean {
    return this.#peer?.process.isDead !== false;
  }

  /** Who is at the other end. */
  get guest(): Process | undefined {
    return this.#peer?.process;
  }

  /** That the other end still has the connection and can tell. */
  get isHeldByGuest(): boolean {
    return !this.isAlone && !this.isCut && this.#peer?.destroyed === false && !this.#peer.writableEnded;
  }

  join(peer: SimSocket, fate: Fate | undefined): void {
    this.#peer = peer;
    this.#fate = fate;
    if (peer.#peer === this) this.#passed = peer.#passed;
  }

  connected(): void {
    if (this.destroyed) return;
    this.connecting = false;
    this.emit('connect');
    this.emit('ready');
    for (const { chunk, done } of this.#held.splice(0)) this._write(chunk, 'buffer', done);
  }

  fail(code: string): void {
    if (this.destroyed) return;
    this.destroy(Object.assign(new Error(`${code} ${this.remoteAddress}:${this.remotePort}`), { code }));
  }

  /** Arrives at the other end behind everything that was sent before. */
  #toPeer(label: string, arrive: (peer: SimSocket) => void): void {
    const peer = this.#peer;
    if (peer === undefined || this.#isSilent) return;
    const { timeline } = this.network;
    this.#arrivesAtMs = Math.max(this.#arrivesAtMs, timeline.nowMs + this.network.latencyMs());
    // The least bit later than what went before.
    this.#arrivesAtMs += 0.31;
    timeline.after(this.#arrivesAtMs - timeline.nowMs, label, () => arrive(peer), peer.process);
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    if (this.connecting) {
      this.#held.push({ chunk, done });
      return;
    }
    const { random } = this.network;
    let rest: Buffer = Buffer.from(chunk);
    while (rest.length > 0) {
      const length = random.chance(0.1) ? 1 + random.below(rest.length) : rest.length;
      const piece = rest.subarray(0, length);
      rest = rest.subarray(length);
      this.#passed.bytes += length;
      if (this.#meetsFate()) break;
      this.#toPeer('bytes', (peer) => peer.#arrived(piece));
    }
    this.network.timeline.soon('written', () => done(), this.process);
  }

  #meetsFate(): boolean {
    const fate = this.#fate;
    if (fate === undefined || this.#passed.bytes < fate.atBytes) return false;
    const peer = this.#peer!;
    this.#fate = undefined;
    peer.#fate = undefined;
    const { network } = this;
    network.count(fate.kind === 'reset' ? 'a connection reset' : 'a connection gone silent');
    if (fate.kind === 'silence') {
      this.#isSilent = true;
      peer.#isSilent = true;
      return true;
    }
    // What was sent before arrives or not: a reset overtakes it.
    for (const end of [this, peer]) {
      end.#isSilent = true;
      network.timeline.after(network.latencyMs(), 'reset', () => end.fail('ECONNRESET'), end.process);
    }
    return true;
  }

  #arrived(piece: Buffer): void {
    if (this.destroyed) return;
    this.#touch();
    this.push(piece);
  }

  override _read(): void {}

  override _final(done: (error?: Error | null) => void): void {
    this.#toPeer('end', (peer) => {
      if (!peer.destroyed) peer.push(null);
    });
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#idle);
    this.network.sockets.delete(this);
    // Closed with bytes unread or unsent is a reset for the other side; after both ends it is nothing.
    if (!this.writableFinished || !this.readableEnded) {
      const isClean = this.writableFinished || error === null;
      this.#toPeer('closed', (peer) => peer.#peerClosed(isClean));
    }
    done(error);
  }

  #peerClosed(isClean: boolean): void {
    if (this.destroyed) return;
    if (isClean && !this.readableEnded) this.push(null);
    else if (!isClean) this.fail('ECONNRESET');
  }

  /** Of a process that died: nothing happens here any more. */
  abandon(silently: boolean): void {
    this.network.sockets.delete(this);
    const peer = this.#peer;
    if (silently || peer === undefined || this.#isSilent) return;
    const { timeline } = this.network;
    timeline.after(this.network.latencyMs(), 'reset', () => peer.fail('ECONNRESET'), peer.process);
  }

  #touch(): void {
    if (this.timeout > 0) this.#idle?.refresh();
  }

  setTimeout(ms: number, onTimeout?: () => void): this {
    clearTimeout(this.#idle);
    this.timeout = ms;
    if (onTimeout) this.once('timeout', onTimeout);
    if (ms > 0) this.#idle = setTimeout(() => this.emit('timeout'), ms);
    return this;
  }

  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  resetAndDestroy(): this {
    return this.destroy(new Error('reset'));
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  address(): { address: string; port: number; family: string } {
    return { address: this.localAddress, port: this.localPort, family: 'IPv4' };
  }
}
