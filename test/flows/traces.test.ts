/** The trace of a message from the request of an application to the webhook, as the collector and the webhook see it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { webhookCatcher } from '../kit/webhook-catcher.ts';

interface ExportedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  attributes: { key: string; value: { stringValue?: string; intValue?: string } }[];
}

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER = '00f067aa0ba902b7';
const mail = { from: 'a@shop.example', to: 'Bob.Secret@example.com', subject: 'Hello', text: 'Hello' };

test('request, attempt, and webhook belong to the trace of the caller', { timeout: 150_000 }, async (t) => {
  const sink = await smtpSink();
  t.after(() => sink.close());
  const hook = await webhookCatcher();
  t.after(() => hook.close());
  const collector = await webhookCatcher();
  t.after(() => collector.close());
  const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' };
  const service = await startService({
    env: { ...env, POSTRIDER_OTLP_ENDPOINT: new URL(collector.url).origin, POSTRIDER_OTLP_RATIO: '0' },
  });
  t.after(() => service.close());
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await service.api.post('/webhooks', { url: hook.url, events: ['Delivery'] });
  const traceparent = `00-${TRACE}-${CALLER}-01`;
  const sent = await service.api.post('/send', mail, { traceparent });
  assert.equal(sent.status, 202, sent.text);
  // Not sampled.
  assert.equal((await service.api.post('/send', mail)).status, 202);

  const spans = await waitUntil('three spans', () => {
    const all = collector.requests.flatMap(
      ({ body }): ExportedSpan[] => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans,
    );
    return all.length >= 3 ? all : undefined;
  });
  assert.deepEqual(spans.map(({ name }) => name).sort(), ['POST /send', 'delivery attempt', 'webhook'].sort());
  for (const span of spans) assert.equal(span.traceId, TRACE);
  const named = (name: string): ExportedSpan => spans.find((span) => span.name === name)!;
  const request = named('POST /send');
  assert.equal(request.parentSpanId, CALLER);
  assert.equal(named('delivery attempt').parentSpanId, request.spanId);
  assert.equal(named('webhook').parentSpanId, request.spanId);
  const attributeOf = ({ attributes }: ExportedSpan, wanted: string) =>
    attributes.find(({ key }) => key === wanted)?.value;
  assert.equal(attributeOf(request, 'postrider.message_id')?.stringValue, sent.body.data.messageId);
  assert.equal(attributeOf(named('delivery attempt'), 'postrider.smtp_code')?.intValue, '250');
  assert.equal(attributeOf(named('webhook'), 'http.response.status_code')?.intValue, '200');
  assert.ok(!collector.requests.some(({ body }) => /secret/i.test(body)), 'no address is exported');

  const own = await waitUntil('both webhooks', () => (hook.requests.length === 2 ? hook.requests : undefined));
  const contexts = own.map(({ headers }) => String(headers.traceparent)).sort();
  assert.ok(contexts.includes(`00-${TRACE}-${named('webhook').spanId}-01`), contexts.join());
  const other = contexts.find((context) => !context.includes(TRACE))!;
  assert.match(other, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
});

test('without a collector the context of the caller comes back in the webhooks', { timeout: 150_000 }, async (t) => {
  const hook = await webhookCatcher();
  t.after(() => hook.close());
  const service = await startService({ env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
  t.after(() => service.close());
  const api = service.sandboxApi;
  await api.post('/webhooks', { url: hook.url, events: ['Send'] });
  const traceparent = `00-${TRACE}-${CALLER}-00`;
  assert.equal((await api.post('/send', mail, { traceparent })).status, 202);
  assert.equal((await api.post('/send', mail, { traceparent: 'nonsense' })).status, 202);
  await waitUntil('the webhooks', () => hook.requests.length === 2);
  assert.deepEqual(hook.requests.map(({ headers }) => headers.traceparent).sort(), [traceparent, undefined]);
});
