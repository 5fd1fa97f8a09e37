/** Scenarios of messages as senders and operators see and change them: canceled, moved, retried, listed, captured by the sandbox. */
import assert from 'node:assert/strict';
import { claimOperation, clampDueOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import {
  cancelMessageOperation,
  findMessageOperation,
  listMessagesOperation,
  moveMessageOperation,
  searchMessagesOperation,
} from '../../src/messages/api-store.ts';
import { findQueuedOperation, retryOperation } from '../../src/messages/control-store.ts';
import { findEmailOperation, listEmailsOperation } from '../../src/messages/email-store.ts';
import { clearInboxOperation, findInboxOperation, listInboxOperation } from '../../src/sandbox/store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { recoverOperation } from '../../src/work/work.ts';
import { acceptance, claimRequest, idsOf, readEvents, settlement, wholePage } from './mail.ts';
import type { Scenario } from './stage.ts';

const HOUR = 3_600_000;

export const changing: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const at = { accountId, mode: 'live', nowMs: stage.nowMs + 10 } as const;
  const change = { sendAtMs: stage.nowMs + HOUR };
  const later = acceptance(stage, { accountId, change, email: { clientAddress: '192.0.2.7' } });
  await stage.act(acceptOperation, later);
  const laterId = idsOf(later)[0]!;
  const now = acceptance(stage, { accountId });
  await stage.act(acceptOperation, now);
  await stage.act(moveMessageOperation, { ...at, messageId: laterId, sendAtMs: stage.nowMs + 2 * HOUR });
  await stage.act(moveMessageOperation, { ...at, messageId: idsOf(now)[0]!, sendAtMs: stage.nowMs + 2 * HOUR });
  await stage.act(moveMessageOperation, { ...at, messageId: 'msg_none', sendAtMs: 1 });
  const queued = await stage.act(findQueuedOperation, laterId);
  assert.equal(queued!.clientAddress, '192.0.2.7');
  await stage.act(findQueuedOperation, 'msg_none');
  const retried = await stage.act(retryOperation, { ...queued!, nowMs: stage.nowMs });
  assert.deepEqual(retried, { retried: true, status: 'queued' }, 'a scheduled message no longer waits for its time');
  const due = await stage.act(findMessageOperation, { accountId, mode: 'live', messageId: laterId });
  assert.deepEqual([due!.row.status, due!.row.next_attempt_at], ['queued', stage.nowMs]);
  await stage.act(retryOperation, { ...queued!, workSeq: queued!.workSeq + 1_000_000, nowMs: stage.nowMs });
  await stage.act(clampDueOperation, { nowMs: stage.nowMs, latestMs: [60_000, 120_000], crashPauseMs: 60_000 });
  await stage.act(claimOperation, claimRequest(stage));
  await stage.act(retryOperation, { ...queued!, nowMs: stage.nowMs });
  await stage.act(cancelMessageOperation, { ...at, messageId: laterId, eventId: stage.id('evt') });
  await stage.act(recoverOperation, stage.nowMs);
  await stage.act(cancelMessageOperation, { ...at, messageId: laterId, eventId: stage.id('evt') });
  await stage.act(cancelMessageOperation, { ...at, messageId: laterId, eventId: stage.id('evt') });
  await stage.act(cancelMessageOperation, { ...at, messageId: 'msg_none', eventId: stage.id('evt') });
  await readEvents(stage, accountId);
};

export const emails: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const owner = { accountId, mode: 'live' } as const;
  const first: string[] = [];
  for (const [index, to] of [
    ['a@x.example', 'b@x.example', 'c@x.example'],
    ['d@x.example'],
    ['e@x.example', 'f@x.example'],
  ].entries()) {
    const mail = acceptance(stage, { accountId, to, change: { nowMs: stage.nowMs + index * 1_000 } });
    await stage.act(acceptOperation, mail);
    const ids = idsOf(mail).toSorted();
    first.push(ids[0]!);
    for (const messageId of ids) {
      const copies = await stage.act(findEmailOperation, { ...owner, messageId });
      assert.deepEqual(
        copies.map((copy) => copy.id),
        ids,
        'each copy finds its email',
      );
    }
  }
  await stage.act(findEmailOperation, { ...owner, messageId: 'msg_none' });
  await stage.act(findEmailOperation, { ...owner, mode: 'sandbox', messageId: first[0]! });
  const pageOf = async (change: { before?: string; after?: string; limit?: number }): Promise<string[]> => {
    const page = { ...owner, before: null, after: null, limit: 10, ...change };
    return (await stage.act(listEmailsOperation, page)).map((copies) => copies[0]!.id);
  };
  const newest = first.toSorted().reverse();
  assert.deepEqual(await pageOf({}), newest);
  assert.deepEqual(await pageOf({ limit: 1 }), newest.slice(0, 1));
  assert.deepEqual(await pageOf({ before: newest[0]! }), newest.slice(1));
  assert.deepEqual(await pageOf({ after: newest[2]!, limit: 1 }), newest.slice(1, 2), 'the nearest ones');
  assert.deepEqual(await pageOf({ after: newest[0]! }), []);
};

