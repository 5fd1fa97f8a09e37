/** Scenarios of messages held while their account is suspended, and of bounces of addresses that are already suppressed. */

import assert from 'node:assert/strict';
import type { ProtectionStatus } from '../../src/accounts/account.ts';
import {
  decideProtectionOperation,
  isHeldOperation,
  protectionNoticeGivenOperation,
  protectionNoticesOperation,
  resumeSendingOperation,
  sendingProtectionOperation,
  warnedOperation,
} from '../../src/accounts/protection-store.ts';
import { createAccountOperation, setAccountOperation } from '../../src/accounts/store.ts';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import { quotaNoticeGivenOperation, quotaNoticesOperation, quotaUsageOperation } from '../../src/limits/quota-store.ts';
import { listMessagesOperation } from '../../src/messages/api-store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { answeredOperation, failingLatelyOperation } from '../../src/statistics/read-store.ts';
import { suppressionsByEmailOperation, suppressOperation } from '../../src/suppressions/store.ts';
import { newAccount } from './accounts.ts';
import { acceptance, claimRequest, settlement, wholePage } from './mail.ts';
import type { Scenario } from './stage.ts';

const HOUR = 3_600_000;

export const heldBack: Scenario = async (stage) => {
  const account = newAccount(stage, 'paid');
  const accountId = account.id;
  await stage.act(createAccountOperation, { account, keys: [] });
  const other = stage.id('acc');
  const HOURS_AWAY = { sendAtMs: stage.nowMs + 2 * HOUR };
  await stage.act(acceptOperation, acceptance(stage, { accountId, to: ['a@x.example', 'b@y.example'] }));
  await stage.act(acceptOperation, acceptance(stage, { accountId, change: HOURS_AWAY }));
  await stage.act(acceptOperation, acceptance(stage, { accountId, change: { mode: 'sandbox' } }));
  await stage.act(acceptOperation, acceptance(stage, { accountId: other }));
  const expired = acceptance(stage, { accountId, to: ['old@x.example'], change: { expiresAtMs: stage.nowMs + 1 } });
  await stage.act(acceptOperation, expired);
  const status = (to: 'active' | 'suspended', nowMs = stage.nowMs + 60_000) =>
    stage.act(setAccountOperation, { id: accountId, plan: null, status: to, approvedEmailBytes: null, nowMs });
  await status('suspended');
  const { jobs: claimed } = await stage.act(claimOperation, claimRequest(stage));
  assert.deepEqual(
    claimed.map((job) => [job.accountId === accountId, job.mode, job.recipient]),
    [
      [true, 'sandbox', 'ada@example.com'],
      [false, 'live', 'ada@example.com'],
      [true, 'live', 'old@x.example'],
    ],
    'the sandbox, other accounts, and messages whose expiry must be reported',
  );
  assert.equal(
    (await stage.act(claimOperation, claimRequest(stage))).jobs.length,
    0,
    'mail of a suspended account stays in the queue',
  );
  await status('active', stage.nowMs);
  const { jobs: again } = await stage.act(claimOperation, claimRequest(stage));
  assert.deepEqual(
    again.map((job) => [job.recipient, job.attempts, job.crashes]),
    [
      ['a@x.example', 0, 0],
      ['b@y.example', 0, 0],
    ],
    'no attempt or crash was counted, and scheduled mail keeps its time',
  );
};

/** Sending protection warns, holds live mail and releases it; a decision from an outdated state changes nothing. */
export const sendingProtection: Scenario = async (stage) => {
  const account = newAccount(stage, 'paid');
  const { id } = account;
  await stage.act(createAccountOperation, { account, keys: [] });
  await stage.act(acceptOperation, acceptance(stage, { accountId: id, to: ['a@x.example'] }));
  const threshold = { warning: 0.05, critical: 0.1, minimumMessages: 100 };
  const reason = { rate: 'bounceRate', share: 0.2, answered: 500, periodDays: 1, threshold } as const;
  const decide = (from: ProtectionStatus, to: ProtectionStatus) =>
    stage.act(decideProtectionOperation, { id, from, to, reason: to === 'good' ? null : reason, nowMs: stage.nowMs });
  assert.equal(await decide('good', 'warned'), true);
  assert.equal(await decide('good', 'warned'), false);
  await stage.act(warnedOperation, null);
  await stage.act(protectionNoticesOperation, 10);
  await stage.act(protectionNoticeGivenOperation, { accountId: id, status: 'warned' });
  assert.equal(await stage.act(isHeldOperation, id), false);
  assert.equal(await decide('warned', 'held'), true);
  assert.equal(await stage.act(isHeldOperation, id), true);
  assert.equal(await stage.act(isHeldOperation, 'acc_none'), false);
  assert.deepEqual((await stage.act(claimOperation, claimRequest(stage))).jobs, []);
  await stage.act(failingLatelyOperation, { after: '', accounts: 1, fromMs: stage.nowMs - HOUR });
  const [before] = await stage.act(answeredOperation, { accountId: id, fromMs: [stage.nowMs] });
  const countedFrom = { atMs: stage.nowMs, hourMs: stage.nowMs - (stage.nowMs % HOUR), ...before! };
  assert.equal(await stage.act(resumeSendingOperation, { id, countedFrom, nowMs: stage.nowMs }), true);
  assert.equal(await stage.act(resumeSendingOperation, { id, countedFrom, nowMs: stage.nowMs }), false);
  await stage.act(sendingProtectionOperation, id);
  await stage.act(sendingProtectionOperation, 'acc_none');
  assert.equal((await stage.act(claimOperation, claimRequest(stage))).jobs.length, 1);
};

