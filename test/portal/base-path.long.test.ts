/**
 * The portal at a base URL with a path, in a browser: behind a proxy that strips the path, and behind one that keeps it. Every request of
 * the browser is below the path, even after reloading a nested page. All pages are opened behind the first one. Their requests are then
 * repeated as the second one would send them.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { noBrowser, PASSWORD, setFirstPassword, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { everyPage, load, open, SEED_ENV, seed } from './every-page.ts';

const BASE = '/tools/mail';
/** One of this many pages is loaded by its own URL. */
const LOADED_EVERY = 8;

interface Proxy {
  url: string;
  to: string;
  /** Requests outside the path. */
  outside: string[];
  /** Headers of the GET requests below the path, by target. */
  asked: Map<string, http.IncomingHttpHeaders>;
}

/** The target without the path. */
const stripped = (target: string): string => target.slice(BASE.length) || '/';

/** A proxy on a free port; its target is set later. */
async function startProxy(t: TestContext, { strips }: { strips: boolean }): Promise<Proxy> {
  const proxy: Proxy = { url: '', to: '', outside: [], asked: new Map() };
  const server = http.createServer((request, response) => {
    const target = request.url ?? '/';
    if (target !== BASE && !target.startsWith(`${BASE}/`)) {
      proxy.outside.push(target);
      response.writeHead(404).end();
      return;
    }
    const { method, headers } = request;
    if (method === 'GET') proxy.asked.set(target, headers);
    const onward = http.request(proxy.to + (strips ? stripped(target) : target), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${BASE}`;
  return proxy;
}

async function behind(t: TestContext, options: { strips: boolean }): Promise<{ proxy: Proxy; service: Service }> {
  const proxy = await startProxy(t, options);
  const service = await startService({ env: { ...SEED_ENV, POSTRIDER_BASE_URL: proxy.url } });
  t.after(() => service.close());
  proxy.to = service.url;
  return { proxy, service };
}

/** Returns the status and type of a response, whose body may be a stream without an end. */
function statusOf(url: string, headers: http.IncomingHttpHeaders): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = http.get(url, { headers }, (answer) => {
      resolve(`${answer.statusCode} ${answer.headers['content-type']}`);
      request.destroy();
    });
    request.on('error', reject);
  });
}

async function assertSameWithPath({ to, asked }: Proxy): Promise<void> {
  assert.ok(asked.size > 100, `${asked.size} requests`);
  for (const [target, headers] of asked) {
    const [without, withPath] = [await statusOf(to + stripped(target), headers), await statusOf(to + target, headers)];
    assert.equal(withPath, without, target);
  }
}

for (const strips of [true, false]) {
  test(`${strips ? 'every page works' : 'pages work'} below a path, behind a proxy that ${strips ? 'strips' : 'leaves'} it`, {
    skip: noBrowser(),
    timeout: 590_000,
  }, async (t) => {
    const visitors = await startBrowser();
    t.after(() => visitors.close());
    const { proxy, service } = await behind(t, { strips });
    const credentials = await setFirstPassword(service);
    const visit = await visitors.visit(proxy.url);
    t.after(() => visit.close());
    const { page } = visit;

    await page.goto(`${proxy.url}/`);
    await page.waitForURL(`${proxy.url}/sign-in`);
    await page.getByRole('textbox', { name: 'Email' }).fill(credentials.email);
    await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.waitForURL(`${proxy.url}/app/live`);
    const [cookie] = (await visit.context.cookies()).filter(({ name }) => name === 'postrider_session');
    assert.equal(cookie?.path, BASE);

    await page.getByRole('link', { name: 'Suppressions' }).click();
    await page.waitForURL(`${proxy.url}/app/live/suppressions`);
    await page.reload();
    await page.getByRole('heading', { name: 'Suppressions', level: 1 }).waitFor();
    for (const [index, at] of everyPage(await seed(service)).entries()) {
      const isLoaded = index % LOADED_EVERY === 0;
      if (!isLoaded && !strips) continue;
      await (isLoaded ? load : open)(page, `${proxy.url}${at}`);
      assert.ok(new URL(page.url()).pathname.startsWith(`${BASE}/`), page.url());
    }
    await page.goto(`${proxy.url}/docs`);
    await page.locator('#sendEmail .tabs').waitFor();
    assert.equal(await page.locator('.server').textContent(), proxy.url);
    assert.deepEqual(proxy.outside, []);
    visit.assertClean();
    if (strips) await assertSameWithPath(proxy);
  });
}

test('URLs that the service returns include the path', async (t) => {
  const { proxy, service } = await behind(t, { strips: true });
  const { apiKey, accountId } = service.sandbox;
  const headers = { 'X-Api-Key': apiKey, 'X-Id': accountId };
  const ask = (at: string, init: RequestInit = {}) =>
    fetch(`${proxy.url}${at}`, {
      ...init,
      headers: {
        ...headers,
        ...(init.body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(init.headers as object),
      },
    });
  const send = (body: JsonObject) => ask('/send', { method: 'POST', body: JSON.stringify(body) });
  const mail = { from: 'shop@shop.example', subject: 'Order', listUnsubscribe: true };
  for (const to of ['ann@example.com', 'ben@example.com'])
    assert.equal(
      (await send({ ...mail, to, html: '<p><a href="{{unsubscribe_email_html}}">x</a></p>', render: true })).status,
      202,
    );

  const first = await ask('/messages?limit=1');
  const next = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link') ?? '')?.[1] ?? '';
  const second = await fetch(new URL(next, first.url), { headers });
  assert.equal(second.status, 200, next);
  const rows = [...((await first.json()) as JsonObject[]), ...((await second.json()) as JsonObject[])];
  assert.equal(new Set(rows.map(({ messageId }) => messageId)).size, 2, 'the second page is another');

  const registered = await ask('/attachments', {
    method: 'POST',
    headers: { 'Idempotency-Key': 'k1' },
    body: JSON.stringify({
      attachments: [
        {
          name: 'a.txt',
          contentType: 'text/plain',
          sizeBytes: 1,
          sha256: 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb',
        },
      ],
    }),
  });
  assert.equal(registered.status, 201);
  const [upload] = ((await registered.json()) as JsonObject).attachmentUploads;
  assert.ok(upload.uploadUrl.startsWith(`${proxy.url}/`), upload.uploadUrl);
  assert.equal(
    (await fetch(upload.uploadUrl, { method: 'PUT', headers: upload.requiredHeaders, body: 'a' })).status,
    200,
  );

  const [item] = (await (await ask('/sandbox/inbox?limit=1')).json()) as JsonObject[];
  const raw = await (await ask(`/messages/${item!.messageId}/content`)).text();
  const unsubscribe = /<(http:[^>]+)>/.exec(raw.replace(/\r\n[ \t]/g, ''))?.[1] ?? '';
  assert.ok(unsubscribe.startsWith(`${proxy.url}/`), raw);
  assert.equal((await fetch(unsubscribe)).status, 200);
  const openapi = (await (await ask('/openapi.json')).json()) as JsonObject;
  assert.deepEqual(openapi.servers, [{ url: proxy.url }]);
  assert.deepEqual(proxy.outside, []);
});
