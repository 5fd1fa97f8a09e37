/** Scenarios of the sandbox clock: it is moved step by step, work comes due on the way, and outcomes are set manually. */

import assert from 'node:assert/strict';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import { resetStepOperation } from '../../src/delivery/sandbox/reset-store.ts';
import { findSandboxMessageOperation, simulateLateOperation } from '../../src/delivery/sandbox/store.ts';
import { placeOfEventOperation } from '../../src/events/place-store.ts';
import { isAfterEndOperation, latestPlacesOperation } from '../../src/events/read-store.ts';
import { findInboundOperation } from '../../src/inbound/store.ts';
import { NOT_AUTHENTICATED } from '../../src/inbound-routes/authentication-results.ts';
import { findInboundMessageOperation, simulateInboundOperation } from '../../src/inbound-routes/message-store.ts';
import { findMessageOperation, moveMessageOperation } from '../../src/messages/api-store.ts';
import { findQueuedOperation, retryOperation } from '../../src/messages/control-store.ts';
import {
  beginMoveOperation,
  clockOffsetOperation,
  type DueRow,
  endMoveOperation,
  nextStepOperation,
  outstandingWorkOperation,
  type Step,
} from '../../src/sandbox/clock-store.ts';
import { listInboxOperation } from '../../src/sandbox/store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { claimOperation as claimWebhooksOperation } from '../../src/webhooks/claim.ts';
import { listDeliveriesOperation, retryDeliveryOperation } from '../../src/webhooks/log-store.ts';
import { settleOperation as settleWebhooksOperation } from '../../src/webhooks/settle.ts';
import { createEndpointOperation, removeEndpointOperation } from '../../src/webhooks/store.ts';
import type { Lease } from '../../src/work/work.ts';
import { acceptance, claimRequest, idsOf, readEvents, settlement } from './mail.ts';
import type { Scenario, Stage } from './stage.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Returns a claim of only these rows. */
function only(stage: Stage, rows: readonly Lease[]) {
  const leases = rows.map(({ seq, fence }) => ({ seq, fence }));
  return { ...claimRequest(stage), quarantined: false, overQuota: [], only: leases };
}

const KINDS = ['delivery', 'webhook'] as const;

function stepOf(stage: Stage, accountId: string, change: Partial<Step> = {}): Step {
  return {
    accountId,
    by: 'one',
    nowMs: stage.nowMs,
    leaseMs: HOUR,
    kinds: KINDS,
    most: [4, 4] as const,
    targetMs: stage.nowMs + 90 * MINUTE,
    momentMs: stage.nowMs,
    shortestWaitsMs: [[54_000], [4_500, 270_000]],
    ...change,
  };
}

/** Adds events without work, so that no event accidentally has the number of a work row in one database only. */
async function shiftNumbers(stage: Stage): Promise<void> {
  const to = Array.from({ length: 20 }, (_, index) => `${index}@x.example`);
  const mail = acceptance(stage, { accountId: stage.id('acc'), to });
  for (const recipient of mail.emails[0]!.recipients) recipient.simulateSuppressed = true;
  await stage.act(acceptOperation, mail);
}

