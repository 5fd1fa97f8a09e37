/** What an operator reads across accounts, operator keys, and ended pauses: deferred messages return, and no others. */
import assert from 'node:assert/strict';
import { decideProtectionOperation } from '../../src/accounts/protection-store.ts';
import { createAccountOperation, decideApprovalOperation, requestApprovalOperation } from '../../src/accounts/store.ts';
import {
  blockedToNotifyOperation,
  blockNotifiedOperation,
  bringForwardOperation,
  claimProbeOperation,
  deferredByDomainOperation,
  deferredPageOperation,
  readPausesOperation,
  resumeDestinationOperation,
  writePausesOperation,
} from '../../src/delivery/destinations/pause-store.ts';
import {
  returnRelayLimitOperation,
  takeRelayLimitOperation,
} from '../../src/delivery/destinations/relay-limit-store.ts';
import { returnWarmUpShareOperation, takeWarmUpShareOperation } from '../../src/delivery/destinations/warm-up-store.ts';
import { limitUsageOperation } from '../../src/limits/limits.ts';
import {
  createOperatorKeyOperation,
  findOperatorKeyOperation,
  operatorKeysOperation,
  revokeOperatorKeyOperation,
} from '../../src/operator/key-store.ts';
import {
  accountPageOperation,
  approvalPageOperation,
  credentialCountsOperation,
  lastAttemptsOperation,
  lastMessageOperation,
  queueByAccountOperation,
  queueByDomainOperation,
} from '../../src/operator/store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { logBlockerOperation } from '../../src/storage/meta-store.ts';
import { acceptance } from '../kit/seed-mail.ts';
import { newAccount } from './accounts.ts';
import type { Scenario } from './stage.ts';

export const operatorReads: Scenario = async (stage) => {
  await stage.act(logBlockerOperation, null);
  const first = { ...newAccount(stage), name: '100% Mail_Shop' };
  const second = { ...newAccount(stage, 'free'), name: '100 Mails' };
  for (const account of [first, second]) await stage.act(createAccountOperation, { account, keys: [] });
  const all = { name: null, status: null, plan: null, protectionStatus: null, before: null, limit: 2 };
  const page = await stage.act(accountPageOperation, all);
  assert.deepEqual([page[0]!.id, page[1]!.id], [second.id, first.id], 'newest first');
  assert.equal((await stage.act(accountPageOperation, { ...all, name: '0% mail_' })).length, 1);
  assert.equal((await stage.act(accountPageOperation, { ...all, name: '100', plan: 'free' })).length, 1);
  const before = { ...all, name: '100', status: 'active' as const, before: second.id };
  assert.deepEqual(
    (await stage.act(accountPageOperation, before)).map(({ id }) => id),
    [first.id],
  );
  const held = { id: second.id, from: 'good', to: 'held', reason: null, nowMs: stage.nowMs } as const;
  await stage.act(decideProtectionOperation, held);
  assert.deepEqual(
    (await stage.act(accountPageOperation, { ...all, protectionStatus: 'held' })).map(({ id, protectionStatus }) => [
      id,
      protectionStatus,
    ]),
    [[second.id, 'held']],
  );
  const ask = { accountId: first.id, requestedEmailBytes: 30_000_000, reason: 'Kataloge', nowMs: stage.nowMs };
  const [one, two] = [stage.id('apr'), stage.id('apr')];
  for (const id of [one, two]) await stage.act(requestApprovalOperation, { ...ask, id, maximumPending: 9 });
  await stage.act(decideApprovalOperation, { id: one, status: 'rejected', reason: 'no', nowMs: stage.nowMs });
  const requests = { id: null, status: 'pending' as const, before: null, limit: 5, sinceMs: 0 };
  const [pending] = await stage.act(approvalPageOperation, requests);
  assert.deepEqual([pending!.id, pending!.rejectedBefore, pending!.mail.accepted], [two, 1, 0]);
  assert.equal((await stage.act(approvalPageOperation, { ...requests, status: null, before: two })).length, 1);
  await stage.act(credentialCountsOperation, { accountId: first.id, nowMs: stage.nowMs });
  await stage.act(limitUsageOperation, { accountId: first.id, nowMs: stage.nowMs });
  assert.equal(await stage.act(lastMessageOperation, first.id), null);
};

