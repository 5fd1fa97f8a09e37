/**
 * Collects metrics for Prometheus at /metrics. Hot paths only add to plain numbers, because prom-client spends about a microsecond on the
 * labels of each increment. Each scrape converts the numbers to the Prometheus text format. Names of Postrider's own metrics start with
 * postrider_ and end with their unit; process_* and nodejs_* come from prom-client.
 */
import { collectDefaultMetrics, Gauge, type Metric, Histogram as PromHistogram, Registry } from 'prom-client';
import type { Mode } from './mode.ts';

export interface Counter {
  inc(by?: number): void;
}

export interface Histogram {
  observe(seconds: number): void;
}

export interface QueueState {
  /** Messages that are queued or being sent. */
  depth: number;
  /** Age of the message that has been due the longest; 0 if none is due. */
  oldestAgeSeconds: number;
}

/** Results of mail to Postrider's own addresses. The results that are listed after `unsubscribe` mean that the mail had no effect. */
export const INBOUND_RESULTS = [
  'bounce',
  'delay',
  'complaint',
  'unsubscribe',
  // Reports that are already known, do not fit the state of their message, name no known message, name another recipient, have no proof, or
  // report a success.
  'repeated',
  'unfit',
  'unknown-mail',
  'other-recipient',
  'unproven',
  'no-failure',
  // Mail that is not a report.
  'auto-reply',
  'challenge',
  'list',
  'not-a-report',
  'unreadable',
] as const;
export type InboundResult = (typeof INBOUND_RESULTS)[number];

/**
 * Results of mail for inbound routes: `event` has created an event, `over-limit` was deferred because the account reached its limit, and
 * the others were discarded because they would cause a mail loop.
 */
const ROUTE_OUTCOMES = ['event', 'auto-reply', 'own-mail', 'too-many-hops', 'over-limit'] as const;

export interface Metrics {
  accepted: Record<Mode, Counter>;
  delivered: Record<Mode, Counter>;
  bounced: Record<Mode, Counter>;
  delayed: Record<Mode, Counter>;
  suppressed: Record<Mode, Counter>;
  /** Delivery attempts by the class of the deciding reply; `none` if there was no reply. */
  attemptsByReply: Record<'2xx' | '4xx' | '5xx' | 'none', Counter>;
  webhookAttempts: Record<'succeeded' | 'failed', Counter>;
  acceptedBySource: Record<'http' | 'smtp', Counter>;
  /** Connections to the submission port. */
  smtpSessions: { opened(): void; closed(): void };
  smtpAuthFailures: Counter;
  /** Mail to return paths, abuse@, postmaster@, and the addresses in List-Unsubscribe, by kind. */
  inbound: Record<InboundResult, Counter>;
  /** Mail for inbound routes, by result, including mail with too many hops. */
  inboundRoutes: Record<(typeof ROUTE_OUTCOMES)[number], Counter>;
  /** Requests that GET /requests does not list because there were too many. */
  requestsNotRecorded: Record<'succeeded' | 'failed', Counter>;
  /** Scheduled backups. */
  backups: Record<'succeeded' | 'failed', Counter>;
  /** Spans of traces that were exported, or dropped because the collector was unreachable or rejected them. */
  spans: Record<'exported' | 'dropped', Counter>;
  /** Time from the arrival of a request to its response after the commit. */
  acceptSeconds: Histogram;
  /** Time from acceptance to the receiving server's 250. */
  deliverySeconds: Histogram;
  /** Time of one attempt, from connecting (or taking an open connection) to its outcome. */
  attemptSeconds: Histogram;
  /** Time from an event to its first successful webhook delivery. */
  webhookLagSeconds: Histogram;
  /**
   * Time from the call of a database operation to its result, by mode. It includes the time that the operation waits for a connection or
   * for its group commit.
   */
  operationSeconds: Record<OperationKind, Histogram>;
  /** Counts one bounce of live mail. Both arguments are names from limited sets, so the number of series is limited. */
  countBounce(category: string, provider: string): void;
  /** Counts one attempt by the TLS version and the key exchange of its session; both are names of OpenSSL. */
  countTls(version: string | null, keyExchange: string | undefined): void;
  /** Counts one HTTP response and its time. `route` is the method and the pattern (`GET /notes/:id`), never the path. */
  countHttp(route: string, status: number, seconds: number): void;
  /**
   * Sets the function that returns the queue depth and age. It is called on each scrape; if it fails, both gauges keep their last values.
   */
  readQueueFrom(read: () => QueueState | Promise<QueueState>): void;
  /** Registers a labeled gauge whose values `read` returns on each scrape. */
  readGaugeFrom(about: GaugeOptions, read: () => LabeledValue[]): void;
  /** Replaces the source of `text`, so that one process can report the combined metrics of all processes on its machine. */
  collectFrom(read: () => Promise<string>): void;
  text(): Promise<string>;
  /** The metrics of this process. */
  readonly registry: Registry;
  readonly contentType: string;
}

