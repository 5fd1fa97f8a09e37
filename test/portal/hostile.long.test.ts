/**
 * Untrusted text: 150 payloads in subjects, sender names, HTML, texts, file names, metadata, SMTP replies, webhook responses, DNS texts,
 * names of templates, keys, and descriptions, and in unchecked inbound mail. A user views all of it. Checked from outside: another server
 * is never requested, no script runs, no dialog opens.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { JsonObject } from '../kit/api.ts';
import { noBrowser, setFirstPassword, signedIn, startBrowser, type Visit } from '../kit/browser.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { webhookCatcher } from '../kit/webhook-catcher.ts';
import { follow, open } from './every-page.ts';
import { payloads } from './payloads.ts';

/** A server that must not be requested; it returns script, so that it would be noticed if a page ran it. */
async function elsewhere(t: TestContext): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.end('window.hacked = 1');
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

interface World {
  service: Service;
  texts: string[];
  /** Ids of sandbox messages, one for each payload. */
  messageIds: string[];
  /** Ids of inbound messages, one for each payload. */
  inboundIds: string[];
}

async function world(t: TestContext, texts: string[]): Promise<World> {
  let answered = 0;
  const next = (): string => {
    answered += 1;
    return texts[answered % texts.length]!;
  };
  const sink = await smtpSink({ script: { rcpt: () => `550 5.1.1 ${next().slice(0, 400)}` } });
  const catcher = await webhookCatcher();
  catcher.answer(() => ({ status: 500, body: next() }));
  const dns = await fakeDns({ 'shop.example': { TXT: [texts[4]!, `v=spf1 ${texts[0]}`] } });
  const service = await startService({
    env: {
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_DNS_SERVERS: dns.server,
    },
  });
  t.after(async () => {
    await service.close();
    await Promise.all([sink.close(), catcher.close(), dns.close()]);
  });
  await service.cli('domain', 'add', service.live.accountId, 'sender.example', '--verified');
  for (const api of [service.api, service.sandboxApi]) {
    const made = await api.post('/webhooks', {
      url: catcher.url,
      events: ['Bounce', 'Delivery'],
      description: texts[0]!.slice(0, 200),
    });
    assert.equal(made.status, 201, made.text);
  }
  const messageIds = await sendAll(service, texts);
  await nameAll(service, texts);
  return { service, texts, messageIds, inboundIds: await comeIn(service, texts) };
}

const mailOf = (text: string, index: number): JsonObject => ({
  from: `"${text.replace(/["\\]/g, '\\$&')}" <orders@sender.example>`,
  to: `stranger-${index}@example.com`,
  subject: text,
  html: `<p>${text}</p>`,
  text,
  render: false,
  metadata: { note: text.slice(0, 200) },
  attachments: [
    { name: `${text.replace(/[/\\]/g, '.').slice(0, 100)}.txt`, contentType: 'text/plain', content: 'eA==' },
  ],
});

async function sendAll({ api, sandboxApi }: Service, texts: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (let from = 0; from < texts.length; from += 50) {
    const messages = texts.slice(from, from + 50).map((text, index) => mailOf(text, from + index));
    for (const one of [sandboxApi, api]) {
      const { body, text } = await one.post('/send/batch', { messages });
      for (const { status, data, error } of body.results) {
        assert.equal(status, 202, error?.message ?? text);
        if (one === sandboxApi) ids.push(data.messageId);
      }
    }
  }
  await waitUntil('all live mail to bounce', async () => {
    const { body } = await api.get('/messages?status=bounced&limit=100');
    return (body as unknown as JsonObject[]).length === 100;
  });
  return ids;
}

