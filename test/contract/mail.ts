/** Scenarios of messages: acceptance, idempotency, claims and settlements; and helpers with which other scenarios create messages. */

import assert from 'node:assert/strict';
import { messageCountsOperation, messageHolderOperation } from '../../src/accounts/store.ts';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { type Settlement, settleOperation } from '../../src/delivery/record/settle.ts';
import { readEventsOperation } from '../../src/events/read-store.ts';
import { keepAnswerOperation, storedAnswerOperation } from '../../src/idempotency/idempotency.ts';
import {
  cancelMessageOperation,
  findContentOperation,
  findMailOperation,
  findMessageOperation,
  listMessagesOperation,
} from '../../src/messages/api-store.ts';
import { queueStatusOperation } from '../../src/messages/control-store.ts';
import type { DeliveryJob } from '../../src/messages/message.ts';
import { DELIVERY_WORK } from '../../src/messages/message.ts';
import { type Acceptance, acceptOperation } from '../../src/send/acceptance.ts';
import { acceptAgainOperation } from '../../src/send/large-store.ts';
import { suppressOperation } from '../../src/suppressions/store.ts';
import {
  backlogOperation,
  extendOperation,
  markRunningOperation,
  parkedLanesOperation,
  putBackOperation,
  recoverOperation,
  resumeOperation,
} from '../../src/work/work.ts';
import type { Scenario, Stage } from './stage.ts';

const HOUR = 3_600_000;

export interface Mail {
  accountId: string;
  to?: string[];
  change?: Partial<Acceptance>;
  email?: Partial<Acceptance['emails'][number]>;
}

/** Returns the argument of `send.accept` for one email to these recipients; the second of several emails is built manually. */
export function acceptance(stage: Stage, mail: Mail): Acceptance {
  const nowMs = mail.change?.nowMs ?? stage.nowMs;
  const to = mail.to ?? ['ada@example.com'];
  return {
    accountId: mail.accountId,
    mode: 'live',
    source: 'http',
    nowMs,
    clockOffsetMs: 0,
    emails: [
      {
        headerFrom: 'Shop <shop@example.org>',
        headerTo: JSON.stringify({ to, cc: [] }),
        envelopeFrom: 'shop@example.org',
        subject: 'Ihre Bestellung – Grüße',
        headerMessageId: `<${stage.id('msg', nowMs)}@example.org>`,
        tags: '["order","straße"]',
        metadata: '{"order":"17"}',
        options: '{"requireTls":false,"smtpUtf8":false,"eightBit":true,"expiresAfterSeconds":3600}',
        templateId: null,
        templateVersion: null,
        sizeBytes: 5_000_000_000,
        content: Buffer.from([0, 255, 10, 13, 92, 39, 63]),
        blobKey: null,
        clientAddress: null,
        traceparent: null,
        dsn: null,
        recipients: to.map((email) => ({
          messageId: stage.id('msg', nowMs),
          sendEventId: stage.id('evt', nowMs),
          rejectEventId: stage.id('evt', nowMs),
          email,
          suppressionKey: email.toLowerCase(),
          addressHash: '',
          role: 'to',
          lane: `${mail.accountId}/${email.slice(email.indexOf('@') + 1)}`,
          simulateSuppressed: false,
          dsn: null,
        })),
        ...mail.email,
      },
    ],
    retain: '30d',
    contentUntilMs: nowMs + 30 * 24 * HOUR,
    sendAtMs: null,
    expiresAtMs: nowMs + 72 * HOUR,
    from: 'shop@example.org',
    idempotency: null,
    leaseUntilMs: null,
    ...mail.change,
  };
}

export const idsOf = (made: Acceptance): string[] =>
  made.emails.flatMap((email) => email.recipients.map((one) => one.messageId));

export const claimRequest = (stage: Stage, leaseMs = HOUR) => ({
  nowMs: stage.nowMs + 60_000,
  leaseMs,
  limit: 50,
  quarantined: true,
});

