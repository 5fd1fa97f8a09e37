/**
 * Exports spans to an OpenTelemetry collector: OTLP/HTTP in JSON, https://opentelemetry.io/docs/specs/otlp. Spans are collected in memory
 * and sent every few seconds, one request at a time. If the collector is slow or away, a limited number is held, and others are dropped and
 * counted: tracing never delays mail.
 */
import { type Running, within } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Counter } from '../base/metrics.ts';
import { childOf, readContext, type Span, type Tracer } from '../base/trace.ts';
import type { HttpClient } from './http-client.ts';
import { retryAfterMs } from './retry-after.ts';

export interface OtlpOptions {
  /** Base URL; `/v1/traces` is appended (OTLP/HTTP Request). */
  endpoint: string;
  /** Such as an API key of the collector. */
  headers: Readonly<Record<string, string>>;
  /** Share of new traces that are sampled, from 0 to 1. A trace of the caller keeps its own decision. */
  ratio: number;
  /** Attributes of this process: `service.version`, `service.instance.id`. */
  resource: Readonly<Record<string, string>>;
  http: Pick<HttpClient, 'post'>;
  log: Log;
  /** Count spans. */
  exported?: Counter;
  dropped?: Counter;
  /** For tests; default 2,000. */
  flushMs?: number;
}

const FLUSH_MS = 2_000;
const MOST_HELD = 8_192;
const BATCH_SPANS = 512;
const TIMEOUT_MS = 10_000;
const STOP_WITHIN_MS = 2_000;
/** A failing collector is logged at most this often. */
const LOG_EVERY_MS = 60_000;
/** OTLP/HTTP Response: the other failures are final. */
const RETRIED = new Set([429, 502, 503, 504]);

/** The longest pause after a failure, as a multiple of the usual one. */
const MOST_BACKOFF = 32;

const SERVER = 2;
const CLIENT = 3;
const ERROR = 2;

function attributesOf(values: Readonly<Record<string, string | number | undefined>>) {
  return Object.entries(values).flatMap(([key, value]) => {
    if (value === undefined) return [];
    return [{ key, value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value } }];
  });
}

const nanosOf = (ms: number): string => String(BigInt(Math.round(ms * 1_000)) * 1_000n);

function spanBody({ context, parent, name, kind, startMs, endMs, attributes, hasFailed }: Span) {
  const { traceId, spanId } = readContext(context)!;
  const parentSpanId = readContext(parent)?.spanId;
  return {
    traceId,
    spanId,
    ...(parentSpanId !== undefined && { parentSpanId }),
    name,
    kind: kind === 'server' ? SERVER : CLIENT,
    startTimeUnixNano: nanosOf(startMs),
    endTimeUnixNano: nanosOf(Math.max(startMs, endMs)),
    attributes: attributesOf(attributes),
    status: hasFailed ? { code: ERROR } : {},
  };
}

/** Returns the number of spans that a successful response reports as rejected (OTLP/HTTP Response, partial success). */
function rejectedSpans(body: Buffer | undefined): number {
  try {
    const answer = JSON.parse(body?.toString('utf8') || '{}') as {
      partialSuccess?: { rejectedSpans?: string | number };
    };
    return Number(answer.partialSuccess?.rejectedSpans ?? 0) || 0;
  } catch {
    return 0;
  }
}

/** Starts the exporter. A stop sends what is held, within 2 s. */
export function startOtlp(options: OtlpOptions): Tracer & Running {
  const { log, exported, dropped, http } = options;
  const url = `${options.endpoint.replace(/\/+$/, '')}/v1/traces`;
  const resource = { attributes: attributesOf({ 'service.name': 'postrider', ...options.resource }) };
  const scope = { name: 'postrider', version: options.resource['service.version'] };
  const stopping = new AbortController();
  let held: Span[] = [];
  let sending: Promise<void> | undefined;
  let loggedMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let pausedUntilMs = Number.NEGATIVE_INFINITY;
  const { flushMs = FLUSH_MS } = options;

  const warn = (reason: string, count: number): void => {
    if (performance.now() - loggedMs < LOG_EVERY_MS) return;
    loggedMs = performance.now();
    log.warn({ url, reason, count }, 'traces not exported');
  };

  /** Sends a batch; returns false if it is to be tried again. */
  const send = async (batch: readonly Span[]): Promise<boolean> => {
    const body = JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: batch.map(spanBody) }] }] });
    const headers = { ...options.headers, 'content-type': 'application/json' };
    const post = { url, headers, body, timeoutMs: TIMEOUT_MS, signal: stopping.signal, keepBody: true };
    const outcome = await http.post(post);
    if (outcome.ok && outcome.status >= 200 && outcome.status < 300) {
      const rejected = Math.min(rejectedSpans(outcome.body), batch.length);
      if (rejected > 0) warn('the collector rejected spans', rejected);
      exported?.inc(batch.length - rejected);
      dropped?.inc(rejected);
      failures = 0;
      return true;
    }
    warn(outcome.ok ? `the collector returned HTTP status ${outcome.status}` : outcome.message, batch.length);
    if (!outcome.ok || RETRIED.has(outcome.status)) {
      const requestedMs = outcome.ok ? retryAfterMs(outcome.headers['retry-after'], Date.now()) : 0;
      failures += 1;
      pausedUntilMs = performance.now() + Math.max(requestedMs, flushMs * Math.min(2 ** (failures - 1), MOST_BACKOFF));
      return false;
    }
    dropped?.inc(batch.length);
    return true;
  };

  const flush = async (): Promise<void> => {
    while (held.length > 0) {
      const batch = held.slice(0, BATCH_SPANS);
      if (!(await send(batch))) return;
      held = held.slice(batch.length);
    }
  };

  const flushOnce = (): Promise<void> => {
    sending ??= flush()
      .catch((error: Error) => warn(error.message, held.length))
      .finally(() => {
        sending = undefined;
      });
    return sending;
  };

  const timer = setInterval(() => {
    if (held.length > 0 && performance.now() >= pausedUntilMs) void flushOnce();
  }, flushMs).unref();

  return {
    begin: (parent) => childOf(parent, options.ratio),
    end: (span) => {
      if (readContext(span.context)?.isSampled !== true) return;
      if (held.length < MOST_HELD) held.push(span);
      else dropped?.inc();
    },
    stop: async () => {
      clearInterval(timer);
      const deadline = performance.now() + STOP_WITHIN_MS;
      if (sending) await within(sending, deadline);
      await within(flushOnce(), deadline);
      stopping.abort();
      if (held.length > 0) dropped?.inc(held.length);
    },
  };
}
