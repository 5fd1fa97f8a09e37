/**
 * A mailbox provider without a feedback loop agreement: it trusts CFBL-Address (RFC 9477) once the message's signatures cover it, and
 * reports spam complaints there. It knows nothing but the message.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import type { JsonObject } from '../kit/api.ts';
import { BOUNCE_DOMAIN, bounceAddresses, bring } from '../kit/bounce-receiver.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { freePort } from '../kit/free-ports.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let dns: FakeDns;
let sink: SmtpSink;
let service: Service;
let inboundPort: number;

before(async () => {
  dns = await fakeDns({ 'shop.example': {} });
  sink = await smtpSink();
  inboundPort = await freePort();
  service = await startService({
    env: {
      ...bounceAddresses,
      POSTRIDER_INBOUND_PORT: String(inboundPort),
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
    },
  });
});
after(async () => {
  await service?.close();
  await Promise.all([sink?.close(), dns?.close()]);
});

const FIELD = /^CFBL-Address: ([^;\r]+);\r\n report=arf\r$/im;

/** Sends a message, and returns it with what the peer received. */
async function sent(to: string): Promise<{ id: string; content: Buffer }> {
  const body = { from: 'Shop <orders@shop.example>', subject: 'Order', text: 'Thank you', to };
  const { data } = (await service.api.post('/send', body)).body;
  const taken = await waitUntil(`the message to ${to}`, () => sink.messages.find((mail) => mail.to.includes(to)));
  return { id: data.messageId, content: taken.content };
}

/** The minimum that RFC 9477 requires, without naming the recipient. */
function report(mail: Buffer): Buffer {
  const headerMessageId = /^Message-ID: *(<[^>]+>)/im.exec(mail.toString('latin1'))![1];
  return Buffer.from(
    `From: fbl@mailbox.example
Subject: FW: Order
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary="a"

--a
Content-Type: text/plain

This is a report of abuse.

--a
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: CFBL/1.0
Version: 1

--a
Content-Type: text/rfc822-headers

Message-ID: ${headerMessageId}

--a--
`.replaceAll('\n', '\r\n'),
  );
}

async function resolver(name: string, type: string): Promise<string[][]> {
  const found = dns.zone[name]?.TXT;
  if (type !== 'TXT' || !found) throw Object.assign(new Error('none'), { code: 'ENOTFOUND' });
  return [found];
}

test('a report to the feedback address is one Complaint, and its recipient is suppressed', async () => {
  const { body: domain } = await service.api.post('/domains', { domain: 'shop.example' });
  for (const { purpose, name, value } of domain.dnsRecords as JsonObject[])
    if (purpose === 'dkim') dns.zone[name] = { TXT: [value] };
  const verify = () => service.api.post(`/domains/${domain.domainId}/verify`, {});
  assert.equal((await verify()).body.success, true);
  const before = await sent('ann@mailbox.example');
  assert.doesNotMatch(before.content.toString('latin1'), /^CFBL-Address/im, 'no return path of the domain is used');

  dns.zone['bounces.shop.example'] = { CNAME: BOUNCE_DOMAIN };
  await verify();
  const { id, content } = await sent('bob@mailbox.example');
  const address = FIELD.exec(content.toString('latin1'))?.[1];
  assert.match(address!, /^b\+[a-z2-7]{45}@bounces\.shop\.example$/);
  const { results } = await dkimVerify(content, { resolver });
  assert.ok(results.length > 0);
  for (const { status, signingDomain, signingHeaders } of results) {
    assert.deepEqual([status.result, signingDomain], ['pass', 'shop.example']);
    assert.match(signingHeaders!.keys, /cfbl-address/i);
  }

  const timeline = async (): Promise<string[]> =>
    (await service.api.get(`/messages/${id}`)).body.timeline.map((event: JsonObject) => event.eventType);
  await waitUntil('the delivery', async () => (await timeline()).includes('Delivery'));
  const forged = address!.replace(/^b\+./, (start) => (start.endsWith('a') ? 'b+b' : 'b+a'));
  assert.match(await bring(inboundPort, { to: forged, content: report(content) }), /^550 5\.1\.1 /);
  for (let time = 0; time < 2; time += 1)
    assert.match(await bring(inboundPort, { to: address!, content: report(content) }), /^250 /);
  await waitUntil('both to be processed', async () => {
    const { text } = await service.api.get('/metrics');
    return ['complaint', 'repeated'].every((result) =>
      text.includes(`postrider_inbound_reports_total{result="${result}"} 1\n`),
    );
  });
  assert.deepEqual(await timeline(), ['Send', 'Delivery', 'Complaint']);
  assert.equal((await service.api.get('/suppressions/bob@mailbox.example')).body.reason, 'complaint');
  assert.equal((await service.api.get('/suppressions/ann@mailbox.example')).status, 404);
});
