/** The routes below /messages: a message, its content, and the changes that a user can make. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { testAddressHash } from '../../test/kit/address-hash.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { type FeatureApp, featureApp } from '../../test/kit/feature-app.ts';
import { type SeededMail, seedMail } from '../../test/kit/seed-mail.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { changeOperation } from '../audit/change.ts';
import { failure, Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { claimOperation } from '../delivery/queue/claim.ts';
import { settleOperation } from '../delivery/record/settle.ts';
import { createInFlightKeys, createKeyedCalls } from '../idempotency/idempotency.ts';
import { DELIVERY_WORK } from '../messages/messages.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { prepareDataDirectory } from '../storage/data-directory.ts';
import type { Database } from '../storage/database.ts';
import { createSearches } from '../storage/searches.ts';
import { backlogOperation } from '../work/work.ts';
import { messageRoutes } from './messages.ts';

const clock = fakeClock(Date.now());
let app: FeatureApp;
let blobs: Blobs;
let nudges = 0;
/** The operation of this name is unavailable. */
let unavailable: string | undefined;

before(async () => {
  app = await featureApp(({ database, folder }) => {
    blobs = openDiskBlobs(path.join(folder, 'blobs'));
    const execute: Database['execute'] = (op, args) =>
      op.name === unavailable ? Promise.reject(new Unavailable('disk full')) : database.execute(op, args);
    return messageRoutes({
      database: { ...database, execute },
      blobs,
      clock,
      addressHash: testAddressHash,
      searches: createSearches(),
      checkSender: async (_, from) => (from.includes('gone.example') ? failure('SENDER_NOT_VERIFIED') : undefined),
      once: createKeyedCalls({ database, inFlight: createInFlightKeys(), clock }),
      nudge: () => {
        nudges += 1;
      },
    });
  });
});
after(() => app.close());

const seed = async (mail: SeededMail): Promise<string> => {
  const { recipients } = await seedMail(app.temp.database, { nowMs: clock.now(), ...mail });
  return recipients[0]!.messageId;
};
/** When the content of this message's email will be removed. Read while the threads are running. */
function contentUntil(messageId: string): number | null {
  const connection = new DatabaseSync(prepareDataDirectory(app.temp.folder).databaseFile, { readOnly: true });
  try {
    const row = connection
      .prepare('SELECT content_until FROM email WHERE seq = (SELECT email_seq FROM message WHERE id = ?)')
      .get(messageId);
    return (row as { content_until: number | null }).content_until;
  } finally {
    connection.close();
  }
}
const claim = () =>
  app.temp.database.execute(claimOperation, { nowMs: clock.now(), leaseMs: 60_000, limit: 100, quarantined: false });
const ids = (list: { messageId: string }[]): string[] => list.map((one) => one.messageId);

test('a message includes its attempts, its timeline, oldest first, and its content', async () => {
  const accountId = 'acc_one';
  const api = app.api(accountId);
  const content = 'Subject: Hi\r\n\r\nBody with \u00e4\r\n';
  const id = await seed({ accountId, content });
  const job = (await claim()).jobs.find((one) => one.messageId === id)!;
  assert.equal((await api.get(`/messages/${id}`)).body.status, 'sending');
  await app.temp.database.execute(settleOperation, [
    {
      seq: job.seq,
      fence: job.fence,
      accountId,
      mode: 'live',
      messageId: id,
      emailSeq: job.emailSeq,
      retain: '30d',
      atMs: clock.now() + 5,
      attempts: 1,
      to: 'delivered',
      nextAttemptAtMs: null,
      attempt: {
        time: new Date(clock.now()).toISOString(),
        durationMs: 5,
        host: 'mx.example.com',
        address: '192.0.2.1',
        tls: 'TLSv1.3',
        dialogue: [],
        reply: '250 2.0.0 OK',
        outcome: 'delivered',
      },
      event: { id: newId('evt'), type: 'Delivery', detail: { delivery: { reply: '250 2.0.0 OK' } } },
      suppress: null,
      sandboxOutcome: null,
      followedBy: null,
    },
  ]);
  const { body } = await api.get(`/messages/${id}`);
  assert.equal(body.status, 'delivered');
  assert.equal(body.attempts[0].host, 'mx.example.com');
  assert.deepEqual(
    body.timeline.map((event: { eventType: string }) => event.eventType),
    ['Send', 'Delivery'],
  );
  const raw = await api.get(`/messages/${id}/content`);
  assert.equal(raw.headers['content-type'], 'message/rfc822');
  assert.equal(raw.text, content);
  assert.equal(raw.headers['x-content-type-options'], 'nosniff', 'once');
  const key = await blobs.put(randomBytes(100_000));
  const large = await seed({ accountId, email: { content: null, blobKey: key } });
  assert.equal((await api.get(`/messages/${large}/content`)).headers['content-type'], 'message/rfc822');
  const gone = await seed({ accountId, email: { content: null } });
  assert.equal((await api.get(`/messages/${gone}/content`)).status, 404);
  assert.equal((await api.post(`/messages/${gone}/resend`)).status, 409);
  for (const stranger of [app.api('acc_two'), app.api(accountId, 'sandbox')]) {
    assert.equal((await stranger.get(`/messages/${id}`)).status, 404);
    assert.equal((await stranger.get(`/messages/${id}/content`)).status, 404);
    assert.equal((await stranger.post(`/messages/${id}/cancel`)).status, 404);
    assert.equal((await stranger.post(`/messages/${id}/resend`)).status, 404);
    assert.equal((await stranger.patch(`/messages/${id}`, { sendAt: '2099-01-01T00:00:00Z' })).status, 400);
    const sendAt = new Date(clock.now() + 60_000).toISOString();
    assert.equal((await stranger.patch(`/messages/${id}`, { sendAt })).status, 404);
  }
});

