/** The last replies of a destination, as operators see them: each refusal once, and the last of the replies that accepted a message. */
import type { LastReply } from '../../nodes/nodes.ts';
import type { Refusal } from '../outcome/signal.ts';

const REPLIES_KEPT = 4;
const REPLY_CHARACTERS = 200;

/** The newest reply of each wording. All that accepted a message count as one: their texts differ by queue ids. */
export function withReply(kept: readonly LastReply[], { outcome, host }: Refusal, nowMs: number): readonly LastReply[] {
  // A limit of our own warm-up is no reply of the destination.
  if (outcome.reply === null || outcome.category === 'warm-up') return kept;
  const accepted = outcome.kind === 'delivered';
  const reply = outcome.reply.slice(0, REPLY_CHARACTERS).toWellFormed();
  const others = kept.filter((one) => (accepted ? !one.accepted : one.reply !== reply));
  return [{ at: nowMs, host, reply, accepted }, ...others.slice(0, REPLIES_KEPT - 1)];
}
