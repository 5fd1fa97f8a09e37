/** The last replies of a destination for operators: each distinct refusal once, and the last reply that accepted a message. */
import type { LastReply } from '../../nodes/nodes.ts';
import type { Outcome } from '../outcome/outcome.ts';
import type { Refusal } from '../outcome/signal.ts';

const REPLIES_KEPT = 4;
const REPLY_CHARACTERS = 200;

/** Whether a limit of Postrider itself is reached: its text is not a reply of the destination. */
export function isOwnLimit({ category }: Pick<Outcome, 'category'>): boolean {
  return category === 'warm-up' || category === 'relay-limit';
}

/**
 * Adds a reply and keeps the newest of each wording. Replies that accepted a message count as one wording: their texts differ by queue id.
 */
export function withReply(kept: readonly LastReply[], { outcome, host }: Refusal, nowMs: number): readonly LastReply[] {
  if (outcome.reply === null || isOwnLimit(outcome)) return kept;
  const accepted = outcome.kind === 'delivered';
  const reply = outcome.reply.slice(0, REPLY_CHARACTERS).toWellFormed();
  const others = kept.filter((one) => (accepted ? !one.accepted : one.reply !== reply));
  return [{ at: nowMs, host, reply, accepted }, ...others.slice(0, REPLIES_KEPT - 1)];
}