/** The time on hold does not count for the lifetime of held mail; a lifetime that the sender set, and later mail, are unchanged. */
export const heldLifetimes: Scenario = async (stage) => {
  const { nowMs } = stage;
  const account = newAccount(stage, 'paid');
  const { id } = account;
  const endMs = nowMs + 80 * HOUR;
  await stage.act(createAccountOperation, { account, keys: [] });
  const accept = (to: string, change: object = {}) =>
    stage.act(acceptOperation, acceptance(stage, { accountId: id, to: [to], change }));
  const decide = (from: ProtectionStatus, to: ProtectionStatus) =>
    stage.act(decideProtectionOperation, { id, from, to, reason: null, nowMs });
  await decide('good', 'warned');
  await decide('warned', 'held');
  await accept('usual@x.example');
  await accept('code@x.example', { expiresAtMs: nowMs + HOUR });
  await accept('played@x.example', { mode: 'sandbox' });
  const { jobs } = await stage.act(claimOperation, { ...claimRequest(stage), nowMs: endMs });
  assert.deepEqual(
    jobs.filter(({ mode }) => mode === 'live').map(({ recipient }) => recipient),
    ['code@x.example'],
    'the other message does not expire while held',
  );
  const sentAt = (atMs: number) => ({ sendAtMs: atMs, expiresAtMs: atMs + 72 * HOUR });
  await accept('during@x.example', sentAt(nowMs + 50 * HOUR));
  await accept('later@x.example', sentAt(endMs + HOUR));
  const countedFrom = { atMs: endMs, hourMs: endMs, answered: 0, bouncedHard: 0, complained: 0 };
  assert.equal(await stage.act(resumeSendingOperation, { id, countedFrom, nowMs: endMs }), true);
  const rows = await stage.act(listMessagesOperation, wholePage(id));
  const hours = rows.map(({ recipient, expires_at }) => [recipient, (expires_at - nowMs) / HOUR]);
  assert.deepEqual(Object.fromEntries(hours), {
    'usual@x.example': 72 + 80,
    'code@x.example': 1,
    'during@x.example': 50 + 72 + 30,
    'later@x.example': 80 + 1 + 72,
  });
};

export const bouncedAgain: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const to = ['ended', 'ends', 'wish', 'endless', 'new'].map((name) => `${name}@x.example`);
  const made = acceptance(stage, { accountId, to: [...to, 'New@x.example'] });
  await stage.act(acceptOperation, made);
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const entries: [email: string, reason: 'manual' | 'complaint' | 'bounce', expiresAt: number | null][] = [
    ['ended@x.example', 'complaint', stage.nowMs - 1],
    ['ends@x.example', 'manual', stage.nowMs + HOUR],
    ['wish@x.example', 'complaint', stage.nowMs + HOUR],
    ['endless@x.example', 'manual', null],
  ];
  for (const [email, reason, expiresAt] of entries) {
    const suppression = { email, reason, expiresAt, sourceMessageId: null, createdAt: stage.nowMs - HOUR };
    await stage.act(suppressOperation, { addressHash: '', accountId, mode: 'live', suppression });
  }
  await stage.act(
    settleOperation,
    jobs
      .filter((job) => job.accountId === accountId)
      .map((job) =>
        settlement(stage, job, {
          to: 'bounced',
          event: { id: stage.id('evt'), type: 'Bounce', detail: {} },
          suppress: { email: job.recipient.toLowerCase(), untilMs: null },
        }),
      ),
  );
  const list = await stage.database.execute(suppressionsByEmailOperation, {
    accountId,
    mode: 'live',
    nowMs: stage.nowMs,
    after: '',
    limit: 10,
  });
  assert.deepEqual(
    list.map((one) => [one.email.split('@')[0], one.reason, one.expiresAt]),
    [
      ['ended', 'bounce', null],
      ['endless', 'bounce', null],
      ['ends', 'bounce', null],
      ['new', 'bounce', null],
      ['wish', 'complaint', null],
    ],
  );
};

