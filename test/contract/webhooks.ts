/** Scenarios of webhooks: endpoints, claiming and settling deliveries, replays, and manual retries. */
import assert from 'node:assert/strict';
import { WEBHOOK_WORK } from '../../src/events/events.ts';
import { cancelMessageOperation } from '../../src/messages/api-store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import {
  type ClaimedBatch,
  claimOperation,
  clampDueOperation,
  presentTargetsOperation,
  type WebhookJob,
} from '../../src/webhooks/claim.ts';
import { deliveryBody } from '../../src/webhooks/endpoints.ts';
import {
  listDeliveriesOperation,
  retryDeliveryOperation,
  searchDeliveriesOperation,
} from '../../src/webhooks/log-store.ts';
import { claimNoticesOperation, settleNoticeOperation } from '../../src/webhooks/notice-store.ts';
import {
  bringForwardOperation,
  chooseForReplayOperation,
  queuedOperation,
  replayOperation,
  replayRangesOperation,
} from '../../src/webhooks/replay-store.ts';
import { settleOperation, type WebhookSettlement } from '../../src/webhooks/settle.ts';
import {
  createEndpointOperation,
  dropDeliveriesOperation,
  findEndpointOperation,
  findTargetOperation,
  listEndpointsOperation,
  removeEndpointOperation,
  replaceEndpointOperation,
  rotateSecretOperation,
  showEndpointOperation,
} from '../../src/webhooks/store.ts';
import {
  backlogOperation,
  extendOperation,
  markRunningOperation,
  parkedLanesOperation,
  putBackOperation,
  resumeOperation,
} from '../../src/work/work.ts';
import { acceptance } from './mail.ts';
import type { Scenario, Stage } from './stage.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const URL = 'https://hooks.example/x?a=1';

function endpoint(stage: Stage, accountId: string, events: string[]) {
  return {
    id: stage.id('whk'),
    accountId,
    mode: 'live' as const,
    url: URL,
    events: JSON.stringify(events),
    description: null,
    enabled: null,
    secretSealed: Buffer.from([1, 2, 3]),
    nowMs: stage.nowMs,
  };
}

const claim = (stage: Stage, leaseMs = HOUR) => ({
  nowMs: stage.nowMs + 60_000,
  leaseMs,
  limit: 50,
  quarantined: true,
  overQuota: [] as string[],
});

function settled(
  stage: Stage,
  batch: ClaimedBatch,
  job: WebhookJob,
  change: Partial<WebhookSettlement> = {},
): WebhookSettlement {
  const event = batch.events.find((one) => one.seq === job.eventSeq)!;
  return {
    seq: job.seq,
    fence: job.fence,
    accountId: job.accountId,
    webhookId: job.webhookId,
    eventSeq: job.eventSeq,
    turn: job.turn,
    mode: job.mode,
    eventId: event.id,
    eventType: event.type,
    result: 'succeeded',
    tried: true,
    nextAttemptMs: null,
    url: URL,
    responseStatus: 200,
    responseStart: 'ok',
    error: null,
    latencyMs: 12,
    atMs: stage.nowMs + 100,
    ...change,
  };
}

/** Returns jobs in the order of endpoint and event: the order of two claims is not defined. */
async function take(stage: Stage, leaseMs?: number): Promise<ClaimedBatch> {
  const batch = await stage.database.execute(claimOperation, claim(stage, leaseMs));
  batch.jobs.sort((a, b) => (a.webhookId < b.webhookId ? -1 : a.webhookId > b.webhookId ? 1 : a.eventSeq - b.eventSeq));
  return batch;
}