test('an unsent message can be canceled once, but not if it is in progress or finished', async () => {
  const accountId = 'acc_cancel';
  const api = app.api(accountId);
  await claim();
  const before = await app.temp.database.execute(backlogOperation, DELIVERY_WORK);
  const scheduled = await seed({ accountId, sendAtMs: clock.now() + 60_000 });
  const queued = await seed({ accountId, retain: 'none' });
  for (const id of [scheduled, queued]) {
    const cancelled = await api.post(`/messages/${id}/cancel`);
    assert.equal(cancelled.status, 200, cancelled.text);
    assert.equal(cancelled.body.status, 'cancelled');
    const { timeline } = (await api.get(`/messages/${id}`)).body;
    assert.equal(timeline[1].eventType, 'Reject');
    assert.deepEqual(
      [timeline[1].reject.reason, timeline[1].reject.owner, timeline[1].reject.suppressed],
      ['cancelled', 'sender', false],
    );
    const again = await api.post(`/messages/${id}/cancel`);
    assert.deepEqual([again.status, again.body.error.code], [409, 'CONFLICT']);
  }
  assert.equal(
    (await app.temp.database.execute(backlogOperation, DELIVERY_WORK)).depth,
    before.depth,
    'their work is deleted',
  );
  assert.equal((await api.get(`/messages/${queued}/content`)).status, 404, 'not retained');
  assert.equal((await api.get(`/messages/${scheduled}/content`)).status, 200);
  const held = await seed({ accountId });
  await claim();
  const refused = await api.post(`/messages/${held}/cancel`);
  assert.equal(refused.status, 409);
  assert.match(refused.body.error.message, /being sent/);
  assert.equal((await api.post('/messages/msg_nothing/cancel')).status, 404);
});

test('only a scheduled message can be moved, together with its expiry', async () => {
  const accountId = 'acc_move';
  const api = app.api(accountId);
  const id = await seed({ accountId, sendAtMs: clock.now() + 3_600_000 });
  const sendAt = new Date(clock.now() + 60_000).toISOString();
  const moved = await api.patch(`/messages/${id}`, { sendAt });
  assert.equal(moved.status, 200, moved.text);
  const { status, nextAttemptAt, expiresAt } = moved.body;
  const expiry = new Date(Date.parse(sendAt) + 259_200_000).toISOString();
  assert.deepEqual([status, moved.body.sendAt, nextAttemptAt, expiresAt], ['scheduled', sendAt, sendAt, expiry]);
  assert.deepEqual(
    (await claim()).jobs.filter((job) => job.messageId === id),
    [],
  );
  for (const wrong of [new Date(clock.now() + 31 * 86_400_000).toISOString(), 'soon']) {
    const refused = await api.patch(`/messages/${id}`, { sendAt: wrong });
    assert.deepEqual([refused.status, refused.body.error.details[0].field], [400, 'sendAt']);
  }
  clock.advance(60_000);
  assert.equal((await claim()).jobs.filter((job) => job.messageId === id).length, 1);
  const later = new Date(clock.now() + 60_000).toISOString();
  assert.equal((await api.patch(`/messages/${id}`, { sendAt: later })).status, 409);
  const past = await seed({ accountId, sendAtMs: clock.now() + 3_600_000 });
  const leaving = await api.patch(`/messages/${past}`, { sendAt: '2020-01-01T00:00:00Z' });
  assert.deepEqual([leaving.status, leaving.body.status], [200, 'queued'], leaving.text);
  assert.equal(leaving.body.expiresAt, new Date(clock.now() + 259_200_000).toISOString());
  assert.equal((await claim()).jobs.filter((job) => job.messageId === past).length, 1, 'a past time sends immediately');
  const queued = await seed({ accountId });
  assert.equal((await api.patch(`/messages/${queued}`, { sendAt: later })).status, 409);
});

