/**
 * SMTP usernames of other services, as nodemailer logs in with them: accepted with a sending key while the interface is enabled, and
 * otherwise rejected.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTransport } from 'nodemailer';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import type { Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  ({ sink, service } = await openShop({ env: { POSTRIDER_DOORS: 'resend' } }));
});
after(() => closeShop({ sink, service }));

const mail = (to: string) => ({ from: 'hello@shop.example', to, subject: 'Hello', text: 'Hello' });

const transportFor = (port: number, user: string, pass: string, pool = false) =>
  createTransport({ host: '127.0.0.1', port, pool, auth: { user, pass }, tls: { rejectUnauthorized: false } } as never);

async function newKey(body: object): Promise<{ keyId: string; apiKey: string }> {
  const made = await service.api.post('/api-keys', body);
  assert.equal(made.status, 201, made.text);
  return made.body as { keyId: string; apiKey: string };
}

/** The reply code of a rejected login. */
async function refusal(user: string, pass: string, port = service.smtpPort): Promise<number | undefined> {
  const transport = transportFor(port, user, pass);
  try {
    await transport.sendMail(mail('nobody@example.com'));
    return undefined;
  } catch (error) {
    return (error as { responseCode?: number }).responseCode;
  } finally {
    transport.close();
  }
}

test('each username accepts an API key with send scope as the password', async () => {
  const { apiKey } = await newKey({ scope: 'send' });
  for (const user of ['resend', 'apikey', 'SMTP_Injection']) {
    const to = `${user.toLowerCase()}@example.com`;
    const transport = transportFor(service.smtpPort, user, apiKey);
    await transport.sendMail(mail(to));
    transport.close();
    await waitUntil('the mail', () => sink.messages.find((one) => one.to.includes(to)));
  }
  const before = sink.messages.length;
  const sandbox = await newKey({ scope: 'send', mode: 'sandbox' });
  const transport = transportFor(service.smtpPort, 'resend', sandbox.apiKey);
  await transport.sendMail(mail('sandbox@example.com'));
  transport.close();
  const inbox = await service.sandboxApi.get('/sandbox/inbox/wait?to=sandbox@example.com&timeoutSeconds=20');
  assert.equal(inbox.status, 200, inbox.text);
  assert.equal(sink.messages.length, before);
});

test('other keys, usernames, and passwords are rejected like a wrong password', async () => {
  const { apiKey } = await newKey({ scope: 'send' });
  assert.equal(await refusal('resend', service.live.apiKey), 535, 'a key of scope full');
  assert.equal(await refusal('resend', `${apiKey}x`), 535);
  assert.equal(await refusal('Resend', apiKey), 535, 'names are case-sensitive');
  assert.equal(await refusal('postmark', apiKey), 535);
  await service.cli('account', 'set', service.live.accountId, '--plan', 'free');
  await waitUntil('the plan', async () => (await refusal('apikey', apiKey)) === 535);
  await service.cli('account', 'set', service.live.accountId, '--plan', 'paid');
});

test('a revoked key rejects the next message of an open session', async () => {
  const { keyId, apiKey } = await newKey({ scope: 'send' });
  const transport = transportFor(service.smtpPort, 'resend', apiKey, true);
  await waitUntil('a login', () =>
    transport.sendMail(mail('first@example.com')).then(
      () => true,
      () => false,
    ),
  );
  assert.equal((await service.api.delete(`/api-keys/${keyId}`)).status, 200);
  await assert.rejects(transport.sendMail(mail('next@example.com')), /535/);
  transport.close();
});

test('a key sends only from its allowed senders', async () => {
  const { apiKey } = await newKey({ scope: 'send', allowedSenders: ['other.example'] });
  assert.equal(await refusal('resend', apiKey), 550);
});

test('the usernames are unknown when the interface is disabled', async () => {
  const plain = await openShop();
  try {
    const made = await plain.service.api.post('/api-keys', { scope: 'send' });
    assert.equal(await refusal('resend', String(made.body.apiKey), plain.service.smtpPort), 535);
    const door = await fetch(`${plain.service.url}/emails`, {
      headers: { authorization: `Bearer ${plain.service.live.apiKey}` },
    });
    assert.equal(((await door.json()) as { success: boolean }).success, false);
    assert.equal((await fetch(`${plain.service.url}/resend/emails`)).status, 404);
  } finally {
    await closeShop(plain);
  }
});
