/** Scenarios of templates with their versions and layouts, and of recipients' actions on a message. */

import assert from 'node:assert/strict';
import { createAccountOperation } from '../../src/accounts/store.ts';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import {
  senderOfOperation,
  type TrackingRecord,
  trackOperation,
  unsubscribeOperation,
} from '../../src/engagement/engagement-store.ts';
import { findMessageOperation } from '../../src/messages/api-store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { suppressionsOperation, suppressOperation } from '../../src/suppressions/store.ts';
import {
  createTemplateOperation,
  findExtrasOperation,
  findTemplateOperation,
  headVersionsOperation,
  listTemplatesOperation,
  listVersionsOperation,
  removeTemplateOperation,
  replaceTemplateOperation,
  restoreTemplateOperation,
  storeExtraOperation,
  storeSamplesOperation,
  type TemplateToWrite,
  templateHeadOperation,
  type WriteResult,
} from '../../src/templates/store.ts';
import type { TemplateContent } from '../../src/templates/template.ts';
import { newAccount } from './accounts.ts';
import { acceptance, claimRequest, readEvents, settlement } from './mail.ts';
import type { Scenario, Stage } from './stage.ts';

const SECOND = 1_000;

function writing(
  stage: Stage,
  accountId: string,
  name: string,
  content: Partial<TemplateContent> = {},
): TemplateToWrite {
  return {
    accountId,
    mode: 'live',
    name,
    templateId: stage.id('tpl'),
    nowMs: stage.nowMs,
    content: {
      type: 'transactional',
      subject: 'Grüße {{ x }}',
      mjml: null,
      html: '<p>é</p>',
      text: null,
      layoutId: null,
      variables: [{ name: 'x', type: 'object', required: false, default: { ü: [1, null] } }],
      ...content,
    },
  };
}

const refusal = (written: WriteResult): string => ('refused' in written ? written.refused : 'written');

/** A change that was derived from an earlier version is refused; without a difference there is no new version. */
export const templateChanges: Scenario = async (stage) => {
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const made = writing(stage, account.id, 'changed');
  await stage.act(createTemplateOperation, made);
  const same = await stage.act(replaceTemplateOperation, { ...made, basis: 1 });
  assert.equal('template' in same && same.template.version, 1);
  const content = { ...made.content, subject: 'Another' };
  const next = await stage.act(replaceTemplateOperation, { ...made, content, basis: 1 });
  assert.equal('template' in next && next.template.version, 2);
  assert.equal(refusal(await stage.act(replaceTemplateOperation, { ...made, basis: 1 })), 'outdated');
};

