/**
 * Debian's Postfix as the receiving server: its mailboxes have our messages byte for byte below its own trace headers, over TLS, with
 * several recipients per transaction, and its rejections cause the right outcome.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import PostalMime from 'postal-mime';
import type { JsonObject } from '../kit/api.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { missing } from '../kit/requirements.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type PrivatePostfix, startPostfix } from './private-postfix.ts';

const DOMAIN = 'mailboxes.example';
const skip = missing('postfix', 'openssl') || (process.getuid?.() === 0 ? false : 'a private Postfix needs root');
let postfix: PrivatePostfix;
let service: Service;
let dns: FakeDns;

before(async () => {
  if (skip) return;
  postfix = await startPostfix({ domain: DOMAIN, users: ['ann', 'bob', 'cleo', 'dan'] });
  dns = await fakeDns();
  const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${postfix.port}`, POSTRIDER_DNS_SERVERS: dns.server };
  service = await startService({ env });
  const { domainId } = await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  // Both keys are published, so that messages have both signatures.
  const { body: records } = await service.api.get(`/domains/${domainId}/dns-records`);
  for (const one of records as unknown as JsonObject[]) {
    if (one.purpose === 'dkim') dns.zone[one.name] = { TXT: [one.value] };
  }
  assert.equal((await service.api.post(`/domains/${domainId}/verify`)).body.success, true);
});

after(async () => {
  await service?.close();
  postfix?.stop();
  await dns?.close();
});

async function send(extra: JsonObject): Promise<JsonObject> {
  const body = { from: 'Shop <orders@shop.example>', subject: 'Order', text: 'Thank you\n', ...extra };
  const answer = await service.api.post('/send', body);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data;
}

function settled(messageId: string, status: string): Promise<JsonObject> {
  return waitUntil(`${messageId} to be ${status}`, async () => {
    const { body } = await service.api.get(`/messages/${messageId}`);
    return body.status === status && body;
  });
}

/** Postfix stores lines with LF; they were transferred with CRLF. */
const wire = (stored: Buffer): string => stored.toString('latin1').replaceAll('\n', '\r\n');

function onlyMail(user: string): Promise<Buffer> {
  return waitUntil(`the message for ${user}`, () => postfix.mailbox(user)[0]);
}

test('a message with all features arrives byte for byte with valid signatures', { skip }, async () => {
  const file = Buffer.from(Array.from({ length: 100_000 }, (_, index) => (index * 31 + (index >> 7)) & 0xff));
  const picture = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
  const { messageId } = await send({
    to: `ann@${DOMAIN}`,
    subject: 'Bestellung für Zoë ✓',
    text: 'From the shop\n.\n..two dots\nZażółć\n',
    html: '<p>Zażółć <img src="cid:logo"></p>',
    attachments: [
      { name: 'Rechnung für Zoë.bin', contentType: 'application/octet-stream', content: file.toString('base64') },
      { name: 'logo.png', contentType: 'image/png', content: picture.toString('base64'), contentId: 'logo' },
    ],
  });
  const message = await settled(messageId, 'delivered');
  const stored = await onlyMail('ann');
  const received = wire(stored);

  const { text: content } = await service.api.get(`/messages/${messageId}/content`);
  const composed = Buffer.from(content, 'utf8').toString('latin1');
  assert.ok(received.endsWith(composed), 'the mailbox has the composed message');
  const added = received.slice(0, received.length - composed.length).split(/\r\n(?![ \t])/);
  const names = new Set(added.filter(Boolean).map((line) => line.slice(0, line.indexOf(':')).toLowerCase()));
  for (const name of names) {
    assert.ok(['return-path', 'x-original-to', 'delivered-to', 'received', 'dkim-signature'].includes(name), name);
  }
  assert.match(received, /^Return-Path: <orders@shop\.example>/m);

  const parsed = await PostalMime.parse(stored);
  assert.equal(parsed.subject, 'Bestellung für Zoë ✓');
  const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
  const digests = parsed.attachments.map(
    (one) => `${one.filename} ${sha256(new Uint8Array(one.content as ArrayBuffer))}`,
  );
  assert.deepEqual(digests.sort(), [`Rechnung für Zoë.bin ${sha256(file)}`, `logo.png ${sha256(picture)}`].sort());
  assert.equal(parsed.attachments.find((one) => one.filename === 'logo.png')?.contentId, '<logo>');

  const domains = (await service.api.get('/domains')).body as unknown as JsonObject[];
  const records = (await service.api.get(`/domains/${domains[0]!.domainId}/dns-records`))
    .body as unknown as JsonObject[];
  const resolver = async (name: string) =>
    records.filter((one) => one.type === 'TXT' && one.name === name).map((one) => [one.value]);
  const { results } = await dkimVerify(Buffer.from(received, 'latin1'), { resolver });
  assert.deepEqual(
    results.map((one: JsonObject) => one.status.result),
    ['pass', 'pass'],
  );
  assert.equal(message.attempts[0].tls, 'TLSv1.3', 'opportunistic TLS was used');
  assert.match(received, /using TLSv1\.3/);
});

test('recipients of one message share a transaction and have their own outcomes', { skip }, async () => {
  const data = await send({ to: [`bob@${DOMAIN}`, `cleo@${DOMAIN}`], bcc: `nobody@${DOMAIN}`, subject: 'Shared' });
  const [bob, cleo, nobody] = data.recipients.map((one: JsonObject) => one.messageId);
  await settled(bob, 'delivered');
  await settled(cleo, 'delivered');
  const bounced = await settled(nobody, 'bounced');
  const { bounce } = bounced.timeline.find((one: JsonObject) => one.eventType === 'Bounce');
  assert.deepEqual(
    { kind: bounce.kind, category: bounce.category, smtpCode: bounce.smtpCode, suppressed: bounce.suppressed },
    { kind: 'hard', category: 'mailbox-not-found', smtpCode: 550, suppressed: true },
  );
  assert.match(bounce.reply, /User unknown/);
  const one = wire(await onlyMail('bob'));
  const other = wire(await onlyMail('cleo'));
  const queueId = (text: string): string | undefined => /ESMTPS? id ([0-9A-Za-z]+)/.exec(text)?.[1];
  assert.equal(queueId(one), queueId(other), 'one transaction');
  assert.doesNotMatch(one, /nobody@/);
  const again = await send({ to: `nobody@${DOMAIN}` });
  assert.equal(again.status, 'suppressed');
});

test('a message near the size limit arrives intact', { skip, timeout: 150_000 }, async () => {
  const file = Buffer.alloc(1_400_000, 'large file ');
  const { messageId } = await send({
    to: `dan@${DOMAIN}`,
    attachments: [{ name: 'large.txt', contentType: 'text/plain', content: file.toString('base64') }],
  });
  await settled(messageId, 'delivered');
  const parsed = await PostalMime.parse(await onlyMail('dan'));
  assert.ok(Buffer.from(parsed.attachments[0]!.content as ArrayBuffer).equals(file));
});