export const endpoints: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const one = endpoint(stage, accountId, ['Delivery', 'Send']);
  const two = { ...endpoint(stage, accountId, ['Bounce']), enabled: false, description: 'Zwölf' };
  await stage.act(createEndpointOperation, one);
  await stage.act(createEndpointOperation, two);
  const owner = { accountId, mode: 'live' } as const;
  await stage.act(listEndpointsOperation, { ...owner, before: null, limit: 1 });
  await stage.act(listEndpointsOperation, { ...owner, before: two.id, limit: 5 });
  await stage.act(findEndpointOperation, { ...owner, id: one.id });
  await stage.act(findEndpointOperation, { ...owner, mode: 'sandbox', id: one.id });
  await stage.act(findTargetOperation, { ...owner, id: one.id });
  const change = {
    ...owner,
    id: two.id,
    url: 'https://b.example',
    events: '[]',
    description: 'x',
    nowMs: stage.nowMs + 5,
  };
  await stage.act(replaceEndpointOperation, { ...change, enabled: null, secretSealed: null });
  await stage.act(replaceEndpointOperation, { ...change, enabled: true, secretSealed: Buffer.from([9]) });
  await stage.act(replaceEndpointOperation, { ...change, id: 'whk_none', enabled: false, secretSealed: null });
  const basis = await stage.act(findEndpointOperation, { ...owner, id: two.id });
  const { description: _, ...undescribed } = { ...change, basis: basis!, secretSealed: null };
  const kept = await stage.act(replaceEndpointOperation, { ...undescribed, url: 'https://c.example', enabled: false });
  assert.equal(typeof kept === 'object' && kept.description, 'x');
  assert.equal(await stage.act(replaceEndpointOperation, { ...undescribed, enabled: true }), 'outdated');
  await stage.act(replaceEndpointOperation, { ...undescribed, id: 'whk_none', enabled: true });
  await stage.act(findTargetOperation, { ...owner, id: two.id });
  await stage.act(rotateSecretOperation, { ...owner, id: one.id, secretSealed: Buffer.from([7]), nowMs: stage.nowMs });
  await stage.act(rotateSecretOperation, {
    ...owner,
    id: 'whk_none',
    secretSealed: Buffer.from([7]),
    nowMs: stage.nowMs,
  });
  await stage.act(findTargetOperation, { ...owner, id: one.id });
  await stage.act(removeEndpointOperation, { ...owner, id: one.id });
  await stage.act(removeEndpointOperation, { ...owner, id: one.id });
};

/** Events in the payload of another service: the names that were asked for are posted, the others leave no record. */
export const formatted: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const format = { name: 'resend', events: '["email.scheduled","email.received"]' } as const;
  const later = { ...endpoint(stage, accountId, ['Send', 'Inbound']), format };
  const own = endpoint(stage, accountId, ['Send']);
  for (const one of [later, own]) await stage.act(createEndpointOperation, one);
  const now = acceptance(stage, { accountId });
  const scheduled = acceptance(stage, { accountId, change: { sendAtMs: stage.nowMs + HOUR } });
  for (const mail of [now, scheduled]) await stage.act(acceptOperation, mail);
  const batch = await take(stage);
  assert.deepEqual(batch.jobs.map((job) => job.formatted !== undefined).toSorted(), [false, false, true]);
  const job = batch.jobs.find((one) => one.formatted !== undefined)!;
  assert.match(job.formatted!, /^\{"type":"email\.scheduled"/);
  await stage.act(settleOperation, { nowMs: stage.nowMs, settled: [settled(stage, batch, job)] });
  const page = {
    accountId,
    mode: 'live' as const,
    id: later.id,
    eventType: null,
    status: null,
    before: null,
    limit: 10,
  };
  const deliveries = await stage.act(listDeliveriesOperation, page);
  assert.deepEqual(
    deliveries!.rows.map((row) => row.body),
    [job.formatted],
  );
  const events = '["email.bounced"]';
  await stage.act(replaceEndpointOperation, { ...later, format: { ...format, events }, secretSealed: null });
  const { id: deliveryId } = deliveries!.rows[0]!;
  await stage.act(retryDeliveryOperation, { ...page, deliveryId, nowMs: stage.nowMs });
  assert.equal((await take(stage)).jobs.length, 1, 'events posted before are replayed, whatever is subscribed now');
};

