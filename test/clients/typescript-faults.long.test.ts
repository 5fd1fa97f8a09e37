/**
 * clients/typescript when the network or the service fails: a send with a lost response is retried with its key and creates one message,
 * counted where it arrives; unsafe requests are not retried; streams and uploads resume.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { Postrider, PostriderError } from '../../clients/typescript/src/index.ts';
import { type FaultProxy, faultProxy } from '../kit/fault-proxy.ts';
import { arrivedFile } from '../kit/file-mail.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { sha256, someBytes } from '../kit/upload.ts';
import { waitUntil } from '../kit/wait-until.ts';

const from = 'orders@shop.example';
let sink: SmtpSink;
let service: Service;
let proxy: FaultProxy;

before(async () => {
  sink = await smtpSink();
  const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_UPLOAD_TTL_SECONDS: '900' };
  service = await startService({ env });
  const id = service.live.accountId;
  await service.cli('domain', 'add', id, 'shop.example', '--verified');
  await service.cli('account', 'set', id, '--email-limit', '40000000');
  proxy = await faultProxy(Number(new URL(service.url).port));
});

after(async () => {
  await proxy?.close();
  await service?.close();
  await sink?.close();
});

beforeEach(() => proxy.set());

const clientOf = (options: { fetch?: typeof fetch; timeoutMs?: number; maxRetries?: number } = {}): Postrider =>
  new Postrider({ url: proxy.url, ...service.live, ...options });

const sentTo = (to: string): number => sink.messages.filter((one) => one.to.includes(to)).length;

async function arrivedOnce(to: string, messageId: string): Promise<void> {
  await waitUntil('the message to be delivered', async () => {
    const { body } = await service.api.get(`/messages/${messageId}`);
    return body.status === 'delivered';
  });
  assert.equal(sentTo(to), 1);
  const { body } = await service.api.get(`/messages?to=${to}`);
  assert.equal(body.length, 1);
}

const FAULTS = {
  'the response is lost after acceptance': { kind: 'lost' },
  'the response is truncated': { kind: 'cut', afterBytes: 200 },
  'the request is lost': { kind: 'down' },
  'a proxy answers 503': { kind: 'busy' },
} as const;

for (const [name, fault] of Object.entries(FAULTS)) {
  test(`${name}: the retry creates exactly one message`, async () => {
    const to = `${fault.kind}@example.com`;
    proxy.set(fault, { methods: ['POST'], times: 2 });
    const sent = await clientOf().emails.send({ from, to, subject: 'Once', text: 'x' });
    assert.equal(proxy.met, 2);
    await arrivedOnce(to, sent.messageId);
  });
}

test('a silent server times out after timeoutMs, and the retry creates one message', async () => {
  proxy.set({ kind: 'silent' }, { methods: ['POST'], times: 1 });
  const sent = await clientOf({ timeoutMs: 2_000 }).emails.send({
    from,
    to: 'silent@example.com',
    subject: 'Once',
    text: 'x',
  });
  await arrivedOnce('silent@example.com', sent.messageId);
  proxy.set({ kind: 'silent' });
  const error = await clientOf({ timeoutMs: 300, maxRetries: 0 })
    .account.get()
    .then(
      () => assert.fail('the response was lost after acceptance'),
      (thrown: PostriderError) => thrown,
    );
  assert.deepEqual([error.code, error.status], ['TIMEOUT', 0]);
  assert.equal(error.message, `${proxy.url} did not respond within 300 ms (timeoutMs).`);
});

test('a batch is also sent once', async () => {
  proxy.set({ kind: 'lost' }, { methods: ['POST'], times: 1 });
  const emails = ['batch1@example.com', 'batch2@example.com'].map((to) => ({ from, to, subject: 'Once', text: 'x' }));
  const results = await clientOf().emails.sendBatch(emails);
  assert.deepEqual(
    results.map((one) => one.status),
    [202, 202],
  );
  for (const [index, { to }] of emails.entries()) await arrivedOnce(to, results[index]!.data!.messageId);
});

test('a POST without an idempotency key is tried once', async () => {
  proxy.set({ kind: 'lost' }, { methods: ['POST'] });
  const client = clientOf();
  await assert.rejects(
    client.templates.create({ name: 'once', subject: 'x', text: 'x' }),
    (error: PostriderError) => error.code === 'CONNECTION_FAILED' && error.cause !== undefined,
  );
  assert.equal(proxy.met, 1);
  proxy.set();
  assert.equal((await client.templates.list().page()).items.length, 1);
});

test('a GET is retried up to maxRetries', async () => {
  proxy.set({ kind: 'lost' }, { times: 1 });
  assert.ok((await clientOf().account.get()).accountId);
  proxy.set({ kind: 'lost' });
  await assert.rejects(clientOf({ maxRetries: 1 }).account.get(), PostriderError);
  assert.equal(proxy.met, 2);
});

/** Responds from this list, then with a JSON body; counts the requests and records their keys. */
function scripted(...answers: Response[]) {
  const keys: (string | null)[] = [];
  const waits: number[] = [];
  let at = performance.now();
  const fetchIt: typeof fetch = async (_, init) => {
    keys.push(new Headers(init?.headers).get('idempotency-key'));
    waits.push(performance.now() - at);
    at = performance.now();
    return answers.shift() ?? Response.json({ success: true, data: { messageId: 'msg_1' } });
  };
  return { fetch: fetchIt, keys, waits };
}

