/** Stored templates over HTTP: saving, returning, versions, layouts, previews, and ownership. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Api, JsonObject } from '../../test/kit/api.ts';
import type { FakeClock } from '../../test/kit/fake-clock.ts';
import { fields, refused, type TemplateApp, templateApp } from '../../test/kit/template-app.ts';
import { templateHeadOperation } from '../templates/store.ts';

let app: TemplateApp;
let api: Api;
let make: TemplateApp['make'];
let clock: FakeClock;

before(async () => {
  app = await templateApp();
  ({ own: api, make, clock } = app);
});
after(() => app.close());

test('samples are stored with the template, survive new versions, and are validated', async () => {
  const { templateId } = await make({ name: 'sampled', subject: 's', text: '{{ x }}' });
  const path = `/templates/${templateId}`;
  const samples = [
    { name: 'Größe', values: { x: 17, order: { number: 1 } } },
    { name: 'Empty', values: {} },
  ];
  const stored = await api.put(`${path}/samples`, { samples });
  assert.equal(stored.status, 200, stored.text);
  assert.deepEqual([stored.body.samples, stored.body.version], [samples, 1]);
  assert.equal((await api.put(path, { ...stored.body, text: 'new' })).status, 200, 'PUT accepts the body of GET');
  assert.deepEqual((await api.get(path)).body.samples, samples);
  const twice = await api.put(`${path}/samples`, { samples: [...samples, samples[1]] });
  assert.deepEqual([twice.status, twice.body.error.details[0].field], [400, 'samples[2].name']);
  const many = Array.from({ length: 21 }, (_, index) => ({ name: `n${index}`, values: {} }));
  assert.equal((await api.put(`${path}/samples`, { samples: many })).status, 400);
  assert.equal((await api.put('/templates/tpl_none/samples', { samples })).status, 404);
  assert.deepEqual((await api.put(`${path}/samples`, { samples: [] })).body.samples, []);
});

test('a template is created, returned, replaced, and deleted, and each replacement is a version', async () => {
  const variables = [
    { name: 'name', type: 'string', required: true },
    { name: 'items', type: 'array', required: false, default: ['x'] },
  ];
  const made = await make({ name: 'welcome', subject: 'Hi {{name}}', html: '<p>{{name}}</p>', variables });
  assert.match(made.templateId, /^tpl_[0-9A-Za-z]{21}$/);
  const { templateId, createdAt, updatedAt, ...rest } = made;
  assert.deepEqual(rest, {
    name: 'welcome',
    type: 'transactional',
    subject: 'Hi {{name}}',
    html: '<p>{{name}}</p>',
    text: null,
    variables,
    samples: [],
    version: 1,
  });
  assert.equal(createdAt, updatedAt);
  assert.deepEqual((await api.get(`/templates/${templateId}`)).body, made);
  clock.advance(1_000);
  const put = await api.put(`/templates/${templateId}`, { name: 'hello', type: 'marketing', text: 'Hi' });
  assert.equal(put.status, 200, put.text);
  const { updatedAt: later, ...replaced } = put.body;
  assert.deepEqual(replaced, {
    templateId,
    name: 'hello',
    type: 'marketing',
    subject: null,
    html: null,
    text: 'Hi',
    variables: [],
    samples: [],
    version: 2,
    createdAt,
  });
  assert.ok(later > updatedAt);
  const restored = await api.post(`/templates/${templateId}/versions/1/restore`);
  assert.equal(restored.status, 200, restored.text);
  assert.equal(restored.body.version, 3);
  assert.equal(restored.body.html, made.html);
  assert.deepEqual(restored.body.variables, variables);
  assert.equal(restored.body.name, 'hello', 'the name is kept');
  const versions = (await api.get(`/templates/${templateId}/versions`)).body as unknown as JsonObject[];
  assert.deepEqual(
    versions.map((one) => [one.version, one.name, one.text, one.type]),
    [
      [3, 'hello', null, 'transactional'],
      [2, 'hello', 'Hi', 'marketing'],
      [1, 'welcome', null, 'transactional'],
    ],
  );
  const deleted = await api.delete(`/templates/${templateId}`);
  assert.equal(deleted.status, 200);
  assert.equal(typeof deleted.body.message, 'string');
  for (const path of ['', '/versions']) await refused(api.get(`/templates/${templateId}${path}`), 404, 'NOT_FOUND');
});

test('an unpublished version is not used by sends', async () => {
  const draft = await api.post('/templates?publish=false', { name: 'draft', html: 'one' });
  assert.equal(draft.status, 201, draft.text);
  assert.equal(draft.body.publishedVersion, 0);
  const path = `/templates/${draft.body.templateId}`;
  const { templateId: reference } = draft.body;
  const used = async (): Promise<number | undefined> => {
    const asked = { accountId: 'acc_one', mode: 'live' as const, reference };
    return (await app.temp.database.execute(templateHeadOperation, asked))?.version;
  };
  const previewed = async (): Promise<unknown> => (await api.post(`${path}/render`)).body.html;
  assert.equal(await used(), undefined);
  assert.equal(await previewed(), 'one', 'a preview uses the current version');
  const published = await api.put(path, { name: 'draft', html: '2' });
  assert.deepEqual([published.body.version, published.body.publishedVersion], [2, 2]);
  assert.equal(await used(), 2);
  const next = await api.put(`${path}?publish=false`, { name: 'draft', html: '3' });
  assert.deepEqual([next.body.version, next.body.publishedVersion, next.body.html], [3, 2, '3']);
  assert.equal(await used(), 2);
  assert.equal(await previewed(), '3');
  const restored = await api.post(`${path}/versions/3/restore`);
  assert.deepEqual([restored.body.version, restored.body.publishedVersion], [4, 4]);
  assert.equal(await used(), 4);
  const whole = await make({ name: 'whole', html: '1' });
  assert.ok(!('publishedVersion' in whole));
  const kept = await api.put(`/templates/${whole.templateId}?publish=false`, { name: 'whole', html: '2' });
  assert.deepEqual([kept.body.version, kept.body.publishedVersion], [2, 1]);
  assert.equal((await api.put(path, next.body)).status, 200, 'a returned template can be put back');
  await refused(api.put(`${path}?publish=maybe`, { name: 'draft', html: '4' }), 400, 'INVALID_REQUEST');
});

test('a returned body can be put back unchanged, including empty parts', async () => {
  const { templateId, version, createdAt, updatedAt, ...body } = await make({ name: 'round', text: 'x' });
  const put = await api.put(`/templates/${templateId}`, body);
  assert.equal(put.status, 200, put.text);
  assert.equal(put.body.version, 2);
  await api.delete(`/templates/${templateId}`);
});

test('lists are newest first and paginated', async () => {
  const own = app.api('acc_pages');
  const ids: string[] = [];
  for (let i = 0; i < 5; i += 1) {
    clock.advance(1);
    ids.unshift((await make({ name: `t${i}`, text: 'x' }, own)).templateId);
  }
  const seen: string[] = [];
  let path = '/templates?limit=2';
  for (let pages = 0; ; pages += 1) {
    const page = await own.get(path);
    seen.push(...(page.body as unknown as JsonObject[]).map((one) => one.templateId));
    const next = /<([^>]+)>; rel="next"/.exec(page.headers.link ?? '')?.[1];
    assert.equal(page.headers['x-next-cursor'] !== undefined, next !== undefined);
    if (next === undefined) {
      assert.equal(pages, 2);
      break;
    }
    path = next;
  }
  assert.deepEqual(seen, ids);
  for (let i = 0; i < 3; i += 1) await own.put(`/templates/${ids[0]}`, { name: 'same', text: `v${i}` });
  const first = await own.get(`/templates/${ids[0]}/versions?limit=3`);
  const second = await own.get(/<([^>]+)>/.exec(first.headers.link!)![1]!);
  const versionsOf = (body: unknown) => (body as JsonObject[]).map((one) => one.version);
  assert.deepEqual([versionsOf(first.body), versionsOf(second.body)], [[4, 3, 2], [1]]);
  await refused(own.get('/templates?cursor=nonsense'), 400, 'INVALID_REQUEST');
});

test('a page of large templates is shorter, and the next page continues after it', async () => {
  const own = app.api('acc_large');
  for (let i = 0; i < 6; i += 1) await make({ name: `t${i}`, html: 'x'.repeat(1_900_000) }, own);
  const first = await own.get('/templates');
  assert.equal((first.body as unknown as unknown[]).length, 4);
  const second = await own.get(/<([^>]+)>/.exec(first.headers.link!)![1]!);
  assert.equal((second.body as unknown as unknown[]).length, 2);
  assert.equal(second.headers.link, undefined);
});

test('names are unique in an account and cannot look like IDs', async () => {
  const one = await make({ name: 'taken', text: 'x' });
  const two = await make({ name: 'free', text: 'x' });
  const error = await refused(api.post('/templates', { name: 'taken', text: 'y' }), 409, 'CONFLICT');
  assert.deepEqual(fields(error), ['name']);
  await refused(api.put(`/templates/${two.templateId}`, { name: 'taken', text: 'y' }), 409, 'CONFLICT');
  assert.equal((await api.put(`/templates/${one.templateId}`, { name: 'taken', text: 'y' })).status, 200);
  await make({ name: 'Taken', text: 'x' });
  await make({ name: 'taken', text: 'x' }, app.api('acc_other'));
  for (const name of ['tpl_x', ' a', 'a ', '', 'a\nb', 'x'.repeat(201)]) {
    assert.deepEqual(fields(await refused(api.post('/templates', { name, text: 'x' }), 400, 'INVALID_REQUEST')), [
      'name',
    ]);
  }
});

test('rejects content that does not parse with the position, and stores nothing', async () => {
  const error = await refused(
    api.post('/templates', { name: 'broken', subject: 'a {{', html: 'x\n  {% if a %}', text: '{{ a b }}' }),
    400,
    'TEMPLATE_INVALID',
  );
  assert.deepEqual(
    error.details.map((issue) => [issue.field, issue.line, issue.column]),
    [
      ['subject', 1, 3],
      ['html', 2, 3],
      ['text', 1, 1],
    ],
  );
  assert.doesNotMatch(error.message, /render: false/);
  const kept = await make({ name: 'kept', html: 'fine' });
  await refused(
    api.put(`/templates/${kept.templateId}`, { name: 'kept', html: '{% nope %}' }),
    400,
    'TEMPLATE_INVALID',
  );
  assert.equal((await api.get(`/templates/${kept.templateId}`)).body.version, 1);
});

test('rejects content over a limit with the position', async () => {
  const tooMuch: [html: string, line: number, column: number][] = [
    [`a\n${'{{a}}'.repeat(10_001)}`, 2, 50_001],
    [`${'{% if a %}\n'.repeat(51)}${'{% endif %}'.repeat(51)}`, 51, 1],
    [`a\nb {{ "${'x'.repeat(8_000)}" }}`, 2, 3],
  ];
  for (const [html, line, column] of tooMuch) {
    const error = await refused(api.post('/templates', { name: 'much', html }), 400, 'TEMPLATE_INVALID');
    assert.deepEqual(
      error.details.map((issue) => [issue.field, issue.line, issue.column]),
      [['html', line, column]],
    );
  }
});

test('every form issue is listed', async () => {
  const error = await refused(
    api.post('/templates', {
      name: 'tpl_',
      subject: 'a\r\nBcc: x@example.com',
      variables: [
        { name: '1a' },
        { name: 'a', type: 'number', default: 'x' },
        { name: 'a' },
        { name: 'c', type: 'object', default: [] },
      ],
    }),
    400,
    'INVALID_REQUEST',
  );
  assert.deepEqual(fields(error), [
    'name',
    'html',
    'subject',
    'variables[0].name',
    'variables[1].default',
    'variables[2].name',
    'variables[3].default',
  ]);
  assert.deepEqual(fields(await refused(api.post('/templates', {}), 400, 'INVALID_REQUEST')), ['name', 'html']);
  const mixed = { name: ' x', subject: 'a\nb', text: 7, variables: [{ name: '1a' }], colour: 'red' };
  assert.deepEqual(fields(await refused(api.post('/templates', mixed), 400, 'INVALID_REQUEST')).sort(), [
    'colour',
    'name',
    'subject',
    'text',
    'variables[0].name',
  ]);
  for (const body of [
    { name: 'x', text: 'x', version: 7 },
    { name: 'x', text: 'x', accountId: 'acc_other' },
    { name: 'x', text: 'x', type: 'spam' },
    { name: 'x', text: 'x', variables: [{ name: 'a', type: 'date' }] },
    { name: 'x', text: 'x', variables: [{ name: 'a', extra: 1 }] },
    { name: 'x', subject: 'x'.repeat(999), text: 'x' },
    { name: 'x', html: '' },
    { text: 'x' },
  ]) {
    await refused(api.post('/templates', body), 400, 'INVALID_REQUEST');
  }
});

test('templates of another account are not found in any call', async () => {
  const { templateId } = await make({ name: 'private', text: 'x' });
  const stranger = app.api('acc_stranger');
  const path = `/templates/${templateId}`;
  const answers = [
    stranger.get(path),
    stranger.put(path, { name: 'mine', text: 'x' }),
    stranger.delete(path),
    stranger.get(`${path}/versions`),
    stranger.post(`${path}/versions/1/restore`),
    stranger.post(`${path}/render`, {}),
    stranger.post('/templates', { name: 'x', html: 'x', layoutTemplateId: templateId }),
  ];
  for (const answer of answers) await refused(answer, 404, 'NOT_FOUND');
  const foreign = await stranger.get(path);
  const unknown = await stranger.get('/templates/tpl_000000000000000000000');
  assert.deepEqual(foreign.body.error, unknown.body.error);
  assert.deepEqual((await stranger.get('/templates')).body as unknown, []);
  assert.equal((await app.api('acc_one', 'sandbox').get(path)).status, 200, 'both modes share them');
});

test('a missing version cannot be restored', async () => {
  const { templateId } = await make({ name: 'once', text: 'x' });
  for (const version of ['2', '0', '-1', '1.0', 'x', '99999999999']) {
    await refused(api.post(`/templates/${templateId}/versions/${version}/restore`), 404, 'NOT_FOUND');
  }
});

test('a layout wraps other templates, has no layout itself, and is kept while in use', async () => {
  const layout = await make({
    name: 'frame',
    html: '<b>{{ brand }}</b>{{ content }}<i>end</i>',
    text: '{{ content }}\n--',
  });
  const inner = await make({
    name: 'inner',
    html: '<p>{{ x }}</p>',
    text: '{{ x }}',
    layoutTemplateId: layout.templateId,
  });
  assert.equal(inner.layoutTemplateId, layout.templateId);
  const path = `/templates/${inner.templateId}`;
  const templateVariables = { brand: '<Shop>', x: '{{ content }} & $&' };
  assert.deepEqual((await api.post(`${path}/render`, { templateVariables })).body, {
    subject: null,
    html: '<b>&lt;Shop&gt;</b><p>{{ content }} &amp; $&amp;</p><i>end</i>',
    text: '{{ content }} & $&\n--',
    missingVariables: [],
  });
  const plain = await make({ name: 'no slot', html: 'x' });
  const wish = (layoutTemplateId: string): JsonObject => ({ name: 'wish', html: 'x', layoutTemplateId });
  await refused(api.post('/templates', wish(plain.templateId)), 409, 'CONFLICT');
  await refused(api.post('/templates', wish(inner.templateId)), 409, 'CONFLICT');
  await refused(api.post('/templates', wish('tpl_unknown')), 404, 'NOT_FOUND');
  const frame = `/templates/${layout.templateId}`;
  await refused(api.delete(frame), 409, 'CONFLICT');
  await refused(api.put(frame, { name: 'frame', html: 'no slot' }), 409, 'CONFLICT');
  const other = await make({ name: 'other frame', html: '{{content_html}}' });
  await refused(
    api.put(frame, { name: 'frame', html: '{{content}}', layoutTemplateId: other.templateId }),
    409,
    'CONFLICT',
  );
  await refused(
    api.put(frame, { name: 'frame', html: '{{content}}', layoutTemplateId: layout.templateId }),
    409,
    'CONFLICT',
  );
  await api.put(frame, { name: 'frame', html: '[{{ content }}]' });
  const now = await api.post(`${path}/render`, { templateVariables });
  assert.equal(now.body.html, '[<p>{{ content }} &amp; $&amp;</p>]', 'the current version of the layout is used');
  await api.put(path, { name: 'inner', html: 'alone' });
  assert.equal((await api.delete(frame)).status, 200);
  const gone = await refused(api.post(`${path}/versions/1/restore`), 409, 'CONFLICT');
  assert.deepEqual(fields(gone), ['layoutTemplateId']);
});

test('a template that exceeds a limit inside its layout is rejected when saved', async () => {
  const layout = await make({ name: 'heavy', html: `${'{{a}}'.repeat(6_000)}{{ content }}` });
  const html = '{{a}}'.repeat(6_000);
  const error = await refused(
    api.post('/templates', { name: 'too much', html, layoutTemplateId: layout.templateId }),
    400,
    'TEMPLATE_INVALID',
  );
  assert.match(error.message, /within this layout/);
  await make({ name: 'alone it fits', html });
});

test('content too long inside its layout is rejected on save, preview, and send', async () => {
  const layout = await make({ name: 'many slots', html: '{{content}}'.repeat(500), text: '{{ content }}' });
  const html = 'x'.repeat(5_000);
  const body = { html, text: 'short', layoutTemplateId: layout.templateId };
  const error = await refused(api.post('/templates', { name: 'too long', ...body }), 400, 'TEMPLATE_INVALID');
  assert.deepEqual(fields(error), ['html']);
  assert.match(error.details[0]!.message, /more than 2000000 characters inside its layout/);
  await refused(api.post('/templates/render', body), 400, 'TEMPLATE_INVALID');
  const fits = await make({ name: 'fits', ...body, html: 'x'.repeat(4_000) });
  const path = `/templates/${fits.templateId}/render`;
  assert.equal((await api.post(path, {})).body.html.length, 2_000_000);
  await api.call({
    method: 'PUT',
    path: `/templates/${layout.templateId}`,
    body: { name: 'many slots', html: '{{content}}'.repeat(501) },
  });
  assert.deepEqual(fields(await refused(api.post(path, {}), 400, 'TEMPLATE_INVALID')), ['html']);
});

test('only one of many concurrent requests gets a name', async () => {
  const own = app.api('acc_race');
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => own.post('/templates', { name: 'one', text: 'x' })),
  );
  assert.deepEqual(answers.map((one) => one.status).sort(), [201, ...Array.from({ length: 19 }, () => 409)]);
});

test('concurrent writes get version numbers without gaps or duplicates', async () => {
  const own = app.api('acc_many');
  const { templateId } = await make({ name: 'many', text: 'v' }, own);
  const puts = await Promise.all(
    Array.from({ length: 20 }, (_, i) => own.put(`/templates/${templateId}`, { name: 'many', text: `v${i}` })),
  );
  const versions = puts.map((one) => one.body.version as number).sort((a, b) => a - b);
  assert.deepEqual(
    versions,
    Array.from({ length: 20 }, (_, i) => i + 2),
  );
  for (const { body } of puts) {
    const list = (await own.get(`/templates/${templateId}/versions?limit=100`)).body as unknown as JsonObject[];
    assert.equal(list.find((one) => one.version === body.version)?.text, body.text);
  }
});

test('a sandbox key changes no live template, and its templates exist only in the sandbox', async () => {
  const sandbox = app.api('acc_modes', 'sandbox');
  const live = app.api('acc_modes');
  const shared = await make({ name: 'modes', html: '[{{ content }}]', text: 'live' }, live);
  const own = await make({ name: 'modes', text: 'sandbox' }, sandbox);
  assert.equal((await sandbox.get(`/templates/${shared.templateId}`)).body.text, 'live');
  const path = `/templates/${shared.templateId}`;
  for (const change of [
    sandbox.put(path, { name: 'modes', text: 'x' }),
    sandbox.delete(path),
    sandbox.post(`${path}/versions/1/restore`),
  ]) {
    const error = await refused(change, 403, 'FORBIDDEN');
    assert.match(error.message, /^A sandbox key cannot change a live template/);
  }
  const hidden = `/templates/${own.templateId}`;
  for (const call of [
    live.get(hidden),
    live.put(hidden, { name: 'n', text: 'x' }),
    live.delete(hidden),
    live.get(`${hidden}/versions`),
    live.post(`${hidden}/versions/1/restore`),
    live.post(`${hidden}/render`, {}),
    live.post('/templates', { name: 'm', html: 'x', layoutTemplateId: own.templateId }),
    live.post('/templates/render', { html: 'x', layoutTemplateId: own.templateId }),
  ]) {
    await refused(call, 404, 'NOT_FOUND');
  }
  const idsOf = async (api: Api) =>
    ((await api.get('/templates')).body as unknown as JsonObject[]).map((one) => one.templateId);
  assert.deepEqual(await idsOf(live), [shared.templateId]);
  // Both can be from the same millisecond.
  assert.deepEqual((await idsOf(sandbox)).sort(), [own.templateId, shared.templateId].sort());
  await refused(sandbox.post('/templates', { name: 'modes', text: 'x' }), 409, 'CONFLICT');
  const user = await make({ name: 'user', html: 'x', layoutTemplateId: shared.templateId }, sandbox);
  const rendered = () => sandbox.post(`/templates/${user.templateId}/render`, {});
  assert.equal((await rendered()).body.html, '[x]');
  assert.equal((await sandbox.put(hidden, { name: 'modes', text: 'changed' })).body.version, 2);
  assert.equal((await sandbox.post(`${hidden}/versions/1/restore`)).body.text, 'sandbox');
  // A sandbox template does not prevent the deletion of a live layout, and reports it when it is used.
  assert.equal((await live.delete(path)).status, 200);
  assert.match(
    (await refused(rendered(), 400, 'TEMPLATE_INVALID')).message,
    /^The layout of this template was deleted/,
  );
  assert.equal((await sandbox.delete(hidden)).status, 200);
});

test('PATCH changes only the given fields, and creates a version only if one differs', async () => {
  const variables = [{ name: 'n', type: 'number', required: false, default: 12345678901234567890n }];
  const made = await make({ name: 'patched', subject: 's', html: '<p>{{n}}</p>', text: 't', variables });
  const path = `/templates/${made.templateId}`;
  const patch = (body: JsonObject, query = '') => api.call({ method: 'PATCH', path: `${path}${query}`, body });
  clock.advance(1_000);
  const first = await patch({ subject: 'Hello' });
  assert.equal(first.status, 200, first.text);
  assert.match(first.text, /"default":12345678901234567890\b/);
  assert.deepEqual({ ...first.body, updatedAt: made.updatedAt }, { ...made, subject: 'Hello', version: 2 });
  for (const same of [{}, { subject: 'Hello' }, { name: null, html: null, variables: null }, first.body]) {
    const { version, updatedAt } = (await patch(same === first.body ? { ...same, variables } : same)).body;
    assert.deepEqual([version, updatedAt], [2, first.body.updatedAt], JSON.stringify(same));
  }
  assert.equal((await patch({ ...first.body, variables, text: '' })).body.text, null);
  const draft = (await patch({ text: 'later' }, '?publish=false')).body;
  assert.deepEqual([draft.version, draft.publishedVersion, draft.html], [4, 3, '<p>{{n}}</p>']);
  const issues = await refused(patch({ subject: 5, html: '{{', colour: 'red' }), 400, 'INVALID_REQUEST');
  assert.deepEqual(fields(issues).sort(), ['colour', 'html', 'subject']);
  await refused(patch({ html: '', text: '' }), 400, 'INVALID_REQUEST');
  await refused(patch({ layoutTemplateId: made.templateId }), 409, 'CONFLICT');
  const sandbox = app.api('acc_one', 'sandbox');
  await refused(sandbox.call({ method: 'PATCH', path, body: {} }), 403, 'FORBIDDEN');
  await refused(app.api('acc_two').call({ method: 'PATCH', path, body: {} }), 404, 'NOT_FOUND');
});

test('concurrent PATCHes of different fields are all kept', async () => {
  const { templateId } = await make({ name: 'concurrent', subject: 's', html: '<p>h</p>', text: 't' });
  const path = `/templates/${templateId}`;
  const changes = [{ subject: 'S' }, { html: '<p>H</p>' }, { text: 'T' }, { name: 'together' }];
  const answers = await Promise.all(changes.map((body) => api.call({ method: 'PATCH', path, body })));
  assert.deepEqual(answers.map(({ body }) => body.version).sort(), [2, 3, 4, 5]);
  const { subject, html, text, name } = (await api.get(path)).body;
  assert.deepEqual({ subject, html, text, name }, Object.assign({}, ...changes));
});
