/** Templates written in MJML over HTTP: what is generated, stored, previewed, and refused. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Api } from '../../test/kit/api.ts';
import { type TemplateApp, templateApp } from '../../test/kit/template-app.ts';
import { compileMjml } from './mjml.ts';

let app: TemplateApp;
let api: Api;

before(async () => {
  app = await templateApp();
  api = app.own;
});
after(() => app.close());

const mjml = (content: string): string =>
  `<mjml><mj-body><mj-section><mj-column>${content}</mj-column></mj-section></mj-body></mjml>`;
const compile = async (source: string) => (await compileMjml(source, 'acc_test'))!;
const SOURCE = mjml('<mj-text>Hello {{ name }}</mj-text><mj-button href="{{ link }}?a=1">Open</mj-button>');

test('the html is generated from MJML, keeps Liquid tags, and is used by previews', async () => {
  const created = await api.post('/templates', { name: 'welcome', subject: 'Hi', mjml: SOURCE });
  assert.equal(created.status, 201, created.text);
  assert.equal(created.body.mjml, SOURCE);
  assert.match(created.body.html, /^<!doctype html>.*Hello \{\{ name \}\}.*href="\{\{ link \}\}\?a=1"/s);
  const { templateId } = created.body;
  assert.deepEqual((await api.get(`/templates/${templateId}`)).body, created.body);
  const rendered = await api.post(`/templates/${templateId}/render`, { templateVariables: { name: 'A & B' } });
  assert.match(rendered.body.html, /Hello A &amp; B/);
  assert.deepEqual(rendered.body.missingVariables, ['link']);
  assert.match(rendered.body.text, /Hello A & B/);
  const preview = await api.post('/templates/render', { mjml: SOURCE, templateVariables: { name: 'Ann' } });
  assert.match(preview.body.html, /Hello Ann/);
});

test('PUT accepts the body of GET, and without mjml makes a template of plain html', async () => {
  const { body } = await api.post('/templates', { name: 'replaced', mjml: SOURCE });
  const path = `/templates/${body.templateId}`;
  const same = await api.put(path, { ...body, html: 'ignored' });
  assert.equal(same.status, 200, same.text);
  assert.deepEqual([same.body.mjml, same.body.html], [body.mjml, body.html]);
  const plain = await api.put(path, { name: 'replaced', html: '<p>plain</p>' });
  assert.deepEqual([plain.body.mjml, plain.body.html], [undefined, '<p>plain</p>']);
  const restored = await api.post(`${path}/versions/1/restore`);
  assert.deepEqual([restored.body.mjml, restored.body.html], [body.mjml, body.html]);
  const versions = (await api.get(`${path}/versions`)).body as unknown as { mjml?: string }[];
  assert.deepEqual(
    versions.map((one) => one.mjml !== undefined),
    [true, false, true, true],
  );
});

test('PATCH changes MJML, refuses html beside it, and removes MJML with an empty text', async () => {
  const { body } = await api.post('/templates', { name: 'patched', mjml: SOURCE });
  const path = `/templates/${body.templateId}`;
  const changed = await api.patch(path, { mjml: mjml('<mj-text>Bye</mj-text>') });
  assert.match(changed.body.html, />Bye</);
  const renamed = await api.patch(path, { name: 'patched too' });
  assert.equal(renamed.body.html, changed.body.html);
  const refused = await api.patch(path, { html: '<p>by hand</p>' });
  assert.equal(refused.status, 400);
  assert.deepEqual(
    refused.body.error.details.map((one: { field: string }) => one.field),
    ['html'],
  );
  const plain = await api.patch(path, { mjml: '', html: '<p>by hand</p>' });
  assert.deepEqual([plain.status, plain.body.mjml, plain.body.html], [200, undefined, '<p>by hand</p>']);
});

test('Liquid tags between elements are kept', async () => {
  const source = mjml('{% for item in items %}<mj-text>{{ item }}</mj-text>{% endfor %}');
  const { body } = await api.post('/templates/render', { mjml: source, templateVariables: { items: ['one', 'two'] } });
  assert.match(body.html, /one<\/div><\/td><\/tr><tr>.*two<\/div>/s);
});

test('errors name the line and column in the MJML', async () => {
  const issueOf = async (source: string) => {
    const { status, body } = await api.post('/templates', { name: 'wrong', mjml: source });
    assert.equal(status, 400, source);
    assert.equal(body.error.code, 'TEMPLATE_INVALID');
    const [{ field, message, line, column }] = body.error.details;
    assert.equal(field, 'mjml');
    return [line, column, message] as const;
  };
  assert.deepEqual(await issueOf('<mjml>\n<mj-body>\n  <mj-txt>x</mj-txt></mj-body></mjml>'), [
    3,
    3,
    '<mj-txt> is not an MJML element',
  ]);
  assert.deepEqual(await issueOf('<mjml><mj-body>\n<mj-include path="/etc/passwd" /></mj-body></mjml>'), [
    2,
    2,
    'must not use <mj-include>: insert the content instead',
  ]);
  const [line, , message] = await issueOf('<mjml><mj-head>\nstray</mj-head><mj-body></mj-body></mjml>');
  assert.deepEqual([line, message], [2, 'has text or markup that is not allowed here']);
  assert.match((await issueOf('<p>plain</p>'))[2], /not allowed here|<mjml> element/);
  assert.match((await issueOf('<mjml><mj-body><mj-section>'))[2], /ends before all elements are closed/);
  assert.match((await issueOf(mjml('<mj-text>é\n{% if a < b %}x{% endif %}</mj-text>')))[2], /not well-formed XML/);
  const [liquidLine] = await issueOf(mjml('<mj-text>\n{{ name | nosuch }}</mj-text>'));
  assert.equal(liquidLine, 2);
});

test('a template needs one of mjml, html, and text', async () => {
  const { status, body } = await api.post('/templates', { name: 'nothing', mjml: '' });
  assert.equal(status, 400);
  assert.equal(body.error.details[0].field, 'html');
});

test('a source that breaks the compiler is refused, and the next one compiles', async () => {
  const deep = `<mjml><mj-body>${'<mj-wrapper>'.repeat(3_000)}${'</mj-wrapper>'.repeat(3_000)}</mj-body></mjml>`;
  const broken = await compile(deep);
  assert.ok('issue' in broken);
  assert.match(broken.issue.message, /too complex/);
  assert.ok('html' in (await compile(SOURCE)));
});

test('generated html over the limit is refused', async () => {
  const large = await compile(mjml('<mj-text>x</mj-text>'.repeat(20_000)));
  assert.ok('issue' in large);
  assert.match(large.issue.message, /generates more than 2000000 characters/);
});

test('a head that every element repeats is refused without compiling', async () => {
  const head = `<mj-head><mj-attributes><mj-text font-family="${'A'.repeat(1_000_000)}"/></mj-attributes></mj-head>`;
  const source = `<mjml>${head}<mj-body>${'<mj-text/>'.repeat(50_000)}</mj-body></mjml>`;
  const refused = await compile(source);
  assert.ok('issue' in refused);
  assert.match(refused.issue.message, /generates more than 2000000 characters/);
});

test('an account can have five compilations pending, and others are not affected', async () => {
  const all = Array.from({ length: 6 }, () => compileMjml(SOURCE, 'acc_busy'));
  const other = compileMjml(SOURCE, 'acc_other');
  const results = await Promise.all(all);
  assert.deepEqual(
    results.map((one) => one !== undefined),
    [true, true, true, true, true, false],
  );
  assert.ok('html' in (await other)!);
  assert.ok('html' in (await compileMjml(SOURCE, 'acc_busy'))!);
});
