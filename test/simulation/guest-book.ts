/**
 * What a mail server notes of us as its guests, connection by connection: how many stand at once, and what we do after it asked for time. The
 * model of what we may do is the most that src/delivery/destinations/registry.ts promises; a fault that hid an answer from us takes a note back.
 */
import { type Absence, isOutOfTouch, mayBeLost } from './absences.ts';
import type { SimSocket } from './network.ts';
import type { Process, Timeline } from './timeline.ts';

const INITIAL_CONNECTIONS = 5;
const MOST_CONNECTIONS = 20;
/** What was on its way to the server when it asked for time may still come. */
const UNDER_WAY_MS = 8_000;
/** From the server to its guest at most. */
const ON_ITS_WAY_MS = 1_000;
/** A planned stop gives up what is being dialled first, and has ended after so long at most. */
const STOPPING_MS = 40_000;
/** From an answer until all nodes have read of it, and from the end of an outage of their database. */
const READ_MS = 8_000;
const BACK_MS = 20_000;

/** A time for which the server asked us to stay away. */
interface Wish {
  saidAtMs: number;
  untilMs: number;
  guest: Process | undefined;
  /** That it may not have been heard. */
  isCut(): boolean;
  /** That it came when the guest had closed the connection. */
  isUnheard(): boolean;
}

interface Note {
  text: string;
  atMs: number;
  /** The wishes on which it rests, and who has connections at the time. */
  wishes: readonly Wish[];
  guests: readonly (Process | undefined)[];
}

/** One more for as many mails as there may be connections, whatever a sum of fractions makes of it. */
const whole = (allowed: number): number => Math.floor(allowed + 1e-6);

export class GuestBook {
  readonly #timeline: Timeline;
  readonly #sockets = new Set<SimSocket>();
  readonly #wishes: Wish[] = [];
  readonly #notes: Note[] = [];
  #guest: Process | undefined;
  /** Connections at once that we may have by now. */
  #allowed = INITIAL_CONNECTIONS;
  /** No recipient was answered since the last wish: one connection at a time asks whether it is over. */
  #isProbed = false;
  readonly #probing = new Set<SimSocket>();
  /** So many nodes that live all the time share what we may have, until then. */
  #shares = { nodes: 1, untilMs: 0 };
  readonly #ownShares = new Map<Process | undefined, number>();

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  get #wish(): Wish | undefined {
    return this.#wishes.at(-1);
  }

  /** That it has asked for time, which is not over. */
  get isResting(): boolean {
    return this.#wish !== undefined && this.#timeline.nowMs < this.#wish.untilMs;
  }

  /** Connections that we hold; of others the end is on its way. */
  get held(): number {
    return [...this.#sockets].filter((one) => one.isHeldByGuest).length;
  }

  came(socket: SimSocket): void {
    const { nowMs } = this.#timeline;
    if (socket.guest !== this.#guest) this.#allowed = Math.max(this.#allowed, INITIAL_CONNECTIONS);
    this.#guest = socket.guest;
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    const open = this.held;
    this.#checkShare(socket.guest);
    const wish = this.#wish;
    if (wish === undefined) return;
    if (this.isResting) {
      if (nowMs > wish.saidAtMs + UNDER_WAY_MS) this.#note(`a connection in the ${this.#since(wish)} it asked for`);
    } else if (this.#isProbed) {
      this.#probing.add(socket);
      const probes = [...this.#probing].filter((one) => one.isHeldByGuest).length;
      if (probes > 1) this.#note(`${probes} connections at once to see whether its time is over`);
    } else if (open > Math.max(1, whole(this.#allowed))) {
      this.#note(`${open} connections at once, of ${this.#allowed.toFixed(1)} after it asked for time`);
    }
  }

  isSharedBy(nodes: number, untilMs: number): void {
    this.#shares = { nodes, untilMs };
  }

  #shareOf(guest: Process | undefined): number {
    return this.#ownShares.get(guest) ?? Math.max(1, Math.floor(INITIAL_CONNECTIONS / this.#shares.nodes));
  }

  #checkShare(guest: Process | undefined): void {
    const { nodes, untilMs } = this.#shares;
    if (nodes === 1 || this.#timeline.nowMs > untilMs) return;
    const open = [...this.#sockets].filter((one) => one.guest === guest && one.isHeldByGuest).length;
    const share = this.#shareOf(guest);
    if (open > Math.ceil(share)) this.#note(`${open} connections of a node whose share is ${share.toFixed(1)}`);
  }

  #since({ saidAtMs, untilMs }: Wish): string {
    return `${Math.round((untilMs - saidAtMs) / 1000)} s`;
  }

  #note(text: string): void {
    const guests = [...this.#sockets].map(({ guest }) => guest);
    this.#notes.push({ text, atMs: this.#timeline.nowMs, wishes: [...this.#wishes], guests });
  }

  asksFor(ms: number, socket: SimSocket): void {
    const { nowMs } = this.#timeline;
    if (!this.#isProbed) this.#allowed = Math.max(1, this.#allowed / 2);
    this.#isProbed = true;
    this.#probing.clear();
    const { guest } = socket;
    const heard = { isCut: () => socket.isCut, isUnheard: () => socket.isUnheard };
    this.#wishes.push({ saidAtMs: nowMs, untilMs: nowMs + ms, guest, ...heard });
  }

  /** A recipient was answered. */
  answered({ took, guest }: { took: boolean; guest: Process | undefined }): void {
    if (!this.isResting) this.#isProbed = false;
    if (!took) return;
    const share = this.#shareOf(guest);
    this.#ownShares.set(guest, Math.min(MOST_CONNECTIONS / this.#shares.nodes, share + 1 / share));
    // Each node grows with its share.
    this.#allowed = Math.min(MOST_CONNECTIONS, this.#allowed + this.#shares.nodes / Math.max(1, whole(this.#allowed)));
  }

  /** What was noted, as far as our side had to know of all that it rests on. */
  faults(outages: readonly Absence[]): string[] {
    const isPassedOn = ({ guest, saidAtMs }: Wish): boolean =>
      !isOutOfTouch(guest, saidAtMs) &&
      !outages.some(({ fromMs, untilMs }) => saidAtMs > fromMs - READ_MS && saidAtMs < untilMs + BACK_MS);
    // It was dialled by a node that was ending.
    const isTooLate = ({ guest, saidAtMs, isUnheard }: Wish): boolean =>
      guest?.endedMs !== undefined && saidAtMs > guest.endedMs - (isUnheard() ? STOPPING_MS : ON_ITS_WAY_MS);
    const isKnown = ({ wishes, guests, atMs }: Note): boolean =>
      wishes.every(
        (wish) =>
          !wish.isCut() &&
          !isTooLate(wish) &&
          !mayBeLost(wish.guest, wish.saidAtMs) &&
          (isPassedOn(wish) || guests.every((guest) => guest === wish.guest)),
      ) && !guests.some((guest) => isOutOfTouch(guest, atMs));
    return this.#notes.filter(isKnown).map(({ text, atMs }) => `${text}, at ${atMs}`);
  }
}
