/**
 * Templates, unsubscribing, and tracking through the entire service: a template that is edited while a thousand sends use it, and the
 * recipient's links in the message as it arrived.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import PostalMime from 'postal-mime';
import type { Answer, JsonObject } from '../kit/api.ts';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import type { Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const PERSON = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0';
const SENDS = 1_000;

let sink: SmtpSink;
let service: Service;

before(async () => {
  // Email clients follow List-Unsubscribe over https only; the test calls the path on loopback.
  ({ sink, service } = await openShop({ env: { POSTRIDER_BASE_URL: 'https://mail.shop.example' } }));
});
after(() => closeShop({ sink, service }));

const mail = (extra: JsonObject): JsonObject => ({
  from: 'Shop <orders@shop.example>',
  to: 'ann@example.com',
  ...extra,
});

async function accepted(body: JsonObject): Promise<JsonObject> {
  const answer = await service.api.post('/send', mail(body));
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data;
}

function arrived(to: string) {
  return waitUntil(`the message to ${to}`, () => sink.messages.find((one) => one.to.includes(to)));
}

/** The path of a Postrider link, whatever base URL is configured. */
const pathOf = (link: string): string => new URL(link).pathname;

function follow(method: string, link: string, headers: Record<string, string> = {}, body?: string): Promise<Answer> {
  return service.anonymous.call({ method, path: pathOf(link), headers, ...(body !== undefined && { body }) });
}

function eventsOf(messageId: string, eventType: string): Promise<JsonObject[]> {
  return waitUntil(`${eventType} of ${messageId}`, async () => {
    const { body } = await service.api.get(`/events?messageId=${messageId}&eventType=${eventType}`);
    return (body as unknown as JsonObject[]).length > 0 && (body as unknown as JsonObject[]);
  });
}

const content = (version: number): JsonObject => ({
  name: 'edited',
  subject: `v${version} for {{ n }}`,
  html: `<p>v${version}</p>{% for i in list %}<b>v${version}</b>{% endfor %}`,
  text: `v${version} {{ n }} v${version}`,
});

test('while a template is edited and deleted, each message uses and reports one version', async () => {
  const made = await service.api.post('/templates', content(1));
  assert.equal(made.status, 201, made.text);
  const { templateId } = made.body;
  let version = 1;
  let isDone = false;
  const edit = async (): Promise<void> => {
    while (!isDone) {
      const put = await service.api.put(`/templates/${templateId}`, content(version + 1));
      assert.equal(put.status, 200, put.text);
      version = put.body.version;
    }
  };
  const wrong: string[] = [];
  const sentVersions = new Map<string, number>();
  let next = 0;
  const send = async (): Promise<void> => {
    while (next < SENDS) {
      const n = next;
      next += 1;
      const newest = version;
      const body = mail({ to: `n${n}@example.com`, templateId, templateVariables: { n, list: [1, 2] } });
      const answer = await service.api.post('/send', body);
      if (answer.status !== 202) wrong.push(answer.text);
      else sentVersions.set(`n${n}@example.com`, newest);
    }
  };
  const editing = edit();
  await Promise.all(Array.from({ length: 20 }, send));
  isDone = true;
  await editing;
  assert.deepEqual(wrong, []);
  assert.equal((await service.api.delete(`/templates/${templateId}`)).status, 200);
  const after = await service.api.post('/send', mail({ templateId, templateVariables: { n: 1, list: [] } }));
  assert.equal(after.status, 404, after.text);
  assert.equal(after.body.error.code, 'NOT_FOUND');
  await waitUntil(
    'all messages',
    () => sink.messages.filter((one) => one.to[0]!.startsWith('n')).length >= SENDS,
    60_000,
  );
  const seen = new Set<string>();
  for (const one of sink.messages.filter((message) => message.to[0]!.startsWith('n'))) {
    const { subject, html, text } = await PostalMime.parse(one.content);
    const versions = new Set(`${subject} ${html} ${text}`.match(/v\d+/g));
    assert.equal(versions.size, 1, `${[...versions]}`);
    assert.equal(`${subject}${html}${text}`.match(/v\d+/g)!.length, 6);
    const [used] = versions;
    seen.add(used!);
    const newestBefore = sentVersions.get(one.to[0]!)!;
    assert.ok(Number(used!.slice(1)) >= newestBefore, `${used} was sent after version ${newestBefore} was saved`);
  }
  assert.ok(seen.size > 1, `control: the template did change meanwhile (${seen.size} versions were sent)`);
  const listed = await service.api.get('/messages?limit=100');
  for (const one of (listed.body as unknown as JsonObject[]).filter((message) => message.templateId)) {
    assert.equal(one.templateId, templateId);
    assert.equal(one.subject.split(' ')[0], `v${one.templateVersion}`);
  }
});

