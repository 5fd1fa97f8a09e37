/** verifyWebhook of clients/typescript accepts requests signed by the service and by standardwebhooks, and nothing else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { verifyWebhook, verifyWebhookBatch } from '../../clients/typescript/src/webhook.ts';
import { newSecret, secretKeyOf, signatureOf } from '../../src/webhooks/sign.ts';

const secret = newSecret();
const other = newSecret();
const keyOf = (one: string) => secretKeyOf(one)!;
const body = '{"eventId":"evt_1","subject":"Grüße – 100 %"}';
const now = (): number => Math.floor(Date.now() / 1000);

function signed(seconds = now(), secrets = [secret], text = body): Record<string, string> {
  return {
    'Webhook-Id': 'evt_1',
    'webhook-timestamp': String(seconds),
    'WEBHOOK-SIGNATURE': signatureOf({ id: 'evt_1', timestampSeconds: seconds, body: text }, secrets.map(keyOf)),
  };
}

const refused = { name: 'PostriderError', code: 'WEBHOOK_INVALID' };

test('accepts genuine requests as text and bytes, with one or two signatures and secrets', async () => {
  assert.equal((await verifyWebhook(body, signed(), secret)).subject, 'Grüße – 100 %');
  await verifyWebhook(new TextEncoder().encode(body), new Headers(signed()), secret);
  await verifyWebhook(body, signed(now(), [other, secret]), secret);
  await verifyWebhook(body, signed(now(), [other]), [secret, other]);
  await verifyWebhook(body, signed(now() - 290), secret);
  const date = new Date();
  const theirs = {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(Math.floor(date.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign('evt_1', date, body),
  };
  await verifyWebhook(body, theirs, secret);
  const lists = Object.fromEntries(Object.entries(signed()).map(([name, value]) => [name, [value]]));
  await verifyWebhook(body, lists, secret);
});

test('rejects forged, altered, old, and malformed requests', async () => {
  const cases: [string, Record<string, string | string[] | undefined>, string?][] = [
    ['another body', signed(), `${body} `],
    ['another secret', signed(now(), [other])],
    ['old', signed(now() - 310)],
    ['from the future', signed(now() + 310)],
    ['another time', { ...signed(), 'webhook-timestamp': String(now() + 1) }],
    ['no time', { ...signed(), 'webhook-timestamp': 'now' }],
    ['another id', { ...signed(), 'Webhook-Id': 'evt_2' }],
    ['no id', { ...signed(), 'Webhook-Id': undefined }],
    ['several ids', { ...signed(), 'Webhook-Id': ['evt_1', 'evt_1'] }],
    ['no signature', { ...signed(), 'WEBHOOK-SIGNATURE': '' }],
    ['another version', { ...signed(), 'WEBHOOK-SIGNATURE': signed()['WEBHOOK-SIGNATURE']!.replace('v1,', 'v2,') }],
    ['no Base64', { ...signed(), 'WEBHOOK-SIGNATURE': 'v1,%%%' }],
    ['a cut signature', { ...signed(), 'WEBHOOK-SIGNATURE': 'v1,AAAA' }],
  ];
  for (const [name, headers, payload = body] of cases) {
    await assert.rejects(verifyWebhook(payload, headers, secret), refused, name);
  }
  await assert.rejects(verifyWebhook(body, signed(), 'whsec_'), TypeError);
  await verifyWebhook(body, signed(now() - 310), secret, { toleranceSeconds: 600 });
});

test('a request with several events returns its events, and a single event is refused as a batch', async () => {
  const batch = `[${body}]`;
  const signature = new Webhook(secret).sign('batch_1', new Date(), batch);
  const headers = {
    'webhook-id': 'batch_1',
    'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
    'webhook-signature': signature,
  };
  const [event, ...others] = await verifyWebhookBatch(batch, headers, secret);
  assert.equal(event!.subject, 'Grüße – 100 %');
  assert.equal(others.length, 0);
  const single = 'This request has a single event: use verifyWebhook, or set maxBatch above 1.';
  await assert.rejects(verifyWebhookBatch(body, signed(), secret), { ...refused, message: single });
  assert.equal((await verifyWebhook(batch, headers, secret)).subject, 'Grüße – 100 %');
  const two = `[${body},${body}]`;
  await assert.rejects(verifyWebhook(two, signed(now(), [secret], two), secret), {
    ...refused,
    message: 'This request has 2 events: use verifyWebhookBatch, or set maxBatch to 1.',
  });
  await assert.rejects(verifyWebhookBatch(`${batch} `, headers, secret), /no signature fits/);
});
