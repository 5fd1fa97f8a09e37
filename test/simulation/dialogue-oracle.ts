/**
 * Compares the replies of mail servers about a recipient with the recorded attempts: every refusal that reached the node is in its
 * dialogue, and if one server of the domain deferred the message, another server's permanent refusal in the same attempt does not bounce
 * it.
 */
import { mayBeLostBetween } from './absences.ts';
import type { MessageRow } from './oracle.ts';
import type { Peer, RecipientReply } from './peers.ts';
import { REFUSALS } from './refusals.ts';
import { type Attempt, type Conditions, LONGEST_ATTEMPT_MS, ROUNDING_MS } from './schedule-oracle.ts';

export interface DialogueEvidence {
  peers: readonly Peer[];
  messages: readonly MessageRow[];
  attempts: readonly Attempt[];
  /** The wall clock at the start, Unix ms. */
  startMs: number;
  clockSetAtMs: readonly number[];
  /** Clocks of several nodes differ. */
  isShared: boolean;
  recordMs: number;
  conditions: Conditions;
}

interface ReceivedReply extends RecipientReply {
  peer: string;
}

export function dialogueFaults(evidence: DialogueEvidence): string[] {
  const { peers, messages, attempts, clockSetAtMs, isShared, conditions } = evidence;
  if (clockSetAtMs.length > 0 || isShared || conditions.isRefused) return [];
  const heard = peers.flatMap(({ name: peer, asked }) =>
    asked.filter((one) => isReceivedRefusal(one, evidence)).map((one) => ({ ...one, peer })),
  );
  const byRecipient = Map.groupBy(heard, ({ recipient }) => recipient);
  const byMessage = Map.groupBy(attempts, (one) => one.message_id);
  const live = messages.filter(({ mode }) => mode === 'live');
  // If an address has several messages, the server cannot tell which one it replied to.
  const alone = [...Map.groupBy(live, ({ recipient }) => recipient).values()].filter((own) => own.length === 1).flat();
  return alone.flatMap((message) => {
    const refusals = byRecipient.get(message.recipient) ?? [];
    const own = byMessage.get(message.id) ?? [];
    return [
      ...refusals.flatMap((one) => ofRefusal(evidence, { message, attempts: own, refusal: one })),
      ...own.flatMap((attempt) => ofBounce(evidence, { message, attempt, refusals })),
    ];
  });
}

/** Whether the reply reached the node, and the node lived to record it. */
function isReceivedRefusal(
  { atMs, heardAtMs, sender, reply }: RecipientReply,
  { recordMs }: DialogueEvidence,
): boolean {
  if (heardAtMs === undefined || !/^[45]/.test(reply)) return false;
  // Recipients over the transaction limit are put back, and are in the next transaction.
  if (reply === REFUSALS['too many recipients'].reply) return false;
  const during = { fromMs: atMs, untilMs: heardAtMs + LONGEST_ATTEMPT_MS };
  // A planned stop interrupts an attempt that lasts too long.
  const isCutOff = sender?.endedMs !== undefined && sender.endedMs < during.untilMs;
  return !isCutOff && !mayBeLostBetween(sender, during, recordMs);
}

/** Whether the refusal came during the attempt. */
const isWithin = (
  { startMs }: DialogueEvidence,
  { startedMs, at }: Attempt,
  { atMs, heardAtMs }: ReceivedReply,
): boolean => startMs + atMs >= startedMs - ROUNDING_MS && startMs + heardAtMs! <= at + ROUNDING_MS;

function ofRefusal(
  evidence: DialogueEvidence,
  { message, attempts, refusal }: { message: MessageRow; attempts: readonly Attempt[]; refusal: ReceivedReply },
): string[] {
  const attempt = attempts.find((one) => isWithin(evidence, one, refusal));
  const shown = new Set(attempt?.dialogue.filter(({ direction }) => direction === 'S').map(({ text }) => text));
  if (refusal.reply.split('\r\n').every((line) => shown.has(line))) return [];
  const name = attempt
    ? `attempt ${attempt.number} of ${message.id} does not show`
    : `no attempt of ${message.id} shows`;
  return [`${name} that ${refusal.peer} answered ${refusal.reply} at ${Math.round(refusal.atMs)}`];
}

function ofBounce(
  evidence: DialogueEvidence,
  { message, attempt, refusals }: { message: MessageRow; attempt: Attempt; refusals: readonly ReceivedReply[] },
): string[] {
  if (attempt.outcome !== 'bounced' || attempt.at >= message.expires_at) return [];
  const { number, host } = attempt;
  const deferring = refusals.find(
    (one) => isWithin(evidence, attempt, one) && one.reply.startsWith('4') && one.peer !== host,
  );
  return deferring === undefined
    ? []
    : [
        `attempt ${number} of ${message.id} ended by ${host}, and ${deferring.peer} had deferred it: ${deferring.reply}`,
      ];
}