/** A delivery that waits for a retry fails if its webhook gets a format in which the event has no counterpart. */
export const formattedLater: Scenario = async (stage) => {
  const owner = { accountId: stage.id('acc'), mode: 'live' } as const;
  const one = endpoint(stage, owner.accountId, ['Reject']);
  await stage.act(createEndpointOperation, one);
  const mail = acceptance(stage, { accountId: owner.accountId, change: { sendAtMs: stage.nowMs + HOUR } });
  await stage.act(acceptOperation, mail);
  const { messageId } = mail.emails[0]!.recipients[0]!;
  await stage.act(cancelMessageOperation, { ...owner, nowMs: stage.nowMs, messageId, eventId: stage.id('evt') });
  const batch = await take(stage);
  const failed = { result: 'retry', responseStatus: 503, nextAttemptMs: stage.nowMs } as const;
  const result = settled(stage, batch, batch.jobs[0]!, failed);
  await stage.act(settleOperation, { nowMs: stage.nowMs, settled: [result] });
  const format = { name: 'resend', events: '["email.suppressed"]' } as const;
  await stage.act(replaceEndpointOperation, { ...one, format, secretSealed: null });
  assert.deepEqual((await take(stage)).jobs, []);
  const page = { ...owner, id: one.id, eventType: null, status: null, before: null, limit: 10 };
  const { rows } = (await stage.database.execute(listDeliveriesOperation, page))!;
  assert.deepEqual(
    rows.map(({ status, attempts, next_attempt_at: next, error }) => [status, attempts, next, error]),
    [['failed', 1, null, 'this event has no counterpart in the payload format of this webhook']],
  );
};

export const nextAttempts: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const [failing, healthy] = [endpoint(stage, accountId, ['Send']), endpoint(stage, accountId, ['Bounce'])];
  for (const one of [failing, healthy]) await stage.act(createEndpointOperation, one);
  await stage.act(acceptOperation, acceptance(stage, { accountId, to: ['a@x.example', 'b@x.example'] }));
  const owner = { accountId, mode: 'live' } as const;
  const nextOf = async (id: string) => (await stage.act(showEndpointOperation, { ...owner, id }))!.nextAttemptAtMs;
  assert.equal(await nextOf(failing.id), null, 'before the first attempt');
  const batch = await take(stage);
  const failed = { result: 'retry', responseStatus: 500, error: 'answered 500' } as const;
  await stage.act(settleOperation, {
    nowMs: stage.nowMs,
    settled: batch.jobs.map((job, index) =>
      settled(stage, batch, job, { ...failed, nextAttemptMs: stage.nowMs + (index === 0 ? DAY : HOUR) }),
    ),
  });
  assert.equal(await nextOf(failing.id), stage.nowMs + HOUR, 'the soonest, which is not that of the oldest event');
  const rows = await stage.act(listEndpointsOperation, { ...owner, before: null, limit: 5 });
  assert.deepEqual(
    new Map(rows.map(({ id, nextAttemptAtMs }) => [id, nextAttemptAtMs])),
    new Map([
      [failing.id, stage.nowMs + HOUR],
      [healthy.id, null],
    ]),
  );
  await stage.act(showEndpointOperation, { ...owner, id: 'whk_none' });
};

/** Only enabling a disabled endpoint ends its failures and removes the reason for which it was disabled. */
export const health: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const one = endpoint(stage, accountId, ['Send']);
  await stage.act(createEndpointOperation, one);
  await stage.act(acceptOperation, acceptance(stage, { accountId, to: ['a@x.example', 'b@x.example'] }));
  const change = { ...one, secretSealed: null };
  const replaced = async (enabled: boolean | null) => {
    const row = await stage.act(replaceEndpointOperation, { ...change, enabled });
    assert.ok(typeof row === 'object');
    return [row.failing_since, row.disabled_reason];
  };
  const batch = await take(stage);
  const failed = { result: 'retry', responseStatus: 500, nextAttemptMs: stage.nowMs + HOUR } as const;
  const settle = (job: WebhookJob, result: Partial<WebhookSettlement>) =>
    stage.act(settleOperation, { nowMs: stage.nowMs, settled: [settled(stage, batch, job, result)] });
  await settle(batch.jobs[0]!, failed);
  const sinceMs = stage.nowMs + 100;
  for (const enabled of [true, null]) assert.deepEqual(await replaced(enabled), [sinceMs, null]);
  await settle(batch.jobs[1]!, { ...failed, atMs: sinceMs + 6 * DAY });
  const reason = 'every delivery failed for five days';
  for (const enabled of [false, null]) assert.deepEqual(await replaced(enabled), [sinceMs, reason]);
  assert.deepEqual(await replaced(true), [null, null]);
};

