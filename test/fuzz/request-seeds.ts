/** Creates resources for generated requests to find: in the sandbox (domains live), one or two for each parameter name in a path. */
import assert from 'node:assert/strict';
import type { Api, JsonObject } from '../kit/api.ts';
import { mcpClient } from '../kit/mcp.ts';
import type { Service } from '../kit/start-service.ts';
import { manifestEntry } from '../kit/upload.ts';
import { waitUntil } from '../kit/wait-until.ts';

let unique = 0;

/** A name that is not in use. */
export function uniqueName(): string {
  unique += 1;
  return `name-${unique}`;
}

/** The file that is registered for upload. */
export const FILE = Buffer.alloc(100, 7);
export const FILE_TYPE = 'application/pdf';

export type IdOf = (noun: string, name: string) => string | undefined;

async function made(api: Api, path: string, body: unknown, id: string): Promise<string> {
  const { status, body: answer } = await api.post(path, body);
  assert.ok(status < 300, `${path} answered ${status}: ${JSON.stringify(answer)}`);
  return String(answer.data?.[id] ?? answer[id]);
}

const EMAIL = { from: 'a@shop.example', to: 'ann@example.com', subject: 'Seed', text: 'Code 123456' };
/** Verified, and used by no call. */
export const KEPT_DOMAIN = 'kept.example';
const HOOK = { url: 'https://shop.example/x', events: ['Send'] };

/** Creates what calls look up: ids by resource and parameter name. */
const SEEDS: Record<string, (service: Service) => Promise<string[]>> = {
  'agent-requests/id': async ({ url, live }) => {
    const agent = mcpClient({ url, key: live.apiKey });
    const { structuredContent } = await agent.tool('send_email', { ...EMAIL, to: [EMAIL.to] });
    return [structuredContent.approvalId];
  },
  'api-keys/keyId': async ({ sandboxApi }) => [await made(sandboxApi, '/api-keys', {}, 'keyId')],
  'attachments/submissionId': async ({ sandboxApi }) => [(await registered(sandboxApi)).attachmentSubmissionId],
  'deliveries/deliveryId': async ({ sandboxApi }) => {
    const { body } = await sandboxApi.get('/webhooks?limit=1');
    return [await aDelivery(sandboxApi, body[0].webhookId)];
  },
  'domains/id': async ({ api }) => [(await api.put('/domains', { domain: 'shop.example' })).body.domainId],
  'erasures/id': async ({ sandboxApi }) => [
    await made(sandboxApi, '/recipients/erase', { email: 'erased@example.com' }, 'erasureId'),
  ],
  'inbox/id': async ({ sandboxApi }) => [await delivered(sandboxApi)],
  'attachments/number': async () => ['0', '1', 'x'],
  'inbound/id': async ({ sandboxApi }) => [(await playedIn(sandboxApi)).inboundId],
  'inbound-files/token': async ({ sandboxApi }) => {
    const { content } = (await sandboxApi.get(`/inbound/${(await playedIn(sandboxApi)).inboundId}`)).body;
    return [new URL(content.rawUrl).pathname.split('/').at(-1)!];
  },
  'inbound-routes/id': async ({ sandboxApi }) => {
    // The address of the example must be unused for a change to it.
    const { body } = await sandboxApi.get('/inbound-routes?limit=100');
    for (const { inboundRouteId } of Object.values(body) as JsonObject[])
      await sandboxApi.delete(`/inbound-routes/${inboundRouteId}`);
    return [await made(sandboxApi, '/inbound-routes', { match: `${uniqueName()}@in.shop.example` }, 'inboundRouteId')];
  },
  // Live messages cannot be delivered, and are delayed.
  'incidents/id': async ({ api }) => {
    await made(api, '/send', { ...EMAIL, from: `a@${KEPT_DOMAIN}` }, 'messageId');
    return [await waitUntil('an incident', async () => (await api.get('/incidents')).body[0]?.incidentId)];
  },
  'emails/id': async ({ sandboxApi }) => [await delivered(sandboxApi)],
  'messages/id': async ({ sandboxApi }) => {
    const sendAt = new Date(Date.now() + 3_600_000).toISOString();
    const scheduled = await made(sandboxApi, '/send', { ...EMAIL, sendAt }, 'messageId');
    return [scheduled, await delivered(sandboxApi)];
  },
  'shared/token': async ({ sandboxApi }) => {
    const url = await made(sandboxApi, `/messages/${await delivered(sandboxApi)}/share`, {}, 'url');
    return [new URL(url).hash.slice('#token='.length)];
  },
  'shared/template': async ({ sandboxApi }) => {
    const url = await made(sandboxApi, `/templates/${await template(sandboxApi)}/share`, {}, 'url');
    return [new URL(url).hash.slice('#token='.length)];
  },
  'shares/id': async ({ sandboxApi }) => [
    await made(sandboxApi, `/messages/${await delivered(sandboxApi)}/share`, {}, 'shareId'),
  ],
  'smtp-credentials/id': async ({ sandboxApi }) => [
    await made(sandboxApi, '/smtp-credentials', {}, 'smtpCredentialId'),
  ],
  'suppressions/email': async ({ sandboxApi }) => [
    await made(sandboxApi, '/suppressions', { email: 'gone@example.com' }, 'email'),
  ],
  'template-shares/id': async ({ sandboxApi }) => [
    await made(sandboxApi, `/templates/${await template(sandboxApi)}/share`, {}, 'shareId'),
  ],
  'templates/id': async ({ sandboxApi }) => [await template(sandboxApi)],
  'uploads/token': async ({ sandboxApi }) => {
    const { uploadUrl } = (await registered(sandboxApi)).attachmentUploads[0];
    return [new URL(uploadUrl).pathname.split('/').at(-1)!];
  },
  'versions/version': async () => ['1', '0', '2'],
  'webhooks/id': async ({ sandboxApi }) => [await made(sandboxApi, '/webhooks', HOOK, 'webhookId')],
};

