/** Scenarios of retention: content, entire emails, idempotency records, the sandbox, the webhook log, blobs. */
import assert from 'node:assert/strict';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import {
  type EventPlace,
  forgetSegmentsOperation,
  noteSegmentOperation,
  readEventsOperation,
  searchEventsOperation,
} from '../../src/events/read-store.ts';
import { removeExpiredOperation } from '../../src/idempotency/idempotency.ts';
import { findMessageOperation } from '../../src/messages/api-store.ts';
import {
  namedBlobsOperation,
  removeContentOperation,
  removeEmailsOperation,
  stillNamedBlobsOperation,
} from '../../src/messages/retention-store.ts';
import { listInboxOperation, removeSandboxItemsOperation } from '../../src/sandbox/store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { claimOperation as claimWebhooksOperation } from '../../src/webhooks/claim.ts';
import { removeWebhookDeliveriesOperation } from '../../src/webhooks/log-store.ts';
import { settleOperation as settleWebhooksOperation, type WebhookSettlement } from '../../src/webhooks/settle.ts';
import { createEndpointOperation, removeEndpointOperation } from '../../src/webhooks/store.ts';
import { acceptance, claimRequest, readEvents, settlement } from './mail.ts';
import type { Scenario } from './stage.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

export const emails: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const beforeMs = stage.nowMs + DAY;
  const content = { beforeMs, beforeOf7DaysMs: beforeMs };
  const idempotency = { endpoint: '/send', bodyHash: Buffer.from('h'), status: 202, expiresAtMs: stage.nowMs };
  // The times differ: of equal ones, each database may remove any first.
  const made = ['zz/1', 'zz/2', 'zz/3'].map((blobKey, index) =>
    acceptance(stage, {
      accountId,
      email: { content: null, blobKey },
      change: { contentUntilMs: stage.nowMs + HOUR + index, idempotency: { ...idempotency, key: blobKey } },
    }),
  );
  for (const one of made) await stage.act(acceptOperation, one);
  const ids = made.map((one) => one.emails[0]!.recipients[0]!.messageId);
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const finished = jobs.filter((job) => job.messageId !== ids[1]);
  await stage.act(
    settleOperation,
    finished.map((job) => settlement(stage, job)),
  );
  await stage.act(namedBlobsOperation, ['zz/1', 'zz/2', 'zz/9']);
  await stage.act(namedBlobsOperation, []);
  await stage.act(stillNamedBlobsOperation, ['zz/1', 'zz/9']);
  await stage.act(removeContentOperation, { ...content, beforeMs: stage.nowMs, limit: 10 });
  assert.equal((await stage.act(removeContentOperation, { ...content, limit: 1 })).count, 1);
  assert.equal((await stage.act(removeContentOperation, { ...content, limit: 10 })).count, 1);
  const some = await stage.act(removeExpiredOperation, { beforeMs, limit: 2, after: null });
  const rest = await stage.act(removeExpiredOperation, { beforeMs, limit: 2, after: some.next });
  assert.equal(some.count + rest.count, 2);
  await stage.act(removeEmailsOperation, { beforeMs: stage.nowMs - 1, limit: 2, afterSeq: 0 });
  const part = await stage.act(removeEmailsOperation, { beforeMs, limit: 2, afterSeq: 0 });
  assert.equal(part.count, 1);
  assert.equal((await stage.act(removeEmailsOperation, { beforeMs, limit: 2, afterSeq: part.lastSeq! })).count, 1);
  for (const messageId of ids) await stage.act(findMessageOperation, { accountId, mode: 'live', messageId });
  await readEvents(stage, accountId);
};

export const inbox: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  for (let i = 0; i < 5; i += 1) {
    await stage.act(
      acceptOperation,
      acceptance(stage, { accountId, change: { mode: 'sandbox', nowMs: stage.nowMs + i } }),
    );
  }
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
  await stage.act(removeSandboxItemsOperation, { beforeMs: stage.nowMs, limit: 10, perAccount: 10 });
  await stage.act(removeSandboxItemsOperation, { beforeMs: 0, limit: 10, perAccount: 3 });
  assert.equal((await stage.act(listInboxOperation, page)).length, 3);
};

