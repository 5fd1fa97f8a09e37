/** Idempotency keys: one message regardless of retries, and nothing stored for rejected requests. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { dataOf, GOOD, rowsOf, type SendRig, sendRig, settle, testAccount } from '../../test/kit/send-rig.ts';
import { Unavailable } from '../base/failure.ts';
import { acceptOperation } from '../send/acceptance.ts';
import type { Database } from '../storage/database.ts';
import { createInFlightKeys, readKey, removeExpiredOperation } from './idempotency.ts';

let rig: SendRig;
before(async () => {
  rig = await sendRig();
});
after(() => rig.close());

const DAY = 86_400_000;

async function codeOf(result: ReturnType<SendRig['send']>): Promise<string> {
  const { ok, ...rest } = await result;
  return ok ? 'accepted' : (rest as { failure: { code: string } }).failure.code;
}

async function countMessages(rig: SendRig): Promise<number> {
  return (await rowsOf<{ n: number }>(rig, 'SELECT count(*) AS n FROM message'))[0]!.n;
}

test('a retry gets the stored response byte for byte, and another body is rejected', async () => {
  const first = await rig.send(GOOD, { key: 'k1' });
  const second = await rig.send(GOOD, { key: 'k1' });
  assert.ok(first.ok && second.ok);
  assert.equal(second.value.json, first.value.json);
  assert.deepEqual([first.value.replayed, second.value.replayed, second.value.status], [false, true, 202]);
  assert.equal(await codeOf(rig.send({ ...GOOD, text: 'other' }, { key: 'k1' })), 'IDEMPOTENCY_KEY_REUSED');
  assert.equal(await codeOf(rig.send('not json', { key: 'k1' })), 'IDEMPOTENCY_KEY_REUSED');
});

test('100 concurrent identical sends create one message', async () => {
  const before = await countMessages(rig);
  const results = await Promise.all(Array.from({ length: 100 }, () => rig.send(GOOD, { key: 'hundred' })));
  const codes = results.map((one) => (one.ok ? 'accepted' : one.failure.code));
  assert.equal(codes.filter((code) => code === 'accepted').length, 1);
  assert.equal(codes.filter((code) => code === 'DUPLICATE_REQUEST_IN_PROGRESS').length, 99);
  assert.equal(await countMessages(rig), before + 1);
  assert.equal(await codeOf(rig.send(GOOD, { key: 'hundred' })), 'accepted');
});

test('two nodes that handle the same key at once create one message', async () => {
  const other = await sendRig({ database: rig.database });
  try {
    const before = await countMessages(rig);
    const both = await Promise.all([rig.send(GOOD, { key: 'nodes' }), other.send(GOOD, { key: 'nodes' })]);
    assert.deepEqual(new Set(both.map((one) => dataOf(one).messageId)).size, 1);
    assert.equal(await countMessages(rig), before + 1);
    const different = await Promise.all([
      rig.send(GOOD, { key: 'n2' }),
      other.send({ ...GOOD, text: 'x' }, { key: 'n2' }),
    ]);
    assert.deepEqual(different.map((one) => (one.ok ? 'accepted' : one.failure.code)).sort(), [
      'IDEMPOTENCY_KEY_REUSED',
      'accepted',
    ]);
  } finally {
    await other.close();
  }
});

test('a key belongs to one account, mode, and endpoint', async () => {
  const ids = new Set<string>();
  for (const options of [{}, { mode: 'sandbox' }, { account: testAccount('acc_other') }] as const) {
    ids.add(dataOf(await rig.send(GOOD, { key: 'scope', ...options })).messageId);
  }
  assert.equal(ids.size, 3);
});

test('a rejected request does not use its key', async () => {
  assert.equal(await codeOf(rig.send({ ...GOOD, to: 'nobody' }, { key: 'burn' })), 'INVALID_REQUEST');
  assert.equal(await codeOf(rig.send(GOOD, { key: 'burn' })), 'accepted');
});

test('a storage failure accepts nothing and does not use the key', async () => {
  let isBroken = true;
  const database: Database = {
    ...rig.database,
    dialect: 'sqlite',
    state: () => rig.database.state(),
    close: () => rig.database.close(),
    execute: (op, args) => {
      if (isBroken && op.name === acceptOperation.name) return Promise.reject(new Unavailable('disk full'));
      return rig.database.execute(op, args);
    },
  };
  const broken = await sendRig({ database });
  try {
    await assert.rejects(broken.send(GOOD, { key: 'broken' }), Unavailable);
    isBroken = false;
    const result = await broken.send(GOOD, { key: 'broken' });
    assert.ok(result.ok && !result.value.replayed);
  } finally {
    await broken.close();
  }
});

test('keys are valid for 24 hours and while one of their messages can be retried', async () => {
  const sendAt = new Date(rig.clock.now() + 3 * DAY).toISOString();
  const first = dataOf(await rig.send(GOOD, { key: 'time' }));
  const scheduled = dataOf(await rig.send({ ...GOOD, sendAt }, { key: 'scheduled' }));
  await settle(rig, first.messageId, { to: 'delivered' });
  rig.clock.advance(DAY - 60_000);
  assert.equal(dataOf(await rig.send(GOOD, { key: 'time' })).messageId, first.messageId, 'after 23 h 59');
  rig.clock.advance(60_000);
  assert.equal(dataOf(await rig.send({ ...GOOD, sendAt }, { key: 'scheduled' })).messageId, scheduled.messageId);
  assert.equal(await codeOf(rig.send(GOOD, { key: 'scheduled' })), 'IDEMPOTENCY_KEY_REUSED');
  const again = dataOf(await rig.send(GOOD, { key: 'time' }));
  assert.notEqual(again.messageId, first.messageId, 'after 24 h the key can be reused');
  assert.equal(dataOf(await rig.send(GOOD, { key: 'time' })).messageId, again.messageId, 'and is in use again');
  await rig.database.execute(removeExpiredOperation, { beforeMs: rig.clock.now(), limit: 1000, after: null });
  const kept = await rowsOf<{ key: string }>(rig, 'SELECT key FROM idempotency');
  assert.ok(
    kept.some((row) => row.key === 'scheduled'),
    'kept while its message is scheduled',
  );
  assert.ok(
    kept.some((row) => row.key === 'time'),
    'renewed',
  );
});

test('keys are 1 to 255 printable ASCII characters, sent once', () => {
  const longest = 'k'.repeat(255);
  assert.deepEqual(readKey([]), { ok: true, value: undefined });
  for (const key of ['a', longest, 'a b~!']) assert.deepEqual(readKey([key]), { ok: true, value: key });
  for (const values of [[''], ['k'.repeat(256)], ['é'], ['a\tb'], ['a', 'a'], ['a\u007f']]) {
    const result = readKey(values);
    assert.ok(!result.ok, JSON.stringify(values));
    assert.equal(result.failure.details[0]?.field, 'Idempotency-Key');
  }
  const inFlight = createInFlightKeys();
  const scope = { accountId: 'a', mode: 'live' as const, endpoint: '/send' };
  assert.equal(inFlight.take({ ...scope, key: `${longest.slice(1)}a` }), true);
  assert.equal(
    inFlight.take({ ...scope, key: `${longest.slice(1)}b` }),
    true,
    'long keys are distinguished by their last character',
  );
  assert.equal(inFlight.take({ ...scope, key: `${longest.slice(1)}a` }), false);
});
