/** Records the results of reports and unsubscribe emails, in one transaction with the end of their work rows, if any. */
import { type UnsubscribeRequest, unsubscribe } from '../engagement/engagement.ts';
import { type LateAnswer, type LateResult, settleLate } from '../messages/messages.ts';
import { batch } from '../storage/operation.ts';
import type { InboundLease, RecordedFindings } from './inbound-mail.ts';
import { endInbound } from './store.ts';

/** The meaning of one message: results of a report, or an unsubscribe request. */
export interface Meaning {
  inboundId: string;
  /** Null if the message is not stored. */
  lease: InboundLease | null;
  results: LateResult[];
  unsubscribing: UnsubscribeRequest | null;
}

export interface RecordedMeanings extends RecordedFindings {
  /** The recorded results of each message, except those whose lease was lost, in the order of its results. */
  answers: { inboundId: string; results: LateAnswer[]; unsubscribed: boolean }[];
}

export const recordReportsOperation = batch(
  'inbound.recordReports',
  'write',
  async (tx, calls: readonly (readonly Meaning[])[]): Promise<RecordedMeanings[]> => {
    const recorded: RecordedMeanings[] = [];
    for (const meanings of calls) {
      const leases = meanings.flatMap(({ lease }) => lease ?? []);
      const { held, blobKeys } = await endInbound(tx, leases, { keep: false });
      const isHeld = ({ lease }: Meaning): boolean => lease === null || held.has(lease.seq);
      const kept = meanings.filter(isHeld);
      const answers = await settleLate(
        tx,
        kept.flatMap(({ results }) => results),
      );
      const each: RecordedMeanings['answers'] = [];
      for (const { inboundId, results, unsubscribing } of kept) {
        const unsubscribed = unsubscribing !== null && (await unsubscribe(tx, unsubscribing));
        each.push({ inboundId, results: answers.splice(0, results.length), unsubscribed });
      }
      const lost = leases.flatMap(({ seq }) => (held.has(seq) ? [] : [seq]));
      recorded.push({ lost, blobKeys, answers: each });
    }
    return recorded;
  },
);