test('deleting a template does not affect scheduled messages', async () => {
  const made = await service.api.post('/templates', { name: 'soon gone', subject: 's', text: 'still here {{ x }}' });
  const sendAt = new Date(Date.now() + 3_600_000).toISOString();
  const { messageId } = await accepted({
    to: 'later@example.com',
    templateId: 'soon gone',
    templateVariables: { x: 1 },
    sendAt,
  });
  await service.api.delete(`/templates/${made.body.templateId}`);
  await service.api.patch(`/messages/${messageId}`, { sendAt: new Date(Date.now() + 500).toISOString() });
  const { content: raw } = await arrived('later@example.com');
  assert.match(raw.toString(), /still here 1/);
  const shown = (await service.api.get(`/messages/${messageId}`)).body;
  assert.equal(shown.templateId, made.body.templateId);
  assert.equal(shown.templateVersion, 1);
});

test('batches and dry runs accept templates, and the sandbox shares them', async () => {
  const variables = [{ name: 'code', type: 'string', required: true }];
  await service.api.post('/templates', { name: 'code', subject: 'Code', text: 'Your code is {{ code }}', variables });
  const batch = await service.api.post('/send/batch', {
    messages: [
      mail({ templateId: 'code', templateVariables: { code: '1' } }),
      mail({ templateId: 'code' }),
      mail({ templateId: 'nobody' }),
      mail({ templateId: 'code', templateVariables: { code: 1 } }),
    ],
  });
  assert.deepEqual(
    batch.body.results.map((one: JsonObject) => [one.status, one.error?.code]),
    [
      [202, undefined],
      [400, 'TEMPLATE_VARIABLE_MISSING'],
      [404, 'NOT_FOUND'],
      [400, 'INVALID_REQUEST'],
    ],
  );
  const dry = await service.api.post('/send?dryRun=true', mail({ templateId: 'code' }));
  assert.equal(dry.status, 200, dry.text);
  assert.deepEqual(dry.body.missingVariables, ['code']);
  const box = await service.sandboxApi.post('/send', mail({ templateId: 'code', templateVariables: { code: '4711' } }));
  assert.equal(box.status, 202, box.text);
  const item = await service.sandboxApi.get(`/sandbox/inbox/${box.body.data.messageId}`);
  assert.deepEqual(item.body.codes, ['4711']);
});