async function playedIn(api: Api): Promise<JsonObject> {
  const to = `${uniqueName()}@in.shop.example`;
  await made(api, '/inbound-routes', { match: to }, 'inboundRouteId');
  const file = { name: 'a.txt', contentType: 'text/plain', content: 'YQ==' };
  const authentication = {
    spf: { result: 'pass' },
    dkim: [{ result: 'fail' }],
    dmarc: { result: 'none' },
    arc: { result: 'none' },
  };
  const mail = { to, from: 'ann@example.com', text: 'hello', attachments: [file], authentication };
  return (await api.post('/sandbox/inbound', mail)).body;
}

function template(api: Api): Promise<string> {
  return made(api, '/templates', { name: uniqueName(), subject: 'x', text: '{{ a }}' }, 'templateId');
}

async function delivered(api: Api): Promise<string> {
  const messageId = await made(api, '/send', EMAIL, 'messageId');
  return waitUntil('the delivery', async () => {
    const { body } = await api.get(`/messages/${messageId}`);
    return body.status === 'delivered' && messageId;
  });
}

async function registered(api: Api): Promise<JsonObject> {
  const entry = manifestEntry(FILE, { contentType: FILE_TYPE });
  return (await api.post('/attachments', { attachments: [entry] })).body;
}

async function aDelivery(api: Api, webhookId: string): Promise<string> {
  await made(api, '/send', EMAIL, 'messageId');
  return waitUntil('a delivery', async () => {
    const { body } = await api.get(`/webhooks/${webhookId}/deliveries`);
    return body[0]?.deliveryId;
  });
}

export const PLACEHOLDER = /([^/]+)\/\{(\w+)\}/g;

/** Creates what a call to this path looks up. */
export async function seed(service: Service, path: string): Promise<IdOf> {
  const ids = new Map<string, string[]>();
  // The recipient of the example's simulated message.
  if (path === '/sandbox/inbound')
    await service.sandboxApi.post('/inbound-routes', { match: 'support@in.shop.example' });
  if (path === '/sandbox/inbox/wait') await delivered(service.sandboxApi);
  // It is sent in a header.
  const named = path.startsWith('/shared/') ? '/shared/{token}' : path;
  for (const [, noun, name] of named.matchAll(PLACEHOLDER)) {
    ids.set(`${noun}/${name}`, (await SEEDS[`${noun}/${name}`]?.(service)) ?? []);
  }
  if (path === '/shared/template') ids.set('shared/token', await SEEDS['shared/template']!(service));
  let asked = -1;
  return (noun, name) => {
    const known = ids.get(`${noun}/${name}`) ?? [];
    asked += 1;
    return known[asked % known.length];
  };
}
