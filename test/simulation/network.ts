/**
 * The simulated network: listeners by address and port, and byte streams between processes. The seed decides how long bytes take, where
 * they are split, and which connections are reset, fall silent or stay half open. Bytes of one direction keep their order. A process that
 * dies leaves its peers a reset, or nothing if its machine lost power.
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
  /** Connections that are reset or fall silent at some byte of their first few kilobytes. */
  resets: number;
  silences: number;
  /** Connections whose SYN is never answered. */
  blackHoles: number;
}

/** What happens to a connection after this many bytes in both directions together. */
interface Fate {
  atBytes: number;
  kind: 'reset' | 'silence';
}

const FATE_WITHIN_BYTES = 3_000;

/** How the database server is reached, without the Internet in between. */
export interface Link {
  latencyMs(): number;
  faults: NetworkFaults;
  fateWithinBytes: number;
  /** Whether nothing currently gets through between the process and the server. */
  isCutOff(process: Process): boolean;
}

export class Network {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly faults: NetworkFaults;
  readonly counts: Record<string, number> = {};
  /** Several processes may listen on one address: the balancer chooses one for each connection. */
  readonly #listeners = new Map<string, Listener[]>();
  readonly links = new Map<string, Link>();
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

  /** Connections of the nodes; other open connections do not matter. */
  get ours(): number {
    let count = 0;
    for (const { process, remoteAddress } of this.sockets) {
      if (process !== this.timeline.world && !process.isDead && !this.links.has(remoteAddress)) count += 1;
    }
    return count;
  }

  listen(at: string, receive: OnConnection): void {
    const others = this.#listeners.get(at) ?? [];
    this.#listeners.set(at, [...others, { process: this.timeline.process, receive }]);
  }

  close(at: string, process: Process = this.timeline.process): void {
    const others = this.#listeners.get(at)?.filter((one) => one.process !== process) ?? [];
    if (others.length > 0) this.#listeners.set(at, others);
    else this.#listeners.delete(at);
  }