/** Another URL starts with a new health, which responses of the previous URL do not affect. */
export const otherUrl: Scenario = async (stage) => {
  const owner = { accountId: stage.id('acc'), mode: 'live' } as const;
  const one = endpoint(stage, owner.accountId, ['Send']);
  await stage.act(createEndpointOperation, one);
  await stage.act(
    acceptOperation,
    acceptance(stage, { accountId: owner.accountId, to: ['a@x.example', 'b@x.example'] }),
  );
  const { id } = one;
  await stage.act(presentTargetsOperation, { ids: [id, 'whk_none'] });
  const batch = await take(stage);
  const failed = { result: 'retry', responseStatus: 503, nextAttemptMs: stage.nowMs } as const;
  const settle = (job: WebhookJob, result: Partial<WebhookSettlement>) =>
    stage.act(settleOperation, { nowMs: stage.nowMs, settled: [settled(stage, batch, job, result)] });
  const shown = async () => (await stage.act(findEndpointOperation, { ...owner, id }))!;
  await settle(batch.jobs[0]!, failed);
  assert.notEqual((await shown()).failing_since, null);
  await stage.act(replaceEndpointOperation, { ...one, url: 'https://new.example', secretSealed: null });
  assert.equal((await shown()).failing_since, null);
  const { disabled } = await settle(batch.jobs[1]!, { result: 'gone', responseStatus: 410 });
  const { enabled, failing_since: failingSince } = await shown();
  assert.deepEqual([disabled, enabled, failingSince], [[], 1, null]);
  const again = await take(stage);
  assert.equal(again.jobs.length, 2, 'both are sent to the new URL');
  await stage.act(removeEndpointOperation, { ...owner, id });
  await stage.act(dropDeliveriesOperation, { webhookId: id, limit: 9 });
  const late = again.jobs.map((job) => settled(stage, again, job, failed));
  await stage.act(settleOperation, { nowMs: stage.nowMs, settled: late });
  assert.equal(
    await stage.act(dropDeliveriesOperation, { webhookId: id, limit: 9 }),
    0,
    'no record without an endpoint',
  );
};