export const templates: Scenario = async (stage) => {
  const account = newAccount(stage);
  const accountId = account.id;
  await stage.act(createAccountOperation, { account, keys: [] });
  const first = writing(stage, accountId, 'first');
  const mode = 'live' as const;
  const key = { accountId, mode, templateId: first.templateId };
  const outcomes: string[] = [];
  const create = async (made: TemplateToWrite): Promise<void> => {
    outcomes.push(refusal(await stage.act(createTemplateOperation, made)));
  };
  const replace = async (made: TemplateToWrite): Promise<void> => {
    outcomes.push(refusal(await stage.act(replaceTemplateOperation, made)));
  };
  await create(first);
  await create(writing(stage, accountId, 'first'));
  await create(writing(stage, 'acc_other', 'first'));
  const frame = writing(stage, accountId, 'frame', { html: '[{{ content }}]', subject: null, type: 'marketing' });
  await create(frame);
  const inner = writing(stage, accountId, 'inner', { layoutId: frame.templateId });
  await create(inner);
  await create(writing(stage, accountId, 'deep', { layoutId: inner.templateId }));
  await create(writing(stage, accountId, 'flat', { layoutId: first.templateId }));
  await create(writing(stage, accountId, 'lost', { layoutId: 'tpl_none' }));
  await replace({ ...frame, content: { ...frame.content, html: 'no place' } });
  await replace({ ...first, name: 'frame' });
  await replace({ ...first, accountId: 'acc_other' });
  await replace({
    ...first,
    name: 'renamed',
    content: { ...first.content, html: null, text: 'Text' },
    nowMs: stage.nowMs + SECOND,
  });
  await replace({ ...first, name: 'renamed', nowMs: stage.nowMs - SECOND });
  assert.deepEqual(outcomes, [
    'written',
    'name-taken',
    'written',
    'written',
    'written',
    'layout-has-layout',
    'layout-without-slot',
    'layout-unknown',
    'slot-needed',
    'name-taken',
    'not-found',
    'written',
    'written',
  ]);
  const draft = writing(stage, accountId, 'draft');
  const made = await stage.act(createTemplateOperation, { ...draft, isDraft: true });
  assert.equal('template' in made && made.template.publishedVersion, 0);
  for (const [isDraft, published] of [
    [true, 0],
    [false, 3],
    [true, 3],
  ] as const) {
    const next = await stage.act(replaceTemplateOperation, { ...draft, isDraft });
    assert.equal('template' in next && next.template.publishedVersion, published);
  }
  const extras = async (references: string[], asked: 'live' | 'sandbox' = 'live') =>
    stage.act(findExtrasOperation, { accountId, mode: asked, references });
  assert.deepEqual(
    (await extras([first.templateId, 'frame', 'none'])).map((one) => one.publishedVersion),
    [null, null],
  );
  const head = (reference: string) => stage.act(templateHeadOperation, { accountId, mode, reference });
  const described = { ...key, extra: '{"name":"First"}' };
  assert.equal(await stage.act(storeExtraOperation, { ...described, publishedVersion: 0 }), 'written');
  assert.equal(await head('renamed'), undefined, 'a draft is not sent');
  const present = { accountId, mode, reference: 'renamed', useLatest: true };
  assert.equal((await stage.act(templateHeadOperation, present))?.version, 3);
  await stage.act(storeExtraOperation, { ...described, publishedVersion: 2 });
  assert.equal((await head('renamed'))?.version, 2);
  assert.equal(await stage.act(storeExtraOperation, { ...described, mode: 'sandbox' }), 'is-live');
  assert.equal(await stage.act(storeExtraOperation, { ...described, templateId: 'tpl_none' }), 'not-found');
  await extras(['renamed'], 'sandbox');
  const sampled = { accountId: described.accountId, mode: described.mode, templateId: described.templateId };
  const samples = [{ name: 'Größe', values: { x: [1, null] } }];
  const stored = await stage.act(storeSamplesOperation, { ...sampled, samples });
  assert.ok('template' in stored);
  assert.deepEqual(stored.template.samples, samples);
  await stage.act(storeSamplesOperation, { ...sampled, samples: [] });
  await stage.act(storeSamplesOperation, { ...sampled, templateId: 'tpl_none', samples });
  await stage.act(storeExtraOperation, { ...described, publishedVersion: 3 });
  const restored = await stage.act(restoreTemplateOperation, { ...key, version: 2, nowMs: stage.nowMs });
  assert.equal('template' in restored && restored.template.version, 4);
  await stage.act(restoreTemplateOperation, { ...key, version: 9, nowMs: stage.nowMs });
  await stage.act(findTemplateOperation, key);
  await stage.act(findTemplateOperation, { ...key, accountId: 'acc_other' });
  for (const before of [null, first.templateId, inner.templateId]) {
    await stage.act(listTemplatesOperation, { accountId, mode, before, limit: 2 });
  }
  for (const before of [null, 2 ** 40, 3, 1]) await stage.act(listVersionsOperation, { ...key, before, limit: 2 });
  await stage.act(listVersionsOperation, { ...key, accountId: 'acc_other', before: null, limit: 2 });
  for (const reference of [inner.templateId, 'inner', 'renamed', 'first', 'nobody']) {
    const head = await stage.act(templateHeadOperation, { accountId, mode, reference });
    if (head) await stage.act(headVersionsOperation, head);
  }
  assert.equal(
    await stage.act(removeTemplateOperation, { accountId, mode: 'live', templateId: frame.templateId }),
    'in-use',
  );
  assert.equal(
    await stage.act(removeTemplateOperation, { accountId: 'acc_other', mode, templateId: frame.templateId }),
    'not-found',
  );
  assert.equal(
    await stage.act(removeTemplateOperation, { accountId, mode: 'live', templateId: inner.templateId }),
    'removed',
  );
  assert.equal(
    await stage.act(removeTemplateOperation, { accountId, mode: 'live', templateId: frame.templateId }),
    'removed',
  );
  await stage.act(headVersionsOperation, { id: inner.templateId, version: 1, layoutId: null, layoutVersion: null });
  await stage.act(listTemplatesOperation, { accountId, mode, before: null, limit: 100 });
};

