/**
 * The jobs that wait for one destination. Accounts take turns, and so do the lanes of an account (one per domain): an account with mail for
 * a thousand domains of one provider gets no more turns than one with mail for one domain.
 */
import { Lanes } from '../../work/work.ts';
import { accountOfLane, type DeliveryItem } from './delivery-item.ts';

export interface Wanted {
  mayStart(item: DeliveryItem): boolean;
  /** Mail for other domains is skipped. */
  isFor?: ((domain: string) => boolean) | undefined;
}

function placeOf({ job: { lane } }: DeliveryItem): { account: string; lane: string } {
  return { account: accountOfLane(lane), lane };
}

export class WaitingMail {
  /** The lanes of each account, in the order of the accounts' turns. Accounts without mail are removed. */
  readonly #accounts = new Map<string, Lanes<DeliveryItem>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The account, if only one has mail here. */
  get onlyAccount(): string | undefined {
    return this.#accounts.size === 1 ? this.#accounts.keys().next().value : undefined;
  }

  /** Adds a job at the end of its lane, or with `first` at its front. */
  add(item: DeliveryItem, { first }: { first: boolean }): void {
    const { account, lane } = placeOf(item);
    let lanes = this.#accounts.get(account);
    if (!lanes) {
      lanes = new Lanes();
      this.#accounts.set(account, lanes);
    }
    lanes.add(lane, item, { first });
    this.#size += 1;
  }

  next({ mayStart, isFor }: Wanted): DeliveryItem | undefined {
    const accepts = (item: DeliveryItem): boolean => (isFor?.(item.domain) ?? true) && mayStart(item);
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

  remove(item: DeliveryItem): void {
    const { account, lane } = placeOf(item);
    const lanes = this.#accounts.get(account);
    if (!lanes?.remove(lane, item)) return;
    this.#size -= 1;
    if (lanes.size === 0) this.#accounts.delete(account);
  }

  /** Returns up to `limit` waiting jobs. */
  all(limit = Number.POSITIVE_INFINITY, isWanted: (item: DeliveryItem) => boolean = () => true): DeliveryItem[] {
    return this.#accounts
      .values()
      .flatMap((lanes) => lanes.items())
      .filter(isWanted)
      .take(limit)
      .toArray();
  }

  /** Takes out all jobs for a domain, in order. */
  takeDomain(domain: string): DeliveryItem[] {
    const taken = this.all(Number.POSITIVE_INFINITY, (item) => item.domain === domain);
    for (const item of taken) this.remove(item);
    return taken;
  }
}