const OPERATION_KINDS = ['read', 'search', 'write'] as const;
type OperationKind = (typeof OPERATION_KINDS)[number];

export interface GaugeOptions {
  name: string;
  help: string;
  /** How the values of several processes on one machine are combined; the default `max` fits values that all of them share. */
  combined?: 'sum' | 'max';
}

type Labels = Record<string, string | number>;
interface Sample {
  labels: Labels;
  value: number;
  /** The name of the metric with the suffix of a histogram's sample. */
  metricName?: string;
}

/** Registers samples next to prom-client's own metrics; the registry only calls get(). */
function register(
  registry: Registry,
  { type, name, help, aggregator = 'sum' }: { type: string; name: string; help: string; aggregator?: 'sum' | 'max' },
  read: () => Sample[],
): void {
  const metric = {
    name,
    help,
    type,
    aggregator,
    get: () => ({ name, help, type, aggregator, values: read() }),
  };
  registry.registerMetric(metric as unknown as Metric);
}

interface PlainCounter extends Counter {
  value: number;
}

function plainCounter(): PlainCounter {
  const counter: PlainCounter = {
    value: 0,
    inc: (by = 1) => {
      counter.value += by;
    },
  };
  return counter;
}

function counters<K extends string>(
  registry: Registry,
  about: { name: string; help: string; label: string },
  keys: readonly K[],
): Record<K, Counter> {
  const all = Object.fromEntries(keys.map((key) => [key, plainCounter()])) as Record<K, PlainCounter>;
  register(registry, { type: 'counter', name: about.name, help: about.help }, () =>
    keys.map((key) => ({ labels: { [about.label]: key }, value: all[key].value })),
  );
  return all;
}

const ROUTE_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];
const OPERATION_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];

interface PlainHistogram extends Histogram {
  samples(name: string, labels: Labels): Sample[];
}

/** Creates a histogram of plain numbers. The last count is for values above all buckets. */
function plainHistogram(buckets: readonly number[]): PlainHistogram {
  const counts = new Array<number>(buckets.length + 1).fill(0);
  let sum = 0;
  return {
    observe: (seconds) => {
      let at = 0;
      while (at < buckets.length && seconds > buckets[at]!) at += 1;
      counts[at]! += 1;
      sum += seconds;
    },
    samples: (name, labels) => {
      let total = 0;
      const cumulative = counts.map((count, at): Sample => {
        total += count;
        const le = buckets[at] ?? '+Inf';
        return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: total };
      });
      return [
        ...cumulative,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: total },
      ];
    },
  };
}

/** Counts HTTP responses and their times by route. Routes are patterns, so the number of series is limited. */
function httpMetrics(registry: Registry): Metrics['countHttp'] {
  const name = 'postrider_http_request_duration_seconds';
  const routes = new Map<string, { byStatus: Map<number, number>; byClass: Map<number, PlainHistogram> }>();
  register(registry, { type: 'counter', name: 'postrider_http_requests_total', help: 'HTTP requests answered.' }, () =>
    [...routes].flatMap(([route, { byStatus }]) =>
      [...byStatus].map(([status, value]) => ({
        labels: { route, status, class: `${Math.floor(status / 100)}xx` },
        value,
      })),
    ),
  );
  register(registry, { type: 'histogram', name, help: 'Time from an HTTP request to its response, by route.' }, () =>
    [...routes].flatMap(([route, { byClass }]) => {
      const [method, path = method] = route.split(' ');
      return [...byClass].flatMap(([status, one]) =>
        one.samples(name, { method: method!, route: path!, class: `${status}xx` }),
      );
    }),
  );
  return (route, status, seconds) => {
    let one = routes.get(route);
    if (!one) {
      one = { byStatus: new Map(), byClass: new Map() };
      routes.set(route, one);
    }
    one.byStatus.set(status, (one.byStatus.get(status) ?? 0) + 1);
    const statusClass = Math.floor(status / 100);
    let histogram = one.byClass.get(statusClass);
    if (!histogram) {
      histogram = plainHistogram(ROUTE_BUCKETS);
      one.byClass.set(statusClass, histogram);
    }
    histogram.observe(seconds);
  };
}