/** Sandbox templates override live ones in the sandbox, and live does not see them. */
export const templatesOfModes: Scenario = async (stage) => {
  const account = newAccount(stage);
  const accountId = account.id;
  await stage.act(createAccountOperation, { account, keys: [] });
  const live = writing(stage, accountId, 'same', { html: '[{{ content }}]' });
  const own = { ...writing(stage, accountId, 'same', { html: '({{ content }})' }), mode: 'sandbox' as const };
  const user = { ...writing(stage, accountId, 'user', { layoutId: live.templateId }), mode: 'sandbox' as const };
  const outcomes: string[] = [];
  const write = async (operation: typeof createTemplateOperation, made: TemplateToWrite): Promise<void> => {
    outcomes.push(refusal(await stage.act(operation, made)));
  };
  await write(createTemplateOperation, live);
  await write(createTemplateOperation, own);
  await write(createTemplateOperation, { ...own, templateId: stage.id('tpl') });
  await write(createTemplateOperation, user);
  await write(createTemplateOperation, writing(stage, accountId, 'lost', { layoutId: own.templateId }));
  await write(replaceTemplateOperation, { ...live, mode: 'sandbox' });
  await write(replaceTemplateOperation, { ...own, mode: 'live' });
  await write(replaceTemplateOperation, own);
  assert.deepEqual(outcomes, [
    'written',
    'written',
    'name-taken',
    'written',
    'layout-unknown',
    'is-live',
    'not-found',
    'written',
  ]);
  const restored = { accountId, version: 1, nowMs: stage.nowMs };
  for (const [mode, templateId] of [
    ['sandbox', live.templateId],
    ['live', own.templateId],
    ['sandbox', own.templateId],
  ] as const) {
    outcomes.push(refusal(await stage.act(restoreTemplateOperation, { ...restored, mode, templateId })));
    await stage.act(listVersionsOperation, { accountId, mode, templateId, before: null, limit: 9 });
    await stage.act(findTemplateOperation, { accountId, mode, templateId });
  }
  assert.deepEqual(outcomes.slice(-3), ['is-live', 'not-found', 'written']);
  for (const mode of ['live', 'sandbox'] as const) {
    const { rows } = await stage.act(listTemplatesOperation, { accountId, mode, before: null, limit: 9 });
    assert.equal(rows.length, mode === 'live' ? 1 : 3);
    const found = await stage.act(templateHeadOperation, { accountId, mode, reference: 'same' });
    assert.equal(found?.id, mode === 'live' ? live.templateId : own.templateId);
    const byId = await stage.act(templateHeadOperation, { accountId, mode, reference: own.templateId });
    assert.equal(byId?.id, mode === 'live' ? undefined : own.templateId);
    const used = await stage.act(templateHeadOperation, { accountId, mode, reference: 'user' });
    assert.equal(used?.layoutId, mode === 'live' ? undefined : live.templateId);
  }
  const remove = (mode: 'live' | 'sandbox', templateId: string) =>
    stage.act(removeTemplateOperation, { accountId, mode, templateId });
  assert.equal(await remove('sandbox', live.templateId), 'is-live');
  assert.equal(await remove('live', own.templateId), 'not-found');
  assert.equal(await remove('live', live.templateId), 'removed', 'a sandbox template does not protect a live one');
  assert.equal(await remove('sandbox', own.templateId), 'removed');
};

