/** Scenarios of reports after a delivery: late bounces, delays and complaints, and recipients who unsubscribe by email. */

import assert from 'node:assert/strict';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import { type Meaning, recordReportsOperation } from '../../src/inbound/report-store.ts';
import { claimInboundOperation, storeInboundOperation } from '../../src/inbound/store.ts';
import { findMessageOperation } from '../../src/messages/api-store.ts';
import { type DeliveryJob, findSentOperation, type LateResult } from '../../src/messages/messages.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { suppressionsOperation } from '../../src/suppressions/store.ts';
import { createEndpointOperation } from '../../src/webhooks/store.ts';
import { acceptance, claimRequest, readEvents, settlement } from './mail.ts';
import type { Scenario, Stage } from './stage.ts';

const SECOND = 1_000;
const MAIL = { envelopeFrom: '', recipient: 'b+x@bounces.example', sizeBytes: 4, blobKey: null } as const;

/** Stores `count` messages to a return path and claims them; returns the leases. */
export async function leases(stage: Stage, count: number): Promise<NonNullable<Meaning['lease']>[]> {
  const ids = Array.from({ length: count }, () => stage.id('inb'));
  const client = { address: '192.0.2.1', helo: 'mx.example', tls: null };
  const use = { kind: 'return-path' as const, copy: { messageId: 'msg_x', isShared: false, day: 1 } };
  await stage.act(
    storeInboundOperation,
    ids.map((id) => ({
      ...MAIL,
      id,
      client,
      use,
      content: Buffer.from('mail'),
      receivedAtMs: stage.nowMs,
      nowMs: stage.nowMs,
    })),
  );
  const { jobs } = await stage.database.execute(claimInboundOperation, { ...claimRequest(stage), overQuota: [] });
  return jobs.map(({ seq, fence, mail }) => ({ seq, fence, inboundId: mail.id }));
}

/** Returns the settlement of a delivery with this MAIL FROM command. */
function settledWith(stage: Stage, job: DeliveryJob, mailFrom: string) {
  const one = settlement(stage, job);
  return { ...one, attempt: { ...one.attempt!, dialogue: [{ atMs: 1, direction: 'C' as const, text: mailFrom }] } };
}