export const operatorKeys: Scenario = async (stage) => {
  const { nowMs: createdAt } = stage;
  const secretHash = Buffer.alloc(32, 1);
  const plain = { id: stage.id('opk'), name: 'Überwachung', scopes: ['read'], allowedNetworks: [], expiresAt: null };
  const narrow = {
    id: stage.id('opk'),
    name: 'terraform',
    scopes: ['read', 'write'],
    allowedNetworks: ['203.0.113.0/24', '2001:db8::/32'],
    expiresAt: createdAt + 1,
  };
  const create = (key: typeof plain | typeof narrow, hash: Uint8Array) =>
    stage.act(createOperatorKeyOperation, { ...key, scopes: key.scopes as never, secretHash: hash, createdAt });
  const find = (id: string, hash: Uint8Array) => stage.act(findOperatorKeyOperation, { id, secretHash: hash });
  assert.equal(await find(plain.id, secretHash), null, 'there is no key at all');
  await create(plain, secretHash);
  await create(narrow, Buffer.alloc(32, 2));
  assert.deepEqual(await find(plain.id, secretHash), { ...plain, createdAt });
  assert.deepEqual(await find(narrow.id, Buffer.alloc(32, 2)), { ...narrow, createdAt });
  assert.equal(await find(plain.id, Buffer.alloc(32, 2)), null, 'the secret of a different key');
  assert.equal(await find(stage.id('opk'), Buffer.alloc(32, 2)), null, 'an id above all keys');
  const page = (before: string | null, limit = 5) => stage.act(operatorKeysOperation, { before, limit });
  assert.deepEqual(
    (await page(null)).map(({ id }) => id),
    [narrow.id, plain.id],
  );
  assert.equal((await page(narrow.id)).length, 1);
  assert.equal((await page(null, 1)).length, 1);
  const revoke = () => stage.act(revokeOperatorKeyOperation, { id: plain.id, nowMs: createdAt + 5 });
  assert.deepEqual([await revoke(), await revoke()], [true, false]);
  assert.equal(await find(plain.id, secretHash), null);
  assert.equal((await page(null)).length, 1);
};

export const endingPauses: Scenario = async (stage) => {
  const { nowMs } = stage;
  const accountId = stage.id('acc');
  const mail = (domain: string, sendAtMs: number, mode: 'live' | 'sandbox' = 'live') => {
    const made = acceptance({ accountId, mode, nowMs, sendAtMs, recipients: [`a@${domain}`] });
    const [email] = made.emails;
    const [recipient] = email!.recipients;
    const ids = { messageId: stage.id('msg'), sendEventId: stage.id('evt'), rejectEventId: stage.id('evt') };
    const lane = `${accountId}/${mode === 'sandbox' ? 'sandbox' : domain}`;
    return {
      ...made,
      emails: [{ ...email!, headerMessageId: '<x@y>', recipients: [{ ...recipient!, ...ids, lane }] }],
    };
  };
  const untilMs = nowMs + 60_000;
  await stage.act(acceptOperation, mail('paused.example', untilMs + 1_000));
  await stage.act(acceptOperation, mail('paused.example', untilMs + 90_000));
  await stage.act(acceptOperation, mail('unpaused.example', untilMs));
  await stage.act(acceptOperation, mail('paused.example', untilMs, 'sandbox'));
  await stage.act(lastMessageOperation, accountId);
  const queue = await stage.act(queueByAccountOperation, { nowMs, rows: 1_000 });
  const counted = queue.find((row) => row.accountId === accountId);
  assert.deepEqual([counted?.depth, counted?.due, counted?.name], [4, 0, null]);
  const span = { fromMs: untilMs, untilMs: untilMs + 6_000 };
  const first = await stage.act(deferredPageOperation, { ...span, after: null, limit: 1 });
  const rest = await stage.act(deferredPageOperation, { ...span, after: first[0]!, limit: 10 });
  const own = [...first, ...rest];
  assert.deepEqual(
    own.map(({ domain, due }) => [domain, due - untilMs]),
    [
      ['unpaused.example', 0],
      ['paused.example', 1_000],
    ],
    'neither other time ranges nor the sandbox',
  );
  assert.deepEqual(
    (await stage.act(deferredByDomainOperation, { ...span, rows: 10, domains: 10 })).map((one) => Object.values(one)),
    [
      ['paused.example', 1],
      ['unpaused.example', 1],
    ],
  );
  assert.equal((await stage.act(deferredByDomainOperation, { ...span, rows: 10, domains: 1 })).length, 1);
  const seqs = [rest[0]!.seq];
  const bring = (more: object) => stage.act(bringForwardOperation, { ...span, seqs, nowMs, ...more });
  assert.equal(await bring({ fromMs: untilMs + 1_001 }), 0, 'a message rescheduled in the meantime keeps its time');
  assert.equal(await bring({}), 1);
  assert.equal(await bring({}), 0);
  assert.equal((await stage.act(deferredPageOperation, { ...span, after: null, limit: 10 })).length, 1);
  const domains = await stage.act(queueByDomainOperation, { rows: 1_000 });
  const nowhere = { rows: 1_000, accountId: stage.id('acc') };
  assert.deepEqual(await stage.act(queueByDomainOperation, nowhere), [], 'of an account without messages');
  const paused = domains.find(({ domain }) => domain === 'paused.example');
  assert.deepEqual([paused?.depth, paused?.nextDueMs, paused?.failedSeq], [2, nowMs, null]);
  assert.deepEqual(await stage.act(lastAttemptsOperation, [seqs[0]!]), [], 'none was made');
};

