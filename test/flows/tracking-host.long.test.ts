/**
 * A sender's own host for links: shown as a DNS record, used once its name resolves here and this service serves it with a valid
 * certificate, and no longer when the name is removed. Links of both hosts work on both.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { freePort } from '../kit/free-ports.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { type TestCertificate, testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MAIL = 'mail.provider.example';
const TRACK = 'track.shop.example';

interface Record_ {
  purpose: string;
  name: string;
  value: string;
  status: string;
  required: boolean;
  note: string | null;
}

let folder: string;
let dns: FakeDns;
let relay: SmtpSink;
let service: Service;
let port: number;
const ours = testCertificate([MAIL]);
const both = testCertificate([MAIL, TRACK]);
const show = ({ cert, key }: TestCertificate): void => {
  writeFileSync(path.join(folder, 'key.pem'), key);
  writeFileSync(path.join(folder, 'cert.pem'), cert);
};

before(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-tracking-'));
  show(ours);
  writeFileSync(path.join(folder, 'ca.pem'), ours.cert + both.cert);
  port = await freePort();
  dns = await fakeDns({ [MAIL]: { A: ['127.0.0.1'] }, 'shop.example': {} });
  relay = await smtpSink();
  service = await startService({
    env: {
      POSTRIDER_BASE_URL: `https://${MAIL}:${port}`,
      POSTRIDER_HTTPS_PORT: String(port),
      POSTRIDER_SMTP_TLS_CERT: path.join(folder, 'cert.pem'),
      POSTRIDER_SMTP_TLS_KEY: path.join(folder, 'key.pem'),
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${relay.port}`,
      NODE_EXTRA_CA_CERTS: path.join(folder, 'ca.pem'),
    },
  });
});
after(async () => {
  await service?.close();
  await Promise.all([relay?.close(), dns?.close()]);
  rmSync(folder, { recursive: true, force: true });
});

/** The origins of the links of a message sent now: unsubscribe, clicks, and the tracking pixel. */
async function originsOf(subject: string): Promise<{ origins: string[]; unsubscribe: string }> {
  const mail = {
    from: 'a@shop.example',
    to: 'ann@else.example',
    subject,
    html: '<p><a href="https://shop.example/1">x</a> {{unsubscribe_email_html}}</p>',
    enableClickTracking: true,
    enableOpenTracking: true,
    listUnsubscribe: true,
  };
  assert.equal((await service.api.post('/send', mail)).status, 202);
  const arrived = await waitUntil(`${subject} at the relay`, () =>
    relay.messages.find(({ content }) => content.includes(`Subject: ${subject}\r\n`)),
  );
  const text = arrived.content.toString().replaceAll('=\r\n', '').replaceAll('\r\n ', ' ');
  const urls = [...text.matchAll(/https:\/\/[\w.:-]+\/(?:t|unsubscribe)\/[\w-]+/g)].map(([url]) => url);
  assert.ok(urls.length >= 4, text);
  const unsubscribe = /List-Unsubscribe:\s*<([^>]+)>/.exec(text)![1]!;
  return { origins: [...new Set(urls.map((url) => new URL(url).origin))], unsubscribe };
}

/** Requests a URL at this server, whatever the DNS says about its host; returns the status. */
function click(url: string): Promise<number> {
  const { hostname, pathname } = new URL(url);
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port,
      path: pathname,
      method: 'POST',
      servername: hostname,
      ca: both.cert,
      agent: false,
      headers: { Host: `${hostname}:${port}`, 'Content-Type': 'application/x-www-form-urlencoded' },
    };
    const request = https.request(options, (response) =>
      response.resume().once('end', () => resolve(response.statusCode!)),
    );
    request.once('error', reject).end('List-Unsubscribe=One-Click');
  });
}

test('links use the tracking host of a domain while it resolves here with a valid certificate', async () => {
  const added = await service.api.post('/domains', { domain: 'shop.example' });
  const { domainId, dnsRecords } = added.body as unknown as { domainId: string; dnsRecords: Record_[] };
  const wanted = dnsRecords.find(({ purpose }) => purpose === 'tracking')!;
  assert.deepEqual([wanted.name, wanted.value, wanted.required], [TRACK, MAIL, false]);
  const key = dnsRecords.find(({ required }) => required)!;
  dns.zone[key.name] = { TXT: [key.value] };
  const verify = async (): Promise<Record_> => {
    assert.equal((await service.api.post(`/domains/${domainId}/verify`, {})).body.success, true);
    const { body } = await service.api.get(`/domains/${domainId}`);
    return (body.dnsRecords as unknown as Record_[]).find(({ purpose }) => purpose === 'tracking')!;
  };
  assert.equal((await verify()).status, 'pending');
  const base = `https://${MAIL}:${port}`;
  const own = `https://${TRACK}:${port}`;
  const plain = await originsOf('without');
  assert.deepEqual(plain.origins, [base]);

  dns.zone[TRACK] = { CNAME: MAIL };
  const named = await verify();
  assert.equal(named.status, 'verified');
  assert.match(named.note!, /once Postrider responds at .*\/health, with a certificate that is valid for it/);
  await waitUntil('another check', async () => {
    const { body } = await service.api.get(`/domains/${domainId}/dns-records`);
    return (body as unknown as Record_[]).some(
      ({ purpose, note }) => purpose === 'tracking' && note!.includes('Until then'),
    );
  });
  assert.deepEqual((await originsOf('named')).origins, [base], 'a certificate for another name is not valid');

  show(both);
  const served = await waitUntil('the certificate for both', async () => {
    const record = await verify();
    return record.note === `Links in email from shop.example point to ${own}.` && record;
  });
  assert.equal(served.status, 'verified');
  let round = 0;
  const linked = await waitUntil('links to the tracking host', async () => {
    round += 1;
    const found = await originsOf(`served ${round}`);
    return found.origins.includes(own) && found;
  });
  assert.deepEqual(linked.origins, [own], 'all of them');
  assert.equal(await click(linked.unsubscribe), 200);
  assert.equal((await service.api.get('/suppressions/ann@else.example')).status, 200);
  assert.equal((await service.api.delete('/suppressions/ann@else.example')).status, 200);

  delete dns.zone[TRACK];
  assert.equal((await verify()).note, null);
  await waitUntil('links to the default host', async () => {
    round += 1;
    return (await originsOf(`gone ${round}`)).origins.join() === base;
  });
  assert.equal(await click(linked.unsubscribe), 200, 'links sent before still work');
  assert.equal(await click(linked.unsubscribe.replace(TRACK, MAIL)), 200, 'on any host');
});