export const movingTheClock: Scenario = async (stage) => {
  await shiftNumbers(stage);
  const accountId = stage.id('acc');
  const mode = 'sandbox' as const;
  const mails = [{}, { sendAtMs: stage.nowMs + 2 * HOUR }].map((change) =>
    acceptance(stage, { accountId, change: { mode, ...change } }),
  );
  for (const mail of mails) await stage.act(acceptOperation, mail);
  const [nowId, laterId] = mails.flatMap(idsOf) as [string, string];
  const webhookId = stage.id('whk');
  await stage.act(createEndpointOperation, {
    id: webhookId,
    accountId,
    mode,
    url: 'https://a.example',
    description: null,
    enabled: true,
    events: '["DeliveryDelay","Delivery"]',
    secretSealed: Buffer.from([1]),
    nowMs: stage.nowMs,
  });
  await stage.act(clockOffsetOperation, accountId);
  const mover = { accountId, by: 'one', nowMs: stage.nowMs, leaseMs: HOUR };
  assert.equal(await stage.act(beginMoveOperation, mover), true);
  assert.equal(await stage.act(beginMoveOperation, { ...mover, by: 'two' }), false);
  await stage.act(outstandingWorkOperation, { accountId, kinds: KINDS, untilMs: stage.nowMs });
  const next = async (change: Partial<Step> = {}): Promise<DueRow[]> =>
    (await stage.act(nextStepOperation, stepOf(stage, accountId, change))) ?? [];
  assert.equal(await stage.act(nextStepOperation, stepOf(stage, accountId, { by: 'two' })), undefined);

  const first = await next();
  assert.deepEqual(
    first.map((row) => [row.subject, row.atMs - stage.nowMs]),
    [[nowId, 0]],
  );
  await stage.act(outstandingWorkOperation, { accountId, kinds: KINDS, untilMs: stage.nowMs });
  const claimed = await stage.act(claimOperation, only(stage, first));
  assert.equal((await stage.act(claimOperation, only(stage, first))).taken.rows, 0, 'it is not free any more');
  await stage.act(outstandingWorkOperation, { accountId, kinds: KINDS, untilMs: stage.nowMs });
  const [job] = claimed.jobs;
  const delay = { id: stage.id('evt'), type: 'DeliveryDelay', detail: { deliveryDelay: {} } } as const;
  const delayed = {
    to: 'delayed',
    nextAttemptAtMs: stage.nowMs + MINUTE,
    event: delay,
    sandboxOutcome: 'Delayed',
  } as const;
  await stage.act(settleOperation, [settlement(stage, job!, delayed)]);

  const due = await next({ momentMs: stage.nowMs });
  assert.deepEqual(
    due.map((row) => [row.kind, row.atMs - stage.nowMs]),
    [['webhook', 5]],
  );
  const batch = await stage.act(claimWebhooksOperation, only(stage, due));
  const webhookJob = batch.jobs[0]!;
  const tried = {
    seq: webhookJob.seq,
    fence: webhookJob.fence,
    accountId,
    mode,
    webhookId,
    eventSeq: webhookJob.eventSeq,
    turn: webhookJob.turn,
    ...({
      eventId: batch.events[0]!.id,
      eventType: batch.events[0]!.type,
      result: 'retry',
      tried: true,
      url: 'https://a.example',
    } as const),
    responseStatus: 500,
    responseStart: '',
    error: 'no',
    latencyMs: 1,
    nextAttemptMs: stage.nowMs + 5 + 70 * MINUTE,
    atMs: stage.nowMs + 5,
  };
  await stage.act(settleWebhooksOperation, { nowMs: stage.nowMs, settled: [tried] });

  const second = await next({ momentMs: stage.nowMs + 5 });
  assert.deepEqual(
    second.map((row) => [row.subject, row.atMs - stage.nowMs]),
    [[nowId, MINUTE]],
  );
  const unfinished = (await stage.act(claimOperation, only(stage, second))).jobs;
  // Claimed rows that do not run are given back; the webhook is due after this end.
  const released = unfinished.map(({ seq, fence }) => ({ seq, fence, atMs: second[0]!.atMs }));
  const end = { accountId, by: 'one', nowMs: stage.nowMs, toMs: stage.nowMs + 61 * MINUTE, released };
  assert.equal(await stage.act(endMoveOperation, end), stage.nowMs + 61 * MINUTE);
  assert.equal(await stage.act(endMoveOperation, end), stage.nowMs + 61 * MINUTE, 'an expired move ends nothing');
  assert.equal(await stage.act(clockOffsetOperation, accountId), 61 * MINUTE);

  const after = { nowMs: stage.nowMs + 61 * MINUTE, clockOffsetMs: 61 * MINUTE, mode };
  await stage.act(
    acceptOperation,
    acceptance(stage, { accountId, change: { ...after, sendAtMs: stage.nowMs + 65 * MINUTE } }),
  );
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  assert.deepEqual(
    jobs.map(({ messageId, clockOffsetMs }) => [messageId, clockOffsetMs]),
    [[nowId, 61 * MINUTE]],
    'the others are not due in real time',
  );
  const again = { to: 'delayed', nextAttemptAtMs: stage.nowMs + 66 * MINUTE, event: null } as const;
  await stage.act(settleOperation, [settlement(stage, jobs[0]!, again)]);
  await stage.act(beginMoveOperation, mover);
  const third = await next({ momentMs: stage.nowMs + 62 * MINUTE });
  assert.deepEqual(
    third.map((row) => row.atMs - stage.nowMs),
    [65 * MINUTE],
    'with subscribed endpoints, one point in time is processed at a time',
  );
  await stage.act(endMoveOperation, { ...end, toMs: stage.nowMs, released: [] });
  const key = { accountId, mode, id: webhookId };
  const [record] = (await stage.act(listDeliveriesOperation, {
    ...key,
    eventType: null,
    status: null,
    before: null,
    limit: 5,
  }))!.rows;
  await stage.act(retryDeliveryOperation, { ...key, deliveryId: record!.id, nowMs: stage.nowMs });
  await stage.act(removeEndpointOperation, key);
  await stage.act(beginMoveOperation, mover);
  const rest = await next({ momentMs: stage.nowMs + 62 * MINUTE, targetMs: stage.nowMs + 100 * HOUR });
  assert.deepEqual(
    rest.map((row) => [row.kind, row.atMs - stage.nowMs]),
    [
      ['webhook', 62 * MINUTE],
      ['delivery', 65 * MINUTE],
    ],
    'until the first of them can be retried',
  );
  const gone = await stage.act(
    claimWebhooksOperation,
    only(
      stage,
      rest.filter((row) => row.kind === 'webhook'),
    ),
  );
  assert.deepEqual([gone.taken.rows, gone.jobs], [1, []], 'its endpoint is removed');
  const later = { accountId, mode, messageId: laterId };
  await stage.act(moveMessageOperation, { ...later, sendAtMs: stage.nowMs + 3 * HOUR, nowMs: stage.nowMs + HOUR });
  const queued = await stage.act(findQueuedOperation, laterId);
  await stage.act(retryOperation, { ...queued!, nowMs: stage.nowMs });
  await stage.act(findMessageOperation, later);
  const sentinel = { accountId: stage.id('acc'), mode };
  await stage.act(latestPlacesOperation, [{ accountId, mode }, sentinel, { accountId, mode: 'live' }]);
  const far = Number.MAX_SAFE_INTEGER;
  assert.equal(await stage.act(isAfterEndOperation, { position: far, seq: far }), true);
  const [last] = await stage.database.execute(latestPlacesOperation, [{ accountId, mode }]);
  assert.equal(await stage.act(isAfterEndOperation, last!), false);
  const rows = await readEvents(stage, accountId, { mode });
  assert.ok(rows.length > 2);
  for (const { id, position, seq } of rows) {
    const place = await stage.act(placeOfEventOperation, { accountId, mode, order: 'asc', id });
    assert.deepEqual(place, { position, seq });
  }
  const known = { accountId, mode, order: 'desc' as const, id: rows[0]!.id };
  assert.ok(await stage.act(placeOfEventOperation, known));
  for (const other of [
    { id: stage.id('evt') },
    { id: 'evt_1' },
    { accountId: sentinel.accountId },
    { mode: 'live' as const },
  ])
    assert.equal(await stage.act(placeOfEventOperation, { ...known, ...other }), null);
};

