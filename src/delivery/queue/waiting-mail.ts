/**
 * The jobs that wait for one destination. Accounts take turns, and so do the lanes of an account (one per domain): an account with mail for
 * a thousand domains of one provider gets no more turns than one with mail for one domain.
 */
import { Lanes } from '../../work/work.ts';
import { accountOfLane, type HeldMessage } from './held.ts';

export interface Wanted {
  mayStart(held: HeldMessage): boolean;
  /** Mail for other domains is skipped. */
  isFor?: ((domain: string) => boolean) | undefined;
}

function placeOf({ job: { lane } }: HeldMessage): { account: string; lane: string } {
  return { account: accountOfLane(lane), lane };
}

export class WaitingMail {
  /** The lanes of each account, in the order of the accounts' turns. Accounts without mail are removed. */
  readonly #accounts = new Map<string, Lanes<HeldMessage>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The account, if only one has mail here. */
  get onlyAccount(): string | undefined {
    return this.#accounts.size === 1 ? this.#accounts.keys().next().value : undefined;
  }

  /** Adds a job at the end of its lane, or with `first` at its front. */
  add(held: HeldMessage, { first }: { first: boolean }): void {
    const { account, lane } = placeOf(held);
    let lanes = this.#accounts.get(account);
    if (!lanes) {
      lanes = new Lanes();
      this.#accounts.set(account, lanes);
    }
    lanes.add(lane, held, { first });
    this.#size += 1;
  }

  next({ mayStart, isFor }: Wanted): HeldMessage | undefined {
    const accepts = (held: HeldMessage): boolean => (isFor?.(held.domain) ?? true) && mayStart(held);
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

  remove(held: HeldMessage): void {
    const { account, lane } = placeOf(held);
    const lanes = this.#accounts.get(account);
    if (!lanes?.remove(lane, held)) return;
    this.#size -= 1;
    if (lanes.size === 0) this.#accounts.delete(account);
  }

  /** Returns up to `limit` waiting jobs. */
  all(limit = Number.POSITIVE_INFINITY, isWanted: (held: HeldMessage) => boolean = () => true): HeldMessage[] {
    return this.#accounts
      .values()
      .flatMap((lanes) => lanes.items())
      .filter(isWanted)
      .take(limit)
      .toArray();
  }

  /** Takes out all jobs for a domain, in order. */
  takeDomain(domain: string): HeldMessage[] {
    const taken = this.all(Number.POSITIVE_INFINITY, (held) => held.domain === domain);
    for (const held of taken) this.remove(held);
    return taken;
  }
}