export function settlement(stage: Stage, job: DeliveryJob, change: Partial<Settlement> = {}): Settlement {
  return {
    seq: job.seq,
    fence: job.fence,
    accountId: job.accountId,
    mode: job.mode,
    messageId: job.messageId,
    emailSeq: job.emailSeq,
    retain: job.retain,
    atMs: stage.nowMs + 5,
    attempts: job.attempts + 1,
    attempt: {
      time: '2026-11-01T00:00:00.000Z',
      durationMs: 12,
      host: 'mx.example',
      address: '192.0.2.1',
      tls: 'TLSv1.3',
      dialogue: [{ atMs: 1, direction: 'S' as const, text: '250 ok\u0000' }],
      reply: '250 ok',
      outcome: 'delivered' as const,
    },
    to: 'delivered',
    nextAttemptAtMs: null,
    event: { id: stage.id('evt'), type: 'Delivery', detail: { delivery: { reply: '250 ok' } } },
    suppress: null,
    followedBy: null,
    sandboxOutcome: null,
    ...change,
  };
}

/** Returns the events of an account, oldest first: all of them once nothing is being written. */
export function readEvents(stage: Stage, accountId: string, change: object = {}) {
  return stage.act(readEventsOperation, {
    accountId,
    mode: 'live',
    order: 'asc',
    after: null,
    limit: 100,
    messageId: null,
    sinceMs: null,
    untilMs: null,
    ...change,
  });
}

export const wholePage = (accountId: string) => ({
  accountId,
  mode: 'live' as const,
  before: null,
  limit: 50,
  statuses: [],
  messageId: null,
  to: null,
  from: null,
  subject: null,
  any: null,
  templateId: null,
  tags: [],
  metadata: [],
  sinceMs: null,
  untilMs: null,
  lowestId: null,
  highestId: null,
});

export const accepting: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const suppression = {
    email: 'gone@example.com',
    reason: 'bounce',
    sourceMessageId: null,
    expiresAt: null,
    createdAt: 1,
  } as const;
  await stage.act(suppressOperation, { addressHash: '', accountId, mode: 'live', suppression });
  const two = acceptance(stage, { accountId, to: ['ada@example.com', 'Gone@example.com'] });
  await stage.act(acceptOperation, two);
  const leased = acceptance(stage, { accountId, change: { leaseUntilMs: stage.nowMs + HOUR } });
  assert.equal((await stage.act(acceptOperation, leased)).leased.length, 1);
  const later = acceptance(stage, {
    accountId,
    change: { sendAtMs: stage.nowMs + HOUR, leaseUntilMs: stage.nowMs + HOUR },
  });
  await stage.act(acceptOperation, later);
  const unkept = acceptance(stage, {
    accountId,
    to: ['gone@example.com'],
    change: { retain: 'none' },
    email: { content: null, blobKey: 'ab/00000000000000000000000001', templateId: 'tpl_1', templateVersion: 3 },
  });
  assert.equal((await stage.act(acceptOperation, unkept)).unkeptBlobKeys.length, 1);
  const several = acceptance(stage, { accountId, to: ['b@example.com'] });
  several.emails.push(...acceptance(stage, { accountId, to: ['c@example.com', 'd@other.example'] }).emails);
  await stage.act(acceptOperation, several);
  for (const id of [...idsOf(two), ...idsOf(unkept), ...idsOf(several)]) {
    await stage.act(findMessageOperation, { accountId, mode: 'live', messageId: id });
  }
  await stage.act(findMailOperation, { accountId, mode: 'live', messageId: idsOf(unkept)[0]! });
  await stage.act(findContentOperation, { accountId, mode: 'live', messageId: idsOf(two)[0]! });
  await stage.act(findContentOperation, { accountId, mode: 'sandbox', messageId: idsOf(two)[0]! });
  await readEvents(stage, accountId);
  await stage.act(backlogOperation, DELIVERY_WORK);
  const again = acceptance(stage, { accountId, email: { content: null, blobKey: 'ab/00000000000000000000000002' } });
  await stage.act(acceptAgainOperation, {
    acceptance: again,
    of: { accountId, mode: 'live', messageId: idsOf(two)[0]! },
  });
  await stage.act(acceptAgainOperation, { acceptance: again, of: { accountId, mode: 'live', messageId: 'msg_none' } });
};

