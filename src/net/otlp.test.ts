/** The exporter, with a collector on loopback that counts spans. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { foundAnswer } from '../../test/kit/fake-dns.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { type CatcherScript, webhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { silentLog } from '../base/log.ts';
import type { Span } from '../base/trace.ts';
import { parseCidrs } from './address-guard.ts';
import { openHttpClient } from './http-client.ts';
import { startOtlp } from './otlp.ts';

async function exporter(t: TestContext, { ratio = 1, script }: { ratio?: number; script?: CatcherScript } = {}) {
  const collector = await webhookCatcher(script ? { script } : {});
  t.after(() => collector.close());
  const loopback = parseCidrs('127.0.0.0/8');
  assert.ok(loopback.ok);
  const http = openHttpClient({ lookup: async (host) => foundAnswer([host]), allow: loopback.cidrs });
  t.after(() => http.close());
  const counts = { exported: 0, dropped: 0 };
  const counter = (name: keyof typeof counts) => ({
    inc: (by = 1) => {
      counts[name] += by;
    },
  });
  const tracer = startOtlp({
    endpoint: `${new URL(collector.url).origin}/`,
    headers: { authorization: 'Bearer secret' },
    ratio,
    resource: { 'service.version': '1.0.0' },
    http,
    log: silentLog,
    exported: counter('exported'),
    dropped: counter('dropped'),
    flushMs: 10,
  });
  t.after(() => tracer.stop());
  const span = (parent?: string): Span => ({
    context: tracer.begin(parent)!,
    parent,
    name: 'POST /send',
    kind: 'server',
    startMs: 1_795_000_000_000.25,
    endMs: 1_795_000_000_010,
    attributes: { 'http.route': '/send', 'http.response.status_code': 202, 'postrider.message_id': undefined },
    hasFailed: false,
  });
  return { collector, counts, tracer, span };
}

const spansOf = (body: string): Record<string, unknown>[] => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans;

test('spans are sent in the JSON encoding of OTLP', async (t) => {
  const { collector, counts, tracer, span } = await exporter(t);
  const parent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const sent = span(parent);
  tracer.end(sent);
  tracer.end({ ...span(), hasFailed: true });
  const [request] = await waitUntil('a request', () =>
    collector.requests.length > 0 ? collector.requests : undefined,
  );
  assert.equal(request!.path, '/v1/traces');
  assert.equal(request!.headers['content-type'], 'application/json');
  assert.equal(request!.headers.authorization, 'Bearer secret');
  assert.deepEqual(JSON.parse(request!.body).resourceSpans[0].resource.attributes, [
    { key: 'service.name', value: { stringValue: 'postrider' } },
    { key: 'service.version', value: { stringValue: '1.0.0' } },
  ]);
  const [first, second] = spansOf(request!.body);
  assert.deepEqual(first, {
    traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    spanId: sent.context.split('-')[2],
    parentSpanId: '00f067aa0ba902b7',
    name: 'POST /send',
    kind: 2,
    startTimeUnixNano: '1795000000000250000',
    endTimeUnixNano: '1795000000010000000',
    attributes: [
      { key: 'http.route', value: { stringValue: '/send' } },
      { key: 'http.response.status_code', value: { intValue: '202' } },
    ],
    status: {},
  });
  assert.equal('parentSpanId' in second!, false);
  assert.deepEqual(second!.status, { code: 2 });
  await waitUntil('the count', () => counts.exported === 2);
});

test('only sampled traces are sent, and the decision of the caller counts', async (t) => {
  const { collector, tracer, span } = await exporter(t, { ratio: 0 });
  tracer.end(span());
  tracer.end(span('00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00'));
  tracer.end(span('00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'));
  await waitUntil('a request', () => collector.requests.length > 0);
  await tracer.stop();
  assert.equal(collector.requests.flatMap(({ body }) => spansOf(body)).length, 1);
});

test('spans are sent again while the collector is busy, and dropped if it refuses them or too many wait', async (t) => {
  const { collector, counts, tracer, span } = await exporter(t, { script: { status: 503 } });
  for (let i = 0; i < 8_200; i += 1) tracer.end(span());
  await waitUntil('two requests', () => collector.requests.length > 1);
  assert.equal(counts.dropped, 8);
  const [first, second] = collector.requests;
  assert.equal(first!.body, second!.body);
  assert.equal(spansOf(first!.body).length, 512);
  collector.answer({ status: 200 });
  await waitUntil('the export', () => counts.exported === 8_192);
  collector.answer({ status: 400 });
  tracer.end(span());
  await waitUntil('the refusal', () => counts.dropped === 9);
});

test('spans that the collector rejects are dropped, and its Retry-After is kept', async (t) => {
  const { collector, counts, tracer, span } = await exporter(t, {
    script: { headers: { 'content-type': 'application/json' }, body: '{"partialSuccess":{"rejectedSpans":"2"}}' },
  });
  for (let i = 0; i < 3; i += 1) tracer.end(span());
  await waitUntil('the counts', () => counts.exported === 1 && counts.dropped === 2);
  collector.answer({ status: 429, headers: { 'retry-after': '3600' } });
  const before = collector.requests.length;
  tracer.end(span());
  await waitUntil('the refusal', () => collector.requests.length === before + 1);
  // Another exporter sends again several times in the meantime.
  const other = await exporter(t, { script: { status: 503 } });
  other.tracer.end(other.span());
  await waitUntil('its requests', () => other.collector.requests.length > 3);
  assert.equal(collector.requests.length, before + 1);
});

test('a stop sends what is held, and does not wait for a collector that hangs', async (t) => {
  const { collector, counts, tracer, span } = await exporter(t);
  tracer.end(span());
  await tracer.stop();
  assert.equal(counts.exported, 1);
  collector.answer({ silent: true });
  const other = await exporter(t, { script: { silent: true } });
  other.tracer.end(other.span());
  await other.tracer.stop();
  assert.deepEqual(other.counts, { exported: 0, dropped: 1 });
});
