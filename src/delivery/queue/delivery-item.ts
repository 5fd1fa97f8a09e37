/** A message in the memory of this process, and its next hop. */
import type { DeliveryJob } from '../../messages/messages.ts';
import { claimedItem, type Item } from '../../work/work.ts';
import type { PreparedEmail } from '../attempt/prepare.ts';
import type { Outcome } from '../outcome/outcome.ts';
import type { Refusal } from '../outcome/signal.ts';
import type { AttemptFacts } from '../record/settle.ts';
import type { Candidate } from '../routing/route.ts';

/** The data that recipients of one email share while any of them is in memory. */
export interface WindowEmail {
  seq: number;
  inline: Uint8Array | null;
  jobs: Set<DeliveryItem>;
  /** Recipients with a running attempt. */
  trying: number;
  prepared: Promise<PreparedEmail> | undefined;
}

/**
 * An attempt that continues at another destination than its domain's own. Hosts of lower preference have their own limits and pauses, so
 * their replies apply only to them, even if another domain lists them next to better hosts of a third party.
 */
export interface Detour {
  /** The hosts that the attempt has not tried; undefined if no lookup was made because the domain's own destination is paused. */
  readonly rest: readonly Candidate[] | undefined;
  /** Hosts that received the message. */
  readonly hosts: number;
  /** The result so far; undefined if no host was dialed because all had failed recently or were paused. */
  readonly before?: { outcome: Outcome; facts: AttemptFacts } | undefined;
  /** The pause of its own destination. */
  readonly pause?: Refusal | undefined;
}

/** The next destination of a message. Only the window replaces it, because the window counts waiting messages by destination. */
export interface Hop {
  /** The destination whose limits, pauses and sessions apply: see routing/mx-sets.ts. */
  readonly destination: string;
  /** How the attempt got there, if this is not its domain's own destination. */
  readonly detour?: Detour | undefined;
}

/** A message in memory. */
export interface DeliveryItem extends Item<DeliveryJob> {
  email: WindowEmail;
  hop: Hop;
  /**
   * The domain whose hosts receive the message: the recipient's domain, in A-labels. If all mail uses one route, the destination itself.
   */
  readonly domain: string;
  /** Unix ms of the claim or the handover: what the job says about its address was true then. */
  readonly claimedMs: number;
  /** How often the message was put back without an attempt. */
  returns: number;
}

/** Returns the account of a lane, which the acceptance names `account/domain`. */
export function accountOfLane(lane: string): string {
  const slash = lane.indexOf('/');
  return slash === -1 ? lane : lane.slice(0, slash);
}

/** Returns an item for a claimed job. Its content is stored once for all recipients: the item owns the job from here on. */
export function deliveryItemOf(
  job: DeliveryJob,
  { hop, domain, claimedMs, leaseUntilMs }: Pick<DeliveryItem, 'hop' | 'domain' | 'claimedMs' | 'leaseUntilMs'>,
): DeliveryItem {
  const email = {
    seq: job.emailSeq,
    inline: job.content,
    jobs: new Set<DeliveryItem>(),
    trying: 0,
    prepared: undefined,
  };
  job.content = null;
  return { ...claimedItem(job, leaseUntilMs), email, hop, domain, claimedMs, returns: 0 };
}