/** A bounce that suppresses for some days: the later of two end times counts, and after it the address is free again. */
export const bouncedForDays: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const to = ['new', 'shorter', 'longer', 'endless', 'twice'].map((name) => `${name}@y.example`);
  await stage.act(acceptOperation, acceptance(stage, { accountId, to: [...to, 'Twice@y.example'] }));
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const days = (count: number): number => stage.nowMs + count * 24 * HOUR;
  for (const [name, expiresAt] of [
    ['shorter', days(1)],
    ['longer', days(30)],
    ['endless', null],
  ] as const) {
    const email = `${name}@y.example`;
    const suppression = {
      email,
      reason: 'manual',
      expiresAt,
      sourceMessageId: null,
      createdAt: stage.nowMs - HOUR,
    } as const;
    await stage.act(suppressOperation, { addressHash: '', accountId, mode: 'live', suppression });
  }
  await stage.act(
    settleOperation,
    jobs
      .filter((job) => job.accountId === accountId)
      .map((job) =>
        settlement(stage, job, {
          to: 'bounced',
          event: { id: stage.id('evt'), type: 'Bounce', detail: {} },
          suppress: { email: job.recipient.toLowerCase(), untilMs: days(job.recipient.startsWith('Twice') ? 7 : 8) },
        }),
      ),
  );
  const listAt = (nowMs: number) =>
    stage.database.execute(suppressionsByEmailOperation, { accountId, mode: 'live', nowMs, after: '', limit: 10 });
  assert.deepEqual(
    (await listAt(stage.nowMs)).map((one) => [one.email.split('@')[0], one.expiresAt]),
    [
      ['endless', null],
      ['longer', days(30)],
      ['new', days(8)],
      ['shorter', days(8)],
      ['twice', days(8)],
    ],
  );
  assert.deepEqual(
    (await listAt(days(8))).map((one) => one.email.split('@')[0]),
    ['endless', 'longer'],
  );
};

export const quotas: Scenario = async (stage) => {
  const account = newAccount(stage, 'paid');
  const accountId = account.id;
  await stage.act(createAccountOperation, { account, keys: [] });
  const change = { id: accountId, plan: null, status: null, approvedEmailBytes: null, nowMs: stage.nowMs };
  const send = (to: string[]) => stage.act(acceptOperation, acceptance(stage, { accountId, to }));
  await send(['a@x.example']);
  await stage.act(setAccountOperation, { ...change, limits: { messagesPerDay: 5, messagesPerMonth: 4 } });
  assert.equal((await send(['b@x.example', 'c@x.example', 'd@x.example'])).stored, true);
  assert.equal((await send(['e@x.example'])).quota?.quota, 'messagesPerMonth');
  const usageAt = (nowMs: number) => stage.act(quotaUsageOperation, { accountId, nowMs });
  assert.deepEqual(await usageAt(stage.nowMs), { messagesPerDay: 4, messagesPerMonth: 4 });
  const later = await usageAt(stage.nowMs + 32 * 24 * 3_600_000);
  assert.deepEqual(later, { messagesPerDay: 0, messagesPerMonth: 0 }, 'a later month starts at zero');
  const notices = await stage.act(quotaNoticesOperation, 10);
  assert.deepEqual(
    notices.map(({ quota, level, used }) => [quota, level, used]),
    [
      ['messagesPerDay', 80, 4],
      ['messagesPerMonth', 100, 4],
    ],
  );
  for (const notice of notices) await stage.act(quotaNoticeGivenOperation, notice);
  assert.deepEqual(await stage.act(quotaNoticesOperation, 10), []);
  await stage.act(setAccountOperation, { ...change, limits: { messagesPerDay: null, messagesPerMonth: null } });
  assert.equal((await send(['e@x.example'])).stored, true);
  assert.deepEqual(await usageAt(stage.nowMs), { messagesPerDay: null, messagesPerMonth: null });
};
