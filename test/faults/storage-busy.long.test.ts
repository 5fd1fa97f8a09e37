/**
 * Another process holds the database's write lock: sends wait up to five seconds, and are then rejected with OVERLOADED and nothing
 * accepted. When the lock is released, the same request is accepted.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import test from 'node:test';
import { runningMs } from '../kit/running-time.ts';
import { startService } from '../kit/start-service.ts';

test('a held write lock delays sends, then rejects them, and has no effect once released', {
  timeout: 120_000,
}, async () => {
  const service = await startService();
  const other = new DatabaseSync(path.join(service.dataDir, 'postrider.db'), { timeout: 5_000 });
  const send = (key: string) => {
    const body = { from: 'a@x.example', to: 'b@x.example', subject: key, text: 'x' };
    return service.sandboxApi.post('/send', body, { 'Idempotency-Key': key });
  };
  try {
    assert.equal((await send('before')).status, 202);

    other.exec('BEGIN IMMEDIATE');
    const short = send('short');
    await service.anonymous.get('/health');
    setTimeout(() => other.exec('ROLLBACK'), 500);
    assert.equal((await short).status, 202, 'a short lock only delays');

    other.exec('BEGIN IMMEDIATE');
    const [startedAt, ranMs] = [performance.now(), runningMs()];
    const refused = await send('long');
    const waitedMs = performance.now() - startedAt;
    assert.equal(refused.status, 503, refused.text);
    assert.equal(refused.body.error.code, 'OVERLOADED');
    assert.ok(Number(refused.headers['retry-after']) >= 1, 'the response has Retry-After');
    assert.ok(waitedMs > 2_000, `waited ${Math.round(waitedMs)} ms`);
    // One round with many short sleeps, which a busy machine lengthens; a second round would double it.
    assert.ok(runningMs() - ranMs < 9_000, `waited ${Math.round(waitedMs)} ms`);
    assert.equal((await service.anonymous.get('/health')).status, 200, 'the service keeps running');
    other.exec('ROLLBACK');

    assert.equal((await send('long')).status, 202, 'the rejection did not use up the key');
    const list = (await service.sandboxApi.get('/messages')).body as unknown as { subject: string }[];
    assert.deepEqual(list.map((one) => one.subject).sort(), ['before', 'long', 'short']);
  } finally {
    other.close();
    await service.close();
  }
});