export const lists: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const mails = ['Ångström@x.example', 'ada@x.example', 'Bob@x.example'].map((email, index) =>
    acceptance(stage, {
      accountId,
      to: [email],
      change: { nowMs: stage.nowMs + index * 1_000 },
      email: {
        subject: ['Ärger 100%', 'Hello_World', "it's ? fine"][index]!,
        tags: ['["a"]', '["ab","ß"]', '[]'][index]!,
        templateId: [null, null, 'tpl_1'][index]!,
        metadata: ['{"order":"17","a\\"b":"c,\\""}', '{"order":"18","x":"17"}', '{}'][index]!,
      },
    }),
  );
  for (const mail of mails) await stage.act(acceptOperation, mail);
  const page = wholePage(accountId);
  const list = (change: Partial<typeof page> | object) => stage.act(listMessagesOperation, { ...page, ...change });
  await list({});
  await list({ limit: 1 });
  await list({ before: idsOf(mails[2]!)[0]! });
  await list({ messageId: idsOf(mails[1]!)[0]! });
  for (const to of ['ADA@x.example', 'Ångström@X.EXAMPLE', 'ångström@x.example']) await list({ to });
  for (const subject of ['ÄRGER', 'ärger', '%', '_', '?', "'S ?", '']) await list({ subject });
  for (const from of ['SHOP', 'shop@example.org', 'nobody']) await list({ from });
  for (const tag of ['a', 'ab', 'ß', 'b']) await list({ tags: [tag] });
  assert.equal((await list({ tags: ['ß', 'ab'] })).length, 1);
  for (const [any, found] of [
    ['hello_', 1],
    ['X.EXAMPLE', 3],
    ['?', 1],
    ['nothing', 0],
  ] as const)
    assert.equal((await list({ any })).length, found, any);
  for (const [templateId, found] of [
    ['tpl_1', 1],
    ['tpl_', 0],
  ] as const)
    assert.equal((await list({ templateId })).length, found, templateId);
  assert.equal((await list({ tags: ['a', 'ab'] })).length, 0);
  for (const [metadata, found] of [
    [[['order', '17']], 1],
    [[['order', '1']], 0],
    [[['a"b', 'c,"']], 1],
    [[['b', 'c,"']], 0],
    [
      [
        ['order', '18'],
        ['x', '17'],
      ],
      1,
    ],
    [
      [
        ['order', '17'],
        ['x', '17'],
      ],
      0,
    ],
    [[['0', '17']], 0],
  ] as const)
    assert.equal((await list({ metadata })).length, found, JSON.stringify(metadata));
  for (const [to, found] of [
    ['@X.EXAMPLE', 3],
    ['da@', 1],
    ['b', 1],
    ['ob@x.exampl', 1],
    ['nobody', 0],
    ['%', 0],
  ] as const)
    assert.equal((await list({ to })).length, found, to);
  const ids = mails.flatMap(idsOf).sort();
  const partOf = (change: object, rows: number) =>
    stage.act(searchMessagesOperation, { page: { ...page, ...change }, rows });
  assert.equal((await partOf({}, 2)).end, ids[1]);
  assert.equal((await partOf({ before: ids[2]! }, 1)).end, ids[1]);
  assert.equal((await partOf({ before: ids[1]! }, 2)).end, null);
  assert.equal((await partOf({ lowestId: ids[1]!, highestId: ids[1]! }, 1)).end, ids[1]);
  for (const status of ['queued', 'sending', 'delivered', 'scheduled'] as const) await list({ statuses: [status] });
  await list({ statuses: ['queued', 'scheduled', 'bounced'] });
  await list({ sinceMs: stage.nowMs + 1_000 });
  await list({ untilMs: stage.nowMs + 1_000, highestId: idsOf(mails[1]!)[0]!, lowestId: 'msg_' });
  await stage.act(claimOperation, { ...claimRequest(stage), limit: 1 });
  for (const status of ['queued', 'sending'] as const) await list({ statuses: [status] });
};

export const sandbox: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const change = { mode: 'sandbox' } as const;
  const mails = ['One Ä', 'two'].map((subject) => acceptance(stage, { accountId, change, email: { subject } }));
  mails[1]!.emails[0]!.recipients[0]!.simulateSuppressed = true;
  for (const mail of mails) await stage.act(acceptOperation, mail);
  const { jobs } = await stage.act(claimOperation, claimRequest(stage));
  const complaint = { id: stage.id('evt'), type: 'Complaint', detail: {} } as const;
  const followedBy = { to: 'complained', event: complaint } as const;
  await stage.act(settleOperation, [settlement(stage, jobs[0]!, { followedBy, sandboxOutcome: 'Complained' })]);
  const page = {
    accountId,
    nowMs: stage.nowMs + 1,
    before: null,
    limit: 10,
    to: null,
    subject: null,
    tag: null,
    sinceMs: null,
  };
  await stage.act(listInboxOperation, page);
  await stage.act(listInboxOperation, { ...page, limit: 1 });
  await stage.act(listInboxOperation, { ...page, before: idsOf(mails[1]!)[0]! });
  for (const subject of ['ONE', 'ä', 'Ä']) await stage.act(listInboxOperation, { ...page, subject });
  await stage.act(listInboxOperation, { ...page, to: 'ADA@EXAMPLE.COM', tag: 'order' });
  const all = await stage.act(listInboxOperation, { ...page, sinceMs: stage.nowMs });
  assert.equal(all.length, (await stage.act(listInboxOperation, page)).length);
  assert.deepEqual(await stage.act(listInboxOperation, { ...page, sinceMs: stage.nowMs + 1 }), []);
  await stage.act(findInboxOperation, { accountId, messageId: idsOf(mails[0]!)[0]!, nowMs: stage.nowMs });
  await stage.act(findInboxOperation, {
    accountId,
    messageId: idsOf(mails[0]!)[0]!,
    nowMs: stage.nowMs + 8 * 24 * HOUR,
  });
  await stage.act(clearInboxOperation, accountId);
  await stage.act(listInboxOperation, page);
  await readEvents(stage, accountId, { mode: 'sandbox' });
};
