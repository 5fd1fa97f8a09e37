/** Decides where a message may go now: by its hop, by another hop, or nowhere until a pause ends. */
import type { Pause } from '../destinations/pause-steps.ts';
import type { Registry } from '../destinations/registry.ts';
import type { MxSets } from '../routing/mx-sets.ts';
import { FALLBACK, type Routing, routedDomainOf, SHARED_DESTINATIONS } from '../routing/route.ts';
import type { DeliveryItem, Hop } from './delivery-item.ts';

export type Admission =
  | { kind: 'run' }
  /** The message uses this hop instead. */
  | { kind: 'via'; hop: Hop }
  | { kind: 'wait'; pause: Pause };

interface AdmissionDeps {
  registry: Registry;
  sets: Pick<MxSets, 'destinationOf' | 'othersOf'>;
  routing: Pick<Routing, 'route'>;
}

export class Admissions {
  readonly #deps: AdmissionDeps;

  constructor(deps: AdmissionDeps) {
    this.#deps = deps;
  }

  /**
   * Returns the first hop of a message for this recipient, and the domain whose hosts receive it. Mail for a destination that blocks this
   * host may use the fallback route.
   */
  firstHop(recipient: string): { hop: Hop; domain: string } {
    const { registry, sets, routing } = this.#deps;
    const domain = routedDomainOf(routing, recipient);
    const destination = registry.chooseDestination(sets.destinationOf(domain));
    return { hop: { destination }, domain: destination === FALLBACK ? FALLBACK : domain };
  }

  /** Admits a message that was just claimed: its domain's hosts may have become known, or changed. */
  admitClaimed(item: DeliveryItem): Admission {
    const { sets } = this.#deps;
    const { destination, detour } = item.hop;
    if (SHARED_DESTINATIONS.has(item.domain) || detour) return this.admit(item);
    const own = sets.destinationOf(item.domain);
    if (own === destination) return this.admit(item);
    const hop = { destination: own };
    const admission = this.#admitTo(item.domain, hop);
    return admission.kind === 'run' ? { kind: 'via', hop } : admission;
  }

  admit(item: DeliveryItem): Admission {
    return this.#admitTo(item.domain, item.hop);
  }

  /** While its own destination is paused, mail goes to hosts of lower preference, if some of them are not paused. */
  #admitTo(domain: string, { destination, detour }: Hop): Admission {
    const { registry, sets } = this.#deps;
    const pause = registry.pauseOf(destination);
    if (!pause) return { kind: 'run' };
    const other = detour ? undefined : sets.othersOf(domain).find((key) => !registry.pauseOf(key));
    if (other === undefined) return { kind: 'wait', pause };
    return { kind: 'via', hop: { destination: other, detour: { rest: undefined, hosts: 0, pause } } };
  }
}
