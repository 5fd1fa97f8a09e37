/** A message in hand, and what it shares with the other recipients of its email. */
import type { DeliveryJob } from '../messages/messages.ts';
import { type Item, isQuarantined } from '../work/work.ts';
import type { Prepared } from './attempt.ts';

/** What the recipients of one email share while any of them is here. */
export interface WindowEmail {
  seq: number;
  inline: Uint8Array | null;
  jobs: Set<Held>;
  /** Recipients whose attempt runs. */
  trying: number;
  prepared: Promise<Prepared> | undefined;
}

/** A message in hand. */
export interface Held extends Item<DeliveryJob> {
  email: WindowEmail;
  destination: string;
  /** How often it was put back without an attempt. */
  returns: number;
}

/** `account/domain`, as the intake names lanes. */
export function accountOfLane(lane: string): string {
  const slash = lane.indexOf('/');
  return slash === -1 ? lane : lane.slice(0, slash);
}

/** An item for a claimed job. Its content is held once for all recipients: the job is ours from here on. */
export function heldOf(
  job: DeliveryJob,
  { destination, leaseUntilMs }: { destination: string; leaseUntilMs: number },
): Held {
  const email = { seq: job.emailSeq, inline: job.content, jobs: new Set<Held>(), trying: 0, prepared: undefined };
  job.content = null;
  const quarantined = isQuarantined(job);
  return { job, email, destination, state: 'claimed', leaseUntilMs, returns: 0, quarantined };
}