const refusal = (status: number, code: string, headers: Record<string, string> = {}): Response =>
  Response.json(
    { success: false, error: { code, message: 'No.', details: [] }, requestId: 'req_1' },
    { status, headers },
  );

test('Retry-After is respected with the same key, and a long one is left to the caller', async () => {
  const email = { from, to: 'ann@example.com', subject: 'x', text: 'x' };
  const patient = scripted(
    refusal(429, 'RATE_LIMITED', { 'retry-after': '1' }),
    refusal(503, 'OVERLOADED'),
    refusal(409, 'DUPLICATE_REQUEST_IN_PROGRESS'),
  );
  assert.equal((await clientOf({ fetch: patient.fetch }).emails.send(email)).messageId, 'msg_1');
  assert.equal(patient.keys.length, 4);
  assert.equal(new Set(patient.keys).size, 1);
  assert.match(patient.keys[0] ?? '', /^[0-9a-f]{32}$/);
  assert.ok(patient.waits[1]! >= 990, `waited ${patient.waits[1]} ms`);
  const long = scripted(refusal(503, 'OVERLOADED', { 'retry-after': '3600' }));
  await assert.rejects(clientOf({ fetch: long.fetch }).emails.send(email, { idempotencyKey: 'order-17' }), {
    code: 'OVERLOADED',
    status: 503,
    retryAfterSeconds: 3600,
    requestId: 'req_1',
  });
  assert.deepEqual(long.keys, ['order-17']);
  const final = scripted(refusal(422, 'IDEMPOTENCY_KEY_REUSED'));
  await assert.rejects(clientOf({ fetch: final.fetch }).emails.send(email), { code: 'IDEMPOTENCY_KEY_REUSED' });
  assert.equal(final.keys.length, 1);
  const page = scripted(new Response('<h1>Forbidden</h1>', { status: 403, headers: { 'x-request-id': 'proxy-1' } }));
  await assert.rejects(clientOf({ fetch: page.fetch }).emails.send(email), {
    code: 'UNEXPECTED_ANSWER',
    status: 403,
    requestId: 'proxy-1',
  });
});

test('large attachments upload with progress across a broken connection and arrive byte for byte', async () => {
  const content = someBytes(3_000_000);
  proxy.set({ kind: 'lost' }, { methods: ['POST'], times: 1 });
  const seen: number[] = [];
  const sent = await clientOf().emails.send(
    {
      from,
      to: '"Doe, Ann" <large@example.com>',
      subject: 'Files',
      text: 'See the file.',
      cc: [],
      attachments: [{ name: 'plan.pdf', contentType: 'application/pdf', content }],
    },
    {
      onProgress: ({ name, sentBytes, totalBytes }) => {
        assert.deepEqual([name, totalBytes], ['plan.pdf', content.length]);
        seen.push(sentBytes);
      },
    },
  );
  assert.equal(seen.at(-1), content.length);
  assert.ok(seen.length > 5, `${seen.length} steps`);
  await arrivedOnce('large@example.com', sent.messageId);
  assert.equal(await arrivedFile(sink, 'large@example.com'), sha256(content));
});

test('a large send that is repeated with its key returns the first result and uploads nothing', async () => {
  const puts: string[] = [];
  const counting: typeof fetch = (target, init) => {
    if (init?.method === 'PUT') puts.push(String(target));
    return fetch(target, init);
  };
  const options = { url: service.url, ...service.live, fetch: counting };
  const attachments = [
    { name: 'plan.pdf', contentType: 'application/pdf', content: someBytes(1_500_000) },
    { name: 'map.pdf', contentType: 'application/pdf', content: someBytes(1_000_000) },
  ];
  const email = { from, to: 'repeated@example.com', subject: 'Files', text: 'x', attachments };
  const send = () => new Postrider(options).emails.send(email, { idempotencyKey: 'order-18' });
  const first = await send();
  assert.equal(puts.length, 2);
  assert.deepEqual(await send(), first);
  assert.equal(puts.length, 2);
  await arrivedOnce('repeated@example.com', first.messageId);
});

