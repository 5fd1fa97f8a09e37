/**
 * Debian's Postfix sends mail to the inbound port: the largest accepted message is stored as Postfix sent it, and Postfix returns larger
 * ones to their sender, because of the size in EHLO or the reply.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openSmtpSession } from '../../src/net/smtp-client.ts';
import type { JsonObject } from '../kit/api.ts';
import { freePort } from '../kit/free-ports.ts';
import { mailOfSize } from '../kit/mail-of-size.ts';
import { missing } from '../kit/requirements.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type PrivatePostfix, startPostfix } from './private-postfix.ts';

const skip = missing('postfix') || (process.getuid?.() === 0 ? false : 'a private Postfix needs root');
/** A generous limit for the header fields that Postfix adds. */
const RECEIVED_BYTES = 1_000;
const MOST = 25_000_000;
const [LARGE, SMALL] = ['large@in.shop.example', 'small@in.shop.example'];

let postfix: PrivatePostfix;
let service: Service;
before(async () => {
  if (skip) return;
  const inboundPort = await freePort();
  service = await startService({ env: { POSTRIDER_INBOUND_PORT: String(inboundPort) } });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  for (const [match, maxBytes] of [
    [LARGE, MOST],
    [SMALL, 20_000],
  ])
    assert.equal((await service.api.post('/inbound-routes', { match, maxBytes })).status, 201);
  postfix = await startPostfix({
    domain: 'mx.example',
    users: [],
    settings: {
      transport_maps: `inline:{ { in.shop.example = smtp:[127.0.0.1]:${inboundPort} } }`,
      mynetworks: '127.0.0.0/8',
      smtpd_relay_restrictions: 'permit_mynetworks, reject_unauth_destination',
      smtp_tls_security_level: 'may',
      notify_classes: '',
      local_header_rewrite_clients: '',
    },
  });
});
after(async () => {
  postfix?.stop();
  await service?.close();
});

/** Submits a message to Postfix from the null sender, so that undeliverable mail is dropped. */
async function submit(to: string, content: Buffer): Promise<void> {
  const opened = await openSmtpSession({
    host: 'localhost',
    addresses: ['127.0.0.1'],
    port: postfix.port,
    helo: 'tester.example',
    tls: 'never',
    verifyCertificate: false,
  });
  assert.ok(opened.ok, JSON.stringify(opened));
  const mail = { mailFrom: '', recipients: [to], content, sizeBytes: content.length };
  const sent = await opened.session.send({ ...mail, smtpUtf8: false, eightBit: true });
  assert.equal(sent.recipients[0]!.accepted, true, JSON.stringify(sent));
  await opened.session.quit();
}

const cameIn = async (to: string): Promise<JsonObject[]> =>
  ((await service.api.get('/inbound?limit=100')).body as unknown as JsonObject[]).filter(
    ({ recipient }) => recipient === to,
  );
const said = (words: RegExp): Promise<unknown> => waitUntil(`Postfix to log ${words}`, () => words.test(postfix.log()));

test('the largest message Postfix can send is stored unchanged', { skip, timeout: 120_000 }, async () => {
  const { content, files } = mailOfSize(MOST - RECEIVED_BYTES);
  await submit(LARGE, content);
  const [mail] = await waitUntil('the mail', async () => {
    const found = await cameIn(LARGE);
    return found.length > 0 && found;
  });
  const { content: shown } = (await service.api.get(`/inbound/${mail!.inboundId}`)).body;
  const raw = Buffer.from(await (await fetch(shown.rawUrl)).arrayBuffer());
  assert.equal(raw.length, mail!.sizeBytes);
  assert.match(
    raw.subarray(0, RECEIVED_BYTES).toString('latin1'),
    /^Received: from tester\.example .*\r\n\tby mx\.mx\.example /,
  );
  // Postfix removes an existing Return-Path.
  const rest = content.subarray(content.indexOf('Received: '));
  assert.ok(raw.subarray(-rest.length).equals(rest), 'the rest is unchanged');
  for (const [index, { url }] of (shown.attachments as JsonObject[]).entries())
    assert.ok(Buffer.from(await (await fetch(url)).arrayBuffer()).equals(files[index]!), `file ${index}`);
  assert.match(postfix.log(), /status=sent \(250 2\.0\.0 queued as inb_/);
});

test('Postfix returns messages larger than the port or the route accepts', { skip, timeout: 120_000 }, async () => {
  const before = (await cameIn(LARGE)).length;
  await submit(LARGE, mailOfSize(MOST).content);
  await said(/to=<large@in\.shop\.example>.*status=bounced .*552 5\.3\.4 .*25000000/);
  await submit(SMALL, mailOfSize(20_001).content);
  await said(
    /to=<small@in\.shop\.example>.*status=bounced .*552 5\.3\.4 message exceeds the maximum size of 20000 bytes/,
  );
  await submit(SMALL, mailOfSize(15_000).content);
  await waitUntil('the one that fits', async () => (await cameIn(SMALL)).length === 1);
  assert.equal((await cameIn(LARGE)).length, before);
});
