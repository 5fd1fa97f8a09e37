/** The erasure of a recipient, step by step: what it finds and removes, what others keep, and how the address stays suppressed. */
import assert from 'node:assert/strict';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import {
  findInboundOperation,
  findMessagesOperation,
  findReceivingOperation,
  findTextsOperation,
  type Look,
  TEXT_TABLES,
  type TextPart,
} from '../../src/erasure/find-store.ts';
import {
  removeInboundOfOperation,
  removeMessagesOperation,
  removeReceivingOperation,
  removeTextsOperation,
} from '../../src/erasure/remove-store.ts';
import {
  advanceErasureOperation,
  claimErasureOperation,
  completeErasureOperation,
  findErasureOperation,
  listErasuresOperation,
  type Progress,
  postponeErasureOperation,
  startErasureOperation,
} from '../../src/erasure/store.ts';
import { storedAnswerOperation } from '../../src/idempotency/idempotency.ts';
import { storeInboundOperation, storeKeptOperation } from '../../src/inbound/store.ts';
import { findMessageOperation, listMessagesOperation } from '../../src/messages/api-store.ts';
import { findEmailOperation } from '../../src/messages/email-store.ts';
import { createShareOperation, isSharedOperation } from '../../src/messages/share-store.ts';
import { addRequestsOperation, listRequestsOperation } from '../../src/request-log/store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import {
  findSuppressionOperation,
  importOperation,
  suppressedAmongOperation,
  suppressionsOperation,
  suppressOperation,
  unsuppressOperation,
} from '../../src/suppressions/store.ts';
import { acceptance, claimRequest, idsOf, settlement } from './mail.ts';
import { EVERY_REQUEST } from './request-log.ts';
import type { Scenario } from './stage.ts';

const ADDRESS = 'Ada@Example.com';
const KEY = 'ada@example.com';
const HASH = 'hash of ada';

