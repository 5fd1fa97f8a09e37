/**
 * Two nodes of Postrider on a highly available PostgreSQL, with a load of messages and repeated failures of the database. What was accepted
 * is known from the responses that the client read, what was delivered from the server that received it.
 */
import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Api } from '../../kit/api.ts';
import { type SmtpSink, smtpSink } from '../../kit/smtp-sink.ts';
import { type Service, startService } from '../../kit/start-service.ts';
import { waitUntil } from '../../kit/wait-until.ts';
import { allMessages, copiesByKey } from '../ledger.ts';
import { explains, type Fault } from '../nodes-trial.ts';
import { type HaClient, startClient } from './client.ts';
import { type HaCluster, type HaOptions, startHaCluster } from './cluster.ts';
import { fail, type Kind } from './failures.ts';

export interface TrialOptions extends HaOptions {
  /** One after the other. */
  kinds: Kind[];
  /** Messages per second. */
  rate: number;
  /** Requests of the client at the same time. */
  workers: number;
  via: 'hosts' | 'haproxy';
  /** A folder for the logs of the nodes and the cluster. */
  logs?: string;
  /** Is called with the times of each failover. */
  report?(line: string): void;
}

export interface TrialReport {
  failovers: number;
  accepted: number;
  /** Accepted, and never received. */
  lost: number;
  /** Received, but Postrider does not know them any more: their acceptance was lost after their delivery. */
  forgotten: number;
  /** The most that one failure made Postrider lose or forget. */
  goneAtMost: number;
  /** Copies beyond the first. */
  duplicated: number;
  /** Those with no failure around the first copy. */
  unexplained: number;
  /** Accepted, known to Postrider, and not delivered when everything was quiet. */
  stuck: number;
  /** Longest time without an accepted message, and without a received one, of each failover. */
  acceptGaps: number[];
  deliveryGaps: number[];
  strange: string[];
  repeated: Record<number, number>;
}

interface Failure extends Fault {
  kind: Kind;
}

/** Copies of a message are explained by a failure this long after the first one: its record may not have reached the standby. */
const UNRECORDED_MS = { sync: 0, async: 8_000 };
/** Leases end within 60 s, and a node whose database was unavailable waits 10 s longer. */
const QUIET_MS = 120_000;
const CALM_MS = 2_000;

/** Runs all failures and returns the counts. */
export async function haTrial(options: TrialOptions): Promise<TrialReport> {
  const cluster = await startHaCluster(options);
  const sink = await smtpSink();
  const content = path.join(cluster.folder, 'content');
  mkdirSync(content);
  const nodes: Service[] = [];
  const end = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.close()));
    await sink.close();
    if (options.logs !== undefined) keepLogs(options.logs, cluster.folder, nodes);
    await cluster.close();
  };
  let client: HaClient | undefined;
  try {
    const env = {
      POSTRIDER_DATABASE_URL: cluster.urls[options.via],
      POSTRIDER_SECRET_KEY: randomBytes(32).toString('base64'),
      POSTRIDER_BLOB_URL: `file://${content}`,
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
    };
    nodes.push(await startService({ env }));
    nodes.push(await startService({ env, joins: nodes[0]!.dataDir }));
    await nodes[0]!.cli('domain', 'add', nodes[0]!.live.accountId, 'load.example', '--verified');
    client = startClient(
      nodes.map((node) => node.api),
      { from: 'load@load.example', rate: options.rate, workers: options.workers },
    );
    const failures = await runFailures({ options, cluster, client, sink });
    await client.finish();
    return await count({ options, nodes, client, sink, failures });
  } catch (error) {
    const logs = nodes.map((node, index) => `── node ${index + 1}\n${node.log.slice(-3_000)}`);
    throw new Error(`${(error as Error).message}\n${logs.join('\n')}`, { cause: error });
  } finally {
    client?.abandon();
    await end();
  }
}

function keepLogs(folder: string, ofCluster: string, nodes: Service[]): void {
  mkdirSync(folder, { recursive: true });
  for (const [index, node] of nodes.entries()) writeFileSync(path.join(folder, `node${index + 1}.log`), node.log);
  for (const name of readdirSync(ofCluster).filter((one) => one.endsWith('.log')))
    copyFileSync(path.join(ofCluster, name), path.join(folder, name));
}

interface Running {
  options: TrialOptions;
  cluster: HaCluster;
  client: HaClient;
  sink: SmtpSink;
}