export const carrying: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const wanting = endpoint(stage, accountId, ['Send']);
  const gone = endpoint(stage, accountId, ['Send', 'Delivery']);
  const other = endpoint(stage, accountId, ['Bounce']);
  for (const one of [wanting, gone, other]) await stage.act(createEndpointOperation, one);
  const mail = acceptance(stage, { accountId, to: ['a@x.example', 'b@x.example', 'c@x.example'] });
  await stage.act(acceptOperation, mail);
  await stage.act(backlogOperation, WEBHOOK_WORK);
  const batch = await take(stage);
  assert.equal(batch.jobs.length, 6);
  assert.equal((await stage.act(claimOperation, claim(stage))).taken.rows, 0);
  const [a, b, c, d, e, f] = batch.jobs as [WebhookJob, WebhookJob, WebhookJob, WebhookJob, WebhookJob, WebhookJob];
  assert.equal(
    (await stage.actNumbers(extendOperation, { leases: [a, { ...b, fence: 9 }], nowMs: stage.nowMs, leaseMs: HOUR }))
      .length,
    1,
  );
  await stage.act(markRunningOperation, { leases: [a], running: true });
  const retry = {
    result: 'retry',
    nextAttemptMs: stage.nowMs + HOUR,
    responseStatus: 500,
    error: 'answered 500',
    responseStart: 'a"b',
  } as const;
  await stage.act(settleOperation, {
    nowMs: stage.nowMs,
    settled: [settled(stage, batch, a), settled(stage, batch, b, retry), settled(stage, batch, { ...c, fence: 9 })],
  });
  await stage.act(putBackOperation, {
    nowMs: stage.nowMs,
    park: [c],
    release: [d],
    crashed: [{ ...e, dueMs: stage.nowMs }],
  });
  const deliveries = (id: string) =>
    stage.act(listDeliveriesOperation, {
      accountId,
      mode: 'live',
      id,
      eventType: null,
      status: null,
      before: null,
      limit: 10,
    });
  await stage.act(parkedLanesOperation, { kind: WEBHOOK_WORK, after: '', limit: 5 });
  const untried = {
    result: 'failed',
    tried: false,
    responseStatus: null,
    responseStart: null,
    latencyMs: null,
    error: 'no',
  } as const;
  await stage.act(settleOperation, {
    nowMs: stage.nowMs,
    settled: [settled(stage, batch, f, { ...untried })],
  });
  await stage.act(resumeOperation, {
    kind: WEBHOOK_WORK,
    nowMs: stage.nowMs,
    lanes: [
      { lane: wanting.id, limit: 5 },
      { lane: 'none', limit: 1 },
    ],
  });
  const next = await take(stage);
  assert.deepEqual(
    next.jobs.map((job) => job.crashes),
    [0, 0, 1],
  );
  const failed = { result: 'failed', responseStatus: 400, error: 'answered 400' } as const;
  await stage.act(settleOperation, {
    nowMs: stage.nowMs,
    settled: next.jobs.map((job) =>
      settled(
        stage,
        next,
        job,
        job.webhookId === gone.id
          ? { ...failed, result: 'gone', atMs: stage.nowMs }
          : { ...failed, atMs: stage.nowMs + 6 * DAY },
      ),
    ),
  });
  const [, second] = (await deliveries(wanting.id))!.rows;
  await deliveries(gone.id);
  await deliveries('whk_none');
  await stage.act(listDeliveriesOperation, {
    accountId,
    mode: 'live',
    id: wanting.id,
    eventType: null,
    status: null,
    before: second!.id,
    limit: 1,
  });
  const ofRetried = { accountId, mode: 'live', id: wanting.id, eventType: null, before: null, limit: 10 } as const;
  const failedOnes = await stage.act(searchDeliveriesOperation, { ...ofRetried, status: 'failed' });
  const logs = failedOnes!.rows.map((row) => [row.attempts, (deliveryBody(row).attemptLog as unknown[]).length]);
  assert.ok(logs.length > 0, 'control: a delivery failed');
  for (const [attempts, logged] of logs) assert.equal(logged, attempts, 'every attempt is in the log');
  const ofType = { ...ofRetried, eventType: 'Bounce', status: null } as const;
  assert.deepEqual((await stage.act(searchDeliveriesOperation, ofType))!.rows, []);
  await stage.act(findEndpointOperation, { accountId, mode: 'live', id: gone.id });
  // The endpoint that returned 410 was disabled: its account must be notified.
  const claimNotices = { nowMs: stage.nowMs + 1, leaseMs: 60_000, limit: 5 };
  const [notice] = await stage.act(claimNoticesOperation, claimNotices);
  const lease = { seq: notice!.seq, fence: notice!.fence };
  await stage.act(settleNoticeOperation, { lease, againAtMs: stage.nowMs });
  const [noticeAgain] = await stage.act(claimNoticesOperation, claimNotices);
  await stage.act(settleNoticeOperation, { lease, againAtMs: null });
  await stage.act(settleNoticeOperation, { lease: { ...lease, fence: noticeAgain!.fence }, againAtMs: null });
  await stage.act(claimNoticesOperation, claimNotices);
  const late = [settled(stage, batch, b, { ...failed, atMs: stage.nowMs + 12 * DAY })];
  await stage.act(settleOperation, { nowMs: stage.nowMs, settled: late });
  await stage.act(clampDueOperation, { nowMs: stage.nowMs, latestMs: [60_000, 120_000], crashPauseMs: 60_000 });
  const again = { accountId, mode: 'live', nowMs: stage.nowMs + 7 } as const;
  for (const { id } of (await deliveries(wanting.id))!.rows) {
    await stage.act(retryDeliveryOperation, { ...again, id: wanting.id, deliveryId: id });
    await stage.act(retryDeliveryOperation, { ...again, id: wanting.id, deliveryId: id });
  }
  await stage.act(retryDeliveryOperation, { ...again, id: wanting.id, deliveryId: 'del_none' });
  await stage.act(retryDeliveryOperation, { ...again, id: 'whk_none', deliveryId: 'del_none' });
  for (const { id } of (await deliveries(gone.id))!.rows)
    await stage.act(retryDeliveryOperation, { ...again, id: gone.id, deliveryId: id });
  await stage.act(backlogOperation, WEBHOOK_WORK);
  await stage.act(removeEndpointOperation, { accountId, mode: 'live', id: wanting.id });
  await stage.act(dropDeliveriesOperation, { webhookId: wanting.id, limit: 2 });
  await stage.act(dropDeliveriesOperation, { webhookId: wanting.id, limit: 9 });
  assert.equal((await take(stage)).jobs.length, 0, 'no endpoint waits for the remaining events');
  await stage.act(backlogOperation, WEBHOOK_WORK);
};

