/**
 * Mail submitted over SMTP to the entire service: the same intake, limits, events, and sandbox as over HTTP, and messages are sent as
 * submitted.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import PostalMime from 'postal-mime';
import type { JsonObject } from '../kit/api.ts';
import { PERSON } from '../kit/recipient-pages.ts';
import { notAllowed } from '../kit/requirements.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker, plainResponse, type Talker } from '../kit/smtp-talker.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const SENDER = 'shop@shop.example';
let sink: SmtpSink;
let service: Service;

before(async () => {
  sink = await smtpSink();
  service = await startService({
    env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_RATE_LIMIT: '200' },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});

after(async () => {
  await service?.close();
  await sink?.close();
});

interface Credential {
  username: string;
  password: string;
}

async function open(credential: Credential = service.smtpCredential): Promise<Talker> {
  const talker = await connectTalker(service.smtpPort);
  assert.match(await talker.reply(), /^220 postrider\.test ESMTP/);
  await talker.logIn(credential);
  return talker;
}

async function submit(talker: Talker, content: string, to: string[], from = SENDER): Promise<string> {
  talker.send(`MAIL FROM:<${from}>\r\n${to.map((one) => `RCPT TO:<${one}>\r\n`).join('')}DATA\r\n`);
  for (let i = 0; i < to.length + 2; i += 1) assert.match(await talker.reply(), /^(250|354) /);
  talker.send(`${content}.\r\n`);
  return talker.reply();
}

const idOf = (reply: string): string => {
  const found = /^250 2\.0\.0 queued as (msg_\w+)$/.exec(reply);
  assert.ok(found, reply);
  return found[1]!;
};

const messageOf = async (id: string, api = service.api): Promise<JsonObject> => (await api.get(`/messages/${id}`)).body;

test('relays a message unchanged with a Received header, for each envelope recipient', async () => {
  const talker = await open();
  const content = [
    'X-Odd-Order: first',
    `From: "Shop, Inc." <${SENDER}>`,
    'To: Ann <ann@example.com>',
    'Cc: Carl <carl@example.com>',
    'Bcc: secret@example.com',
    'Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=',
    'Date: Fri, 20 Nov 2026 08:00:00 +0100',
    'Message-ID: <own-1@client.shop.example>',
    'X-Postrider-Tag: order',
    'X-Postrider-Metadata-orderId: 17',
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    '',
    'Thank you.',
    '..and a dot',
    '',
  ].join('\r\n');
  const reply = await submit(talker, content, ['ann@example.com', 'carl@example.com', 'blind@example.com']);
  const id = idOf(reply);
  await waitUntil('three copies', () => sink.messages.flatMap((one) => one.to).length >= 3);
  const first = await messageOf(id);
  assert.deepEqual([first.to, first.role, first.subject, first.mode], ['ann@example.com', 'to', 'Grüße', 'live']);
  assert.deepEqual([first.tags, first.metadata], [['order'], { orderId: '17' }]);
  const all = (await service.api.get('/messages?tag=order')).body as unknown as JsonObject[];
  const roles = Object.fromEntries(all.map((one) => [one.to, one.role]));
  assert.deepEqual(roles, { 'ann@example.com': 'to', 'carl@example.com': 'cc', 'blind@example.com': 'bcc' });
  const copies = sink.messages.filter((one) => one.content.includes('own-1@client.shop.example'));
  for (const copy of copies) {
    const text = copy.content.toString('latin1');
    assert.match(
      text,
      /^Received: from client\.example \(\[127\.0\.0\.1\]\)\r\n by postrider\.test \(Postrider\) with ESMTPSA id msg_\w+;\r\n /,
    );
    assert.ok(!/^(Bcc|X-Postrider)/im.test(text) && !text.includes('secret@') && !text.includes('blind@'));
    const kept = text.slice(text.indexOf('X-Odd-Order'));
    assert.ok(kept.startsWith('X-Odd-Order: first\r\nFrom: "Shop, Inc."'));
    assert.ok(kept.endsWith('\r\n\r\nThank you.\r\n.and a dot\r\n'));
    assert.ok(text.includes('DKIM-Signature: '));
  }
  assert.deepEqual(sink.violations, []);
  await waitUntil('the delivery', async () => (await messageOf(id)).status === 'delivered');
  const events = (await service.api.get(`/events?messageId=${id}`)).body as unknown as JsonObject[];
  assert.deepEqual(events.map((one) => one.eventType).sort(), ['Delivery', 'Send']);
  const raw = await service.api.get(`/messages/${id}/content`);
  assert.ok(raw.text.includes('X-Odd-Order: first'));
  talker.destroy();
});

test('credentials: created with the API and CLI, listed, and revoked; not on the free plan', async () => {
  const made = await service.api.post('/smtp-credentials', { mode: 'sandbox' });
  assert.equal(made.status, 201, made.text);
  const { smtpCredentialId, username, password } = made.body;
  assert.match(smtpCredentialId, /^smtp_/);
  assert.ok(username && password && made.body.mode === 'sandbox');
  const listed = (await service.api.get('/smtp-credentials')).body as unknown as JsonObject[];
  assert.deepEqual(listed[0], {
    smtpCredentialId,
    username,
    mode: 'sandbox',
    allowedSenders: [],
    allowedNetworks: [],
    createdAt: made.body.createdAt,
    expiresAt: null,
    lastUsedAt: null,
    lastUsedAddress: null,
    deliveryReports: 'off',
  });
  assert.ok(!JSON.stringify(listed).includes(password));
  const talker = await open({ username, password });
  const byCommand = await service.cli('smtp-credential', 'create', service.live.accountId, '--mode', 'sandbox');
  assert.deepEqual(Object.keys(byCommand).sort(), ['password', 'smtpCredentialId', 'username']);
  (await open(byCommand as unknown as Credential)).destroy();

  // A message just now, so that the cached credential is fresh.
  assert.match(await talker.say(`MAIL FROM:<${SENDER}>`), /^250 /);
  assert.match(await talker.say('RSET'), /^250 /);
  assert.equal((await service.api.delete(`/smtp-credentials/${smtpCredentialId}`)).status, 200);
  assert.match(await talker.say(`MAIL FROM:<${SENDER}>`), /^535 5\.7\.8 /);
  const again = await connectTalker(service.smtpPort);
  await again.reply();
  await assert.rejects(again.logIn({ username, password }), /received 535 5\.7\.8 /);
  again.destroy();
  assert.match(await talker.say(`AUTH PLAIN ${plainResponse({ username, password })}`), /^535 5\.7\.8 /);
  talker.destroy();
  assert.equal((await service.api.delete(`/smtp-credentials/${smtpCredentialId}`)).status, 404);
  assert.equal((await service.api.post('/smtp-credentials', { mode: 'other' })).status, 400);

  const free = await service.cli('account', 'create', '--name', 'Free', '--plan', 'free');
  const headers = { 'x-api-key': String(free.apiKey), 'x-id': String(free.accountId) };
  const refused = await service.anonymous.call({ method: 'POST', path: '/smtp-credentials', body: {}, headers });
  assert.deepEqual([refused.status, refused.body.error.code], [403, 'PLAN_NOT_ELIGIBLE']);
  await assert.rejects(service.cli('smtp-credential', 'create', String(free.accountId)), /plan/);
});

test('sandbox: any sender, simulated outcomes, the inbox, and no delivery', async () => {
  const credential = await service.cli('smtp-credential', 'create', service.live.accountId, '--mode', 'sandbox');
  const talker = await open(credential as unknown as Credential);
  const before = sink.messages.length;
  const content =
    'From: any@where.example\r\nTo: bounced@example.com\r\nSubject: Code 4711\r\n\r\nYour code is 4711\r\n';
  const id = idOf(await submit(talker, content, ['bounced@example.com', 'ann@example.com'], 'any@where.example'));
  await waitUntil('the outcome', async () => (await messageOf(id, service.sandboxApi)).status === 'bounced');
  const item = await waitUntil('the item in the inbox', async () => {
    const items = (await service.sandboxApi.get('/sandbox/inbox')).body as unknown as JsonObject[];
    return items.find((one) => one.to === 'ann@example.com' && one.outcome === 'Delivered');
  });
  assert.equal(item.subject, 'Code 4711');
  const complaint = content.replace('Subject', 'X-Sandbox-Outcome: complained\r\nSubject');
  const complained = idOf(await submit(talker, complaint, ['bob@example.com'], 'any@where.example'));
  await waitUntil(
    'the complaint',
    async () => (await messageOf(complained, service.sandboxApi)).status === 'complained',
  );
  assert.equal(sink.messages.length, before);
  const { body: clock } = await service.sandboxApi.post('/sandbox/clock/advance', { seconds: 40 * 86_400 });
  const dated = idOf(await submit(talker, content, ['late@example.com'], 'any@where.example'));
  const { body: shown } = await service.sandboxApi.get(`/sandbox/inbox/${dated}`);
  const written = Date.parse(String((shown.headers as JsonObject).date ?? (shown.headers as JsonObject).Date));
  assert.ok(
    Math.abs(written - Date.parse(String(clock.now))) < 60_000,
    `the Date is by the sandbox's clock: ${JSON.stringify(shown.headers)}`,
  );
  talker.destroy();
});

test('an idempotency key in the message deduplicates retries, even in another session', async () => {
  const content = `From: ${SENDER}\r\nIdempotency-Key: order-99\r\nSubject: once\r\n\r\nonce\r\n`;
  const talker = await open();
  const first = idOf(await submit(talker, content, ['once@example.com']));
  talker.destroy();
  const again = await open();
  const dated = content.replace('Subject', 'Date: Fri, 20 Nov 2026 08:00:00 +0100\r\nSubject');
  assert.equal(idOf(await submit(again, dated, ['once@example.com'])), first);
  assert.match(await submit(again, content.replace('\r\nonce', '\r\ntwice'), ['once@example.com']), /^550 5\.6\.0 /);
  await waitUntil('the delivery', async () => (await messageOf(first)).status === 'delivered');
  const copies = sink.messages.filter((one) => one.content.includes('Subject: once'));
  assert.equal(copies.length, 1);
  assert.ok(!copies[0]!.content.includes('Idempotency-Key'));
  again.destroy();
});

test('a suppressed recipient has an id and gets no message', async () => {
  assert.equal((await service.api.post('/suppressions', { email: 'never@example.com' })).status, 201);
  const talker = await open();
  const id = idOf(await submit(talker, `From: ${SENDER}\r\n\r\nx\r\n`, ['Never@example.com']));
  assert.equal((await messageOf(id)).status, 'suppressed');
  talker.destroy();
});

test('X-Postrider-Track: each copy has its own links and pixel, and using them creates events', async () => {
  const talker = await open();
  const html = '<p>Gr=C3=BC=C3=9Fe</p><a href=3D"https://shop.example/orders?a=3D1&amp;b=3D2">your order</a>';
  const content = [
    `From: ${SENDER}`,
    'Subject: tracked',
    'X-Postrider-Track: opens, clicks',
    'MIME-Version: 1.0',
    'Content-Type: multipart/alternative; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain; charset=utf-8',
    '',
    'https://shop.example/orders?a=1&b=2',
    '--b',
    'Content-Type: text/html; charset=utf-8',
    'Content-Transfer-Encoding: quoted-printable',
    '',
    html,
    '--b--',
    '',
  ].join('\r\n');
  const id = idOf(await submit(talker, content, ['open@example.com', 'other@example.com']));
  const copies = await waitUntil('both copies', () => {
    const found = sink.messages.filter((one) => one.content.includes('Subject: tracked'));
    return found.length === 2 && found;
  });
  const mails = await Promise.all(copies.map((one) => PostalMime.parse(one.content)));
  const mine = mails[copies.findIndex((one) => one.to.includes('open@example.com'))]!;
  const pattern =
    /^<p>Grüße<\/p><a href="(http:[^"]+\/t\/[\w.-]+)">your order<\/a><img src="(http:[^"]+\/t\/[\w.-]+)" width="1"[^>]*>\s*$/;
  const [, click, pixel] = pattern.exec(mine.html ?? '') ?? assert.fail(mine.html);
  assert.equal(mine.text?.trim(), 'https://shop.example/orders?a=1&b=2');
  assert.notEqual(mails[0]!.html, mails[1]!.html);
  const text = copies[0]!.content.toString('latin1');
  assert.ok(!/^X-Postrider/im.test(text) && text.includes('<p>Gr=C3=BC=C3=9Fe</p><a href=3D"http'), text);
  await waitUntil('the delivery', async () => (await messageOf(id)).status === 'delivered');
  const follow = async (link: string): Promise<Response> => {
    const headers = { 'user-agent': PERSON };
    const at = new URL(service.url);
    const target = new URL(link);
    assert.equal(target.port, at.port, 'links point to this service');
    target.hostname = at.hostname;
    return fetch(target, { headers, redirect: 'manual' });
  };
  const answer = await follow(click!);
  assert.deepEqual([answer.status, answer.headers.get('location')], [302, 'https://shop.example/orders?a=1&b=2']);
  assert.equal((await follow(pixel!)).status, 200);
  const events = await waitUntil('the events', async () => {
    const found = (await service.api.get(`/events?messageId=${id}`)).body as unknown as JsonObject[];
    return found.some((one) => one.eventType === 'Open') && found.some((one) => one.eventType === 'Click') && found;
  });
  const clicked = events.find((one) => one.eventType === 'Click')!;
  assert.equal(clicked.click.url, 'https://shop.example/orders?a=1&b=2');
  assert.equal(clicked.recipient, 'open@example.com');
  const wrong = content.replace('opens, clicks', 'everything');
  assert.match(
    await submit(talker, wrong, ['open@example.com']),
    /^550 5\.6\.0 X-Postrider-Track: everything is not valid/,
  );
  talker.destroy();
});

test('metrics count sessions, logins, and messages by source', async () => {
  const talker = await open();
  assert.match(await talker.say('RSET'), /^250 /);
  const guest = await connectTalker(service.smtpPort);
  await guest.reply();
  await guest.secure();
  await guest.say(`AUTH PLAIN ${plainResponse({ username: 'smtp_x', password: 'y' })}`);
  const { text } = await service.anonymous.get('/metrics');
  const value = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
  assert.ok(value('postrider_messages_accepted_by_source_total\\{source="smtp"\\}') >= 5, text.slice(0, 500));
  assert.ok(value('postrider_smtp_sessions_total') >= 2);
  assert.ok(value('postrider_smtp_sessions_open') >= 2);
  assert.ok(value('postrider_smtp_auth_failures_total') >= 2);
  guest.destroy();
  talker.destroy();
});

test('the rate limit applies to a credential as to a key', async () => {
  const talker = await open();
  let limited = '';
  // Rejected commands cost no message but count toward the rate: 200 per second are allowed.
  for (let i = 0; i < 190 && limited === ''; i += 1) {
    talker.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<r@example.com>\r\nDATA\r\n`);
    const [mail] = [await talker.reply(), await talker.reply(), await talker.reply()];
    if (mail.startsWith('451 4.7.0')) limited = mail;
    else {
      talker.send(`From: ${SENDER}\r\n\r\nx\r\n.\r\n`);
      assert.match(await talker.reply(), /^250 /);
    }
  }
  talker.destroy();
  const crowd = await Promise.all(Array.from({ length: 10 }, () => open()));
  const replies = await Promise.all(
    crowd.map(async (one) => {
      const heard: string[] = [];
      for (let i = 0; i < 60; i += 1) one.send(`MAIL FROM:<${SENDER}>\r\nRSET\r\n`);
      for (let i = 0; i < 60; i += 1) {
        heard.push(await one.reply());
        await one.reply();
      }
      one.destroy();
      return heard;
    }),
  );
  const refused = replies.flat().filter((reply) => reply.startsWith('451 4.7.0 '));
  // Each pause of the machine refills the credit.
  assert.ok(refused.length > 0, `${refused.length} of 600 were refused`);
});

test('the port is announced, and a port in use stops the start with one line', async (t) => {
  const announced = JSON.parse(readFileSync(path.join(service.dataDir, 'serving.json'), 'utf8')) as JsonObject;
  assert.equal(announced.smtpPort, service.smtpPort);
  const { smtp } = (await service.api.get('/account')).body;
  assert.deepEqual([smtp.port, smtp.tlsPort], [service.smtpPort, null]);
  await waitUntil('the port in the log', () => service.log.includes(`"smtpPort":${service.smtpPort}`));
  const taken = net.createServer();
  await new Promise<void>((resolve) => taken.listen(0, resolve));
  t.after(() => taken.close());
  const { port } = taken.address() as net.AddressInfo;
  const env = { POSTRIDER_SMTP_PORT: String(port) };
  await assert.rejects(startService({ env }), new RegExp(`POSTRIDER_SMTP_PORT="${port}" is in use`));
  const wrong = { POSTRIDER_SMTP_TLS_CERT: '/nowhere/cert.pem', POSTRIDER_SMTP_TLS_KEY: '/nowhere/key.pem' };
  await assert.rejects(startService({ env: wrong }), /POSTRIDER_SMTP_TLS_CERT="\/nowhere\/cert\.pem"/);
  const unserved = await runCommand(['serve'], { dataDir: service.dataDir, env: { POSTRIDER_SMTP_PORT: 'x' } });
  assert.match(unserved.stderr, /^postrider: POSTRIDER_SMTP_PORT="x" is not valid; allowed: a port/m);
});

const mayNotUnshare = notAllowed('make a network of its own', () =>
  execFileSync('unshare', ['-n', 'true'], { stdio: 'pipe' }),
);

test('the default port is 587, or 2587 if it is in use', { skip: mayNotUnshare }, async () => {
  // In a separate network namespace no one else uses these ports.
  const options = {
    wrapper: ['unshare', '-n', 'sh', '-c', 'ip link set lo up; exec "$@"', 'sh'],
    env: { POSTRIDER_SMTP_PORT: '' },
  };
  const free = await startService(options);
  assert.equal(free.smtpPort, 587);
  await free.close();
  const occupant = `${process.execPath} -e 'require("net").createServer().listen(587)'`;
  // Port 587 in the kernel's list of sockets; the process that uses it ends with the service.
  const occupied = `ip link set lo up; ${occupant} & until grep -q :024B /proc/net/tcp6; do :; done; "$@"; kill $!`;
  const second = await startService({ ...options, wrapper: ['unshare', '-n', 'sh', '-c', occupied, 'sh'] });
  assert.equal(second.smtpPort, 2587);
  await second.close();
});
