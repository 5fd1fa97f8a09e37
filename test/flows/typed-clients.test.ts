/**
 * Requests of generated and typed clients: null for absent fields, [] for empty maps, an object sent back with PUT as it was read, and
 * 64-bit integers as template values.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { type Service, startService } from '../kit/start-service.ts';

let service: Service;

before(async () => {
  service = await startService();
  await service.cli('domain', 'add', service.live.accountId, 'x.example', '--verified');
});

after(() => service?.close());

const mail: JsonObject = { from: 'a@x.example', to: 'b@x.example', subject: 'Hi', text: 'Hi' };
const absent: JsonObject = {
  ...mail,
  cc: null,
  html: null,
  templateId: null,
  templateVariables: [],
  headers: [],
  attachments: null,
  attachmentSubmissionId: null,
  tags: null,
  metadata: [],
  sendAt: null,
  expiresAfterSeconds: null,
  requireTls: null,
  listUnsubscribe: null,
};

test('every send endpoint accepts null and [] for absent fields', async () => {
  const api = service.sandboxApi;
  assert.equal((await api.post('/send', absent)).status, 202);
  assert.equal((await api.post('/send?dryRun=true', absent)).status, 200);
  const batch = await api.post('/send/batch', { messages: [absent, mail] });
  assert.equal(batch.status, 200, batch.text);
  assert.deepEqual(
    (batch.body.results as { status: number }[]).map((one) => one.status),
    [202, 202],
    batch.text,
  );
});

test('a GET response can be sent back with PUT', async () => {
  const { api } = service;
  const resources: [list: string, body: JsonObject, id: string][] = [
    ['/templates', { name: 'receipt', subject: 'Hi {{ name }}', html: '<p>Hi</p>' }, 'templateId'],
    ['/webhooks', { url: 'https://example.com/hook', events: ['Delivery'] }, 'webhookId'],
    ['/inbound-routes', { match: '*@x.example' }, 'inboundRouteId'],
  ];
  for (const [list, body, id] of resources) {
    const made = await api.post(list, body);
    assert.equal(made.status, 201, made.text);
    const path = `${list}/${(made.body as JsonObject)[id]}`;
    const shown = await api.get(path);
    const replaced = await api.put(path, shown.body as never);
    assert.equal(replaced.status, 200, replaced.text);
    const still = (await api.get(path)).body as JsonObject;
    const changes = Object.keys(still).filter(
      (name) => JSON.stringify(still[name]) !== JSON.stringify((shown.body as JsonObject)[name]),
    );
    assert.deepEqual(
      changes.filter((name) => !['updatedAt', 'checkedAt', 'version'].includes(name)),
      [],
      path,
    );
    const unknown = await api.put(path, { ...(shown.body as JsonObject), colour: 'red' });
    assert.equal(unknown.status, 400, 'a field that GET does not show is refused');
  }
});

test('integers above 2^53 keep their digits in messages, previews, templates, and batches', async () => {
  const api = service.sandboxApi;
  const id = '7615917337495251231';
  const raw = (path: string, body: string, headers = {}) =>
    fetch(`${service.url}${path}`, {
      method: 'POST',
      headers: {
        'x-api-key': service.sandbox.apiKey,
        'x-id': service.sandbox.accountId,
        'content-type': 'application/json',
        ...headers,
      },
      body,
    });
  const send = `{"from":"a@x.example","to":"b@x.example","subject":"Order {{id}}","text":"{{id}} {{ids | json}}","templateVariables":{"id":${id},"ids":[${id}]}}`;
  const sent = (await (await raw('/send', send)).json()) as { data: { messageId: string } };
  const shown = await api.get(`/messages/${sent.data.messageId}`);
  assert.equal((shown.body as JsonObject).subject, `Order ${id}`);
  const content = await api.get(`/messages/${sent.data.messageId}/content`);
  assert.match(content.text, new RegExp(`${id} \\[${id}\\]`));

  const batch = await raw('/send/batch', `{"messages":[${send}]}`);
  assert.match(await batch.text(), /"status":202/);
  const preview = await raw('/templates/render', `{"text":"{{id}}","templateVariables":{"id":${id}}}`);
  assert.match(await preview.text(), new RegExp(`"text":"${id}"`));

  const declared = `{"name":"big","text":"{{id}}","variables":[{"name":"id","type":"number","default":${id}}]}`;
  const made = await (await raw('/templates', declared)).text();
  assert.match(made, new RegExp(`"default":${id}`), 'the answer');
  const templateId = /"templateId":"(\w+)"/.exec(made)?.[1];
  const rendered = await raw(`/templates/${templateId}/render`, '{}');
  assert.match(await rendered.text(), new RegExp(`"text":"${id}"`));

  const key = { 'idempotency-key': 'digits' };
  const [first, other] = [
    await raw('/send', send, key),
    await raw('/send', send.replaceAll(id, `${id.slice(0, -1)}2`), key),
  ];
  assert.deepEqual(
    [first.status, other.status],
    [202, 422],
    'bodies that differ in the last digit are different bodies',
  );
});