test('retention starts at the latest copy, however often copies are moved', async () => {
  const accountId = 'acc_keep';
  const api = app.api(accountId);
  const day = 86_400_000;
  const startMs = clock.now();
  const recipients = ['a@example.com', 'b@example.com'];
  const mail = { accountId, recipients, nowMs: startMs, sendAtMs: startMs + day, retain: '7d' } as const;
  const copies = ids((await seedMail(app.temp.database, mail)).recipients);
  for (const [copy, daysAhead, lastDay] of [
    [0, 5, 5],
    [1, 5, 5],
    [0, 2, 5],
    [1, 3, 3],
  ] as const) {
    const sendAt = new Date(startMs + daysAhead * day).toISOString();
    assert.equal((await api.patch(`/messages/${copies[copy]}`, { sendAt })).status, 200);
    assert.equal(contentUntil(copies[copy]!), startMs + (lastDay + 7) * day);
  }
});

test('a resend is rejected if a send would be', () => {
  const routes = messageRoutes({
    database: app.temp.database,
    blobs,
    clock,
    addressHash: testAddressHash,
    searches: createSearches(),
    checkSender: async () => undefined,
    once: async (_, first) => (await first(null))!,
    nudge: () => {},
  });
  assert.deepEqual(
    routes.filter((route) => route.load?.acceptsMail).map((route) => route.path),
    ['/messages/:id/resend'],
  );
});

test('a resend to a suppressed address without retention stores nothing', async () => {
  const accountId = 'acc_unkept';
  const api = app.api(accountId);
  const blobKey = await blobs.put(Buffer.alloc(100_000, 0x20));
  const first = await seed({ accountId });
  const job = (await claim()).jobs.find((one) => one.messageId === first)!;
  await app.temp.database.execute(settleOperation, [
    {
      seq: job.seq,
      fence: job.fence,
      accountId,
      mode: 'live',
      messageId: first,
      emailSeq: job.emailSeq,
      retain: '30d',
      atMs: clock.now(),
      attempts: 1,
      to: 'bounced',
      nextAttemptAtMs: null,
      attempt: null,
      event: null,
      suppress: { email: 'ada@example.com', untilMs: null },
      sandboxOutcome: null,
      followedBy: null,
    },
  ]);
  const kept = await seed({
    accountId,
    recipients: ['b@example.com'],
    retain: 'none',
    email: { content: null, blobKey },
  });
  assert.equal((await api.get(`/messages/${kept}/content`)).status, 200, 'until it is settled');
  const { recipients } = await seedMail(app.temp.database, {
    accountId,
    recipients: ['b@example.com', 'ada@example.com'],
    retain: 'none',
    nowMs: clock.now(),
    email: { content: null, blobKey: await blobs.put(Buffer.alloc(100_000, 0x21)) },
  });
  const put: string[] = [];
  const original = blobs.put;
  blobs.put = async (content) => {
    put.push(await original(content));
    return put.at(-1)!;
  };
  try {
    const sent = await api.post(`/messages/${recipients[1]!.messageId}/resend`);
    assert.equal(sent.body.data?.status, 'suppressed', sent.text);
    assert.equal((await api.get(`/messages/${sent.body.data.messageId}/content`)).status, 404);
    assert.equal(put.length, 1);
    await waitUntil('the blob to be deleted', async () => (await blobs.get(put[0]!)) === undefined);
  } finally {
    blobs.put = original;
  }
});

/** Completes the work of a message like the delivery does. */
function finish(messageId: string, status = 'delivered'): void {
  const connection = new DatabaseSync(prepareDataDirectory(app.temp.folder).databaseFile, { timeout: 30_000 });
  connection.exec('PRAGMA busy_timeout = 5000');
  connection.prepare('DELETE FROM work WHERE subject = ?').run(messageId);
  connection.prepare('UPDATE message SET status = ?, work_seq = NULL WHERE id = ?').run(status, messageId);
  connection.close();
}

test('a message that has not finished cannot be resent', async () => {
  const accountId = 'acc_twice';
  const api = app.api(accountId);
  for (const when of [{}, { sendAtMs: clock.now() + 60_000 }]) {
    const id = await seed({ accountId, ...when });
    const refused = await api.post(`/messages/${id}/resend`);
    assert.deepEqual([refused.status, refused.body.error.code], [409, 'CONFLICT'], refused.text);
    assert.match(refused.body.error.message, /Resend it after delivery ends/);
  }
  const delayed = await seed({ accountId });
  finish(delayed, 'delayed');
  assert.equal((await api.post(`/messages/${delayed}/resend`)).status, 409);
  assert.equal((await api.get('/messages')).body.length, 3);
  for (const status of ['delivered', 'bounced', 'complained', 'suppressed', 'cancelled']) {
    const id = await seed({ accountId });
    finish(id, status);
    assert.equal((await api.post(`/messages/${id}/resend`)).status, 200, status);
  }
});

