/** Incidents: delayed messages by cause, in pages, with samples and retry; bounces; failing endpoints and domains. */
import assert from 'node:assert/strict';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import {
  affectedOperation,
  bouncedOperation,
  delayedOperation,
  failedDeliveriesOperation,
  failingWebhooksOperation,
  retryCauseOperation,
  samplesOperation,
} from '../../src/incidents/store.ts';
import { findMessageOperation } from '../../src/messages/api-store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { acceptance, claimRequest, idsOf, settlement } from './mail.ts';
import type { Scenario } from './stage.ts';

const HOUR = 3_600_000;

export const incidents: Scenario = async (stage) => {
  const owner = { accountId: stage.id('acc'), mode: 'live' } as const;
  const made = acceptance(stage, { ...owner, to: [1, 2, 3, 4, 5].map((n) => `u${n}@x.example`) });
  await stage.act(acceptOperation, made);
  const { jobs } = await stage.database.execute(claimOperation, claimRequest(stage));
  const [slow, full] = ['a'.repeat(20), 'b'.repeat(20)].map((id) => `${id} 421 4.7.0 rate-limited remote`);
  const dueMs = stage.nowMs + HOUR;
  const byId = new Map(jobs.map((job) => [job.messageId, job]));
  const own = idsOf(made).map((id) => byId.get(id)!);
  const event = (type: 'DeliveryDelay' | 'Bounce', detail: Record<string, unknown>) => ({
    id: stage.id('evt'),
    type,
    detail,
  });
  await stage.act(
    settleOperation,
    own.slice(0, 4).map((job, index) =>
      settlement(stage, job, {
        ...{
          to: 'delayed',
          nextAttemptAtMs: dueMs + index,
          cause: index < 3 ? slow! : full!,
          atMs: stage.nowMs + index,
        },
        event: event('DeliveryDelay', { deliveryDelay: { reply: `421 ${index}` } }),
        ...(index === 2 && { attempt: null }),
      }),
    ),
  );
  await stage.act(settleOperation, [
    settlement(stage, own[4]!, {
      to: 'bounced',
      event: event('Bounce', { bounce: { owner: 'remote', reply: '550' } }),
    }),
  ]);
  const part = { ...owner, after: '', below: '~', groups: 10, counted: 100 };
  const groups = [
    { cause: slow!, messages: 3 },
    { cause: full!, messages: 1 },
  ];
  assert.deepEqual(await stage.act(delayedOperation, part), groups);
  assert.deepEqual(await stage.act(delayedOperation, { ...part, groups: 1 }), groups.slice(0, 1));
  assert.deepEqual(await stage.act(delayedOperation, { ...part, after: slow! }), groups.slice(1));
  assert.deepEqual(await stage.act(delayedOperation, { ...part, below: full! }), groups.slice(0, 1));
  assert.deepEqual(await stage.act(delayedOperation, { ...part, counted: 2 }), [
    { ...groups[0], messages: 2 },
    groups[1],
  ]);
  const listed = await stage.act(affectedOperation, { ...owner, cause: slow!, before: null, limit: 10 });
  await stage.act(affectedOperation, { ...owner, cause: slow!, before: listed[0]!.seq, limit: 1 });
  const samples = await stage.act(samplesOperation, {
    ...owner,
    causes: [slow!, full!, 'none'],
    limit: 2,
    scanLimit: 2,
  });
  assert.deepEqual(
    samples.map(({ nextDueMs, lastAtMs }) => [nextDueMs, lastAtMs]),
    [
      [dueMs + 1, stage.nowMs + 2],
      [dueMs + 3, stage.nowMs + 3],
    ],
  );
  await stage.act(bouncedOperation, { ...owner, before: null, limit: 10 });
  const retry = { ...owner, cause: slow!, limit: 2, nowMs: stage.nowMs, latestMs: stage.nowMs + 10, apartMs: 1 };
  const first = await stage.act(retryCauseOperation, { ...retry, afterSeq: 0, done: 0 });
  const rest = await stage.act(retryCauseOperation, { ...retry, afterSeq: first.lastSeq!, done: 2 });
  assert.deepEqual([first.retried, rest], [2, { retried: 1, lastSeq: null }]);
  await stage.act(retryCauseOperation, { ...retry, afterSeq: 0, done: 0 });
  for (const messageId of idsOf(made)) {
    const found = await stage.database.execute(findMessageOperation, { ...owner, messageId });
    assert.ok(found!.row.next_attempt_at === null || found!.row.next_attempt_at <= dueMs + 3);
  }
  await stage.act(failingWebhooksOperation, { ...owner, scanLimit: 10 });
  await stage.act(failedDeliveriesOperation, { webhookId: 'whk_none', scanLimit: 10, nowMs: stage.nowMs });
};