export const playingByHand: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const mode = 'sandbox' as const;
  const mail = acceptance(stage, { accountId, to: ['a@x.example', 'b@x.example'], change: { mode } });
  await stage.act(acceptOperation, mail);
  const [messageId, otherId] = idsOf(mail) as [string, string];
  const find = (id: string) => stage.act(findSandboxMessageOperation, { accountId, messageId: id });
  const work = async (id: string): Promise<Lease> => {
    const { seq, fence } = (await find(id))!;
    return { seq: seq!, fence };
  };
  const { jobs } = await stage.act(claimOperation, only(stage, [await work(messageId)]));
  assert.equal((await stage.act(claimOperation, only(stage, [await work(messageId)]))).taken.rows, 0, 'it is leased');
  assert.equal(await find('msg_none'), undefined);
  const late = {
    ...({ accountId, messageId, to: 'complained', atMs: stage.nowMs + 9, sandboxOutcome: 'Complained' } as const),
    event: { id: stage.id('evt'), type: 'Complaint', detail: { complaint: {} } } as const,
  };
  assert.equal(await stage.act(simulateLateOperation, late), false);
  await stage.act(settleOperation, [settlement(stage, jobs[0]!, { sandboxOutcome: 'Delivered' })]);
  assert.equal((await find(messageId))?.seq, null);
  assert.equal(await stage.act(simulateLateOperation, late), true);
  const page = {
    accountId,
    nowMs: stage.nowMs + 10,
    before: null,
    limit: 10,
    to: null,
    subject: null,
    tag: null,
    sinceMs: null,
  };
  await stage.act(listInboxOperation, page);
  assert.equal((await stage.act(claimOperation, only(stage, [await work(otherId)]))).jobs.length, 1);
  await readEvents(stage, accountId, { mode });
};

