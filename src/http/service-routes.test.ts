/** Health, readiness, metrics, the OpenAPI document and its pages: access and format. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { test } from 'node:test';
import { httpShell } from '../../test/kit/http-shell.ts';
import { createMetrics } from '../base/metrics.ts';
import { parseCidrs } from '../net/address-guard.ts';
import type { HttpAppOptions } from './app.ts';
import { createOpenapi } from './openapi.ts';
import { referenceRoutes } from './reference/routes.ts';
import type { CallerKey } from './route.ts';
import { defineRoute } from './route.ts';
import { Type } from './schema-type.ts';
import { type NotReady, serviceRoutes } from './service-routes.ts';
import { closed, named } from './validate.ts';

const noteRoute = defineRoute({
  method: 'PUT',
  path: '/notes/:id',
  summary: 'Replaces a note',
  tag: 'notes',
  access: { auth: 'key' },
  operationId: 'replaceNote',
  body: { schema: named('Note', { text: Type.String({ maxLength: 50 }) }) },
  query: closed({ dryRun: Type.Optional(Type.Boolean()) }),
  response: { status: 200, schema: closed({ id: Type.String() }) },
  refusals: ['CONFLICT'],
  handle: () => ({ ok: true, body: {} }),
});

async function service(
  notReady: () => NotReady[],
  more: { metricsToken?: string } = {},
  app: Pick<HttpAppOptions<CallerKey>, 'trustedProxies'> = {},
) {
  const metrics = createMetrics();
  const document = () =>
    createOpenapi([noteRoute], {
      about: { title: 'Postrider', version: '1.0.0' },
      examples: { Note: { text: 'Buy bread' } },
    });
  const routes = serviceRoutes<CallerKey>({ metrics, notReady, openapi: document, ...more });
  const shell = await httpShell({ ...app, metrics, more: [...routes, ...referenceRoutes<CallerKey>(document)] });
  return {
    ...shell,
    metrics,
    close: async () => {
      await shell.close();
    },
  };
}

test('health always returns ok, and readiness lists every reason', async (t) => {
  const reasons: NotReady[] = [];
  const shell = await service(() => reasons);
  t.after(() => shell.close());
  assert.deepEqual(await (await fetch(`${shell.url}/health`)).json(), { status: 'ok' });
  assert.equal((await fetch(`${shell.url}/health?probe=balancer`)).status, 200, 'with any query');
  const ready = await fetch(`${shell.url}/ready`);
  assert.equal(ready.status, 200);
  assert.deepEqual(await ready.json(), { status: 'ready', reasons: [] });
  reasons.push({ field: 'disk', message: 'is nearly full' }, { field: 'storage', message: 'does not answer' });
  const not = await fetch(`${shell.url}/ready`);
  assert.equal(not.status, 503);
  assert.ok(not.headers.get('retry-after'));
  const body = (await not.json()) as Record<string, unknown> & { error: { code: string; details: unknown } };
  assert.equal(body.status, 'not ready');
  assert.deepEqual(body.reasons, ['disk: is nearly full', 'storage: does not answer']);
  assert.equal(body.error.code, 'OVERLOADED');
  assert.deepEqual(
    body.error.details,
    reasons.map((reason) => ({ ...reason, code: 'OVERLOADED' })),
  );
});

test('metrics require loopback or the token, and a proxy does not count as loopback', async (t) => {
  const shell = await service(() => [], { metricsToken: 'secret-token' });
  t.after(() => shell.close());
  shell.metrics.accepted.live.inc(3);
  shell.metrics.acceptSeconds.observe(0.002);
  await fetch(`${shell.url}/notes/secret-id`);
  const text = await (await fetch(`${shell.url}/metrics`)).text();
  assert.match(text, /^postrider_messages_accepted_total\{mode="live"\} 3$/m);
  assert.match(text, /^postrider_accept_duration_seconds_bucket\{le="0.0025"\} 1$/m);
  assert.match(text, /^postrider_accept_duration_seconds_bucket\{le="0.001"\} 0$/m);
  assert.match(text, /^postrider_http_requests_total\{route="GET \/notes\/:id",status="401",class="4xx"\} 1$/m);
  assert.match(
    text,
    /^postrider_http_request_duration_seconds_count\{method="GET",route="\/notes\/:id",class="4xx"\} 1$/m,
  );
  for (const name of ['process_resident_memory_bytes', 'process_open_fds', 'nodejs_eventloop_lag_p99_seconds']) {
    assert.match(text, new RegExp(`^${name} \\S+$`, 'm'));
  }
  assert.doesNotMatch(text, /secret-id/);
  for (const name of ['Forwarded', 'X-Forwarded-Proto', 'X-Forwarded-Host', 'X-Real-IP', 'Via']) {
    assert.equal((await fetch(`${shell.url}/metrics`, { headers: { [name]: 'x' } })).status, 401, name);
  }
  const metricsFor = async (host: string): Promise<number | undefined> => {
    const request = http.get(`${shell.url}/metrics`, { headers: { Host: host } });
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    response.resume();
    return response.statusCode;
  };
  for (const host of ['evil.example', 'localhost.evil.example:80', '127.0.0.1.evil.example', '10.0.0.1']) {
    assert.equal(await metricsFor(host), 401, host);
  }
  for (const host of ['localhost', 'LOCALHOST:3000', '127.0.0.1:9', '[::1]:9']) {
    assert.equal(await metricsFor(host), 200, host);
  }
  const proxied = { 'X-Forwarded-For': '203.0.113.9' };
  const ask = (headers: Record<string, string>) =>
    fetch(`${shell.url}/metrics`, { headers: { ...proxied, ...headers } });
  assert.equal((await ask({})).status, 401);
  assert.equal((await ask({ Authorization: 'Bearer secret-tokem' })).status, 401);
  assert.equal((await ask({ Authorization: 'Bearer secret-token' })).status, 200);
});

test('metrics are not public through a trusted proxy on the same machine', async (t) => {
  const list = parseCidrs('127.0.0.0/8, ::1');
  assert.ok(list.ok);
  const shell = await service(() => [], {}, { trustedProxies: list.cidrs });
  t.after(() => shell.close());
  const statusOf = async (headers: Record<string, string>) => (await fetch(`${shell.url}/metrics`, { headers })).status;
  for (const client of ['203.0.113.9', '127.0.0.1', '::1', '203.0.113.9, 127.0.0.1', 'unknown', '10.0.0.1']) {
    assert.equal(await statusOf({ 'X-Forwarded-For': client }), 401, client);
  }
  assert.equal(await statusOf({}), 200, 'a local scraper, not through the proxy');
});

test('queue gauges are read on each scrape and survive an outage of their source', async () => {
  const metrics = createMetrics();
  metrics.readQueueFrom(async () => ({ depth: 7, oldestAgeSeconds: 1.5 }));
  assert.match(await metrics.text(), /^postrider_queue_depth_messages 7$/m);
  metrics.readQueueFrom(() => {
    throw new Error('gone');
  });
  assert.match(await metrics.text(), /^postrider_queue_depth_messages 7$/m);
});

test('the OpenAPI document is generated from the route definitions and their schemas', async (t) => {
  const shell = await service(() => []);
  t.after(() => shell.close());
  const document = (await (await fetch(`${shell.url}/openapi.json`)).json()) as {
    openapi: string;
    paths: Record<string, Record<string, Record<string, object>>>;
    components: { schemas: Record<string, object>; parameters: Record<string, object> };
    security: object[];
  };
  assert.equal(document.openapi, '3.1.0');
  const operation = document.paths['/notes/{id}']?.put;
  assert.equal(operation?.operationId, 'replaceNote');
  assert.equal(operation?.security, undefined, 'inherited from the document');
  assert.deepEqual(document.security, [
    { apiKey: [], accountId: [] },
    { session: [], accountId: [] },
  ]);
  assert.deepEqual(operation?.requestBody, {
    required: true,
    content: {
      'application/json': { schema: { $ref: '#/components/schemas/Note' } },
    },
  });
  assert.deepEqual(operation?.parameters, [
    { $ref: '#/components/parameters/notes.id' },
    { name: 'dryRun', in: 'query', required: false, schema: { type: 'boolean' } },
  ]);
  assert.deepEqual(document.components.parameters['notes.id'], {
    name: 'id',
    in: 'path',
    required: true,
    schema: { type: 'string' },
  });
  assert.deepEqual(Object.keys(operation?.responses ?? {}), [
    '200',
    '400',
    '401',
    '403',
    '404',
    '409',
    '413',
    '415',
    '429',
    '503',
    'default',
  ]);
  const { title, ...note } = JSON.parse(JSON.stringify(noteRoute.body?.schema)) as Record<string, unknown>;
  assert.deepEqual(document.components.schemas.Note, { ...note, title, examples: [{ text: 'Buy bread' }] });
});

test('two different schemas with the same name are rejected', () => {
  const about = { title: 'Postrider', version: '1.0.0' };
  const other = { ...noteRoute, path: '/other/:id', body: { schema: named('Note', { words: Type.String() }) } };
  assert.throws(() => createOpenapi([noteRoute, other], { about }), /two schemas are named Note/);
  assert.ok(createOpenapi([noteRoute, { ...noteRoute, path: '/other/:id' }], { about }));
});

test('the pages work under a strict policy and load nothing from other hosts', async (t) => {
  const shell = await service(() => []);
  t.after(() => shell.close());
  for (const path of ['/docs', '/docs/']) {
    const page = await fetch(`${shell.url}${path}`);
    assert.equal(page.status, 200);
    const html = await page.text();
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /script-src 'self';/);
    assert.match(policy, /style-src 'self';/);
    assert.match(page.headers.get('x-request-id') ?? '', /^req_/);
    assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
    const assets = [...html.matchAll(/<(?:script|link)[^>]+(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
    assert.equal(assets.length, 3);
    assert.doesNotMatch(html, /<script(?![^>]*src=)[^>]*>\s*\S/, 'no inline script');
    assert.doesNotMatch(html, /<style| style=| on[a-z]+="/, 'no inline style');
    assert.match(html, /<section class="operation" id="replaceNote">/);
    for (const asset of assets) {
      assert.doesNotMatch(asset, /^(https?:)?\//, 'relative, for any path of a proxy');
      const response = await fetch(new URL(asset, `${shell.url}${path}`));
      assert.equal(response.status, 200, asset);
      assert.equal(response.headers.get('cache-control'), 'public, max-age=3600', asset);
      assert.equal(response.headers.get('content-encoding'), 'gzip', asset);
      assert.ok((await response.arrayBuffer()).byteLength > 0, asset);
    }
    const described = /<a href="([^"]+)">OpenAPI document</.exec(html)?.[1] ?? '';
    assert.equal(new URL(described, `${shell.url}${path}`).pathname, '/docs/json');
  }
  const json = (await (await fetch(`${shell.url}/docs/json`)).json()) as { info: { title: string } };
  assert.equal(json.info.title, 'Postrider');
  const posted = await fetch(`${shell.url}/docs`, { method: 'POST', body: '{}' });
  assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD']);
  assert.equal(((await posted.json()) as { reasonCode?: string }).reasonCode, 'METHOD_NOT_ALLOWED');
  assert.equal((await fetch(`${shell.url}/docs`, { method: 'HEAD' })).status, 200);
  const nothing = await fetch(`${shell.url}/docs/nothing`);
  assert.equal(nothing.status, 404);
  assert.equal(((await nothing.json()) as { reasonCode?: string }).reasonCode, 'NOT_FOUND');
});
