/**
 * Tests clients/typescript without a service: answers that Postrider would not send, retries whose first try took effect, and calls that
 * cannot be sent. All are reported as PostriderError.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Postrider, PostriderError } from '../../clients/typescript/src/index.ts';

const url = 'http://mail.example.com';
const keys = { accountId: 'acc_1', apiKey: 'pr_test_1' };
const email = { from: 'orders@shop.example', to: 'ann@example.com', subject: 'x', text: 'x' };

/** A client whose requests get these answers in turn; the last one repeats. */
function answeredBy(...answers: (() => Response)[]) {
  const methods: string[] = [];
  const fetchIt: typeof fetch = async (_, init) => {
    methods.push(init?.method ?? 'GET');
    return (answers[methods.length - 1] ?? answers.at(-1)!)();
  };
  return { client: new Postrider({ url, ...keys, fetch: fetchIt }), methods };
}

const page = (): Response => new Response('<h1>Sign in</h1>', { headers: { 'content-type': 'text/html' } });
const cutShort = (): Response => new Response('{"data":', { headers: { 'content-type': 'application/json' } });
const text = (): Response => Response.json('ok');

const refusal = (status: number, code: string) => (): Response =>
  Response.json(
    { success: false, error: { code, message: 'No.', details: [] }, requestId: 'req_1' },
    { status, headers: { 'retry-after': '0' } },
  );

const lost = (): Response => {
  throw new TypeError('fetch failed');
};

test('a success that Postrider would not send is UNEXPECTED_ANSWER for every kind of call', async () => {
  const calls: Record<string, (client: Postrider) => Promise<unknown>> = {
    send: (client) => client.emails.send(email),
    delete: (client) => client.webhooks.delete('wh_1'),
    list: (client) => client.messages.list().page(),
    file: (client) => client.messages.content('msg_1'),
    csv: (client) => client.suppressions.exportCsv(),
    export: (client) => client.audit.exportCsv(),
    stream: (client) => client.events.stream()[Symbol.asyncIterator]().next(),
  };
  for (const [name, call] of Object.entries(calls)) {
    for (const answer of [page, cutShort, text]) {
      const { client, methods } = answeredBy(answer);
      await assert.rejects(call(client), { name: 'PostriderError', code: 'UNEXPECTED_ANSWER', status: 200 }, name);
      assert.equal(methods.length, 1, name);
    }
  }
});

test('a DELETE whose retry finds nothing has succeeded, unless no earlier try can have deleted it', async () => {
  const gone = refusal(404, 'NOT_FOUND');
  assert.deepEqual(await answeredBy(lost, gone).client.webhooks.delete('wh_1'), { message: 'Deleted.' });
  const fromProxy = (): Response => new Response('Bad gateway', { status: 503, headers: { 'retry-after': '0' } });
  await answeredBy(refusal(500, 'INTERNAL_ERROR'), gone).client.webhooks.delete('wh_1');
  await answeredBy(fromProxy, gone).client.webhooks.delete('wh_1');
  for (const code of ['UNAVAILABLE', 'OVERLOADED']) {
    const refused = answeredBy(refusal(503, code), gone);
    await assert.rejects(refused.client.webhooks.delete('wh_1'), { code: 'NOT_FOUND' }, code);
  }
  await assert.rejects(answeredBy(gone).client.webhooks.delete('wh_1'), { code: 'NOT_FOUND' });
  const limited = answeredBy(refusal(429, 'RATE_LIMITED'), gone);
  await assert.rejects(limited.client.webhooks.delete('wh_1'), { code: 'NOT_FOUND' });
  await assert.rejects(answeredBy(lost, gone).client.webhooks.get('wh_1'), { code: 'NOT_FOUND' });
});

test('the replacement of a template is tried once, because each try creates a version', async () => {
  const { client, methods } = answeredBy(lost);
  const replaced = client.templates.replace('tpl_1', { name: 'receipt', subject: 'x', text: 'x' });
  await assert.rejects(replaced, {
    code: 'CONNECTION_FAILED',
    message: /^The connection to http:\/\/mail\.example\.com failed\./,
  });
  assert.deepEqual(methods, ['PUT']);
});

test('a call that cannot be sent is INVALID_REQUEST before any request', async () => {
  const { client, methods } = answeredBy(page);
  const content = '%'.repeat(3_000_000);
  const attachments = [{ name: 'a.bin', contentType: 'application/octet-stream', content }];
  const calls = [
    ...['', '.', '..'].map((id) => client.messages.get(id)),
    client.messages.get(undefined as unknown as string),
    client.call('nope' as 'getHealth'),
    client.call('toString' as 'getHealth'),
    client.templates.versions('..').page(),
    client.suppressions.delete(''),
    client.emails.send({ ...email, attachmentSubmissionId: 'sub_1' }),
    client.emails.send({ ...email, attachments }),
  ];
  for (const [index, call] of (await Promise.allSettled(calls)).entries()) {
    assert.equal(call.status, 'rejected', String(index));
    assert.ok(call.reason instanceof PostriderError, String(index));
    assert.equal(call.reason.code, 'INVALID_REQUEST', String(index));
  }
  await assert.rejects(client.call('nope' as 'getHealth'), /There is no operation nope/);
  assert.deepEqual(methods, []);
});

test('the constructor rejects a URL that is not http or https', () => {
  for (const wrong of ['localhost:3000', 'mail.example.com', 'ftp://mail.example.com', 'http://', '']) {
    assert.throws(
      () => new Postrider({ url: wrong, ...keys }),
      (error) => error instanceof PostriderError && error.code === 'INVALID_REQUEST' && /url/.test(error.message),
      wrong,
    );
  }
});

test('an optional field that is null is the same as an omitted one', async () => {
  const bodies: unknown[] = [];
  const fetchIt: typeof fetch = async (_, init) => {
    bodies.push(JSON.parse(String(init?.body)));
    return Response.json({ success: true, data: { messageId: 'msg_1' } });
  };
  const client = new Postrider({ url, ...keys, fetch: fetchIt });
  const nothing = { cc: null, bcc: null, attachments: null } as object;
  await client.emails.send({ ...email, ...nothing });
  await client.emails.send({ ...email, ...nothing, to: null } as never);
  const attachment = { name: 'a.txt', contentType: 'text/plain', content: null };
  await client.emails.send({ ...email, attachments: [attachment] } as never);
  assert.equal(bodies.length, 3);
});

test('webhooks.test passes the event type, and the options of the call', async () => {
  const bodies: unknown[] = [];
  const fetchIt: typeof fetch = async (_, init) => {
    bodies.push(init?.body);
    init?.signal?.throwIfAborted();
    return Response.json({});
  };
  const client = new Postrider({ url, ...keys, fetch: fetchIt });
  await client.webhooks.test('wh_1', { eventType: 'Bounce', timeoutMs: 5_000 });
  await client.webhooks.test('wh_1');
  const signal = AbortSignal.abort(new Error('stopped'));
  await assert.rejects(client.webhooks.test('wh_1', { signal }), /stopped/);
  assert.deepEqual(bodies, ['{"eventType":"Bounce"}', undefined, undefined]);
});
