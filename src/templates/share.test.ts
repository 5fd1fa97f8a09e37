/** Links to templates: what they show, what they never show, and when they stop working, on either database. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import type { Api } from '../../test/kit/api.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { featureApp } from '../../test/kit/feature-app.ts';
import { highLimitAccount } from '../../test/kit/high-limit-account.ts';
import { DIALECTS, type Dialect } from '../../test/kit/temp-database.ts';
import { fields, refused } from '../../test/kit/template-app.ts';
import { setAccountOperation } from '../accounts/store.ts';
import { templateRoutes } from '../api/templates.ts';
import { templateShareRoutes } from '../api/templates-share.ts';
import { auditOperation } from '../audit/store.ts';
import { htmlToText } from '../mail/html/html-text.ts';
import { createShareTokens } from '../messages/share-token.ts';
import { removeTemplateSharesOperation } from './share-store.ts';
import { createRender, createTemplateSource } from './templates.ts';

const WEEK_MS = 604_800_000;
const TEMPLATE = {
  name: 'receipt',
  subject: 'Order {{ order }}',
  html: '<p>Thank you, {{ name }}.</p>{% comment %}secret-source{% endcomment %}',
  variables: [{ name: 'order', default: 'secret-default' }],
};
const ANN = { templateVariables: { name: 'Ann <3', order: '17' } };

async function shareApp(t: { after(end: () => Promise<void>): void }, dialect: Dialect) {
  const clock = fakeClock(Date.now());
  const secretKey = randomBytes(32);
  const app = await featureApp(
    ({ database }) => {
      const previews = {
        database,
        clock,
        templates: createTemplateSource({ database, clock }),
        render: createRender(htmlToText),
        previewUnsubscribeUrl: () => 'https://mail.test/unsubscribe/preview',
      };
      const linkBase = { secretKey, baseUrl: 'https://mail.example.org' };
      return [...templateRoutes(previews), ...templateShareRoutes({ ...previews, linkBase })];
    },
    undefined,
    dialect,
  );
  t.after(app.close);
  for (const accountId of ['acc_one', 'acc_two']) await highLimitAccount(app.temp.database, accountId);
  const api = app.api('acc_one');
  const read = (token: string, at = '/shared/template') =>
    api.call({ method: 'GET', path: at, headers: { 'x-share-token': token } });
  const create = async (body: object = TEMPLATE, by: Api = api): Promise<string> => {
    const made = await by.post('/templates', body);
    assert.equal(made.status, 201, made.text);
    return made.body.templateId;
  };
  const share = async (id: string, body: object = {}, by: Api = api): Promise<{ shareId: string; token: string }> => {
    clock.advance(1);
    const made = await by.post(`/templates/${id}/share`, body);
    assert.equal(made.status, 201, made.text);
    assert.match(made.body.url, /^https:\/\/mail\.example\.org\/preview#token=[\w-]+\.[\w-]{43}$/);
    return { shareId: made.body.shareId, token: made.body.url.split('#token=')[1] };
  };
  return { app, api, clock, secretKey, read, create, share, database: app.temp.database };
}

for (const dialect of DIALECTS) {
  test(`${dialect}: a link shows the preview as it was rendered, without source and variables`, async (t) => {
    const { api, clock, read, create, share } = await shareApp(t, dialect);
    const id = await create();
    const { token } = await share(id, ANN);
    const createdAt = new Date(clock.now()).toISOString();
    const shown = {
      name: 'receipt',
      version: 1,
      subject: 'Order 17',
      html: '<p>Thank you, Ann &lt;3.</p>',
      text: 'Thank you, Ann <3.',
      createdAt,
      validUntil: new Date(clock.now() + WEEK_MS).toISOString(),
    };
    assert.deepEqual((await read(token)).body, shown);

    const draft = { ...TEMPLATE, subject: 'Draft', html: '<p>New</p>' };
    assert.equal((await api.put(`/templates/${id}?publish=false`, draft)).status, 200);
    assert.deepEqual((await read(token)).body, shown, 'a later version does not appear');
    const version = async (body: object) => {
      const { body: seen } = await read((await share(id, body)).token);
      return [seen.version, seen.subject];
    };
    assert.deepEqual(await version({}), [2, 'Draft']);
    assert.deepEqual(await version({ version: 'latest' }), [2, 'Draft']);
    assert.deepEqual(await version({ version: 'published', ...ANN }), [1, 'Order 17']);
    assert.deepEqual(await version({ version: 'published' }), [1, 'Order secret-default'], 'the default');

    const content = { subject: 'Unsaved {{ order }}', html: '<b>{{ name }}</b>' };
    const unsaved = await read((await share(id, { content, ...ANN })).token);
    assert.deepEqual(
      [unsaved.body.version, unsaved.body.subject, unsaved.body.html],
      [null, 'Unsaved 17', '<b>Ann &lt;3</b>'],
    );
    assert.equal((await api.get(`/templates/${id}`)).body.version, 2, 'sharing saves no version');

    assert.equal((await api.delete(`/templates/${id}`)).status, 200);
    assert.equal((await read(token)).status, 404, 'deleted with its template');
  });

  test(`${dialect}: invalid requests create no link`, async (t) => {
    const { api, app, read, create, share, secretKey, clock } = await shareApp(t, dialect);
    const id = await create();
    const at = `/templates/${id}/share`;
    const content = { html: '{{ a' };
    for (const wrong of [{ expiresInSeconds: 59 }, { expiresInSeconds: 2_592_001 }, { forEver: true }, { version: 3 }])
      assert.equal((await api.post(at, wrong)).status, 400, JSON.stringify(wrong));
    assert.deepEqual(fields(await refused(api.post(at, { content }), 400, 'TEMPLATE_INVALID')), ['content.html']);
    const both = { content: { html: 'x' }, version: 'latest' };
    assert.deepEqual(fields(await refused(api.post(at, both), 400, 'INVALID_REQUEST')), ['version']);
    const further = { content, expiresInSeconds: 1 };
    assert.deepEqual(fields(await refused(api.post(at, further), 400, 'INVALID_REQUEST')), [
      'expiresInSeconds',
      'content.html',
    ]);
    const typed = { content: { html: 'x', variables: [{ name: 'a', type: 'number' }] }, templateVariables: { a: 'b' } };
    assert.deepEqual(fields(await refused(api.post(at, typed), 400, 'INVALID_REQUEST')), ['templateVariables.a']);
    const large = { content: { html: 'é'.repeat(500_001), text: 'x' } };
    const tooLarge = await refused(api.post(at, large), 400, 'INVALID_REQUEST');
    assert.match(tooLarge.details[0]!.message, /1000003 bytes .* at most 1000000/);
    assert.equal((await api.post(at, { content: { html: 'x'.repeat(999_999), text: 'x' } })).status, 201);
    for (const [stranger, where] of [
      [api, '/templates/tpl_none/share'],
      [api, '/templates/receipt/share'],
      [app.api('acc_two'), at],
    ] as const)
      assert.equal((await stranger.post(where, {})).status, 404);

    const { token } = await share(id);
    const [claims = '', signature = ''] = token.split('.');
    const longer = JSON.parse(Buffer.from(claims, 'base64url').toString());
    longer[3] += 1;
    const prolonged = Buffer.from(JSON.stringify(longer)).toString('base64url');
    const ofMessage = createShareTokens(secretKey).seal({
      accountId: 'acc_one',
      mode: 'live',
      messageId: longer[2],
      expiresAtMs: clock.now() + WEEK_MS,
      hideSubject: false,
      hideContent: false,
      shareId: longer[2],
    });
    for (const forged of ['', `${prolonged}.${signature}`, `${claims}.${'A'.repeat(43)}`, `${token}A`, ofMessage])
      assert.equal((await read(forged)).status, 404, forged);
    assert.equal((await read(token)).status, 200, 'control');
  });

  test(`${dialect}: links to templates are listed without their tokens, and stop working when revoked`, async (t) => {
    const { api, app, clock, read, create, share, database } = await shareApp(t, dialect);
    const [id, other] = [await create(), await create({ ...TEMPLATE, name: 'other' })];
    const [first, brief] = [await share(id, ANN), await share(id, { expiresInSeconds: 60 })];
    const elsewhere = await share(other);
    const sandbox = app.api('acc_one', 'sandbox');
    const tried = await share(id, {}, sandbox);
    const listed = async (at: string, by: Api = api): Promise<string[]> => {
      const { status, body, text } = await by.get(at);
      assert.equal(status, 200, text);
      for (const { token } of [first, brief, elsewhere]) assert.ok(!text.includes(token.split('.')[1]!));
      assert.doesNotMatch(text, /Thank you/);
      return body.map(({ shareId }: { shareId: string }) => shareId);
    };
    assert.deepEqual(await listed(`/templates/${id}/shares`), [brief.shareId, first.shareId]);
    assert.deepEqual(await listed('/template-shares'), [elsewhere.shareId, brief.shareId, first.shareId]);
    assert.deepEqual(await listed('/template-shares', sandbox), [tried.shareId]);
    assert.deepEqual((await api.get(`/templates/${other}/shares`)).body, [
      {
        shareId: elsewhere.shareId,
        templateId: other,
        name: 'other',
        version: 1,
        createdAt: new Date(clock.now() - 1).toISOString(),
        expiresAt: new Date(clock.now() - 1 + WEEK_MS).toISOString(),
        createdBy: { kind: 'key', id: 'key_acc_one_live', name: 'test' },
      },
    ]);
    const page = await api.get('/template-shares?limit=2');
    assert.deepEqual(await listed(`/template-shares?cursor=${page.headers['x-next-cursor']}`), [first.shareId]);

    for (const stranger of [app.api('acc_two'), sandbox])
      assert.equal((await stranger.delete(`/template-shares/${first.shareId}`)).status, 404);
    assert.equal((await app.api('acc_two').get(`/templates/${id}/shares`)).status, 404);
    assert.equal((await read(first.token)).status, 200, 'another account cannot revoke it');
    assert.equal((await api.delete(`/template-shares/${first.shareId}`)).status, 200);
    assert.equal((await read(first.token)).status, 404);
    assert.equal((await api.delete(`/template-shares/${first.shareId}`)).status, 404);
    assert.equal((await read(brief.token)).status, 200, 'control: another link to the template');

    const entries = await database.execute(auditOperation, {
      accountId: 'acc_one',
      mode: null,
      action: null,
      resource: null,
      resourceIds: [id, id] as const,
      actorId: null,
      fromId: '',
      belowId: 'aud_~',
      limit: 100,
    });
    const recorded = entries.map(({ action, afterChange }) => `${action} ${JSON.parse(afterChange!).shareId}`);
    for (const { shareId } of [first, brief, tried]) assert.ok(recorded.includes(`template.share ${shareId}`));
    const revoked = recorded.filter((one) => one.startsWith('template.revoke-share'));
    assert.deepEqual(revoked, [`template.revoke-share ${first.shareId}`]);
    assert.doesNotMatch(JSON.stringify(entries), /Ann|token/, 'neither values nor tokens');

    const change = { plan: null, approvedEmailBytes: null, nowMs: Date.now(), limits: {} };
    await database.execute(setAccountOperation, { id: 'acc_one', status: 'suspended', ...change });
    assert.equal((await read(brief.token)).status, 404, 'while the account is suspended');
    await database.execute(setAccountOperation, { id: 'acc_one', status: 'active', ...change });
    clock.advance(60_000);
    assert.equal((await read(brief.token)).status, 404, 'expired');
    assert.deepEqual(await listed('/template-shares'), [elsewhere.shareId]);
    assert.equal(await database.execute(removeTemplateSharesOperation, { nowMs: clock.now(), limit: 10 }), 1);
  });

  test(`${dialect}: a template has at most 20 valid links`, async (t) => {
    const { api, create } = await shareApp(t, dialect);
    const id = await create();
    const results = await Promise.all(Array.from({ length: 24 }, () => api.post(`/templates/${id}/share`, {})));
    const created = results.filter(({ status }) => status === 201);
    const full = results.find(({ status }) => status !== 201)!;
    assert.deepEqual([created.length, full.status, full.body.error.code], [20, 409, 'LIMIT_REACHED']);
    assert.match(full.body.error.message, /20 valid links.*DELETE \/template-shares\/\{id\}/);
    assert.equal((await api.delete(`/template-shares/${created[0]!.body.shareId}`)).status, 200);
    assert.equal((await api.post(`/templates/${id}/share`, {})).status, 201);
  });
}