  #listener(at: string): Listener | undefined {
    const all = this.#listeners.get(at) ?? [];
    return all.length > 1 ? this.random.pick(all) : all[0];
  }

  latencyMs(link?: Link): number {
    if (link) return link.latencyMs();
    // Mostly fast, with an occasional retransmission.
    return this.random.chance(0.02) ? this.random.between(50, 3_000) : this.random.between(0.2, 30);
  }

  /** Returns the client's end; it emits `connect` or an error. */
  connect(to: { host: string; port: number }, from: string): SimSocket {
    const socket = new SimSocket(this, this.timeline.process);
    this.dial(socket, to, from);
    return socket;
  }

  dial(socket: SimSocket, to: { host: string; port: number }, from: string): void {
    const link = this.links.get(to.host);
    socket.remoteAddress = to.host;
    socket.remotePort = to.port;
    socket.link = link;
    socket.localAddress = from;
    socket.localPort = this.#nextPort++;
    socket.connecting = true;
    const isCutOff = link?.isCutOff(socket.process) === true;
    if (this.random.chance((link ?? this).faults.blackHoles) || isCutOff) {
      this.count(link ? 'a database that does not answer' : 'a connection that nobody answers');
      return;
    }
    this.timeline.after(this.latencyMs(link), 'dial', () => this.#arrive(socket, to), this.timeline.world);
  }

  #arrive(socket: SimSocket, to: { host: string; port: number }): void {
    const { timeline } = this;
    const listener = this.#listener(`${to.host}:${to.port}`) ?? this.#listener(`*:${to.port}`);
    if (listener === undefined || listener.process.isDead) {
      timeline.after(0.2, 'refused', () => socket.fail('ECONNREFUSED'), socket.process);
      return;
    }
    const peer = new SimSocket(this, listener.process);
    peer.remoteAddress = socket.localAddress;
    peer.remotePort = socket.localPort;
    peer.link = socket.link;
    peer.localAddress = to.host;
    peer.localPort = to.port;
    const fate = this.#fate(socket.link);
    socket.join(peer, fate);
    peer.join(socket, fate);
    peer.isPending = true;
    const accept = (): void => {
      peer.isPending = false;
      listener.receive(peer);
    };
    timeline.after(0.1, 'accepted', accept, listener.process);
    timeline.after(this.latencyMs(socket.link), 'connected', () => socket.connected(), socket.process);
  }

  #fate(link: Link | undefined): Fate | undefined {
    const draw = this.random.next();
    const { resets, silences } = (link ?? this).faults;
    const atBytes = this.random.below(link?.fateWithinBytes ?? FATE_WITHIN_BYTES);
    if (draw < resets) return { atBytes, kind: 'reset' };
    return draw < resets + silences ? { atBytes, kind: 'silence' } : undefined;
  }

  /** What peers notice of the death of a process: nothing after a power cut. */
  died(process: Process, { silently }: { silently: boolean }): void {
    for (const at of [...this.#listeners.keys()]) this.close(at, process);
    for (const socket of [...this.sockets]) if (socket.process === process) socket.abandon(silently);
  }
}

/** One end of a connection, with the interface of a net.Socket. */
export class SimSocket extends Duplex {
  readonly network: Network;
  readonly process: Process;
  remoteAddress = '';
  remotePort = 0;
  link: Link | undefined;
  readonly remoteFamily = 'IPv4';
  localAddress = '';
  localPort = 0;
  connecting = false;
  /** Not accepted yet: its fate is drawn then. */
  isPending = false;
  timeout = 0;
  /** Bytes that arrived here. */
  #peer: SimSocket | undefined;
  #fate: Fate | undefined;
  #passed = { bytes: 0 };
  /** Bytes written here, how many of them arrived, and the callbacks that wait for a number. */
  #written = 0;
  #come = 0;
  #whenCome: { bytes: number; run: () => void }[] = [];
  #arrivesAtMs = 0;
  isSilent = false;
  /** Something that was written here arrived after the other end had closed. */
  isUnheard = false;
  #idle: NodeJS.Timeout | undefined;
  #held: { chunk: Buffer; done: (error?: Error | null) => void }[] = [];

  constructor(network: Network, process: Process) {
    super({ allowHalfOpen: true });
    this.network = network;
    this.process = process;
    network.sockets.add(this);
  }

  /** Whether the connection failed: what was sent may not have arrived. */
  get isCut(): boolean {
    return this.isSilent || this.#peer?.isSilent === true;
  }

  /** Whether the other end has ended. */
  get isAlone(): boolean {
    return this.#peer?.process.isDead !== false;
  }

  /** The process at the other end. */
  get remoteProcess(): Process | undefined {
    return this.#peer?.process;
  }

  /** Whether the other end still has the connection and can notice. */
  get isHeldByRemote(): boolean {
    return !this.isAlone && !this.isCut && this.#peer?.destroyed === false && !this.#peer.writableEnded;
  }

  /** Runs once everything written so far has arrived at the other end, if it ever does. */
  whenHeard(run: () => void): void {
    this.#whenCome.push({ bytes: this.#written, run });
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
    if (this.isPending) {
      this.network.timeline.after(1, 'reset', () => this.fail(code), this.process);
      return;
    }
    this.destroy(Object.assign(new Error(`${code} ${this.remoteAddress}:${this.remotePort}`), { code }));
  }

  /** Arrives at the other end after everything that was sent before. */
  #toPeer(label: string, arrive: (peer: SimSocket) => void): void {
    const peer = this.#peer;
    if (peer === undefined || this.isSilent) return;
    const { timeline } = this.network;
    this.#arrivesAtMs = Math.max(this.#arrivesAtMs, timeline.nowMs + this.network.latencyMs(this.link));
    // Slightly later than what was sent before.
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
    // The content of the simulated database server's bytes differs between runs.
    if (this.network.links.size === 0) this.network.timeline.noteBytes(rest);
    while (rest.length > 0) {
      const length = random.chance(0.1) ? 1 + random.below(rest.length) : rest.length;
      const piece = rest.subarray(0, length);
      rest = rest.subarray(length);
      this.#passed.bytes += length;
      this.#written += length;
      if (this.#meetsFate()) break;
      this.#toPeer('bytes', (peer) => peer.#arrived(piece));
    }
    this.network.timeline.soon('written', () => done(), this.process);
  }

  /** Nothing that is written from now on arrives, without notice. */
  silence(): void {
    this.isSilent = true;
  }

  #meetsFate(): boolean {
    const fate = this.#fate;
    if (fate === undefined || this.#passed.bytes < fate.atBytes) return false;
    const peer = this.#peer!;
    this.#fate = undefined;
    peer.#fate = undefined;
    const { network } = this;
    const what = this.link ? 'connection to the database' : 'connection';
    network.count(`a ${what} ${fate.kind === 'reset' ? 'reset' : 'gone silent'}`);
    if (fate.kind === 'silence') {
      this.silence();
      // On a database link, the other end's bytes may still arrive.
      if (this.link === undefined || network.random.chance(0.5)) peer.silence();
      return true;
    }
    // A reset overtakes earlier bytes, which arrive or not.
    for (const end of [this, peer]) {
      end.isSilent = true;
      network.timeline.after(network.latencyMs(), 'reset', () => end.fail('ECONNRESET'), end.process);
    }
    return true;
  }

  #arrived(piece: Buffer): void {
    // An end that closes itself might still have received it.
    if (this.#peer && !(this.destroyed && this.isCut)) this.#peer.#heard(piece.length);
    if (this.destroyed) {
      if (this.#peer) this.#peer.isUnheard = true;
      return;
    }
    this.#touch();
    this.push(piece);
  }

  #heard(bytes: number): void {
    this.#come += bytes;
    while (this.#whenCome[0] && this.#whenCome[0].bytes <= this.#come) this.#whenCome.shift()!.run();
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
    // Closing with unread or unsent bytes is a reset for the other side; after both ends it has no effect.
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

  /** The process died: nothing happens here any more. */
  abandon(silently: boolean): void {
    this.network.sockets.delete(this);
    const peer = this.#peer;
    if (silently || peer === undefined || this.isSilent) return;
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
