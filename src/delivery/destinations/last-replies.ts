/** What a destination said last, as operators see it: each refusal once, and the last of those replies that took a message. */
import type { LastReply } from '../../nodes/nodes.ts';
import type { Outcome } from '../outcome/outcome.ts';

/** Why a destination is paused: the outcome of whatever met the refusal. */
export interface Refusal {
  outcome: Outcome;
  host: string | null;
}

const REPLIES_KEPT = 4;
const REPLY_CHARACTERS = 200;

/** The newest reply of each wording, all those that took a message as one: their words differ by a queue's ids. */
function withReply(kept: readonly LastReply[], { outcome, host }: Refusal, at: number): readonly LastReply[] {
  // What our own warm-up says is no word of the destination.
  if (outcome.reply === null || outcome.category === 'warm-up') return kept;
  const accepted = outcome.kind === 'delivered';
  const reply = outcome.reply.slice(0, REPLY_CHARACTERS).toWellFormed();
  const others = kept.filter((one) => (accepted ? !one.accepted : one.reply !== reply));
  return [{ at, host, reply, accepted }, ...others.slice(0, REPLIES_KEPT - 1)];
}

/** Remembers the reply that decided over a message. */
export function noteReply(destination: { replies: readonly LastReply[] }, refusal: Refusal, nowMs: number): void {
  destination.replies = withReply(destination.replies, refusal, nowMs);
}
