/**
 * The database connection is lost between a commit and its reply, as in every failover, so Postrider must not report that nothing was
 * accepted. It returns 500, which no proxy retries automatically. The message is stored once, and a retry with the key finds it.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test from 'node:test';
import { commitCut } from '../kit/commit-cut.ts';
import { startService } from '../kit/start-service.ts';
import { tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';

const UNKNOWN = /^Postrider cannot tell whether the request was processed.* Retry with the same Idempotency-Key/;

test('a lost commit response returns 500, stores once, and is found by its key', { timeout: 150_000 }, async (t) => {
  const postgres = await tempPostgres();
  t.after(() => postgres.drop());
  const proxy = await commitCut(postgres.url);
  t.after(() => proxy.close());
  const service = await startService({
    env: { POSTRIDER_DATABASE_URL: proxy.url, POSTRIDER_SECRET_KEY: randomBytes(32).toString('base64') },
  });
  t.after(() => service.close());
  const api = service.sandboxApi;
  const listed = async (subject: string): Promise<string[]> => {
    const list = (await api.get('/messages?limit=100')).body as unknown as { messageId: string; subject: string }[];
    return list.filter((one) => one.subject === subject).map((one) => one.messageId);
  };
  const ready = () => waitUntil('the service to be ready', async () => (await api.get('/ready')).status === 200);

  await t.test('POST /send', async () => {
    const body = { from: 'a@x.example', to: 'lost-one@x.example', subject: 'one', text: 'x' };
    proxy.loseAnswer('lost-one@x.example');
    const answer = await api.post('/send', body, { 'Idempotency-Key': 'one' });
    assert.equal(proxy.lost, 1, 'control: the answer was lost');
    assert.equal(answer.status, 500, answer.text);
    assert.equal(answer.body.error.code, 'INTERNAL_ERROR');
    assert.match(answer.body.error.message, UNKNOWN);
    assert.equal(answer.headers['retry-after'], undefined);
    await ready();
    await waitUntil('the mail', async () => (await listed('one')).length > 0);
    const again = await api.post('/send', body, { 'Idempotency-Key': 'one' });
    assert.equal(again.status, 202, again.text);
    assert.equal(again.headers['idempotent-replayed'], 'true');
    assert.deepEqual(await listed('one'), [again.body.data.messageId], 'stored once');
  });

  await t.test('POST /send/batch', async () => {
    const messages = ['lost-two', 'three'].map((name) => ({
      from: 'a@x.example',
      to: `${name}@x.example`,
      subject: name,
      text: 'x',
    }));
    proxy.loseAnswer('lost-two@x.example');
    const answer = await api.post('/send/batch', { messages }, { 'Idempotency-Key': 'batch' });
    assert.equal(proxy.lost, 2, 'control: the answer was lost');
    assert.equal(answer.status, 200, answer.text);
    const [lost] = answer.body.results;
    assert.equal(lost.status, 500, answer.text);
    assert.match(lost.error.message, UNKNOWN);
    await ready();
    await waitUntil('the mail', async () => (await listed('lost-two')).length > 0);
    const again = await api.post('/send/batch', { messages }, { 'Idempotency-Key': 'batch' });
    assert.deepEqual(
      again.body.results.map((one: { status: number }) => one.status),
      [202, 202],
      again.text,
    );
    for (const [index, { subject }] of messages.entries()) {
      assert.deepEqual(await listed(subject), [again.body.results[index].data.messageId], 'stored once');
    }
  });

  assert.match((await api.get('/ready')).text, /ready/);
});