export const sharedPauses: Scenario = async (stage) => {
  const { nowMs } = stage;
  const [later, minute] = [nowMs + 60_000, 60_000];
  const pause = (destination: string, beganAt: number, more: object = {}) => ({
    ...{
      destination,
      beganAt,
      untilAt: beganAt + minute,
      level: 0,
      blockedSince: null,
      host: 'mx.example',
      outcome: '{}',
    },
    ...more,
  });
  const write = (began: ReturnType<typeof pause>[], atMs: number, ended: string[] = []) =>
    stage.act(writePausesOperation, { began, ended, nowMs: atMs });
  const read = async (destination: string) =>
    (await stage.act(readPausesOperation, nowMs)).find((row) => row.destination === destination);

  await write([pause('x.example', nowMs), pause('y.example', nowMs, { blockedSince: nowMs })], nowMs);
  await write([pause('x.example', nowMs + 5, { level: 3 })], nowMs + 5);
  assert.equal((await read('x.example'))?.level, 0, 'of two concurrent pauses the first one wins');
  await write([], nowMs + 10, ['x.example']);
  assert.equal((await read('x.example'))?.endedAt, null, 'only a probe ends it, and none starts early');

  const claim = (holder: string, atMs: number) =>
    stage.act(claimProbeOperation, { destination: 'x.example', holder, nowMs: atMs, untilMs: atMs + 30_000 });
  assert.deepEqual(await claim('a', later - 1), { granted: false, untilMs: later });
  assert.deepEqual(await claim('a', later), { granted: true, untilMs: later + 30_000 });
  assert.deepEqual(await claim('b', later + 1), { granted: false, untilMs: later + 30_000 });
  assert.equal((await claim('a', later + 10_000)).granted, true, 'the holder extends it');
  assert.equal((await claim('b', later + 40_000)).granted, true, 'it ends at its expiry');
  await write([pause('x.example', later + 41_000, { level: 1 })], later + 41_000);
  assert.deepEqual([(await read('x.example'))?.level, (await claim('b', later + 42_000)).granted], [1, false]);
  await stage.act(resumeDestinationOperation, { destination: 'x.example', nowMs: later + 50_000 });
  assert.equal((await read('x.example'))?.untilAt, later + 50_000);
  assert.equal((await claim('a', later + 50_000)).granted, true);
  await write([], later + 51_000, ['x.example']);
  assert.equal((await read('x.example'))?.endedAt, later + 51_000);
  assert.equal((await claim('a', later + 52_000)).granted, false, 'an ended pause is not probed');
  await write([pause('x.example', later + 53_000)], later + 53_000);
  assert.equal((await read('x.example'))?.endedAt, null);

  const toNotify = async (atMs: number) => {
    const blocked = await stage.act(blockedToNotifyOperation, atMs);
    return blocked.filter(({ destination }) => destination === 'y.example').length;
  };
  assert.equal(await toNotify(nowMs), 1);
  await stage.act(blockNotifiedOperation, { destination: 'y.example', nowMs });
  await write([pause('y.example', later, { blockedSince: nowMs })], later);
  assert.deepEqual([await toNotify(later), await toNotify(nowMs + 86_400_000)], [0, 1], 'once a day');
  await write([], nowMs + 10 * 86_400_000);
  assert.equal(await read('x.example'), undefined, 'an unused pause is deleted');
};