/** Stores an inbound message of a sandbox as the API does; returns its id. */
async function simulateInbound(stage: Stage, accountId: string): Promise<string> {
  const facts = {
    id: stage.id('inb'),
    receivedAtMs: stage.nowMs,
    envelopeFrom: 'ann@x.example',
    recipient: 'a@in.shop.example',
    sizeBytes: 5,
  };
  const owner = { accountId, mode: 'sandbox', routeId: 'inr_none' } as const;
  await stage.act(simulateInboundOperation, {
    stored: {
      ...facts,
      use: { kind: 'route', ...owner },
      client: { address: '192.0.2.1', helo: 'sandbox', tls: null },
      content: Buffer.from('hello'),
      blobKey: null,
      nowMs: stage.nowMs,
    },
    mail: {
      ...facts,
      ...owner,
      headerFrom: 'ann@x.example',
      subject: 'Hello',
      content: { text: 'hello', html: null, authentication: NOT_AUTHENTICATED },
      files: '[]',
      eventId: stage.id('evt'),
      dropped: null,
      headerMessageId: null,
      references: [],
      namedMessageId: null,
    },
  });
  return facts.id;
}

export const resettingTheClock: Scenario = async (stage) => {
  const mode = 'sandbox' as const;
  const [accountId, otherId] = [stage.id('acc'), stage.id('acc')];
  const mails = ['a', 'b', 'c'].map((name) =>
    acceptance(stage, { accountId, to: [`${name}@x.example`, `${name}@y.example`], change: { mode } }),
  );
  const kept = [
    acceptance(stage, { accountId, change: { mode: 'live' } }),
    acceptance(stage, { accountId: otherId, change: { mode } }),
  ];
  for (const mail of [...mails, ...kept]) await stage.act(acceptOperation, mail);
  const inboundId = await simulateInbound(stage, accountId);
  await stage.act(createEndpointOperation, {
    id: stage.id('whk'),
    accountId,
    mode,
    url: 'https://a.example',
    description: null,
    enabled: true,
    events: '["Delivery"]',
    secretSealed: Buffer.from([1]),
    nowMs: stage.nowMs,
  });
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const job = jobs.find((one) => one.accountId === accountId && one.mode === mode)!;
  await stage.act(settleOperation, [settlement(stage, job, { sandboxOutcome: 'Delivered' })]);
  const mover = { accountId, by: 'one', nowMs: stage.nowMs, leaseMs: HOUR };
  await stage.act(beginMoveOperation, mover);
  await stage.act(endMoveOperation, { ...mover, toMs: stage.nowMs + HOUR, released: [] });
  assert.equal(await stage.act(clockOffsetOperation, accountId), HOUR);

  await stage.act(beginMoveOperation, mover);
  const step = { ...mover, kinds: KINDS, limit: 2 };
  assert.equal(await stage.act(resetStepOperation, { ...step, by: 'two' }), undefined, 'another call has the lease');
  let removed = 0;
  for (;;) {
    const progress = await stage.act(resetStepOperation, step);
    removed += progress!.removed;
    if (progress!.isDone) break;
  }
  assert.equal(removed, 6);
  assert.equal(await stage.act(findInboundMessageOperation, inboundId), undefined);
  const bytes = await stage.act(findInboundOperation, { id: inboundId, accountId, mode });
  assert.equal(bytes, undefined, 'the bytes of inbound mail are deleted with its record');
  assert.equal(await stage.act(clockOffsetOperation, accountId), 0);
  assert.equal(await stage.act(resetStepOperation, step), undefined, 'the lease ends with the reset');
  assert.deepEqual(await readEvents(stage, accountId, { mode }), []);
  const page = {
    accountId,
    nowMs: stage.nowMs,
    before: null,
    limit: 10,
    to: null,
    subject: null,
    tag: null,
    sinceMs: null,
  };
  assert.deepEqual(await stage.act(listInboxOperation, page), []);
  assert.deepEqual(await stage.act(outstandingWorkOperation, { accountId, kinds: KINDS, untilMs: stage.nowMs + DAY }), {
    held: 0,
    due: 0,
  });
  for (const mail of mails)
    for (const messageId of idsOf(mail))
      assert.equal(await stage.act(findMessageOperation, { accountId, mode, messageId }), undefined);
  assert.ok(await stage.act(findMessageOperation, { accountId, mode: 'live', messageId: idsOf(kept[0]!)[0]! }));
  assert.ok(await stage.act(findMessageOperation, { accountId: otherId, mode, messageId: idsOf(kept[1]!)[0]! }));
  // An attempt that was in progress records nothing.
  const late = jobs.find((one) => one.accountId === accountId && one.mode === mode && one.seq !== job.seq)!;
  const { lost } = await stage.act(settleOperation, [settlement(stage, late, { sandboxOutcome: 'Delivered' })]);
  assert.deepEqual(lost, [late.seq]);
  assert.deepEqual(await readEvents(stage, accountId, { mode }), []);
};