async function runFailures({ options, cluster, client, sink }: Running): Promise<Failure[]> {
  const failures: Failure[] = [];
  await calm(client, sink);
  for (const [index, kind] of options.kinds.entries()) {
    const failure: Failure = { kind, what: kind, fromMs: Date.now(), untilMs: undefined, isStandstill: false };
    failures.push(failure);
    const { host } = await cluster.primary();
    const repair = await fail(kind, cluster, options.mode);
    if (kind !== 'etcd') await anotherPrimary(cluster, host.name);
    // A killed primary has closed its connections: its return changes nothing for the nodes, and takes long.
    if (kind === 'kill') await repair();
    await calm(client, sink);
    // Nothing follows the last failure.
    if (index < options.kinds.length - 1) {
      if (kind !== 'kill') await repair();
      await cluster.healthy();
      await calm(client, sink);
    }
    failure.untilMs = Date.now();
    const [accept, delivery] = [gapsOf(acceptTimes(client), [failure]), gapsOf(arrivals(sink), [failure])];
    options.report?.(`${index + 1} ${kind}: no 202 for ${accept[0]} s, no delivery for ${delivery[0]} s`);
  }
  return failures;
}

async function anotherPrimary(cluster: HaCluster, than: string): Promise<void> {
  await waitUntil(
    'another primary',
    async () => {
      await wait(250);
      return (await cluster.primary()).host.name !== than;
    },
    120_000,
  );
}

/** Resolves when messages were accepted and delivered all the time for some seconds, and no request waits. */
async function calm(client: HaClient, sink: SmtpSink): Promise<void> {
  let since = Date.now();
  let last = { accepted: client.accepted.size, delivered: sink.messages.length };
  await waitUntil(
    'messages to be accepted and delivered',
    async () => {
      await wait(250);
      const now = { accepted: client.accepted.size, delivered: sink.messages.length };
      const moves = now.accepted > last.accepted && now.delivered > last.delivered && client.pending < 50;
      last = now;
      if (!moves) since = Date.now();
      return Date.now() - since >= CALM_MS;
    },
    180_000,
  );
}

const acceptTimes = (client: HaClient): number[] => [...client.accepted.values()].map((one) => one.at);
const arrivals = (sink: SmtpSink): number[] => sink.messages.map((one) => one.at);

/** The longest time without one, of each failure, in seconds. */
function gapsOf(times: number[], failures: Failure[]): number[] {
  const sorted = times.toSorted((a, b) => a - b);
  return failures.map(({ fromMs, untilMs = Number.POSITIVE_INFINITY }) => {
    let longest = 0;
    for (let at = 1; at < sorted.length; at += 1) {
      if (sorted[at]! < fromMs || sorted[at - 1]! > untilMs) continue;
      longest = Math.max(longest, sorted[at]! - sorted[at - 1]!);
    }
    return Math.round(longest / 100) / 10;
  });
}

interface Evidence {
  options: TrialOptions;
  nodes: Service[];
  client: HaClient;
  sink: SmtpSink;
  failures: Failure[];
}

async function count({ options, nodes, client, sink, failures }: Evidence): Promise<TrialReport> {
  const settled = await waitForQuiet(nodes[0]!.api, client, sink);
  const received = copiesByKey(sink.messages);
  const gone = [...client.accepted].filter(([, { messageId }]) => !settled.statuses.has(messageId));
  const lost = gone.filter(([key]) => !received.has(key));
  const copies = [...received.values()].filter((list) => list.length > 1);
  const goneIn = (failure: Failure): number =>
    gone.filter(([, { at }]) => failures.find(({ untilMs }) => at <= untilMs!) === failure).length;
  return {
    failovers: failures.length,
    accepted: client.accepted.size,
    lost: lost.length,
    forgotten: gone.length - lost.length,
    goneAtMost: Math.max(...failures.map(goneIn)),
    duplicated: copies.reduce((sum, list) => sum + list.length - 1, 0),
    unexplained: copies.filter((list) => !isExplained(list, failures, options.mode)).length,
    stuck: settled.unfinished,
    acceptGaps: gapsOf(acceptTimes(client), failures),
    deliveryGaps: gapsOf(arrivals(sink), failures),
    strange: client.strange,
    repeated: client.repeated,
  };
}

interface Settled {
  /** The status of every message that Postrider knows, by its id. */
  statuses: Map<string, string>;
  /** Accepted messages that are not delivered, or were not received. */
  unfinished: number;
}

/** Resolves when every message that Postrider knows has been delivered, or after QUIET_MS. */
async function waitForQuiet(api: Api, client: HaClient, sink: SmtpSink): Promise<Settled> {
  const until = Date.now() + QUIET_MS;
  for (;;) {
    const statuses = new Map((await allMessages(api)).map((one) => [one.messageId, one.status]));
    const received = copiesByKey(sink.messages);
    const unfinished = [...client.accepted].filter(([key, { messageId }]) => {
      const status = statuses.get(messageId);
      return status !== undefined && (status !== 'delivered' || !received.has(key));
    }).length;
    if (unfinished === 0 || Date.now() > until) return { statuses, unfinished };
    await wait(5_000);
  }
}

function isExplained(list: { at: number }[], failures: Failure[], mode: 'sync' | 'async'): boolean {
  return list
    .slice(1)
    .every((later, index) =>
      failures.some((failure) =>
        explains({ ...failure, fromMs: failure.fromMs - UNRECORDED_MS[mode] }, list[index]!.at, later.at),
      ),
    );
}