function operationSeconds(registry: Registry): Metrics['operationSeconds'] {
  const name = 'postrider_database_operation_duration_seconds';
  const all = {
    read: plainHistogram(OPERATION_BUCKETS),
    search: plainHistogram(OPERATION_BUCKETS),
    write: plainHistogram(OPERATION_BUCKETS),
  };
  register(
    registry,
    { type: 'histogram', name, help: 'Time from the call of a database operation to its result, by mode.' },
    () => OPERATION_KINDS.flatMap((mode) => all[mode].samples(name, { mode })),
  );
  return all;
}

/** Registers a counter with two labels; returns the function that counts. */
function pairCounter(
  registry: Registry,
  { name, help, labels: [first, second] }: { name: string; help: string; labels: [string, string] },
): (one: string, other: string) => void {
  const counts = new Map<string, Map<string, number>>();
  register(registry, { type: 'counter', name, help }, () =>
    [...counts].flatMap(([one, byOther]) =>
      [...byOther].map(([other, value]) => ({ labels: { [first]: one, [second]: other }, value })),
    ),
  );
  return (one, other) => {
    let byOther = counts.get(one);
    if (!byOther) {
      byOther = new Map();
      counts.set(one, byOther);
    }
    byOther.set(other, (byOther.get(other) ?? 0) + 1);
  };
}

function bounceCounters(registry: Registry): Metrics['countBounce'] {
  return pairCounter(registry, {
    name: 'postrider_messages_bounced_by_category_total',
    help: 'Live messages that bounced during delivery, by category and provider of the receiving server.',
    labels: ['category', 'provider'],
  });
}

function tlsCounters(registry: Registry): Metrics['countTls'] {
  const count = pairCounter(registry, {
    name: 'postrider_delivery_attempts_by_tls_total',
    help: 'Delivery attempts, by TLS version and key exchange of the session.',
    labels: ['version', 'key_exchange'],
  });
  return (version, keyExchange) => count(version ?? 'none', keyExchange ?? 'none');
}

function plainCounters(registry: Registry): Pick<Metrics, 'smtpSessions' | 'smtpAuthFailures' | 'requestsNotRecorded'> {
  const sessions = plainCounter();
  const failures = plainCounter();
  const requestsNotRecorded = { succeeded: plainCounter(), failed: plainCounter() };
  let open = 0;
  const unlabeled = (type: string, name: string, help: string, read: () => number): void =>
    register(registry, { type, name, help }, () => [{ labels: {}, value: read() }]);
  unlabeled('counter', 'postrider_smtp_sessions_total', 'SMTP sessions started.', () => sessions.value);
  unlabeled('gauge', 'postrider_smtp_sessions_open', 'Open SMTP sessions.', () => open);
  unlabeled('counter', 'postrider_smtp_auth_failures_total', 'Failed SMTP logins.', () => failures.value);
  const notRecorded = 'postrider_requests_not_recorded_total';
  const notRecordedHelp = 'Requests that were not recorded for GET /requests.';
  register(registry, { type: 'counter', name: notRecorded, help: notRecordedHelp }, () =>
    Object.entries(requestsNotRecorded).map(([result, { value }]) => ({ labels: { result }, value })),
  );
  const smtpSessions = {
    opened: (): void => {
      open += 1;
      sessions.inc();
    },
    closed: (): void => {
      open -= 1;
    },
  };
  return { smtpSessions, smtpAuthFailures: failures, requestsNotRecorded };
}

const FAST_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const SLOW_BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400, 259_200];

/** A labeled sample that is read on each scrape. */
export interface LabeledValue {
  labels: Record<string, string>;
  value: number;
}

function queueGauges(registry: Registry): (read: () => QueueState | Promise<QueueState>) => void {
  let read: (() => QueueState | Promise<QueueState>) | undefined;
  const age = new Gauge({
    name: 'postrider_queue_oldest_age_seconds',
    help: 'Age of the message that has been due the longest.',
    aggregator: 'max',
    registers: [registry],
  });
  const depth: Gauge = new Gauge({
    name: 'postrider_queue_depth_messages',
    help: 'Messages that are queued or being sent.',
    aggregator: 'max',
    registers: [],
    async collect() {
      try {
        const state = await read?.();
        if (state === undefined) return;
        this.set(state.depth);
        age.set(state.oldestAgeSeconds);
      } catch {
        // During an outage a scrape returns the last known numbers; the outage is logged elsewhere.
      }
    },
  });
  registry.registerMetric(depth);
  return (source) => {
    read = source;
  };
}

