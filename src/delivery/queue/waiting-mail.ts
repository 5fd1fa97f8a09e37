/**
 * The jobs that wait for one destination. Accounts alternate, within an account its lanes (one for each domain), and within a lane it
 * is first come, first served: an account with mail for a thousand domains of one provider gets no more turns than one with mail for one.
 */
import { accountOfLane, type Held } from './held.ts';

interface Lane {
  name: string;
  domain: string;
  /** Who no longer waits here is skipped. Entries before `head` are empty: the mail is not to stay in memory behind it. */
  queue: (Held | undefined)[];
  head: number;
}

interface AccountLanes {
  account: string;
  lanes: Lane[];
}

/** Entries that went through a lane before it is copied without them. */
const COMPACTED_AT = 512;

export interface Wanted {
  /** Whether an attempt of it may begin. */
  mayStart(held: Held): boolean;
  /** Mail for other domains is passed over. */
  isFor?: ((domain: string) => boolean) | undefined;
}

export class WaitingMail {
  /** How many wait. */
  size = 0;
  readonly #destination: string;
  /** In the order of their turns. */
  readonly #accounts: AccountLanes[] = [];
  readonly #byName = new Map<string, AccountLanes>();
  readonly #lanes = new Map<string, Lane>();

  constructor(destination: string) {
    this.#destination = destination;
  }

  /** The account that alone has mail here. */
  get onlyAccount(): string | undefined {
    return this.#accounts.length === 1 ? this.#accounts[0]!.account : undefined;
  }

  /** How many are referred to. */
  get referred(): number {
    const entries = [...this.#lanes.values()].flatMap(({ queue }) => queue.filter((held) => held !== undefined));
    return entries.length;
  }

  /** At the end of its lane, or with `first` at its front. */
  add(held: Held, { first }: { first: boolean }): void {
    this.size += 1;
    const lane = this.#lanes.get(held.job.lane) ?? this.#newLane(held);
    if (!first) lane.queue.push(held);
    else if (lane.head > 0) {
      lane.head -= 1;
      lane.queue[lane.head] = held;
    } else lane.queue.unshift(held);
  }

  /** The next one whose turn it is. It counts as waiting until the caller says otherwise. */
  next(wanted: Wanted): Held | undefined {
    for (let i = 0; i < this.#accounts.length; i += 1) {
      const account = this.#accounts[i]!;
      const found = this.#nextOf(account, wanted);
      if (!found && account.lanes.length > 0) continue;
      this.#accounts.splice(i, 1);
      if (account.lanes.length > 0) this.#accounts.push(account);
      else this.#byName.delete(account.account);
      if (found) return found;
      i -= 1;
    }
    return undefined;
  }

  /** Everybody who waits, at most so many. */
  all(limit = Number.POSITIVE_INFINITY, isWanted: (held: Held) => boolean = () => true): Held[] {
    const found = new Set<Held>();
    for (const lane of this.#lanes.values()) {
      for (let i = lane.head; i < lane.queue.length && found.size < limit; i += 1) {
        const held = lane.queue[i]!;
        if (this.#isHere(held) && isWanted(held)) found.add(held);
      }
    }
    return [...found];
  }

  /** Takes out all mail for a domain, in its order. */
  takeDomain(domain: string): Held[] {
    const taken: Held[] = [];
    for (const account of [...this.#accounts]) {
      for (const lane of account.lanes.filter((one) => one.domain === domain)) {
        taken.push(
          ...lane.queue
            .slice(lane.head)
            .filter((held) => this.#isHere(held!))
            .map((held) => held!),
        );
        this.#lanes.delete(lane.name);
        account.lanes.splice(account.lanes.indexOf(lane), 1);
      }
      if (account.lanes.length > 0) continue;
      this.#accounts.splice(this.#accounts.indexOf(account), 1);
      this.#byName.delete(account.account);
    }
    this.size -= taken.length;
    return taken;
  }

  /** It may have gone on to another destination meanwhile. */
  #isHere({ state, hop }: Held): boolean {
    return state === 'waiting' && hop.destination === this.#destination;
  }

  /** The first waiting job of a lane. */
  #peek(lane: Lane): Held | undefined {
    while (lane.head < lane.queue.length) {
      const held = lane.queue[lane.head]!;
      if (this.#isHere(held)) return held;
      lane.queue[lane.head] = undefined;
      lane.head += 1;
    }
    return undefined;
  }

  #newLane({ job: { lane: name }, domain }: Held): Lane {
    const lane: Lane = { name, domain, queue: [], head: 0 };
    this.#lanes.set(name, lane);
    const account = accountOfLane(name);
    const known = this.#byName.get(account);
    if (known) known.lanes.push(lane);
    else {
      const lanes = { account, lanes: [lane] };
      this.#byName.set(account, lanes);
      this.#accounts.push(lanes);
    }
    return lane;
  }

  #nextOf({ lanes }: AccountLanes, { mayStart, isFor }: Wanted): Held | undefined {
    for (let i = 0; i < lanes.length; i += 1) {
      const lane = lanes[i]!;
      const first = this.#peek(lane);
      if (!first) {
        this.#lanes.delete(lane.name);
        lanes.splice(i, 1);
        i -= 1;
        continue;
      }
      if ((isFor && !isFor(lane.domain)) || !mayStart(first)) continue;
      lanes.splice(i, 1);
      lanes.push(lane);
      if (lane.head > COMPACTED_AT) {
        lane.queue = lane.queue.slice(lane.head);
        lane.head = 0;
      }
      return first;
    }
    return undefined;
  }
}