export const erasure: Scenario = async (stage) => {
  const { nowMs } = stage;
  const owner = { accountId: stage.id('acc'), mode: 'live' } as const;
  const { accountId } = owner;
  const address = { ...owner, email: KEY, addressHash: HASH };
  const idempotency = {
    endpoint: '/send',
    key: 'k',
    bodyHash: Buffer.from([1]),
    status: 202,
    expiresAtMs: nowMs + 3_600_000,
  };
  const shared = acceptance(stage, {
    accountId,
    to: [ADDRESS, 'bob@example.com'],
    email: { metadata: '{"user":"ada@example.com"}', subject: 'For ADA@example.com.' },
    change: { idempotency },
  });
  const own = acceptance(stage, { accountId, to: [KEY] });
  const other = acceptance(stage, { accountId, to: ['joada@example.com'] });
  const named = acceptance(stage, {
    accountId,
    to: ['eve@example.com'],
    email: { headerTo: JSON.stringify({ to: ['Eve <eve@example.com>'], cc: [`Ada <${ADDRESS}>`] }) },
  });
  for (const one of [shared, own, other, named]) await stage.act(acceptOperation, one);
  const [adaId, bobId] = idsOf(shared) as [string, string];
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const entry = {
    email: KEY,
    reason: 'bounce',
    sourceMessageId: adaId,
    expiresAt: nowMs + 10,
    createdAt: nowMs,
  } as const;
  await stage.act(suppressOperation, { ...owner, suppression: entry, addressHash: HASH });
  const refused = {
    accountId,
    mode: 'live',
    at: nowMs,
    source: 'api',
    status: 400,
    code: 'INVALID_REQUEST',
    message: 'Not valid.',
    address: '192.0.2.1',
  };
  const refusals = [KEY, 'joada@example.com'].map((email, number) => ({
    ...refused,
    number,
    requestId: stage.id('req'),
    details: JSON.stringify([{ message: `line\n${email}` }]),
  }));
  await stage.act(addRequestsOperation, { rows: refusals, counts: [], trim: [] });
  const use = { kind: 'route', accountId, mode: 'live', routeId: 'inr_1' } as const;
  const inboundId = stage.id('inb');
  const received = {
    id: inboundId,
    use,
    client: { address: '192.0.2.1', helo: 'x', tls: null },
    envelopeFrom: KEY,
    recipient: 'help@in.example.org',
    sizeBytes: 3,
    receivedAtMs: nowMs,
    content: Buffer.from('abc'),
    blobKey: null,
    nowMs,
  };
  await stage.act(storeInboundOperation, [received]);
  const withoutRecord = { ...received, id: stage.id('inb') };
  await stage.act(storeKeptOperation, withoutRecord);

  const link = { ...owner, id: stage.id('shr'), messageId: adaId };
  const who = { createdByKind: 'key', createdById: 'key_1', createdByName: null } as const;
  const share = { ...link, ...who, hideSubject: 0, hideContent: 0, createdAt: nowMs, expiresAt: nowMs + 60_000 };
  assert.equal(await stage.act(createShareOperation, { share, most: 1 }), 'created');

  const id = stage.id('ers');
  const started = { id, ...address, addressSealed: Buffer.from([1, 2]), nowMs };
  await stage.act(startErasureOperation, started);
  const again = await stage.act(startErasureOperation, { ...started, id: stage.id('ers') });
  assert.equal(again.id, id, 'an erasure in progress is not started again');
  const limits = { nowMs, leaseMs: 60_000 };
  const first = await stage.act(claimErasureOperation, limits);
  await stage.act(postponeErasureOperation, { lease: first!, dueMs: nowMs });
  const lost = { id, lease: { seq: first!.seq, fence: first!.fence }, ...limits };
  for (const crashes of [0, 1, 2]) {
    const crashed = await stage.act(claimErasureOperation, { ...limits, leaseMs: -3_600_000 });
    assert.equal(crashed?.crashes, crashes, 'of a process that exited before a step');
  }
  const claimed = (await stage.act(claimErasureOperation, limits))!;
  assert.equal(claimed.crashes, 3);
  const held = { ...lost, lease: { seq: claimed.seq, fence: claimed.fence } };
  let progress = JSON.parse(claimed.progress) as Progress;
  const look: Look = { ...owner, address: ADDRESS, after: null, rows: 2, limit: 5 };
  const step = { ...held, ...owner, address: ADDRESS };

  const { found, after } = await stage.act(findMessagesOperation, { ...look, rows: 10 });
  assert.deepEqual([found.map((one) => one.isOwn), after], [[true, true, false], null], 'one copy of each email');
  assert.deepEqual((await stage.act(findMessagesOperation, { ...look, limit: 1 })).after, [adaId]);
  const busy = await stage.act(removeMessagesOperation, { ...step, progress, found });
  assert.equal(busy.outcome, 'busy', 'a worker holds them');
  const results = jobs.map((job) => settlement(stage, job));
  await stage.act(settleOperation, results);
  const late = await stage.act(removeMessagesOperation, { ...step, ...lost, progress, found });
  assert.equal(late.outcome, 'lost');
  assert.ok(await stage.act(findMessageOperation, { ...owner, messageId: adaId }));
  const removed = await stage.act(removeMessagesOperation, { ...step, progress, found });
  assert.ok(removed.outcome === 'done');
  ({ progress } = removed);
  assert.deepEqual(progress.removed, { messages: 2, events: 4, inboundMessages: 0 });
  assert.equal(await stage.act(findMessageOperation, { ...owner, messageId: adaId }), undefined);
  assert.equal(await stage.act(isSharedOperation, link), false, 'links are deleted with the message');
  await stage.act(findEmailOperation, { ...owner, messageId: bobId });
  const bob = await stage.act(findMessageOperation, { ...owner, messageId: bobId });
  assert.doesNotMatch(JSON.stringify(bob), /ada@example/i);
  assert.match(JSON.stringify(bob), /bob@example/);
  const left = await stage.act(findMessagesOperation, { ...look, rows: 10 });
  assert.deepEqual(left.found, []);

  const receiving = await stage.act(findReceivingOperation, { ...look, rows: 1_000 });
  const receivedIds = receiving.found.map((one) => one.id).sort();
  assert.deepEqual(receivedIds, [inboundId, withoutRecord.id].sort(), 'also mail whose record was deleted');
  await stage.act(removeReceivingOperation, { ...step, progress, ids: receivedIds });
  assert.deepEqual((await stage.act(findReceivingOperation, { ...look, rows: 1_000 })).found, []);
  const inbound = await stage.act(findInboundOperation, look);
  assert.deepEqual(inbound.found, []);
  await stage.act(removeInboundOfOperation, { ...step, progress, ids: ['inb_unknown'] });

  for (const part of Object.keys(TEXT_TABLES) as TextPart[]) {
    const texts = await stage.act(findTextsOperation, { ...look, part });
    const expected = part === 'refusedRequests' || part === 'responses' ? 1 : 0;
    assert.equal(texts.found.length, expected, part);
    await stage.act(removeTextsOperation, { ...step, progress, part, keys: texts.found });
    assert.equal((await stage.act(findTextsOperation, { ...look, part })).found.length, 0, part);
  }
  const stored = await stage.act(storedAnswerOperation, { ...owner, endpoint: '/send', key: 'k', nowMs });
  assert.match(stored!.body, /"email":"\[erased\]".*bob@example/);
  assert.equal((await stage.act(listRequestsOperation, { ...EVERY_REQUEST, ...owner })).length, 1);

  const position: Progress = { ...progress, part: 'webhookDeliveries', after: ['whk_1', 'del_1'] };
  assert.equal(await stage.act(advanceErasureOperation, { ...lost, progress: position }), false);
  assert.equal(await stage.act(advanceErasureOperation, { ...held, progress: position }), true);
  assert.equal(await stage.act(claimErasureOperation, limits), null, 'its lease was extended');
  const completion = { id, ...owner, email: KEY, progress, nowMs: nowMs + 5 };
  assert.equal(await stage.act(completeErasureOperation, { ...completion, lease: lost.lease }), false);
  assert.equal(await stage.act(completeErasureOperation, { ...completion, lease: held.lease }), true);
  assert.equal(await stage.act(claimErasureOperation, limits), null);
  await stage.act(findErasureOperation, { id, ...owner });
  await stage.act(listErasuresOperation, { ...owner, before: null, limit: 5 });

  assert.deepEqual(await stage.act(suppressionsOperation, { ...owner, nowMs, after: null, limit: 5 }), []);
  assert.equal(await stage.act(findSuppressionOperation, { ...owner, email: KEY, nowMs }), undefined);
  const erased = await stage.act(findSuppressionOperation, { ...address, nowMs: nowMs + 20 });
  assert.deepEqual([erased?.reason, erased?.expiresAt, erased?.isErased], ['bounce', null, true]);
  const bobAddress = { ...owner, email: 'bob@example.com', addressHash: 'hash of bob' };
  assert.deepEqual(await stage.act(suppressedAmongOperation, { addresses: [address, bobAddress], nowMs }), [KEY]);
  const kept = await stage.act(suppressOperation, { ...owner, suppression: entry, addressHash: HASH });
  assert.equal(kept.createdAt, nowMs);
  const imported = { ...owner, nowMs, suppressions: [{ ...entry, addressHash: HASH }] };
  assert.equal(await stage.act(importOperation, imported), 0);
  assert.deepEqual(await stage.act(suppressionsOperation, { ...owner, nowMs, after: null, limit: 5 }), []);

  const second = acceptance(stage, { accountId, to: [KEY] });
  second.emails[0]!.recipients[0]!.addressHash = HASH;
  const accepted = await stage.act(acceptOperation, second);
  assert.equal(accepted.recipients[0]?.status, 'suppressed');
  assert.equal(await stage.act(unsuppressOperation, { ...address, nowMs }), 'erased');
  assert.equal(await stage.act(unsuppressOperation, { ...address, nowMs }), null);
  assert.deepEqual(await stage.act(suppressedAmongOperation, { addresses: [address], nowMs }), []);
  const list = {
    before: null,
    limit: 9,
    statuses: [],
    messageId: null,
    to: null,
    from: null,
    subject: null,
    any: null,
  };
  const others = {
    templateId: null,
    tags: [],
    metadata: [],
    sinceMs: null,
    untilMs: null,
    lowestId: null,
    highestId: null,
  };
  assert.equal((await stage.act(listMessagesOperation, { ...owner, ...list, ...others })).length, 4);
};