/** Concurrent changes of the same templates report each other's results. */
export const templatesAtOnce: Scenario = async (stage) => {
  const account = newAccount(stage);
  const accountId = account.id;
  await stage.act(createAccountOperation, { account, keys: [] });
  const made = await Promise.all(
    Array.from({ length: 8 }, () => stage.database.execute(createTemplateOperation, writing(stage, accountId, 'one'))),
  );
  assert.equal(made.filter((one) => 'template' in one).length, 1, 'one of the concurrent renames gets the name');
  const frame = writing(stage, accountId, 'frame', { html: '{{ content }}' });
  await stage.act(createTemplateOperation, frame);
  const users = Array.from({ length: 4 }, (_, i) =>
    writing(stage, accountId, `user ${i}`, { layoutId: frame.templateId }),
  );
  const [removed, ...used] = await Promise.all([
    stage.database.execute(removeTemplateOperation, { accountId, mode: 'live', templateId: frame.templateId }),
    ...users.map((user) => stage.database.execute(createTemplateOperation, user)),
  ]);
  const written = used.filter((one) => 'template' in one).length;
  assert.ok(removed === 'removed' ? written === 0 : written > 0, 'no template uses the deleted layout');
  const counted = writing(stage, accountId, 'counted');
  await stage.act(createTemplateOperation, counted);
  const replaced = await Promise.all(
    Array.from({ length: 8 }, () => stage.database.execute(replaceTemplateOperation, counted)),
  );
  const versions = replaced.map((one) => ('template' in one ? one.template.version : 0)).sort((a, b) => a - b);
  assert.deepEqual(versions, [2, 3, 4, 5, 6, 7, 8, 9]);
};

export const engagement: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const mail = acceptance(stage, { accountId, to: ['ada@example.com', 'Bob@example.com'] });
  await stage.act(acceptOperation, mail);
  const [ada, bob] = mail.emails[0]!.recipients.map((one) => one.messageId);
  const copy = { accountId, mode: 'live' as const, messageId: ada! };
  await stage.act(senderOfOperation, copy);
  await stage.act(senderOfOperation, { ...copy, mode: 'sandbox' });
  const track = (change: Partial<TrackingRecord>): Promise<boolean> =>
    stage.act(trackOperation, {
      ...copy,
      kind: 'click',
      url: 'https://a.test/ü',
      isBot: false,
      userAgent: 'x',
      eventId: stage.id('evt'),
      nowMs: stage.nowMs,
      ...change,
    });
  assert.equal(await track({}), true, 'before the delivery: a machine open');
  const { jobs } = await stage.database.execute(claimOperation, claimRequest(stage));
  const job = jobs.find((one) => one.messageId === ada)!;
  await stage.act(settleOperation, [settlement(stage, job)]);
  const later = stage.nowMs + 60 * SECOND;
  assert.equal(await track({ nowMs: later }), true);
  assert.equal(await track({ nowMs: later + 59 * SECOND }), false, 'the same click again');
  assert.equal(await track({ nowMs: later, url: 'https://b.test/' }), true);
  assert.equal(await track({ nowMs: later, kind: 'open', url: null }), true);
  assert.equal(await track({ nowMs: later - 30 * SECOND, kind: 'open', url: null, isBot: true }), true);
  assert.equal(await track({ messageId: 'msg_none' }), false);
  const unsubscribing = (messageId: string, email: string) => ({
    ...copy,
    messageId,
    email,
    eventId: stage.id('evt'),
    nowMs: later,
    method: 'page' as const,
  });
  assert.equal(await stage.act(unsubscribeOperation, unsubscribing(ada!, 'ada@example.com')), true);
  assert.equal(await stage.act(unsubscribeOperation, unsubscribing(ada!, 'ada@example.com')), false);
  const suppression = {
    sourceMessageId: null,
    createdAt: stage.nowMs,
    reason: 'bounce' as const,
    email: 'bob@example.com',
  };
  await stage.act(suppressOperation, {
    addressHash: '',
    ...copy,
    suppression: { ...suppression, expiresAt: later + SECOND },
  });
  const again = unsubscribing(bob!, 'bob@example.com');
  const both = await Promise.all([1, 2].map(() => stage.database.execute(unsubscribeOperation, again)));
  assert.deepEqual(both.sort(), [false, true], 'of two concurrent ones, one is new');
  await stage.act(unsubscribeOperation, unsubscribing('msg_none', 'eve@example.com'));
  const list = { accountId, mode: 'live' as const, nowMs: later, after: null, limit: 10 };
  assert.equal((await stage.act(suppressionsOperation, list)).length, 3);
  await stage.act(findMessageOperation, copy);
  await readEvents(stage, accountId);
};
