/** Links to templates: created up to a limit, listed while they are valid, revoked, and deleted with their template or once expired. */
import assert from 'node:assert/strict';
import {
  createTemplateShareOperation,
  findTemplateShareOperation,
  listTemplateSharesOperation,
  removeTemplateSharesOperation,
  revokeTemplateShareOperation,
  type SharedSnapshot,
  type TemplateSharePage,
  type TemplateShareRow,
} from '../../src/templates/share-store.ts';
import { createTemplateOperation, removeTemplateOperation, type TemplateToWrite } from '../../src/templates/store.ts';
import type { Scenario, Stage } from './stage.ts';

const DAY = 86_400_000;

type Row = TemplateShareRow & SharedSnapshot;

async function aTemplate(stage: Stage, owner: { accountId: string; mode: 'live' }, name: string): Promise<string> {
  const templateId = stage.id('tpl');
  const toWrite: TemplateToWrite = {
    ...owner,
    templateId,
    name,
    nowMs: stage.nowMs,
    content: {
      type: 'transactional',
      subject: 's',
      mjml: null,
      html: '<p>x</p>',
      text: null,
      layoutId: null,
      variables: [],
    },
  };
  const written = await stage.act(createTemplateOperation, toWrite);
  assert.ok('template' in written);
  return templateId;
}

const withoutSnapshot = ({ subject: _s, html: _h, text: _t, ...row }: Row): TemplateShareRow => row;

export const templateShares: Scenario = async (stage) => {
  const { nowMs } = stage;
  const owner = { accountId: stage.id('acc'), mode: 'live' } as const;
  const [first, second] = [await aTemplate(stage, owner, 'first'), await aTemplate(stage, owner, 'second')];
  let created = 0;
  const share = (templateId: string, change: Partial<Row> = {}): Row => {
    created += 1;
    return {
      ...owner,
      id: stage.id('shr', nowMs + created),
      templateId,
      name: 'first',
      version: 1,
      subject: 'Grüße',
      html: '<p>é</p>',
      text: null,
      createdAt: nowMs,
      expiresAt: nowMs + DAY,
      createdByKind: 'user',
      createdById: 'usr_1',
      createdByName: 'ann@shop.example',
      ...change,
    };
  };
  const create = (row: Row, most = 2) => stage.act(createTemplateShareOperation, { share: row, most });
  const [one, brief, other] = [
    share(first),
    share(first, { expiresAt: nowMs + 1_000, version: null, createdByKind: 'system', createdById: null }),
    share(second, { html: null, text: 'only text' }),
  ];
  for (const row of [one, brief, other]) assert.equal(await create(row), 'created');
  assert.equal(await create(share(first)), 'limit');
  assert.equal(await create(share('tpl_none')), 'not-found');
  assert.equal(await create(share(first, { accountId: stage.id('acc') })), 'not-found');
  const sandboxed = share(first, { mode: 'sandbox' });
  assert.equal(await create(sandboxed), 'created', 'the sandbox sees live templates; its links are counted separately');

  const page = { ...owner, templateId: null, before: null, limit: 10, nowMs };
  const listed = async (change: Partial<TemplateSharePage> = {}) =>
    (await stage.act(listTemplateSharesOperation, { ...page, ...change })).map(({ id }) => id);
  assert.deepEqual(
    await stage.act(listTemplateSharesOperation, { ...page, templateId: first }),
    [brief, one].map(withoutSnapshot),
  );
  assert.deepEqual(await listed(), [other.id, brief.id, one.id]);
  assert.deepEqual(await listed({ mode: 'sandbox' }), [sandboxed.id]);
  assert.deepEqual(await listed({ before: other.id, limit: 1 }), [brief.id]);
  assert.deepEqual(await listed({ nowMs: nowMs + 1_000 }), [other.id, one.id], 'without the expired one');
  assert.deepEqual(await listed({ accountId: stage.id('acc') }), []);
  assert.equal(await create(share(first, { createdAt: nowMs + 1_000 })), 'created', 'an expired one is not counted');

  const key = { ...owner, id: one.id };
  assert.deepEqual(await stage.act(findTemplateShareOperation, key), one);
  const wrongs = [{ id: 'shr_none' }, { accountId: 'acc_other' }, { mode: 'sandbox' as const }];
  for (const wrong of wrongs)
    assert.equal(await stage.act(findTemplateShareOperation, { ...key, ...wrong }), undefined);
  for (const wrong of [...wrongs, { nowMs: nowMs + DAY }])
    assert.equal(await stage.act(revokeTemplateShareOperation, { ...key, nowMs, ...wrong }), undefined);
  assert.deepEqual(await stage.act(revokeTemplateShareOperation, { ...key, nowMs }), withoutSnapshot(one));
  assert.equal(await stage.act(revokeTemplateShareOperation, { ...key, nowMs }), undefined);
  assert.equal(await stage.act(findTemplateShareOperation, key), undefined);

  const expired = { nowMs: nowMs + 1_000, limit: 10 };
  assert.equal(await stage.act(removeTemplateSharesOperation, { ...expired, nowMs: nowMs + 999 }), 0);
  assert.equal(await stage.act(removeTemplateSharesOperation, expired), 1);
  assert.equal(await stage.act(removeTemplateOperation, { ...owner, templateId: second }), 'removed');
  assert.equal(await stage.act(findTemplateShareOperation, { ...key, id: other.id }), undefined, 'deleted with it');
  assert.equal((await listed()).length, 1, 'control: a link to the other template');
};
