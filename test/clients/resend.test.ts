/**
 * The official SDK of Resend against this service, in its newest version and in the last one that writes Buffers as JSON does: nothing
 * is changed but the base URL. Every method of the subset is called; mail is counted at the receiving server, and webhooks are verified
 * by the SDK and by svix.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Resend as NewestResend } from 'resend';
import { Resend as EarlierResend } from 'resend-6-22';
import { Webhook } from 'svix';
import { smtpSink, type SmtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

let sink: SmtpSink;
let service: Service;
let catcher: WebhookCatcher;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

before(async () => {
  sink = await smtpSink();
  catcher = await webhookCatcher();
  service = await startService({
    env: {
      POSTRIDER_DOORS: 'resend',
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await service.close();
  await sink.close();
  await catcher.close();
});

/** The data of an answer, which must not be an error. */
function data<T>(answer: { data: T | null; error: unknown }): T {
  assert.equal(answer.error, null, JSON.stringify(answer.error));
  return answer.data as T;
}

function refused(answer: { data: unknown; error: { name: string; statusCode: number | null; message: string } | null }) {
  assert.equal(answer.data, null);
  assert.ok(answer.error);
  return answer.error;
}

const SDKS = {
  newest: NewestResend,
  // Its types differ in places that no test touches.
  earlier: EarlierResend as unknown as typeof NewestResend,
};

for (const [name, Resend] of Object.entries(SDKS)) {
  const live = () => new Resend(service.live.apiKey, { baseUrl: service.url } as never);
  const sandbox = () => new Resend(service.sandbox.apiKey, { baseUrl: `${service.url}/resend` } as never);
  const mail = (to: string) => ({ from: 'Shop <hello@shop.example>', to, subject: 'Hello', html: '<p>{{ literal }}</p>' });

  test(`${name}: an email is sent, shown and listed as one, whatever the number of its recipients`, async () => {
    const resend = live();
    const { id } = data(
      await resend.emails.send({
        ...mail(`a-${name}@example.com`),
        cc: [`c-${name}@example.com`],
        bcc: `b-${name}@example.com`,
        replyTo: ['help@shop.example'],
        text: 'Hello',
        headers: { 'X-Order': '17' },
        tags: [{ name: 'kind', value: 'welcome' }],
        attachments: [
          { filename: 'a.txt', content: Buffer.from('bytes of a Buffer') },
          { filename: 'b.pdf', content: Buffer.from('Base64').toString('base64'), contentId: 'logo' },
        ],
      }),
    );
    assert.match(id, UUID);
    const received = await waitUntil('the mail', () => {
      const all = sink.messages.filter((one) => one.to.some((to) => to.includes(`-${name}@`)));
      return all.flatMap((one) => one.to).length >= 3 ? all : undefined;
    });
    const text = received[0]!.content.toString();
    assert.match(text, /^X-Order: 17\r$/m);
    assert.match(text, /\{\{ literal \}\}/);
    assert.ok(text.includes(Buffer.from('bytes of a Buffer').toString('base64')));
    assert.match(text, /^Content-Type: application\/pdf/m);
    const shown = await waitUntil('the delivery', async () => {
      const email = data(await resend.emails.get(id));
      return email.last_event === 'delivered' ? email : undefined;
    });
    assert.equal(shown.object, 'email');
    assert.deepEqual(
      [shown.id, shown.to, shown.cc, shown.bcc, shown.reply_to, shown.subject],
      [id, [`a-${name}@example.com`], [`c-${name}@example.com`], [`b-${name}@example.com`], ['help@shop.example'], 'Hello'],
    );
    assert.equal(shown.html?.trim(), '<p>{{ literal }}</p>');
    assert.equal(shown.text?.trim(), 'Hello');
    assert.deepEqual(shown.tags, [{ name: 'kind', value: 'welcome' }]);
    assert.match(shown.message_id, /^<.+@.+>$/);
    const list = data(await resend.emails.list({ limit: 1 }));
    assert.deepEqual([list.object, list.data.length, list.data[0]!.id], ['list', 1, id]);

    const files = data(await resend.emails.attachments.list({ emailId: id }));
    assert.deepEqual(
      files.data.map((file) => [file.filename, file.content_disposition]),
      [
        ['a.txt', 'attachment'],
        ['b.pdf', 'inline'],
      ],
    );
    const file = data(await resend.emails.attachments.get({ emailId: id, id: files.data[0]!.id }));
    assert.equal(await (await fetch(file.download_url)).text(), 'bytes of a Buffer');
    assert.equal((await fetch(file.download_url.slice(0, -2))).status, 404);
    assert.equal(refused(await resend.emails.get('4ef9a417-02e9-4d39-ad75-9611e0fcc33c')).name, 'invalid_parameter');
  });
}
