/**
 * Keys and credentials restricted to senders, on every interface that accepts mail: single send, batch, dry run, uploaded files, resend,
 * and SMTP; created over HTTP and on the command line, in live mode and in the sandbox.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Answer, type Api, apiClient } from '../kit/api.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { manifestEntry, put, someBytes } from '../kit/upload.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;
const clients: Api[] = [];

before(async () => {
  sink = await smtpSink();
  service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  for (const client of clients) client.close();
  await service?.close();
  await sink?.close();
});

const SENDERS = ['orders@shop.example', 'news.shop.example'];
const code = (answer: Answer): string => `${answer.status} ${answer.body.error?.code ?? ''}`.trim();
const mail = (from: string) => ({ from, to: 'ann@example.com', subject: 'x', text: 'x' });

function clientOf(apiKey: string): Api {
  const client = apiClient(() => service.url, { accountId: service.live.accountId, apiKey });
  clients.push(client);
  return client;
}

for (const mode of ['live', 'sandbox'] as const) {
  test(`${mode}: a restricted key sends only from its senders, through every interface`, async () => {
    const maker = mode === 'live' ? service.api : service.sandboxApi;
    const made = await maker.post('/api-keys', { mode, scope: 'full', allowedSenders: SENDERS });
    assert.deepEqual([made.status, made.body.allowedSenders], [201, SENDERS]);
    const listed = (await service.api.get('/api-keys')).body as unknown as {
      keyId: string;
      allowedSenders: string[];
    }[];
    assert.deepEqual(listed.find((key) => key.keyId === made.body.keyId)?.allowedSenders, SENDERS);
    assert.deepEqual(listed.at(-1)?.allowedSenders, [], 'an unrestricted key');
    const api = clientOf(made.body.apiKey);

    for (const from of ['orders@shop.example', 'Orders <ORDERS@shop.example>', 'a@deep.news.shop.example'])
      assert.equal((await api.post('/send', mail(from))).status, 202, from);
    for (const from of ['ceo@shop.example', 'shop.example <ceo@shop.example>', 'orders@sub.shop.example']) {
      const refused = await api.post('/send', mail(from));
      assert.equal(code(refused), '403 SENDER_NOT_VERIFIED', from);
      assert.match(refused.body.error.message, /allowedSenders are orders@shop\.example, news\.shop\.example/);
    }
    const batch = await api.post('/send/batch', {
      messages: [mail('ceo@shop.example'), mail('orders@shop.example')],
    });
    assert.deepEqual(
      (batch.body.results as Answer[]).map(({ status }) => status),
      [403, 202],
    );
    const dry = await api.post('/send?dryRun=true', mail('ceo@shop.example'));
    assert.deepEqual(
      [dry.status, dry.body.warnings.some((one: { code: string }) => one.code === 'SENDER_NOT_VERIFIED')],
      [200, true],
    );

    const bytes = someBytes(100);
    const submission = (await api.post('/attachments', { attachments: [manifestEntry(bytes)] })).body;
    const [upload] = submission.attachmentUploads;
    assert.equal((await put({ url: upload.uploadUrl, headers: upload.requiredHeaders, body: bytes })).status, 200);
    const { attachmentSubmissionId } = submission;
    const large = (from: string) => api.post('/send', { ...mail(from), attachmentSubmissionId });
    assert.equal(code(await large('ceo@shop.example')), '403 SENDER_NOT_VERIFIED');
    assert.equal((await large('orders@shop.example')).status, 202, 'the rejected send consumed nothing');

    const { messageId } = (await maker.post('/send', mail('ceo@shop.example'))).body.data;
    await waitUntil(
      'the delivery',
      async () => (await maker.get(`/messages/${messageId}`)).body.status === 'delivered',
    );
    assert.equal(code(await api.post(`/messages/${messageId}/resend`)), '403 SENDER_NOT_VERIFIED');
    assert.equal((await maker.post(`/messages/${messageId}/resend`)).status, 200);
  });

  test(`${mode}: a restricted credential is limited in the envelope and in From`, async () => {
    const maker = mode === 'live' ? service.api : service.sandboxApi;
    const made = await maker.post('/smtp-credentials', { mode, allowedSenders: SENDERS });
    assert.deepEqual([made.status, made.body.allowedSenders], [201, SENDERS]);
    const talker = await connectTalker(service.smtpPort);
    await talker.reply();
    await talker.logIn({ username: made.body.username, password: made.body.password });
    assert.match(await talker.say('MAIL FROM:<ceo@shop.example>'), /^550 5\.7\.1 .*allowedSenders/);
    const submit = async (from: string): Promise<string> => {
      assert.match(await talker.say('MAIL FROM:<bounces@news.shop.example>'), /^250 /);
      assert.match(await talker.say('RCPT TO:<ann@example.com>'), /^250 /);
      assert.match(await talker.say('DATA'), /^354 /);
      return talker.say(`From: ${from}\r\nSubject: x\r\n\r\nx\r\n.`);
    };
    assert.match(await submit('ceo@shop.example'), /^550 5\.7\.1 .*allowedSenders/);
    assert.match(await submit('orders@shop.example\r\nSender: ceo@shop.example'), /^550 5\.7\.1 .*allowedSenders/);
    assert.match(await submit('Orders <orders@shop.example>'), /^250 2\.0\.0 queued as msg_/);
    talker.destroy();
  });
}

test('the command line creates restricted keys and credentials, and rejects invalid senders', async () => {
  const { accountId } = service.live;
  const bound = ['--allowed-sender', 'orders@shop.example', '--allowed-sender', 'news.shop.example'];
  const key = await service.cli('key', 'create', accountId, ...bound);
  assert.equal(
    code(await clientOf(String(key.apiKey)).post('/send', mail('ceo@shop.example'))),
    '403 SENDER_NOT_VERIFIED',
  );
  const credential = await service.cli('smtp-credential', 'create', accountId, ...bound);
  const listed = (await service.api.get('/smtp-credentials')).body as unknown as Record<string, unknown>[];
  const row = listed.find((one) => one.smtpCredentialId === credential.smtpCredentialId);
  assert.deepEqual(row?.allowedSenders, SENDERS);
  await assert.rejects(
    service.cli('key', 'create', accountId, '--allowed-sender', 'nobody'),
    /ended with 2: .*--allowed-sender /,
  );
});

test('a restricted key cannot grant more than it has, and all validation errors are listed', async () => {
  const { apiKey } = (await service.api.post('/api-keys', { allowedSenders: SENDERS })).body;
  const api = clientOf(apiKey);
  for (const path of ['/api-keys', '/smtp-credentials']) {
    assert.deepEqual((await api.post(path, {})).body.allowedSenders, SENDERS);
    assert.equal(code(await api.post(path, { allowedSenders: ['shop.example'] })), '403 FORBIDDEN');
    const wrong = await service.api.post(path, { allowedSenders: ['x y', 'shop.example'], mode: 'loud' });
    assert.deepEqual(wrong.body.error.details.map((issue: { field: string }) => issue.field).sort(), [
      'allowedSenders[0]',
      'mode',
    ]);
    const many = { allowedSenders: Array.from({ length: 21 }, (_, i) => `d${i}.example`) };
    assert.equal(code(await service.api.post(path, many)), '400 INVALID_REQUEST');
  }
});