const MODES = ['live', 'sandbox'] as const satisfies readonly Mode[];

function inboundCounters(registry: Registry): Pick<Metrics, 'inbound' | 'inboundRoutes'> {
  const inbound = counters(
    registry,
    {
      name: 'postrider_inbound_reports_total',
      help: 'Bounces, feedback reports, and unsubscribe emails received, by result.',
      label: 'result',
    },
    INBOUND_RESULTS,
  );
  const inboundRoutes = counters(
    registry,
    {
      name: 'postrider_inbound_messages_total',
      help: 'Messages received for inbound routes, by outcome.',
      label: 'outcome',
    },
    ROUTE_OUTCOMES,
  );
  return { inbound, inboundRoutes };
}

function spanCounters(registry: Registry): Metrics['spans'] {
  return counters(
    registry,
    { name: 'postrider_trace_spans_total', help: 'Spans of traces, by result of their export.', label: 'result' },
    ['exported', 'dropped'] as const,
  );
}

function backupCounters(registry: Registry): Metrics['backups'] {
  const about = { name: 'postrider_backups_total', help: 'Scheduled backups.', label: 'result' };
  return counters(registry, about, ['succeeded', 'failed']);
}

/** Creates a set of metrics with its own registry. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  let collect = (): Promise<string> => registry.metrics();
  const byMode = (what: string, help: string) =>
    counters(registry, { name: `postrider_messages_${what}_total`, help, label: 'mode' }, MODES);
  const accepted = byMode('accepted', 'Messages accepted, one per recipient.');
  const delivered = byMode('delivered', 'Messages that the receiving server accepted.');
  const bounced = byMode('bounced', 'Messages that bounced, by a permanent rejection or by expiry.');
  const delayed = byMode('delayed', 'Delivery attempts that were deferred.');
  const suppressed = byMode('suppressed', 'Messages that were not sent because the address is suppressed.');
  const attemptsByReply = counters(
    registry,
    {
      name: 'postrider_delivery_attempts_total',
      help: 'Delivery attempts, by class of the SMTP reply.',
      label: 'class',
    },
    ['2xx', '4xx', '5xx', 'none'] as const,
  );
  const webhookAttempts = counters(
    registry,
    { name: 'postrider_webhook_attempts_total', help: 'Webhook delivery attempts.', label: 'result' },
    ['succeeded', 'failed'] as const,
  );
  const acceptedBySource = counters(
    registry,
    { name: 'postrider_messages_accepted_by_source_total', help: 'Messages accepted, by protocol.', label: 'source' },
    ['http', 'smtp'] as const,
  );
  const { smtpSessions, smtpAuthFailures, requestsNotRecorded } = plainCounters(registry);
  const seconds = (what: string, help: string, buckets: number[]): Histogram =>
    new PromHistogram({ name: `postrider_${what}_seconds`, help, buckets, registers: [registry] });
  const acceptSeconds = seconds(
    'accept_duration',
    'Time from a request to its response after the commit.',
    FAST_BUCKETS,
  );
  const deliverySeconds = seconds(
    'delivery_duration',
    "Time from acceptance to the receiving server's 250.",
    SLOW_BUCKETS,
  );
  const attemptSeconds = seconds('delivery_attempt_duration', 'Duration of a delivery attempt.', SLOW_BUCKETS);
  const webhookLagSeconds = seconds(
    'webhook_lag',
    'Time from an event to its first successful webhook delivery.',
    SLOW_BUCKETS,
  );
  const readQueueFrom = queueGauges(registry);
  // Standard dashboards use process_* and nodejs_*.
  collectDefaultMetrics({ register: registry });
  return {
    accepted,
    delivered,
    bounced,
    delayed,
    suppressed,
    attemptsByReply,
    webhookAttempts,
    backups: backupCounters(registry),
    spans: spanCounters(registry),
    ...inboundCounters(registry),
    acceptedBySource,
    smtpSessions,
    smtpAuthFailures,
    requestsNotRecorded,
    acceptSeconds,
    deliverySeconds,
    attemptSeconds,
    webhookLagSeconds,
    readQueueFrom,
    operationSeconds: operationSeconds(registry),
    countBounce: bounceCounters(registry),
    countTls: tlsCounters(registry),
    countHttp: httpMetrics(registry),
    readGaugeFrom: ({ name, help, combined = 'max' }, read) =>
      register(registry, { type: 'gauge', name, help, aggregator: combined }, read),
    collectFrom: (read) => {
      collect = read;
    },
    text: () => collect(),
    registry,
    contentType: registry.contentType,
  };
}