export const late: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const mail = acceptance(stage, {
    accountId,
    to: ['ada@example.com', 'bob@example.com', 'eve@example.com', 'kim@example.com'],
  });
  await stage.act(acceptOperation, mail);
  const ids = mail.emails[0]!.recipients.map((one) => one.messageId);
  const [ada, bob, eve, kim] = ids as [string, string, string, string];
  await stage.act(createEndpointOperation, {
    id: stage.id('whk'),
    accountId,
    mode: 'live',
    url: 'https://a.example',
    description: null,
    enabled: true,
    events: '["Bounce","Complaint"]',
    secretSealed: Buffer.from([1]),
    nowMs: stage.nowMs,
  });
  const { headerMessageId } = mail.emails[0]!;
  const copies = await stage.act(findSentOperation, { headerMessageId });
  assert.deepEqual(
    copies.map((one) => one.status),
    ['queued', 'queued', 'queued', 'queued'],
  );
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const sending = await stage.act(findSentOperation, { messageId: ada, sharedReturnPath: 'b+ada' });
  assert.deepEqual(
    sending.map((one) => one.isBeingSent),
    [true, true, true, true],
  );
  const delivered = jobs.filter((job) => job.messageId !== eve);
  const returnPaths = { [ada]: 'b+ada', [bob]: 'b+ada', [kim]: 'b+kim' };
  await stage.act(
    settleOperation,
    delivered.map((job) =>
      settledWith(stage, job, `MAIL FROM:<${returnPaths[job.messageId]}@bounces.example> SIZE=70000`),
    ),
  );
  const found = async (messageId: string, sharedReturnPath: string | null) =>
    (await stage.act(findSentOperation, { messageId, sharedReturnPath })).map((one) => one.messageId);
  assert.deepEqual(await found(ada, null), [ada]);
  assert.deepEqual(await found(ada, 'b+ada'), [ada, bob, eve].toSorted(), 'eve is still being sent');
  assert.deepEqual(await found(ada, 'b+kim'), [kim, eve].toSorted());
  assert.deepEqual(await found('msg_none', 'b+ada'), []);
  assert.equal((await stage.act(findSentOperation, { headerMessageId: `${headerMessageId}x` })).length, 0);

  const atMs = stage.nowMs + 10 * SECOND;
  const result = (messageId: string, change: Partial<LateResult> = {}): LateResult => ({
    accountId,
    messageId,
    atMs,
    eventId: stage.id('evt'),
    type: 'Bounce',
    detail: { bounce: { late: true } },
    suppress: { email: 'ada@example.com', reason: 'bounce', untilMs: null },
    ...change,
  });
  const delay = { type: 'DeliveryDelay', detail: { deliveryDelay: { late: true } }, suppress: null } as const;
  const complaint = { type: 'Complaint', detail: { complaint: {} } } as const;
  const bobs = { email: 'bob@example.com', reason: 'complaint', untilMs: null } as const;
  const record = async (...meanings: [results: LateResult[], unsubscribing?: Meaning['unsubscribing']][]) => {
    const held = await leases(stage, meanings.length);
    const given = meanings.map(([results, unsubscribing = null], index) => ({
      inboundId: held[index]!.inboundId,
      lease: held[index]!,
      results,
      unsubscribing,
    }));
    const { answers } = await stage.act(recordReportsOperation, given);
    return answers.map((one) => [...one.results, ...(one.unsubscribed ? ['unsubscribed'] : [])].join());
  };
  assert.deepEqual(
    await record([[result(ada, delay), result(ada, delay)]], [[result(ada), result(ada)]], [[result(ada, delay)]]),
    ['recorded,repeated', 'recorded,repeated', 'repeated'],
  );
  assert.deepEqual(await record([[result(ada), result(ada, delay)]]), ['repeated,repeated'], 'and by another mail');
  assert.deepEqual(await record([[result(eve), result(eve, complaint), result('msg_none')]]), ['unfit,unfit,unfit']);
  assert.deepEqual(await record([[result(bob, { ...complaint, suppress: null, eventOnly: true })]]), ['recorded']);
  const proven = { type: 'Complaint', detail: { complaint: { suppressed: true } }, suppress: bobs } as const;
  assert.deepEqual(await record([[result(bob, proven)]]), ['recorded'], 'the first report that matches this copy');
  assert.deepEqual(await record([[result(bob, proven)]]), ['repeated']);
  assert.deepEqual(
    await record([[result(ada, { ...complaint, suppress: null })]]),
    ['recorded'],
    'of a bounced message',
  );
  assert.deepEqual(
    await record([[result(kim, delay), result(kim)]], [[result(kim, { ...complaint, suppress: null }), result(eve)]]),
    ['recorded,recorded', 'recorded,unfit'],
    'before, with, and after a status change',
  );
  const lostLease = { seq: 999_999, fence: 1, inboundId: stage.id('inb') };
  const lost = await stage.database.execute(recordReportsOperation, [
    { inboundId: lostLease.inboundId, lease: lostLease, results: [result(bob)], unsubscribing: null },
  ]);
  assert.deepEqual([lost.lost, lost.answers], [[999_999], []]);
  const unstored = { inboundId: stage.id('inb'), lease: null, results: [result(ada)], unsubscribing: null };
  assert.deepEqual(
    (await stage.act(recordReportsOperation, [unstored])).answers,
    [{ inboundId: unstored.inboundId, results: ['repeated'], unsubscribed: false }],
    'of a message without a row',
  );
  const wish: Meaning['unsubscribing'] = {
    accountId,
    mode: 'live',
    messageId: bob,
    email: 'bob@example.com',
    method: 'mail',
    eventId: stage.id('evt'),
    nowMs: atMs,
  };
  assert.deepEqual(await record([[], wish], [[], { ...wish, eventId: stage.id('evt') }]), ['unsubscribed', '']);
  for (const messageId of ids) await stage.act(findMessageOperation, { accountId, mode: 'live', messageId });
  const list = { accountId, mode: 'live' as const, nowMs: atMs, after: null, limit: 10 };
  const suppressed = await stage.act(suppressionsOperation, list);
  assert.deepEqual(suppressed.map((one) => [one.email, one.reason]).sort(), [
    ['ada@example.com', 'bounce'],
    ['bob@example.com', 'complaint'],
  ]);
  await readEvents(stage, accountId);
};