export const atOnce: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const keyed = (key: string, bodyHash: string) => {
    const idempotency = {
      endpoint: '/send',
      key,
      bodyHash: Buffer.from(bodyHash),
      status: 202,
      expiresAtMs: stage.nowMs + HOUR,
    };
    return acceptance(stage, { accountId, change: { idempotency, leaseUntilMs: stage.nowMs + HOUR } });
  };
  const calls = [
    keyed('a', '1'),
    keyed('b', '2'),
    keyed('a', '1'),
    ...Array.from({ length: 40 }, () => acceptance(stage, { accountId })),
  ];
  const answers = await Promise.all(calls.map((call) => stage.database.execute(acceptOperation, call)));
  assert.equal(
    answers.filter((one) => one.stored).length,
    calls.length - 1,
    'one of two messages with the same key is stored',
  );
  await stage.act(listMessagesOperation, { ...wholePage('acc_none') });
  const stored = await stage.database.execute(listMessagesOperation, { ...wholePage(accountId), limit: 100 });
  assert.equal(stored.length, calls.length - 1);
  const events = await stage.database.execute(readEventsOperation, {
    accountId,
    mode: 'live',
    order: 'desc',
    after: null,
    limit: 100,
    messageId: null,
    eventTypes: ['Send'],
    sinceMs: null,
    untilMs: null,
  });
  assert.equal(events.length, calls.length - 1);
};

export const idempotency: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const key = { accountId, mode: 'live', endpoint: '/send', key: 'Order-17' } as const;
  const record = {
    endpoint: '/send',
    key: 'Order-17',
    bodyHash: Buffer.from('hash'),
    status: 202,
    expiresAtMs: stage.nowMs + HOUR,
  };
  const first = acceptance(stage, { accountId, change: { idempotency: record } });
  assert.equal((await stage.act(acceptOperation, first)).stored, true);
  const again = (at: number) => acceptance(stage, { accountId, change: { idempotency: record, nowMs: at } });
  assert.equal((await stage.act(acceptOperation, again(stage.nowMs))).stored, false);
  await stage.act(storedAnswerOperation, { ...key, nowMs: stage.nowMs });
  await stage.act(storedAnswerOperation, { ...key, key: 'order-17', nowMs: stage.nowMs });
  const after = stage.nowMs + 2 * HOUR;
  assert.equal((await stage.act(acceptOperation, again(after))).stored, false, 'its message is not finished');
  await stage.act(storedAnswerOperation, { ...key, nowMs: after });
  await stage.act(cancelMessageOperation, {
    accountId,
    mode: 'live',
    messageId: idsOf(first)[0]!,
    eventId: stage.id('evt'),
    nowMs: stage.nowMs + 1,
  });
  assert.equal(await stage.act(storedAnswerOperation, { ...key, nowMs: after }), null);
  assert.equal((await stage.act(acceptOperation, again(after))).stored, true);
  const answer = { bodyHash: Buffer.from('h'), status: 200, body: '[]' };
  const batch = {
    key: { ...key, endpoint: '/send/batch' },
    answer,
    nowMs: stage.nowMs,
    expiresAtMs: stage.nowMs + HOUR,
  };
  await stage.act(keepAnswerOperation, batch);
  await stage.act(keepAnswerOperation, { ...batch, answer: { ...answer, body: '[1]' } });
  await stage.act(storedAnswerOperation, { ...batch.key, nowMs: stage.nowMs });
};

