/** Records what reports and unsubscribe mails mean, in one transaction with the end of their work. */
import { type Unsubscribing, unsubscribe } from '../engagement/engagement.ts';
import { type LateAnswer, type LateResult, settleLate } from '../messages/messages.ts';
import { batch } from '../storage/operation.ts';
import type { InboundLease, RecordedFindings } from './inbound-mail.ts';
import { endInbound } from './store.ts';

/** What one mail means: results of reports, or the wish of somebody who unsubscribes. */
export interface Meaning {
  lease: InboundLease;
  results: LateResult[];
  unsubscribing: Unsubscribing | null;
}

export interface RecordedMeanings extends RecordedFindings {
  /** Of each mail whose lease held, in the order of its results. */
  answers: { inboundId: string; results: LateAnswer[]; unsubscribed: boolean }[];
}

export const recordReportsOperation = batch(
  'inbound.recordReports',
  'write',
  async (tx, calls: readonly (readonly Meaning[])[]): Promise<RecordedMeanings[]> => {
    const recorded: RecordedMeanings[] = [];
    for (const meanings of calls) {
      const { held, blobKeys } = await endInbound(
        tx,
        meanings.map(({ lease }) => lease),
        { keep: false },
      );
      const kept = meanings.filter(({ lease }) => held.has(lease.seq));
      const answers = await settleLate(
        tx,
        kept.flatMap(({ results }) => results),
      );
      const each: RecordedMeanings['answers'] = [];
      for (const { lease, results, unsubscribing } of kept) {
        const unsubscribed = unsubscribing !== null && (await unsubscribe(tx, unsubscribing));
        each.push({ inboundId: lease.inboundId, results: answers.splice(0, results.length), unsubscribed });
      }
      const lost = meanings.flatMap(({ lease }) => (held.has(lease.seq) ? [] : [lease.seq]));
      recorded.push({ lost, blobKeys, answers: each });
    }
    return recorded;
  },
);