test('a recipient unsubscribes on the page linked in the message', async () => {
  const html = '<p>Hi</p>{{ unsubscribe_email_html }}';
  const { messageId } = await accepted({ to: 'off@example.com', subject: 's', html });
  const parsed = await PostalMime.parse((await arrived('off@example.com')).content);
  const link = /href="([^"]+)"/.exec(parsed.html!)![1]!;
  const page = await follow('GET', link);
  assert.equal(page.status, 200);
  assert.match(page.headers['content-type'] ?? '', /^text\/html/);
  assert.match(page.text, /off@example\.com/);
  assert.deepEqual((await service.api.get('/suppressions')).body as unknown, []);
  const done = await follow('POST', link, { 'content-type': 'application/x-www-form-urlencoded' }, '');
  assert.equal(done.status, 200);
  await follow('POST', link, { 'content-type': 'application/x-www-form-urlencoded' }, '');
  const [suppression] = (await service.api.get('/suppressions')).body as unknown as JsonObject[];
  assert.equal(suppression!.email, 'off@example.com');
  assert.equal(suppression!.reason, 'unsubscribe');
  assert.equal(suppression!.sourceMessageId, messageId);
  const events = await eventsOf(messageId, 'Unsubscribe');
  assert.equal(events.length, 1);
  assert.deepEqual(events[0]!.unsubscribe, { method: 'page' });
  assert.equal((await accepted({ to: 'OFF@example.com', subject: 's', text: 't' })).status, 'suppressed');
  assert.equal((await follow('GET', `${link.slice(0, -1)}${link.endsWith('A') ? 'B' : 'A'}`)).status, 404);
});

test('one-click: both headers are present and signed', async () => {
  const { messageId } = await accepted({ to: 'click@example.com', subject: 's', text: 't', listUnsubscribe: true });
  const { content: raw } = await arrived('click@example.com');
  const header = raw.toString().split('\r\n\r\n')[0]!;
  assert.match(header, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r?$/m);
  const signed = [...header.matchAll(/^DKIM-Signature:(?:.*\r\n[ \t])*.*$/gm)].map((match) =>
    match[0].replace(/\s/g, ''),
  );
  assert.equal(signed.length, 1, 'the Ed25519 key of this domain was not looked up');
  for (const signature of signed)
    assert.match(/;h=([^;]+);/.exec(signature)![1]!, /:list-unsubscribe:list-unsubscribe-post:/);
  const link = /^List-Unsubscribe:\s*<([^>]+)>/m.exec(header)![1]!;
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  assert.equal((await follow('POST', link, form, 'List-Unsubscribe=One-Click')).status, 200);
  const [event] = await eventsOf(messageId, 'Unsubscribe');
  assert.deepEqual(event!.unsubscribe, { method: 'one-click' });
  assert.equal(event!.mode, 'live');
});

test('opens and clicks become events, and a tracked link redirects to its target', async () => {
  const target = 'https://shop.test/order?id=17&x=<a>';
  const { messageId } = await accepted({
    to: 'tracked@example.com',
    subject: 's',
    html: '<a href="{{ link }}">order</a>',
    templateVariables: { link: target },
    enableClickTracking: true,
    enableOpenTracking: true,
  });
  await waitUntil(
    'the delivery',
    async () => (await service.api.get(`/messages/${messageId}`)).body.status === 'delivered',
  );
  const parsed = await PostalMime.parse((await arrived('tracked@example.com')).content);
  const [, click, pixel] = /<a href="([^"]+)">order<\/a><img src="([^"]+)"/.exec(parsed.html!)!;
  const redirect = await follow('GET', click!, { 'user-agent': PERSON });
  assert.equal(redirect.status, 302);
  assert.equal(redirect.headers.location, new URL(target).href);
  const picture = await follow('GET', pixel!, { 'user-agent': 'GoogleImageProxy' });
  assert.equal(picture.headers['content-type'], 'image/gif');
  const [clicked] = await eventsOf(messageId, 'Click');
  assert.equal(clicked!.click.url, target);
  assert.equal(clicked!.recipient, 'tracked@example.com');
  const [opened] = await eventsOf(messageId, 'Open');
  assert.equal(opened!.open.machine, true);
  const shown = (await service.api.get(`/messages/${messageId}`)).body;
  assert.equal(shown.status, 'delivered');
  assert.deepEqual(shown.timeline.map((one: JsonObject) => one.eventType).sort(), [
    'Click',
    'Delivery',
    'Open',
    'Send',
  ]);
  assert.equal(
    (
      await follow(
        'GET',
        click!.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
      )
    ).status,
    404,
  );
});
