/**
 * The jobs that wait for one destination. Accounts take turns, and so do the lanes of an account (one per domain): an account with mail for
 * a thousand domains of one provider gets no more turns than one with mail for one domain.
 */
import { Lanes } from '../../work/work.ts';
import { accountOfLane, type Held } from './held.ts';

export interface Wanted {
  mayStart(held: Held): boolean;
  /** Mail for other domains is skipped. */
  isFor?: ((domain: string) => boolean) | undefined;
}

function placeOf({ job: { lane } }: Held): { account: string; lane: string } {
  return { account: accountOfLane(lane), lane };
}

export class WaitingMail {
  /** The lanes of each account, in the order of the accounts' turns. Accounts without mail are removed. */
  readonly #accounts = new Map<string, Lanes<Held>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The account, if only one has mail here. */
  get onlyAccount(): string | undefined {
    return this.#accounts.size === 1 ? this.#accounts.keys().next().value : undefined;
  }

  /** Adds a job at the end of its lane, or with `first` at its front. */
  add(held: Held, { first }: { first: boolean }): void {
    const { account, lane } = placeOf(held);
    let lanes = this.#accounts.get(account);
    if (!lanes) {
      lanes = new Lanes();
      this.#accounts.set(account, lanes);
    }
    lanes.add(lane, held, { first });
    this.#size += 1;
  }

  next({ mayStart, isFor }: Wanted): Held | undefined {
    const accepts = (held: Held): boolean => (isFor?.(held.domain) ?? true) && mayStart(held);
    for (const [account, lanes] of this.#accounts) {
      const found = lanes.next(accepts);
      if (!found) continue;
      this.#accounts.delete(account);
      if (lanes.size > 0) this.#accounts.set(account, lanes);
      this.#size -= 1;
      return found;
    }
    return undefined;
  }

  remove(held: Held): void {
    const { account, lane } = placeOf(held);
    const lanes = this.#accounts.get(account);
    if (!lanes?.remove(lane, held)) return;
    this.#size -= 1;
    if (lanes.size === 0) this.#accounts.delete(account);
  }

  /** Returns up to `limit` waiting jobs. */
  all(limit = Number.POSITIVE_INFINITY, isWanted: (held: Held) => boolean = () => true): Held[] {
    return this.#accounts
      .values()
      .flatMap((lanes) => lanes.items())
      .filter(isWanted)
      .take(limit)
      .toArray();
  }

  /** Takes out all jobs for a domain, in order. */
  takeDomain(domain: string): Held[] {
    const taken = this.all(Number.POSITIVE_INFINITY, (held) => held.domain === domain);
    for (const held of taken) this.remove(held);
    return taken;
  }
}