export const crowds: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const crowded = endpoint(stage, accountId, ['Send']);
  const calm = endpoint(stage, accountId, ['Send']);
  for (const one of [crowded, calm]) await stage.act(createEndpointOperation, one);
  const mail = acceptance(stage, { accountId, to: ['a@x.example', 'b@x.example'] });
  await stage.act(acceptOperation, mail);
  const request = { ...claim(stage), overQuota: [crowded.id, 'none'] };
  const batch = await stage.database.execute(claimOperation, request);
  assert.deepEqual(
    batch.jobs.map((job) => job.webhookId),
    [calm.id, calm.id],
  );
  assert.deepEqual(batch.overQuota, []);
  await stage.act(parkedLanesOperation, { kind: WEBHOOK_WORK, after: '', limit: 5 });
  const owner = { accountId, mode: 'live' as const };
  await stage.actNumbers(replayRangesOperation, { mode: 'live', sinceMs: 0, untilMs: 1 });
  const segment = {
    ...owner,
    sinceMs: 0,
    untilMs: stage.nowMs + HOUR,
    range: { from: 0, to: Number.MAX_SAFE_INTEGER },
    webhookId: calm.id,
    after: null,
    eventTypes: ['Send' as const],
  };
  const first = await stage.act(chooseForReplayOperation, { ...segment, scan: 1 });
  const rest = await stage.act(chooseForReplayOperation, { ...segment, after: first.last, scan: 10 });
  assert.deepEqual([first.chosen.length, rest.chosen.length, rest.last], [1, 1, null]);
  for (const none of [{ eventTypes: ['Bounce' as const] }, { untilMs: 5 }, { range: { from: 0, to: 0 } }]) {
    assert.deepEqual((await stage.act(chooseForReplayOperation, { ...segment, ...none, scan: 10 })).chosen, []);
  }
  const seqs = [...first.chosen, ...rest.chosen].map(({ seq }) => seq);
  await stage.act(replayOperation, { ...owner, webhookId: calm.id, seqs, nowMs: stage.nowMs });
  const search = { webhookId: calm.id, range: segment.range, limit: 10, nowMs: stage.nowMs };
  const queued = await stage.database.execute(queuedOperation, search);
  assert.deepEqual([new Set(queued.active), queued.retries], [new Set(seqs), []]);
  assert.equal((await stage.database.execute(queuedOperation, { ...search, limit: 1 })).active.length, 1);
  assert.equal((await stage.database.execute(backlogOperation, WEBHOOK_WORK)).depth, 6);
  const lanes = [
    { lane: calm.id, limit: 5 },
    { lane: crowded.id, limit: 1 },
  ];
  await stage.act(resumeOperation, { kind: WEBHOOK_WORK, nowMs: stage.nowMs, lanes });
  assert.equal((await take(stage)).jobs.length, 3);
};