/** A message that no one composes by accident: the payload in every field that is displayed. */
function rawOf(text: string): string {
  const line = text.replace(/[\r\n]+/g, ' ');
  const quoted = line.replace(/["\\]/g, '\\$&');
  const coded = `=?utf-8?b?${Buffer.from(line.slice(0, 300)).toString('base64')}?=`;
  return [
    `From: "${quoted}" <ann@hostile.example>`,
    `Subject: ${coded} ${line}`,
    `Message-ID: <${line.replace(/[<>\s]/g, '')}@hostile.example>`,
    `X-Payload: ${line}`,
    `In-Reply-To: ${line}`,
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain; charset=utf-8',
    '',
    text,
    '',
    'On 1 May 2026 Shop wrote:',
    `> ${line}`,
    '--b',
    'Content-Type: text/html; charset=utf-8',
    '',
    `<p>${text}</p>`,
    '--b',
    `Content-Type: text/html; name="${quoted.slice(0, 100)}"`,
    `Content-Disposition: attachment; filename="${coded}"`,
    `Content-Id: <${line.slice(0, 100)}>`,
    '',
    `<script>${text}</script>`,
    '--b',
    `Content-Type: ${line.slice(0, 40)}`,
    `Content-Transfer-Encoding: ${line.slice(0, 40)}`,
    '',
    text,
    '--b--',
    '',
  ].join('\r\n');
}

async function comeIn({ sandboxApi }: Service, texts: string[]): Promise<string[]> {
  const route = { match: '*@in.shop.example', url: `https://hooks.shop.example/${encodeURIComponent(texts[0]!)}` };
  const made = await sandboxApi.post('/inbound-routes', route);
  const plain = made.status === 201 ? made : await sandboxApi.post('/inbound-routes', { match: route.match });
  assert.equal(plain.status, 201, plain.text);
  const ids: string[] = [];
  for (const [index, text] of texts.entries()) {
    const mail = { to: `stranger-${index}@in.shop.example`, from: 'ann@hostile.example', raw: rawOf(text) };
    const { status, body, text: said } = await sandboxApi.post('/sandbox/inbound', mail);
    assert.equal(status, 201, said);
    ids.push(body.inboundId);
  }
  return ids;
}

/** Fields that colleagues write. Rejected values need no check. */
async function nameAll({ api }: Service, texts: string[]): Promise<void> {
  for (const [index, text] of texts.entries()) {
    await api.post('/api-keys', { mode: 'sandbox', name: text.slice(0, 100) });
    if (index % 10 > 0) continue;
    await api.post('/templates', { name: text.slice(0, 100), subject: 'x', html: `{% raw %}${text}{% endraw %}` });
    await api.post('/approvals', { requestedEmailBytes: 3_000_000 + index, reason: text.slice(0, 200) });
    await api.post('/send', { [text]: 1 });
  }
  await api.post('/domains', { domain: 'shop.example' });
}

/** Opens everything that can be opened on a page: rows with details, SMTP transcripts. */
async function unfold(page: Page): Promise<void> {
  for (const one of (await page.locator('main summary, main [aria-expanded="false"]').all()).slice(0, 6)) {
    await one.click({ timeout: 2_000 }).catch(() => undefined);
    // A menu or dialog that opened over the page.
    await page.keyboard.press('Escape');
  }
}

/** Opens the headers, the source, and the files of a message. */
async function everyTab(page: Page): Promise<void> {
  for (const tab of await page.getByRole('tab').all()) await tab.click({ timeout: 5_000 });
}

/** Asserts what no page may do. */
async function assertHarmless(visit: Visit, at: string): Promise<void> {
  assert.equal(await visit.page.evaluate('window.hacked'), undefined, at);
  assert.deepEqual(
    visit.wrong.filter((one) => !one.startsWith('console:')),
    [],
    at,
  );
}

const AREAS = [
  '',
  '/messages',
  '/events',
  '/incidents',
  '/requests',
  '/suppressions',
  '/templates',
  '/webhooks',
  '/domains',
  '/inbound',
  '/inbound-routes',
];
const MORE = ['/keys', '/usage', '/approvals', '/team', '/audit', '/settings', '/start'];
const OPERATOR = ['', '/accounts', '/approvals', '/nodes', '/audit'].map((one) => `/app/operator${one}`);

async function idsOf({ api }: Service): Promise<string[]> {
  const list = async (path: string): Promise<JsonObject[]> => (await api.get(path)).body as unknown as JsonObject[];
  const [messages, webhooks, domains, templates, incidents] = await Promise.all(
    ['/messages?limit=20', '/webhooks', '/domains', '/templates', '/incidents'].map(list),
  );
  return [
    ...messages!.map(({ messageId }) => `/app/live/messages/${messageId}`),
    ...webhooks!.map(({ webhookId }) => `/app/live/webhooks/${webhookId}`),
    ...domains!.map(({ domainId }) => `/app/live/domains/${domainId}`),
    ...templates!.slice(0, 5).map(({ templateId }) => `/app/live/templates/${templateId}`),
    ...incidents!.slice(0, 5).map(({ incidentId }) => `/app/live/incidents/${incidentId}`),
  ];
}

test('untrusted text is rendered as text on every page', { skip: noBrowser(), timeout: 890_000 }, async (t) => {
  const other = await elsewhere(t);
  const texts = payloads(other.url);
  assert.equal(texts.length, 150);
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const { service, messageIds, inboundIds } = await world(t, texts);
  await setFirstPassword(service);
  const visit = await signedIn(t, visitors, service);
  visit.page.on('dialog', (dialog) => {
    visit.wrong.push(`opened a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  const lists = ['/app/live', '/app/sandbox'].flatMap((base) => [...AREAS, ...MORE].map((one) => base + one));
  const mails = messageIds.map((id) => `/app/sandbox/inbox/${id}`);
  await open(visit.page, '/app/sandbox/statistics');
  for (const at of [...lists, ...OPERATOR, ...(await idsOf(service))]) {
    await follow(visit.page, at);
    await unfold(visit.page);
    await assertHarmless(visit, at);
  }
  for (const at of mails) {
    await follow(visit.page, at);
    await assertHarmless(visit, at);
  }
  // The list has displayed all of them.
  for (const id of inboundIds.filter((_, index) => index % 5 === 0)) {
    const at = `/app/sandbox/inbound/${id}`;
    await follow(visit.page, at);
    await everyTab(visit.page);
    await assertHarmless(visit, at);
  }
  assert.deepEqual(other.asked, [], 'nothing was requested');
});

test('control: a page that renders it as HTML executes it and loads remote content', {
  skip: noBrowser(),
}, async (t) => {
  const other = await elsewhere(t);
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const visit = await visitors.visit(other.url);
  t.after(() => visit.close());
  for (const text of payloads(other.url).slice(0, 30)) await visit.page.setContent(`<p>${text}</p>`);
  await waitUntil('requests', () => other.asked.includes('/pixel.png') && other.asked.includes('/ran'));
});
