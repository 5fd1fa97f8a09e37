/** A message in the hands of this process, and where it goes next. */
import type { DeliveryJob } from '../../messages/messages.ts';
import { claimedItem, type Item } from '../../work/work.ts';
import type { Prepared } from '../attempt/prepare.ts';
import type { Outcome } from '../outcome/outcome.ts';
import type { Refusal } from '../outcome/signal.ts';
import type { AttemptFacts } from '../record/settle.ts';
import type { Candidate } from '../routing/route.ts';

/** The data that recipients of one email share while any of them is in memory. */
export interface WindowEmail {
  seq: number;
  inline: Uint8Array | null;
  jobs: Set<Held>;
  /** Recipients whose attempt runs. */
  trying: number;
  prepared: Promise<Prepared> | undefined;
}

/**
 * An attempt that continues at another destination than its domain's own. Hosts of lower preference have limits and pauses of their own, so
 * what they reply counts for them alone, also where a domain names them beside the better hosts of others.
 */
export interface Detour {
  /** The hosts that the attempt has not been at; undefined where none was looked up, since the domain's own destination is paused. */
  readonly rest: readonly Candidate[] | undefined;
  /** Hosts that were given the message. */
  readonly hosts: number;
  /** Its result so far; undefined where no host was dialed, since all had failed lately, or were paused. */
  readonly before?: { outcome: Outcome; facts: AttemptFacts } | undefined;
  /** The pause of its own destination. */
  readonly pause?: Refusal | undefined;
}

/** The next destination of a message. Only the window replaces it, because it counts waiting messages by destination. */
export interface Hop {
  /** Whose limits, pauses and sessions count: see routing/exchanger-sets.ts. */
  readonly destination: string;
  /** How its attempt came there, where that is not its domain's own destination. */
  readonly detour?: Detour | undefined;
}

/** A message in memory. */
export interface Held extends Item<DeliveryJob> {
  email: WindowEmail;
  hop: Hop;
  /** Whose hosts it goes to: the recipient's domain, in A-labels. The destination itself where all mail takes one way. */
  readonly domain: string;
  /** How often it was put back without an attempt. */
  returns: number;
}

/** `account/domain`, as the acceptance names lanes. */
export function accountOfLane(lane: string): string {
  const slash = lane.indexOf('/');
  return slash === -1 ? lane : lane.slice(0, slash);
}

/** An item for a claimed job. Its content is held once for all recipients: the job belongs to the item from here on. */
export function heldOf(
  job: DeliveryJob,
  { hop, domain, leaseUntilMs }: { hop: Hop; domain: string; leaseUntilMs: number },
): Held {
  const email = { seq: job.emailSeq, inline: job.content, jobs: new Set<Held>(), trying: 0, prepared: undefined };
  job.content = null;
  return { ...claimedItem(job, leaseUntilMs), email, hop, domain, returns: 0 };
}