/** Messages that wait for a paused destination are returned untried, with unchanged attempts and crashes. */
export const puttingOff: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const mail = acceptance(stage, { accountId, to: ['a@x.example', 'b@x.example'] });
  await stage.act(acceptOperation, mail);
  await stage.act(claimOperation, claimRequest(stage, -HOUR));
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const later = { to: 'delayed', nextAttemptAtMs: stage.nowMs + 1 } as const;
  const event = { type: 'DeliveryDelay', detail: { deliveryDelay: {} } } as const;
  const { lost } = await stage.act(settleOperation, [
    settlement(stage, jobs[0]!, { ...later, attempts: 0, attempt: null, event: { ...event, id: stage.id('evt') } }),
    settlement(stage, jobs[1]!, { ...later, event: { ...event, id: stage.id('evt') } }),
  ]);
  assert.deepEqual(lost, []);
  for (const id of idsOf(mail)) await stage.act(findMessageOperation, { accountId, mode: 'live', messageId: id });
  const again = await stage.act(claimOperation, { ...claimRequest(stage), nowMs: stage.nowMs + 10 });
  const known = again.jobs.map(({ seq, attempts, crashes, status }) => ({ seq, attempts, crashes, status }));
  assert.deepEqual(known, [
    { seq: jobs[0]!.seq, attempts: 0, crashes: 1, status: 'delayed' },
    { seq: jobs[1]!.seq, attempts: 1, crashes: 0, status: 'delayed' },
  ]);
};

/** Resumed messages are claimed before messages that were due earlier but never claimed. */
export const resuming: Scenario = async (stage) => {
  await stage.act(
    acceptOperation,
    acceptance(stage, { accountId: stage.id('acc'), to: ['a@x.example', 'b@y.example'] }),
  );
  const at = (ms: number) => ({ ...claimRequest(stage), nowMs: stage.nowMs + ms, limit: 1 });
  const [first] = (await stage.act(claimOperation, at(0))).jobs;
  await stage.act(putBackOperation, { park: [first!], nowMs: stage.nowMs + 10 });
  const lanes = [{ lane: first!.lane, limit: 5 }];
  await stage.act(resumeOperation, { kind: DELIVERY_WORK, nowMs: stage.nowMs + 20, lanes });
  const [again] = (await stage.act(claimOperation, at(30))).jobs;
  assert.equal(again!.messageId, first!.messageId);
};

