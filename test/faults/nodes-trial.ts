/**
 * Several nodes under load with faults, checked with the ledger: nothing acknowledged is lost, nothing arrives that was not sent, no key
 * creates two messages, and a duplicate exists only where a fault explains it.
 *
 * The rule (RFC 1047): between two copies of a message there is a fault that started or lasted while the first one's dot was being answered
 * and recorded. A planned stop is not a fault and explains no copy. Each message has one Delivery event.
 */
import assert from 'node:assert/strict';
import type { JsonObject } from '../kit/api.ts';
import { type Cluster, type ClusterOptions, startCluster } from '../kit/cluster.ts';
import { pausedMsBetween } from '../kit/running-time.ts';
import { type SinkAction, type SinkOptions, type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { allMessages, copiesByKey, type Ledger, type Load, openLedger, startLoad } from './ledger.ts';

/** Longest time from the sink's reply to its durable record, on a loaded machine with a slow disk. */
const RECORDING_MS = 2_000;
const DOT_DELAY_MS = 30;
/** How long after the start of a fault the sink may still reply to a dot that was sent before it. */
const STRAGGLER_MS = 4 * DOT_DELAY_MS;
/** Leases of a dead node end within 60 s; its messages are then delivered. */
const DRAIN_TIMEOUT_MS = 150_000;

/** An action on a node or its dependencies that may interrupt a delivery between dot and record. */
export interface Fault {
  what: string;
  fromMs: number;
  /** Undefined while it lasts. */
  untilMs: number | undefined;
  /** The node was frozen: this explains copies of messages sent before it, and none of messages sent after it. */
  isStandstill: boolean;
}

export interface NodesTrial {
  cluster: Cluster;
  sink: SmtpSink;
  ledger: Ledger;
  /** Runs an action and records its time span. */
  fault(what: string, act: () => Promise<void>, kind?: { isStandstill: boolean }): Promise<void>;
  /** Resolves when this many more messages were acknowledged. */
  progress(more: number): Promise<void>;
}

export interface NodesTrialOptions extends Omit<ClusterOptions, 'env'> {
  env?: Record<string, string>;
  workers: number;
  /** How long each worker waits after a message, for trials that last long; not at all by default. */
  restMs?: number;
  /** Actions during the load; the trial ends with them. */
  script(trial: NodesTrial): Promise<void>;
  /** More checks, after those of every trial, while the nodes still run. */
  finish?(trial: NodesTrial): Promise<void>;
  /** Actions of the sink at stages other than the dot. */
  sinkScript?: Omit<NonNullable<SinkOptions['script']>, 'dot'>;
  /** Where messages are sent to; loopback unless nodes run elsewhere. */
  sinkHost?: string;
}

export interface NodesReport {
  acknowledged: number;
  faults: Record<string, number>;
  duplicates: number;
  replays: number;
  blobs: Cluster['blobs'];
}

/** Runs the trial and throws at the first broken promise. */
export async function nodesTrial(options: NodesTrialOptions): Promise<NodesReport> {
  const dot = (): SinkAction => ({ delayMs: Math.floor(Math.random() * DOT_DELAY_MS) });
  const sink = await smtpSink({ script: { ...options.sinkScript, dot } });
  const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, ...options.env };
  const cluster = await startCluster({ ...options, env }).catch(async (error: unknown) => {
    await sink.close();
    throw error;
  });
  const ledger = openLedger();
  const faults: Fault[] = [];
  let load: Load | undefined;
  try {
    const { accountId } = cluster.nodes[0]!.live;
    await cluster.nodes[0]!.cli('domain', 'add', accountId, 'load.example', '--verified');
    const from = 'load@load.example';
    const { workers, restMs = 0 } = options;
    load = startLoad({ api: cluster.api, ledger, from, workers, restMs, prefix: 'n' });
    const trial: NodesTrial = {
      cluster,
      sink,
      ledger,
      fault: async (what, act, { isStandstill } = { isStandstill: false }) => {
        const fault: Fault = { what, fromMs: Date.now(), untilMs: undefined, isStandstill };
        faults.push(fault);
        await act();
        fault.untilMs = Date.now();
      },
      progress: async (more) => {
        const target = ledger.acknowledged.size + more;
        await waitUntil(`${target} acknowledgements`, () => ledger.acknowledged.size >= target, 90_000);
      },
    };
    await options.script(trial);
    await load.finish();
    const report = await check({ cluster, sink, ledger, faults });
    await options.finish?.(trial);
    return report;
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${cluster.logs()}`, { cause: error });
  } finally {
    load?.abandon();
    await cluster.close();
    await sink.close();
    ledger.close();
  }
}

interface Evidence {
  cluster: Cluster;
  sink: SmtpSink;
  ledger: Ledger;
  faults: Fault[];
}

async function check({ cluster, sink, ledger, faults }: Evidence): Promise<NodesReport> {
  const keys = [...ledger.acknowledged.keys()];
  await waitUntil(
    'every acknowledged message to arrive',
    () => {
      const there = copiesByKey(sink.messages);
      return keys.every((key) => there.has(key));
    },
    DRAIN_TIMEOUT_MS,
  );
  const messages = await waitUntil(
    'every message to be settled',
    async () => {
      const all = await allMessages(cluster.api);
      return all.every((one) => one.status === 'delivered') && all;
    },
    DRAIN_TIMEOUT_MS,
  );
  const copies = copiesByKey(sink.messages);
  assert.deepEqual(ledger.strange, [], 'every rejection can be retried');
  const phantoms = [...copies.keys()].filter((key) => !ledger.attempted.has(key));
  assert.deepEqual(phantoms, [], 'phantoms');
  const ids = [...ledger.acknowledged.values()].map((one) => one.messageId).sort();
  assert.deepEqual(messages.map((one) => one.messageId).sort(), ids, 'exactly one message per key');
  assert.deepEqual(sink.violations, []);
  let duplicates = 0;
  for (const [key, list] of copies) {
    if (list.length < 2) continue;
    duplicates += list.length - 1;
    assert.equal(
      new Set(list.map((one) => one.headerMessageId)).size,
      1,
      `${key}: all copies have the same Message-ID`,
    );
    for (let i = 1; i < list.length; i += 1) {
      const [earlier, later] = [list[i - 1]!.at, list[i]!.at];
      assert.ok(
        faults.some((fault) => explains(fault, earlier, later)),
        `${key}: a duplicate not explained by a fault: ${JSON.stringify(list)}; faults: ${JSON.stringify(faults)}`,
      );
    }
    const { body } = await cluster.api.get(`/messages/${ledger.acknowledged.get(key)!.messageId}`);
    const delivered = (body.timeline as JsonObject[]).filter((one) => one.eventType === 'Delivery');
    assert.equal(delivered.length, 1, `${key} has one Delivery event`);
  }
  const counted: Record<string, number> = {};
  for (const { what } of faults) counted[what] = (counted[what] ?? 0) + 1;
  const replays = [...ledger.acknowledged.values()].filter((one) => one.replayed).length;
  return { acknowledged: keys.length, faults: counted, duplicates, replays, blobs: cluster.blobs };
}

/** Whether the fault may have prevented the record of the earlier copy's delivery. */
export function explains(fault: Fault, earlierMs: number, laterMs: number): boolean {
  const begun =
    fault.fromMs < laterMs && fault.fromMs <= earlierMs + RECORDING_MS + pausedMsBetween(earlierMs, fault.fromMs);
  const lastedMs = fault.isStandstill ? fault.fromMs : (fault.untilMs ?? Number.POSITIVE_INFINITY);
  return begun && lastedMs >= earlierMs - STRAGGLER_MS - pausedMsBetween(lastedMs, earlierMs);
}