/** A replay brings forward the events that wait for a retry, and skips others that are queued in any state. */
export const retriesOfReplay: Scenario = async (stage) => {
  const owner = { accountId: stage.id('acc'), mode: 'live' } as const;
  const [one, other] = [endpoint(stage, owner.accountId, ['Send']), endpoint(stage, owner.accountId, ['Send'])];
  for (const each of [one, other]) await stage.act(createEndpointOperation, each);
  const to = ['a@x.example', 'b@x.example', 'c@x.example', 'd@x.example', 'e@x.example'];
  await stage.act(acceptOperation, acceptance(stage, { accountId: owner.accountId, to }));
  const batch = await take(stage, 30_000);
  const jobs = batch.jobs.filter((job) => job.webhookId === one.id);
  const [a, b, c, d, e] = jobs as [WebhookJob, WebhookJob, WebhookJob, WebhookJob, WebhookJob];
  const failed = { result: 'retry', responseStatus: 503, nextAttemptMs: stage.nowMs + 2 * HOUR } as const;
  const result = (job: WebhookJob, change: Partial<WebhookSettlement>) => settled(stage, batch, job, change);
  const ofOther = batch.jobs.filter((job) => job.webhookId === other.id);
  await stage.act(settleOperation, {
    nowMs: stage.nowMs,
    settled: [result(a, failed), result(b, failed), result(c, {}), ...ofOther.map((job) => result(job, failed))],
  });
  await stage.act(putBackOperation, { nowMs: stage.nowMs, park: [d], release: [], crashed: [] });
  const range = { from: 0, to: Number.MAX_SAFE_INTEGER };
  const search = { webhookId: one.id, range, limit: 10, nowMs: stage.nowMs };
  const { active, retries } = await stage.database.execute(queuedOperation, search);
  assert.deepEqual(active.toSorted(), [d.eventSeq, e.eventSeq].toSorted(), 'parked, and being sent');
  assert.deepEqual(retries.map(({ eventSeq }) => eventSeq).toSorted(), [a.eventSeq, b.eventSeq].toSorted());
  await stage.act(queuedOperation, { ...search, webhookId: 'whk_none' });
  const later = { ...search, range: { from: b.eventSeq, to: b.eventSeq } };
  assert.equal((await stage.database.execute(queuedOperation, later)).retries.length, 1);
  const forward = { ...owner, webhookId: one.id, retries, nowMs: stage.nowMs };
  assert.equal(await stage.act(bringForwardOperation, forward), 2);
  assert.equal(await stage.act(bringForwardOperation, forward), 0, 'they no longer wait');
  const queued = await stage.database.execute(queuedOperation, search);
  assert.deepEqual([queued.active.length, queued.retries], [4, []]);
  const page = { ...owner, id: one.id, eventType: null, status: 'pending', before: null, limit: 10 } as const;
  assert.deepEqual(
    (await stage.database.execute(searchDeliveriesOperation, page))!.rows.map((row) => row.next_attempt_at),
    [forward.nowMs, forward.nowMs],
  );
  const lanes = [{ lane: one.id, limit: 9 }];
  assert.deepEqual(await stage.act(resumeOperation, { kind: WEBHOOK_WORK, nowMs: forward.nowMs, lanes }), [3]);
  const again = await take(stage);
  assert.deepEqual(
    again.jobs.map(({ webhookId, attempts }) => [webhookId, attempts]),
    [
      [one.id, 1],
      [one.id, 1],
      [one.id, 0],
    ],
  );
};