test('an upload that is repeated with its key uploads only the missing files', async () => {
  const attachments = [1, 2].map((number) => ({
    name: `${number}.txt`,
    contentType: 'text/plain',
    content: someBytes(1_000 * number),
  }));
  const idempotencyKey = 'order-19';
  const names: string[] = [];
  let left = 1;
  const refusing: typeof fetch = (target, init) => {
    if (init?.method !== 'PUT' || left > 0) return fetch(target, init);
    return Promise.resolve(refusal(403, 'ACCOUNT_SUSPENDED'));
  };
  const onProgress = ({ name, sentBytes }: { name: string; sentBytes: number }): void => {
    names.push(name);
    if (sentBytes === 1_000) left = 0;
  };
  const client = new Postrider({ url: service.url, ...service.live, fetch: refusing });
  const interrupted = client.attachments.upload(attachments, { idempotencyKey, onProgress });
  await assert.rejects(interrupted, { code: 'ACCOUNT_SUSPENDED' });
  left = 1;
  names.length = 0;
  await client.attachments.upload(attachments, {
    idempotencyKey,
    onProgress: ({ name, sentBytes, totalBytes }) => names.push(`${name} ${sentBytes}/${totalBytes}`),
  });
  assert.deepEqual(names, ['2.txt 3000/3000']);
});

test('manual upload: an interrupted PUT is retried, and the send uses its key', async () => {
  const content = new Blob([new Uint8Array(someBytes(2_500_000))]);
  const client = new Postrider({ url: service.url, ...service.live, fetch: breaking('PUT', 1) });
  const files = [{ name: 'a.bin', contentType: 'application/octet-stream', content }];
  const { attachmentSubmissionId, idempotencyKey } = await client.attachments.upload(files);
  const state = await client.attachments.get(attachmentSubmissionId);
  assert.deepEqual(
    state.files.map((one) => one.status),
    ['uploaded'],
  );
  const email = { from, to: 'byhand@example.com', subject: 'Files', text: 'x', attachmentSubmissionId };
  await assert.rejects(client.emails.send(email), { code: 'INVALID_REQUEST' });
  const sent = await client.emails.send(email, { idempotencyKey });
  await arrivedOnce('byhand@example.com', sent.messageId);
});

/** A fetch whose first calls of this method fail. */
function breaking(method: string, times: number): typeof fetch {
  let left = times;
  return (url, init) => {
    if (init?.method !== method || left === 0) return fetch(url, init);
    left -= 1;
    return Promise.reject(new TypeError('fetch failed'));
  };
}

test('an expired upload URL is replaced by a new one', async () => {
  let refused = 0;
  const expiring: typeof fetch = (url, init) => {
    if (init?.method !== 'PUT' || refused === 1) return fetch(url, init);
    refused += 1;
    return Promise.resolve(refusal(403, 'UPLOAD_URL_INVALID'));
  };
  const client = new Postrider({ url: service.url, ...service.live, fetch: expiring });
  const content = someBytes(2_000);
  const { attachmentSubmissionId } = await client.attachments.upload([
    { name: 'a.txt', contentType: 'text/plain', content },
  ]);
  assert.equal(refused, 1);
  assert.equal((await client.attachments.get(attachmentSubmissionId)).files[0]?.status, 'uploaded');
});

test('the event stream resumes after the last event, across lost connections and a restart', async () => {
  const stop = new AbortController();
  const client = clientOf();
  const stream = client.events.stream({ eventType: ['Send'] }, { signal: stop.signal });
  const seen: string[] = [];
  const reading = (async () => {
    for await (const event of stream) seen.push(event.subject);
  })();
  await waitUntil('the stream to start', () => stream.lastEventId !== undefined);
  const wanted: string[] = [];
  const sendOne = async (): Promise<void> => {
    const subject = `Streamed ${wanted.length}`;
    wanted.push(subject);
    const { status } = await service.api.post('/send', { from, to: 'ann@example.com', subject, text: 'x' });
    assert.equal(status, 202);
  };
  await sendOne();
  await waitUntil('the first event', () => seen.length === 1);
  proxy.set({ kind: 'down' });
  for (let count = 0; count < 3; count += 1) await sendOne();
  proxy.set();
  await waitUntil('the events of the time without a connection', () => seen.length === 4);
  const earlier = stream.lastEventId!;
  await sendOne();
  await waitUntil('one more', () => seen.length === 5);
  stop.abort();
  await reading;
  assert.deepEqual(seen, wanted);
  const later: string[] = [];
  for await (const event of client.events.stream({ eventType: ['Send'] }, { lastEventId: earlier })) {
    later.push(event.subject);
    break;
  }
  assert.deepEqual(later, wanted.slice(-1));
  const stranger = new Postrider({ url: proxy.url, ...service.live, apiKey: 'pr_live_wrong' });
  await assert.rejects(stranger.events.stream()[Symbol.asyncIterator]().next(), { code: 'UNAUTHORIZED' });
});