export const deliveries: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const endpoint = {
    id: stage.id('whk'),
    accountId,
    mode: 'live',
    url: 'https://h.example',
    events: '["Send"]',
  } as const;
  await stage.act(createEndpointOperation, {
    ...endpoint,
    description: null,
    enabled: null,
    secretSealed: Buffer.from('s'),
    nowMs: 1,
  });
  await stage.act(acceptOperation, acceptance(stage, { accountId, to: ['a@x.example', 'b@x.example'] }));
  const batch = await stage.database.execute(claimWebhooksOperation, { ...claimRequest(stage), overQuota: [] });
  const settled = batch.jobs.map(
    (job, index): WebhookSettlement => ({
      seq: job.seq,
      fence: job.fence,
      accountId,
      webhookId: job.webhookId,
      eventSeq: job.eventSeq,
      turn: job.turn,
      mode: 'live',
      eventId: `evt_${index}`,
      eventType: 'Send',
      url: 'https://a.example',
      result: index === 0 ? 'succeeded' : 'retry',
      tried: true,
      nextAttemptMs: null,
      responseStatus: 200,
      responseStart: null,
      error: null,
      latencyMs: 1,
      atMs: stage.nowMs,
    }),
  );
  const request = { nowMs: stage.nowMs, settled };
  await stage.act(settleWebhooksOperation, request);
  assert.equal(await stage.act(removeWebhookDeliveriesOperation, { beforeMs: stage.nowMs - 1, limit: 5 }), 0);
  assert.equal(await stage.act(removeWebhookDeliveriesOperation, { beforeMs: stage.nowMs, limit: 5 }), 1);
  await stage.act(removeEndpointOperation, endpoint);
  assert.equal(await stage.act(removeWebhookDeliveriesOperation, { beforeMs: stage.nowMs, limit: 5 }), 1, 'pending');
};

export const segments: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const settledMs = Date.now() + DAY;
  const startMs = stage.nowMs;
  for (const nowMs of [startMs, startMs + HOUR, startMs + 2 * HOUR, startMs - HOUR, startMs + 3 * HOUR]) {
    await stage.act(acceptOperation, acceptance(stage, { accountId, change: { nowMs, contentUntilMs: nowMs + DAY } }));
    if (nowMs === startMs + 2 * HOUR) {
      while (await stage.act(noteSegmentOperation, { nowMs: settledMs, events: 1 })) assert.ok(true);
    }
  }
  const spans = [
    [null, null],
    [startMs, startMs + HOUR],
    [startMs + HOUR, null],
    [null, startMs],
    [startMs + HOUR, startMs + HOUR],
    [startMs + DAY, null],
    [null, startMs - DAY],
  ] as const;
  const found: number[] = [];
  for (const [sinceMs, untilMs] of spans) {
    for (const order of ['asc', 'desc'] as const) {
      const page = { accountId, mode: 'live' as const, order, after: null, messageId: null };
      const all = await stage.act(readEventsOperation, { ...page, sinceMs, untilMs, limit: 10 });
      found.push(all.length);
      await stage.act(readEventsOperation, { ...page, sinceMs, untilMs, limit: 2 });
    }
  }
  assert.deepEqual(found, [5, 5, 2, 2, 3, 3, 2, 2, 1, 1, 0, 0, 0, 0]);
  for (const order of ['asc', 'desc'] as const) {
    const page = {
      accountId,
      mode: 'live' as const,
      order,
      after: null,
      messageId: null,
      limit: 10,
      sinceMs: null,
      untilMs: null,
    };
    const read = (change: object) => stage.act(readEventsOperation, { ...page, ...change });
    const search = (after: EventPlace | null, rows: number, change: object = {}) =>
      stage.act(searchEventsOperation, { page: { ...page, after, ...change }, rows });
    const first = await search(null, 3);
    const through = first.end;
    assert.equal(first.found.length, 3);
    assert.equal((await read({ through })).length, 3);
    assert.equal((await read({ after: through })).length, 2);
    assert.notEqual((await search(through, 2)).end, null);
    assert.equal((await search(through, 3)).end, null);
    assert.equal((await search(null, 4, { through })).end, null);
    assert.equal((await read({ tags: ['order'] })).length, 5);
    assert.equal((await search(null, 3, { tags: ['order'] })).found.length, 3);
    for (const tags of [['Order'], ['order', 'ord']]) assert.equal((await read({ tags })).length, 0);
    for (const [eventTypes, found] of [
      [['Send'], 5],
      [['Bounce', 'Click'], 0],
      [['Bounce', 'Send'], 5],
    ] as const)
      assert.equal((await read({ eventTypes })).length, found, eventTypes.join());
    assert.equal((await read({ recipient: 'ADA@example.com' })).length, 5);
    assert.equal(
      (await read({ recipient: 'ADA@example.com', through, sinceMs: startMs })).length,
      order === 'asc' ? 3 : 2,
    );
    assert.equal((await read({ recipient: 'da@example.com' })).length, 0);
  }
  await stage.act(forgetSegmentsOperation, null);
};