test('a resend is stored together with its audit entry, which has no address', async () => {
  const accountId = 'acc_recorded';
  const id = await seed({ accountId });
  finish(id);
  const api = app.api(accountId);
  unavailable = changeOperation.name;
  assert.equal((await api.post(`/messages/${id}/resend`)).status, 503);
  unavailable = undefined;
  assert.equal((await api.get('/messages')).body.length, 1, 'nothing was accepted');
  const sent = await api.post(`/messages/${id}/resend`);
  assert.equal(sent.status, 200, sent.text);
  const connection = new DatabaseSync(prepareDataDirectory(app.temp.folder).databaseFile, { readOnly: true });
  const entries = connection
    .prepare('SELECT action, resource_id, after_change FROM audit WHERE account_id = ?')
    .all(accountId);
  connection.close();
  const { messageId } = sent.body.data;
  assert.deepEqual(
    entries.map((entry) => ({ ...entry })),
    [{ action: 'message.resend', resource_id: id, after_change: JSON.stringify({ messageId, status: 'queued' }) }],
  );
});

test('a repeated resend with the same Idempotency-Key creates one message', async () => {
  const accountId = 'acc_once';
  const api = app.api(accountId);
  const id = await seed({ accountId });
  finish(id);
  const resend = (of: string, key: string) => api.post(`/messages/${of}/resend`, undefined, { 'Idempotency-Key': key });
  const first = await resend(id, 'k1');
  assert.equal(first.status, 200, first.text);
  assert.equal(first.headers['idempotent-replayed'], undefined);
  const second = await resend(id, 'k1');
  assert.deepEqual([second.status, second.text, second.headers['idempotent-replayed']], [200, first.text, 'true']);
  assert.equal((await api.get('/messages')).body.length, 2);
  assert.notEqual((await resend(id, 'k2')).text, first.text);
  assert.equal((await resend(id, 'x'.repeat(256))).body.error.code, 'INVALID_REQUEST');
  const waits = await seed({ accountId });
  assert.equal((await resend(waits, 'k3')).status, 409);
  finish(waits);
  assert.equal((await resend(waits, 'k3')).status, 200, 'a rejected request does not use its key');
  const together = await Promise.all([resend(id, 'k4'), resend(id, 'k4')]);
  assert.deepEqual(together.map((one) => one.status).sort(), [200, 409]);
  app.setBackPressure('the disk is nearly full');
  assert.equal((await resend(id, 'k1')).text, first.text, 'a resend is replayed under back-pressure');
  assert.equal((await resend(id, 'k5')).body.error.code, 'OVERLOADED');
  app.setBackPressure();
});

test('a resend creates a new message from the kept content with a new Message-ID and its own origin', async () => {
  const accountId = 'acc_resend';
  const api = app.api(accountId);
  const id = await seed({ accountId });
  finish(id);
  nudges = 0;
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00';
  const sent = await api.post(`/messages/${id}/resend`, undefined, { traceparent });
  assert.equal(sent.status, 200, sent.text);
  const { messageId, status, recipients } = sent.body.data;
  assert.notEqual(messageId, id);
  assert.deepEqual([status, recipients.length, recipients[0].email], ['queued', 1, 'ada@example.com']);
  assert.ok(nudges > 0);
  const first = await api.get(`/messages/${id}/content`);
  const second = await api.get(`/messages/${messageId}/content`);
  const line = /^Message-ID: (.*)$/m;
  assert.notEqual(line.exec(first.text)![1], line.exec(second.text)![1]);
  assert.equal(first.text.replace(line, ''), second.text.replace(line, ''));
  const { body } = await api.get(`/messages/${messageId}`);
  assert.equal(body.headerMessageId, line.exec(second.text)![1]);
  assert.equal(body.sizeBytes, second.text.length);
  const connection = new DatabaseSync(prepareDataDirectory(app.temp.folder).databaseFile, { readOnly: true });
  const origin = connection
    .prepare('SELECT e.client_address, e.traceparent FROM email e JOIN message m ON m.email_seq = e.seq WHERE m.id = ?')
    .get(messageId);
  connection.close();
  assert.deepEqual({ ...origin }, { client_address: '127.0.0.1', traceparent }, 'of the request to resend');
  const foreign = await seed({ accountId, from: 'x@gone.example' });
  assert.equal((await api.post(`/messages/${foreign}/resend`)).body.error.code, 'SENDER_NOT_VERIFIED');
});
