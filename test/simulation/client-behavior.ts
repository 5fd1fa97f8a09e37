/**
 * What a mail server records about Postrider as its client, connection by connection: how many are open at the same time, and what happens
 * after it asked for time. The model of what is allowed is the maximum that src/delivery/destinations/registry.ts promises; if a fault hid
 * a reply from the client, the record is dropped.
 */
import { type Absence, isOutOfTouch, mayBeLost } from './absences.ts';
import type { SimSocket } from './network.ts';
import type { Process, Timeline } from './timeline.ts';

const INITIAL_CONNECTIONS = 5;
const MOST_CONNECTIONS = 20;
/** Bytes that were in transit when the server asked for time may still arrive. */
const UNDER_WAY_MS = 8_000;
/** Maximum time from the server to its client. */
const ON_ITS_WAY_MS = 1_000;
/** A planned stop first cancels connections that are being opened, and ends within this time. */
const STOPPING_MS = 40_000;
/** From a reply until all nodes have read it, and from the end of a database outage. */
const READ_MS = 8_000;
const BACK_MS = 20_000;

/** A time for which the server asked the client to stay away. */
interface Wish {
  saidAtMs: number;
  untilMs: number;
  remoteProcess: Process | undefined;
  /** Whether the reply may not have been received. */
  isCut(): boolean;
  /** Whether it arrived after the client had closed the connection. */
  isUnheard(): boolean;
}

interface Note {
  text: string;
  atMs: number;
  /** The requests for time that the record is based on, and the clients with connections at that time. */
  wishes: readonly Wish[];
  clients: readonly (Process | undefined)[];
}

/** Rounds a sum of fractions down, without floating-point errors. */
const whole = (allowed: number): number => Math.floor(allowed + 1e-6);

export class ClientBehavior {
  readonly #timeline: Timeline;
  readonly #sockets = new Set<SimSocket>();
  readonly #wishes: Wish[] = [];
  readonly #notes: Note[] = [];
  #remoteProcess: Process | undefined;
  /** Connections that are currently allowed. */
  #allowed = INITIAL_CONNECTIONS;
  /** No recipient was answered since the last request for time: one connection at a time probes. */
  #isProbed = false;
  readonly #probing = new Set<SimSocket>();
  /** The number of live nodes that share the limit, until a time. */
  #shares = { nodes: 1, untilMs: 0 };
  readonly #ownShares = new Map<Process | undefined, number>();

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  get #wish(): Wish | undefined {
    return this.#wishes.at(-1);
  }

  /** Whether it has asked for time that has not passed. */
  get isResting(): boolean {
    return this.#wish !== undefined && this.#timeline.nowMs < this.#wish.untilMs;
  }

  /** Connections held by the client; for others the end is in transit. */
  get held(): number {
    return [...this.#sockets].filter((one) => one.isHeldByRemote).length;
  }

  came(socket: SimSocket): void {
    const { nowMs } = this.#timeline;
    if (socket.remoteProcess !== this.#remoteProcess) this.#allowed = Math.max(this.#allowed, INITIAL_CONNECTIONS);
    this.#remoteProcess = socket.remoteProcess;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    const open = this.held;
    this.#checkShare(socket.remoteProcess);
    const wish = this.#wish;
    if (wish === undefined) return;
    if (this.isResting) {
      if (nowMs > wish.saidAtMs + UNDER_WAY_MS) this.#note(`a connection in the ${this.#since(wish)} it asked for`);
    } else if (this.#isProbed) {
      this.#probing.add(socket);
      const probes = [...this.#probing].filter((one) => one.isHeldByRemote).length;
      if (probes > 1) this.#note(`${probes} connections at once to see whether its time is over`);
    } else if (open > Math.max(1, whole(this.#allowed))) {
      this.#note(`${open} connections at once, of ${this.#allowed.toFixed(1)} after it asked for time`);
    }
  }

  isSharedBy(nodes: number, untilMs: number): void {
    this.#shares = { nodes, untilMs };
  }

  #shareOf(remoteProcess: Process | undefined): number {
    return this.#ownShares.get(remoteProcess) ?? Math.max(1, Math.floor(INITIAL_CONNECTIONS / this.#shares.nodes));
  }

  #checkShare(remoteProcess: Process | undefined): void {
    const { nodes, untilMs } = this.#shares;
    if (nodes === 1 || this.#timeline.nowMs > untilMs) return;
    const open = [...this.#sockets].filter((one) => one.remoteProcess === remoteProcess && one.isHeldByRemote).length;
    const share = this.#shareOf(remoteProcess);
    if (open > Math.ceil(share)) this.#note(`${open} connections of a node whose share is ${share.toFixed(1)}`);
  }

  #since({ saidAtMs, untilMs }: Wish): string {
    return `${Math.round((untilMs - saidAtMs) / 1000)} s`;
  }

  #note(text: string): void {
    const clients = [...this.#sockets].map(({ remoteProcess }) => remoteProcess);
    this.#notes.push({ text, atMs: this.#timeline.nowMs, wishes: [...this.#wishes], clients });
  }

  asksFor(ms: number, socket: SimSocket): void {
    const { nowMs } = this.#timeline;
    if (!this.#isProbed) this.#allowed = Math.max(1, this.#allowed / 2);
    this.#isProbed = true;
    this.#probing.clear();
    const { remoteProcess } = socket;
    const heard = { isCut: () => socket.isCut, isUnheard: () => socket.isUnheard };
    this.#wishes.push({ saidAtMs: nowMs, untilMs: nowMs + ms, remoteProcess, ...heard });
  }

  /** Records that a recipient was answered. */
  answered({ took, remoteProcess }: { took: boolean; remoteProcess: Process | undefined }): void {
    if (!this.isResting) this.#isProbed = false;
    if (!took) return;
    const share = this.#shareOf(remoteProcess);
    this.#ownShares.set(remoteProcess, Math.min(MOST_CONNECTIONS / this.#shares.nodes, share + 1 / share));
    // Each node's limit grows separately.
    this.#allowed = Math.min(MOST_CONNECTIONS, this.#allowed + this.#shares.nodes / Math.max(1, whole(this.#allowed)));
  }

  /** Returns the violations that Postrider had to avoid, given what it must have known. */
  faults(outages: readonly Absence[]): string[] {
    const isPassedOn = ({ remoteProcess, saidAtMs }: Wish): boolean =>
      !isOutOfTouch(remoteProcess, saidAtMs) &&
      !outages.some(({ fromMs, untilMs }) => saidAtMs > fromMs - READ_MS && saidAtMs < untilMs + BACK_MS);
    // The connection was opened by a node that was ending.
    const isTooLate = ({ remoteProcess, saidAtMs, isUnheard }: Wish): boolean =>
      remoteProcess?.endedMs !== undefined &&
      saidAtMs > remoteProcess.endedMs - (isUnheard() ? STOPPING_MS : ON_ITS_WAY_MS);
    const isKnown = ({ wishes, clients, atMs }: Note): boolean =>
      wishes.every(
        (wish) =>
          !wish.isCut() &&
          !isTooLate(wish) &&
          !mayBeLost(wish.remoteProcess, wish.saidAtMs) &&
          (isPassedOn(wish) || clients.every((remoteProcess) => remoteProcess === wish.remoteProcess)),
      ) && !clients.some((remoteProcess) => isOutOfTouch(remoteProcess, atMs));
    return this.#notes.filter(isKnown).map(({ text, atMs }) => `${text}, at ${atMs}`);
  }
}
