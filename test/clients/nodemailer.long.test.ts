/**
 * The nodemailer transport against the real service: everything given to sendMail arrives, including attachments and headers, large ones by
 * upload; options that the API does not support are rejected.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import nodemailer, { type SendMailOptions } from 'nodemailer';
import PostalMime from 'postal-mime';
import { type PostriderMail, PostriderTransport } from '../../clients/typescript/src/nodemailer.ts';
import { arrivedFile } from '../kit/file-mail.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { sha256, someBytes } from '../kit/upload.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;
let transport: PostriderTransport;

before(async () => {
  sink = await smtpSink();
  service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  const id = service.live.accountId;
  await service.cli('domain', 'add', id, 'shop.example', '--verified');
  await service.cli('account', 'set', id, '--email-limit', '40000000');
  transport = new PostriderTransport({ url: service.url, ...service.live });
});

after(async () => {
  await service?.close();
  await sink?.close();
});

async function arrived(to: string) {
  const message = await waitUntil(`the message to ${to}`, () => sink.messages.find((one) => one.to.includes(to)));
  return PostalMime.parse(message.content);
}

test('maps addresses, content, attachments, headers, and API fields', async () => {
  const transporter = nodemailer.createTransport(transport);
  const info = await transporter.sendMail({
    from: { name: 'Shop "Nord", Köln', address: 'orders@shop.example' },
    to: ['Ann <ann@example.com>', { name: 'Bob', address: 'bob@example.com' }],
    cc: 'carl@example.com',
    bcc: 'dora@example.com',
    replyTo: 'help@shop.example',
    subject: 'Order 17 – danke',
    text: 'Literally {{ name }}',
    html: '<p>See <img src="cid:logo"></p>',
    headers: { 'X-Order': '17' },
    inReplyTo: '<earlier@shop.example>',
    priority: 'high',
    list: { unsubscribe: { url: 'https://shop.example/bye', comment: 'Bye' } },
    attachments: [
      { filename: 'notes.txt', content: 'Grüße' },
      { filename: 'data.bin', content: Buffer.from([0, 255, 128]) },
      { filename: 'hex.bin', content: '00ff80', encoding: 'hex' },
      { filename: 'logo.png', content: Buffer.from([1, 2, 3]), cid: 'logo' },
    ],
    postrider: { tags: ['order'], metadata: { order: '17' }, idempotencyKey: 'order-17' },
  } as SendMailOptions);
  assert.match(info.messageId, /^msg_/);
  assert.equal(info.accepted.length, 4);
  assert.deepEqual(info.rejected, []);
  assert.match(info.response, /^202 queued as msg_/);
  const { body } = await service.api.get(`/messages/${info.messageId}`);
  assert.deepEqual([body.tags, body.metadata], [['order'], { order: '17' }]);

  const mail = await arrived('ann@example.com');
  assert.deepEqual([mail.from?.name, mail.from?.address], ['Shop "Nord", Köln', 'orders@shop.example']);
  assert.deepEqual(
    mail.to?.map((one) => one.address),
    ['ann@example.com', 'bob@example.com'],
  );
  assert.deepEqual(
    mail.cc?.map((one) => one.address),
    ['carl@example.com'],
  );
  assert.equal(mail.replyTo?.[0]?.address, 'help@shop.example');
  assert.equal(mail.subject, 'Order 17 – danke');
  assert.equal(mail.text?.trim(), 'Literally {{ name }}');
  assert.match(mail.html ?? '', /cid:logo/);
  const header = (name: string) => mail.headers.find((one) => one.key === name)?.value;
  assert.equal(header('x-order'), '17');
  assert.equal(header('in-reply-to'), '<earlier@shop.example>');
  assert.equal(header('importance'), 'High');
  assert.match(header('list-unsubscribe') ?? '', /^<https:\/\/shop\.example\/bye>/);
  const files = Object.fromEntries(
    mail.attachments.map((one) => [one.filename, Buffer.from(one.content as ArrayBuffer).toString('hex')]),
  );
  assert.deepEqual(files, {
    'notes.txt': Buffer.from('Grüße').toString('hex'),
    'data.bin': '00ff80',
    'hex.bin': '00ff80',
    'logo.png': '010203',
  });
  assert.ok(
    sink.messages.some((one) => one.to.includes('dora@example.com')),
    'the Bcc recipient got a copy',
  );
});

test('uploads a large attachment', async () => {
  const content = someBytes(3_000_000);
  const info = await nodemailer.createTransport(transport).sendMail({
    from: 'orders@shop.example',
    to: 'large@example.com',
    subject: 'Files',
    text: 'See the file.',
    attachments: [{ filename: 'plan.pdf', content }],
  });
  assert.equal(info.accepted[0], 'large@example.com');
  assert.equal(await arrivedFile(sink, 'large@example.com'), sha256(content));
});

test('reports suppressed addresses as rejected, rejections as errors, and ignores no option silently', async () => {
  await service.api.post('/suppressions', { email: 'gone@example.com' });
  const mail = { from: 'orders@shop.example', to: 'gone@example.com', subject: 'x', text: 'x' };
  const transporter = nodemailer.createTransport(transport);
  assert.deepEqual((await transporter.sendMail(mail)).rejected, ['gone@example.com']);
  await assert.rejects(transporter.sendMail({ ...mail, from: 'a@elsewhere.example' }), { code: 'SENDER_NOT_VERIFIED' });
  const impossible: SendMailOptions[] = [
    { raw: 'Subject: x\r\n\r\nx' },
    { envelope: { from: 'a@shop.example', to: 'b@example.com' } },
    { sender: 'a@shop.example' },
    { messageId: '<a@shop.example>' },
    { date: new Date() },
    { icalEvent: 'BEGIN:VCALENDAR' },
    { alternatives: [{ contentType: 'text/x-web-markdown', content: '**x**' }] },
    { attachments: [{ raw: 'Content-Type: text/plain\r\n\r\nx' }] },
    { attachments: [{ filename: 'logo.png', content: 'x', contentDisposition: 'inline' }] },
    { dsn: { id: 'x', return: 'headers', notify: 'success' } } as SendMailOptions,
    { from: ['orders@shop.example', 'sales@shop.example'] },
    { from: 'orders@shop.example, sales@shop.example' },
    { headers: { 'X-B': ['1', '2'] } },
    { headers: { 'X-B': '1', 'x-b': '2' } },
    {
      headers: [
        { key: 'X-A', value: '1' },
        { key: 'X-A', value: '2' },
      ],
    },
    { headers: { 'List-Unsubscribe': '<https://a.example>' }, list: { unsubscribe: 'https://b.example' } },
    { headers: { 'In-Reply-To': '<a@shop.example>' }, inReplyTo: '<b@shop.example>' },
  ];
  for (const one of impossible) {
    await assert.rejects(transporter.sendMail({ ...mail, ...one }), { code: 'INVALID_REQUEST' }, JSON.stringify(one));
  }
});

test('passes headers in every form that nodemailer accepts', async () => {
  const transporter = nodemailer.createTransport(transport, { headers: { 'X-Default': 'all' } });
  const send = async (to: string, headers: unknown) => {
    const mail = { from: 'orders@shop.example', to, subject: 'x', text: 'x', headers, postrider: {} };
    await transporter.sendMail(mail as SendMailOptions);
    const { headers: arrivedHeaders } = await arrived(to);
    return Object.fromEntries(
      arrivedHeaders.filter(({ key }) => key.startsWith('x-')).map(({ key, value }) => [key, value]),
    );
  };
  const wanted = { 'x-default': 'all', 'x-a': '1', 'x-n': '5' };
  const list = [
    { key: 'X-A', value: '1' },
    { key: 'X-N', value: 5 },
  ];
  assert.deepEqual(await send('list@example.com', list), wanted);
  const object = { 'X-A': ['1'], 'X-N': 5, 'X-Empty': '', 'X-None': null };
  assert.deepEqual(await send('object@example.com', object), wanted);
  const prepared = { 'X-A': { prepared: true, value: '1' }, 'X-N': 0 };
  assert.deepEqual(await send('prepared@example.com', prepared), { ...wanted, 'x-n': '0' });
});

test('a large mail that is repeated with its key returns the first result', async () => {
  const transporter = nodemailer.createTransport(transport);
  const mail: SendMailOptions & PostriderMail = {
    from: 'orders@shop.example',
    to: 'again@example.com',
    subject: 'Files',
    text: 'x',
    attachments: [{ filename: 'plan.pdf', content: someBytes(2_500_000) }],
    postrider: { idempotencyKey: 'order-20' },
  };
  const { messageId } = await transporter.sendMail(mail);
  assert.equal((await transporter.sendMail(mail)).messageId, messageId);
});

test('verify() reports whether the key is valid, by promise and by callback', async () => {
  assert.equal(await nodemailer.createTransport(transport).verify(), true);
  const { body } = await service.api.post('/api-keys', { scope: 'send' });
  const options = { url: service.url, accountId: service.live.accountId };
  const sender = nodemailer.createTransport(new PostriderTransport({ ...options, apiKey: body.apiKey }));
  assert.equal(await sender.verify(), true);
  const stranger = nodemailer.createTransport(new PostriderTransport({ ...options, apiKey: 'pr_live_wrong' }));
  await assert.rejects(stranger.verify(), { code: 'UNAUTHORIZED' });
  const error = await new Promise((resolve) => stranger.verify(resolve));
  assert.equal((error as { code?: string }).code, 'UNAUTHORIZED');
});