export const delivering: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const mail = acceptance(stage, {
    accountId,
    to: ['a@x.example', 'b@x.example', 'c@y.example', 'd@y.example', 'e@z.example'],
  });
  await stage.act(acceptOperation, mail);
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  assert.equal(jobs.length, 5);
  assert.equal((await stage.act(claimOperation, claimRequest(stage))).jobs.length, 0, 'all are leased');
  const [a, b, c, d, e] = jobs as [DeliveryJob, DeliveryJob, DeliveryJob, DeliveryJob, DeliveryJob];
  await stage.act(queueStatusOperation, stage.nowMs + 60_000);
  const delayed = { to: 'delayed', nextAttemptAtMs: stage.nowMs + HOUR } as const;
  const event = { id: stage.id('evt'), type: 'Bounce', detail: { bounce: { reason: 'hard' } } } as const;
  const settled = await stage.act(settleOperation, [
    settlement(stage, a),
    settlement(stage, b, { ...delayed, event: { id: stage.id('evt'), type: 'DeliveryDelay', detail: {} } }),
    settlement(stage, c, { to: 'bounced', event, suppress: { email: 'c@y.example', untilMs: null } }),
    settlement(stage, { ...d, fence: d.fence + 1 }),
  ]);
  assert.equal(settled.lost.length, 1);
  for (const id of idsOf(mail)) await stage.act(findMessageOperation, { accountId, mode: 'live', messageId: id });
  await stage.act(putBackOperation, { release: [d], nowMs: stage.nowMs });
  await stage.act(putBackOperation, { park: [e], nowMs: stage.nowMs });
  await stage.act(parkedLanesOperation, { kind: DELIVERY_WORK, after: '', limit: 10 });
  const { jobs: retaken } = await stage.act(claimOperation, claimRequest(stage));
  assert.deepEqual(
    retaken.map((job) => job.messageId),
    [d.messageId],
  );
  await stage.act(resumeOperation, {
    kind: DELIVERY_WORK,
    nowMs: stage.nowMs,
    lanes: [
      { lane: e.lane, limit: 5 },
      { lane: 'none', limit: 5 },
    ],
  });
  const { jobs: freed } = await stage.act(claimOperation, claimRequest(stage, -HOUR));
  assert.deepEqual(
    freed.map((job) => job.messageId),
    [e.messageId],
  );
  const kept = [retaken[0]!, freed[0]!, { seq: a.seq, fence: a.fence }];
  assert.equal(
    (await stage.actNumbers(extendOperation, { leases: kept, nowMs: stage.nowMs, leaseMs: -HOUR })).length,
    1,
  );
  await stage.act(markRunningOperation, { leases: [freed[0]!], running: true });
  const { jobs: taken } = await stage.act(claimOperation, claimRequest(stage, -HOUR));
  assert.deepEqual(
    taken.map((job) => job.crashes),
    [1, 1],
    'both leases had expired',
  );
  await stage.act(markRunningOperation, { leases: taken, running: true });
  await stage.act(markRunningOperation, { leases: taken.slice(0, 1), running: false });
  await stage.act(claimOperation, claimRequest(stage));
  await stage.act(putBackOperation, { nowMs: 1, crashed: [{ seq: d.seq, fence: 1, dueMs: 1 }] });
  await stage.act(recoverOperation, stage.nowMs);
  await stage.act(queueStatusOperation, stage.nowMs + 60_000);
  await readEvents(stage, accountId);
  await readEvents(stage, accountId, { order: 'desc', limit: 3 });
  const page = await readEvents(stage, accountId, { limit: 2 });
  const { position, seq } = page[1]!;
  await readEvents(stage, accountId, { after: { position, seq }, limit: 2 });
  await readEvents(stage, accountId, { after: { position, seq }, order: 'desc' });
  await readEvents(stage, accountId, { eventTypes: ['Bounce'], sinceMs: stage.nowMs, untilMs: stage.nowMs + HOUR });
  await readEvents(stage, accountId, { messageId: a.messageId });
  await stage.act(messageHolderOperation, a.messageId);
  await stage.act(messageHolderOperation, 'msg_none');
  const counts = { accountId, mode: 'live', fromId: 'msg_', recentMs: stage.nowMs, limit: 100 } as const;
  await stage.actUnordered(messageCountsOperation, counts);
};

export const contentOf: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const change = { retain: 'none' } as const;
  const mail = acceptance(stage, {
    accountId,
    to: ['a@x.example', 'b@x.example'],
    change,
    email: { content: null, blobKey: 'zz/1' },
  });
  await stage.act(acceptOperation, mail);
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const key = { accountId, mode: 'live', messageId: jobs[0]!.messageId } as const;
  assert.deepEqual((await stage.act(settleOperation, [settlement(stage, jobs[0]!)])).blobKeys, []);
  await stage.act(findContentOperation, key);
  assert.deepEqual((await stage.act(settleOperation, [settlement(stage, jobs[1]!)])).blobKeys, ['zz/1']);
  await stage.act(findContentOperation, key);
  const both = acceptance(stage, {
    accountId,
    to: ['a@x.example', 'b@x.example'],
    change,
    email: { content: null, blobKey: 'zz/2' },
  });
  await stage.act(acceptOperation, both);
  const { jobs: pair } = await stage.act(claimOperation, claimRequest(stage));
  const together = pair.map((job) => settlement(stage, job, { attempt: null, event: null }));
  assert.deepEqual((await stage.act(settleOperation, together)).blobKeys, ['zz/2']);
};
