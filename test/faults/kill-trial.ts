/**
 * Kills the service with SIGKILL at random moments under load and checks the result: nothing acknowledged is lost, nothing arrives that was
 * not sent, no key creates two messages, and a duplicate exists only where the rule allows it.
 *
 * The rule (RFC 1047): a copy may follow another only if a kill lies between the first one's final dot and the record of its 250. It is
 * checked on both sides. At the sink: there is a kill between two copies, and the earlier copy's dot arrived no longer before that kill
 * than recording may take. In the service: the message has exactly one Delivery event, and it is younger than that kill, so no recorded
 * delivery was ever repeated.
 */
import assert from 'node:assert/strict';
import type { JsonObject } from '../kit/api.ts';
import { pausedMsBetween } from '../kit/running-time.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { allMessages, type Copy, copiesByKey, type Ledger, openLedger, startLoad } from './ledger.ts';

/** Longest time from the sink's reply to its durable record, on a loaded machine with a slow disk. */
const RECORDING_MS = 1_000;
/** The sink delays its reply to a dot by up to this time, so that kills fall between dot and reply. */
const DOT_DELAY_MS = 30;
/** How long after a kill the sink may still reply to a dot that was sent before it. */
const STRAGGLER_MS = 4 * DOT_DELAY_MS;
/** Leases of a killed process end within 60 s; its messages are then delivered. */
const DRAIN_TIMEOUT_MS = 120_000;

export interface TrialOptions {
  kills: number;
  workers: number;
  /** Minimum and maximum number of acknowledgements between a start and its kill. */
  between: [least: number, most: number];
}

export interface TrialReport {
  acknowledged: number;
  kills: number;
  duplicates: number;
  /** Longest time between the reply to a dot and the kill that lost it, over all duplicates. */
  unrecordedMs: number;
  /** Responses that returned an earlier, unanswered acceptance to a retry. */
  replays: number;
}

const random = (least: number, most: number): number => least + Math.floor(Math.random() * (most - least + 1));

/** Runs the trial and throws at the first broken promise. */
export async function killTrial(options: TrialOptions): Promise<TrialReport> {
  const sink = await smtpSink({ script: { dot: () => ({ delayMs: random(0, DOT_DELAY_MS) }) } });
  const service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } }).catch(
    async (error: unknown) => {
      await sink.close();
      throw error;
    },
  );
  const ledger = openLedger();
  const killedAt: number[] = [];
  try {
    await service.cli('domain', 'add', service.live.accountId, 'load.example', '--verified');
    const from = 'load@load.example';
    const load = startLoad({ api: service.api, ledger, from, workers: options.workers, prefix: 'k' });
    for (let kill = 0; kill < options.kills; kill += 1) {
      const target = ledger.acknowledged.size + random(...options.between);
      await waitUntil(`${target} acknowledgements`, () => ledger.acknowledged.size >= target, 60_000);
      await new Promise((resolve) => setTimeout(resolve, random(0, 40)));
      const ended = service.kill('SIGKILL');
      killedAt.push(Date.now());
      await ended;
      await service.restart();
    }
    await load.finish();
    await waitUntil(
      'every acknowledged message to arrive',
      () => {
        const there = copiesByKey(sink.messages);
        return [...ledger.acknowledged.keys()].every((key) => there.has(key));
      },
      DRAIN_TIMEOUT_MS,
    );
    const messages = await waitUntil(
      'every message to be settled',
      async () => {
        const all = await allMessages(service.api);
        return all.every((one) => one.status === 'delivered') && all;
      },
      DRAIN_TIMEOUT_MS,
    );
    const copies = copiesByKey(sink.messages);
    judgeAcceptance(
      ledger,
      copies,
      messages.map((one) => one.messageId),
    );
    const deliveries = async (messageId: string): Promise<number[]> => {
      const { body } = await service.api.get(`/messages/${messageId}`);
      const events = (body.timeline as JsonObject[]).filter((one) => one.eventType === 'Delivery');
      return events.map((one) => Date.parse(one.timestamp));
    };
    let duplicates = 0;
    let unrecordedMs = 0;
    for (const [key, list] of copies) {
      if (list.length < 2) continue;
      duplicates += list.length - 1;
      for (const { at } of list.slice(0, -1)) {
        const kill = Math.min(...killedAt.filter((one) => one >= at - STRAGGLER_MS - pausedMsBetween(one, at)));
        unrecordedMs = Math.max(unrecordedMs, kill - at);
      }
      const recorded = await deliveries(ledger.acknowledged.get(key)!.messageId);
      assert.deepEqual(duplicateFaults(list, killedAt, recorded), [], `${key}: ${JSON.stringify(list)}`);
    }
    assert.deepEqual(sink.violations, []);
    const replays = [...ledger.acknowledged.values()].filter((one) => one.replayed).length;
    return { acknowledged: ledger.acknowledged.size, kills: killedAt.length, duplicates, unrecordedMs, replays };
  } catch (error) {
    throw new Error(`${(error as Error).message}\nlog of the service, its end:\n${service.log.slice(-3000)}`, {
      cause: error,
    });
  } finally {
    await service.close();
    await sink.close();
    ledger.close();
  }
}

/** Nothing lost, nothing invented, one message per key, the same Message-ID on every copy. */
function judgeAcceptance(ledger: Ledger, copies: Map<string, Copy[]>, stored: string[]): void {
  assert.deepEqual(ledger.strange, [], 'every rejection can be retried');
  const lost = [...ledger.acknowledged.keys()].filter((key) => !copies.has(key));
  assert.deepEqual(lost, [], 'lost');
  const phantoms = [...copies.keys()].filter((key) => !ledger.attempted.has(key));
  assert.deepEqual(phantoms, [], 'phantoms');
  const ids = [...ledger.acknowledged.values()].map((one) => one.messageId);
  assert.deepEqual([...stored].sort(), [...ids].sort(), 'exactly one message per key');
  const twofold = [...copies].filter(([, list]) => new Set(list.map((one) => one.headerMessageId)).size > 1);
  assert.deepEqual(twofold, [], 'all copies of a message have the same Message-ID');
}

/** Returns what is wrong with several copies of one message; see the rule above. */
export function duplicateFaults(copies: Copy[], killedAt: number[], recordedAt: number[]): string[] {
  const faults: string[] = [];
  if (recordedAt.length !== 1) faults.push(`${recordedAt.length} Delivery events`);
  for (let i = 1; i < copies.length; i += 1) {
    const [earlier, later] = [copies[i - 1]!.at, copies[i]!.at];
    // The sink replies to a dot that was in transit when the process died a moment after the kill.
    const kills = killedAt.filter(
      (kill) =>
        kill < later &&
        kill >= earlier - STRAGGLER_MS - pausedMsBetween(kill, earlier) &&
        kill <= earlier + RECORDING_MS + pausedMsBetween(earlier, kill),
    );
    if (kills.length === 0) faults.push('a copy that no kill explains');
    else if (recordedAt.some((at) => at < Math.min(...kills) - DOT_DELAY_MS))
      faults.push('a recorded delivery was repeated');
  }
  return faults;
}