export const warmUpShares: Scenario = async (stage) => {
  const take = async (wanted: number, day = 20_000) => {
    const sources = ['192.0.2.2', '192.0.2.1'].map((source, index) => ({ source, share: 50 * (index + 1), wanted }));
    const grants = await stage.act(takeWarmUpShareOperation, { provider: 'google', day, sources });
    return grants.map(({ source, granted, taken }) => [source, granted, taken]);
  };
  const first = ['192.0.2.1', '192.0.2.2'];
  assert.deepEqual(await take(40), [[first[0], 40, 40], [first[1], 40, 40]]); // biome-ignore format: a row each
  assert.deepEqual(await take(40), [[first[0], 40, 80], [first[1], 10, 50]]); // biome-ignore format: a row each
  const unused = { provider: 'google', source: first[1]!, day: 20_000, mails: 5 };
  await stage.act(returnWarmUpShareOperation, [unused, { ...unused, provider: 'nobody' }]);
  assert.deepEqual(await take(40), [[first[0], 20, 100], [first[1], 5, 50]]); // biome-ignore format: a row each
  assert.deepEqual(await take(1), [[first[0], 0, 100], [first[1], 0, 50]]); // biome-ignore format: a row each
  assert.deepEqual(await take(1, 20_001), [[first[0], 1, 1], [first[1], 1, 1]]); // biome-ignore format: a row each
  await take(1, 20_002);
  assert.deepEqual(await take(1), [[first[0], 1, 1], [first[1], 1, 1]], 'days that are over are forgotten'); // biome-ignore format: a row each
};

export const relayLimits: Scenario = async (stage) => {
  const limits = [
    { span: 'minute' as const, most: 100 },
    { span: 'day' as const, most: 150 },
  ];
  const startMs = Date.UTC(2026, 10, 20, 9, 40);
  const take = (wanted: number, afterMs: number, relay = 'relay') =>
    stage.act(takeRelayLimitOperation, { relay, limits, wanted, nowMs: startMs + afterMs });
  assert.deepEqual(await take(1, 0), { granted: 5, used: [5, 5], spent: null }, 'some in advance while much is left');
  assert.deepEqual(await take(90, 999), { granted: 90, used: [95, 95], spent: null });
  assert.deepEqual(await take(20, 1_000), { granted: 5, used: [100, 100], spent: null });
  const spent = { limit: limits[0], untilMs: startMs + 61_000 };
  assert.deepEqual(await take(1, 2_000), { granted: 0, used: [100, 100], spent });
  assert.equal((await take(50, 2_000, 'fallback')).granted, 50, 'each relay has its own limits');
  await stage.act(returnRelayLimitOperation, [{ relay: 'relay', limits, takenMs: startMs + 1_000, mails: 3 }]);
  assert.deepEqual(await take(9, 2_000), { granted: 3, used: [100, 100], spent: null });
  assert.equal((await take(1, 60_999)).granted, 0, 'a second counts to its end');
  assert.deepEqual(await take(60, 61_000), { granted: 50, used: [55, 150], spent: null });
  const day = { limit: limits[1], untilMs: startMs + 86_400_000 + 600_000 };
  assert.deepEqual(await take(1, 70_000), { granted: 0, used: [50, 150], spent: day });
  assert.equal((await take(1, 87_000_000 - 1)).granted, 0);
  assert.deepEqual((await take(1, 87_000_000)).used, [5, 5]);
  assert.equal(
    (await take(100, 0)).granted,
    100,
    'a clock that was set back by more than a span does not block the relay',
  );
};
