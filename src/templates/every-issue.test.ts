/** Template errors list every issue: form issues together with parse errors, and each declaration separately. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Api, JsonObject } from '../../test/kit/api.ts';
import { runningMs } from '../../test/kit/running-time.ts';
import { fields, refused, type TemplateApp, templateApp } from '../../test/kit/template-app.ts';

let app: TemplateApp;
let api: Api;
let make: TemplateApp['make'];

before(async () => {
  app = await templateApp();
  ({ own: api, make } = app);
});
after(() => app.close());

test('parse errors are reported with other issues, and each declaration is checked separately', async () => {
  const kept = await make({ name: 'kept as it is', text: 'x' });
  const rejected = async (body: JsonObject): Promise<string[]> => {
    const made = await refused(api.post('/templates', body), 400, 'INVALID_REQUEST');
    const put = await refused(api.put(`/templates/${kept.templateId}`, body), 400, 'INVALID_REQUEST');
    assert.deepEqual(put, made);
    for (const issue of made.details) {
      if (issue.message.startsWith('is not a valid template')) assert.deepEqual([issue.line, issue.column], [1, 1]);
    }
    return fields(made);
  };
  assert.deepEqual(await rejected({ name: '', html: '{% if' }), ['name', 'html']);
  assert.deepEqual(await rejected({ name: ' x', html: '{% if', text: '{{ a b }}' }), ['name', 'html', 'text']);
  const variables = [
    { name: 'a', type: 'number', default: 'x' },
    { name: 'b', type: 'zz', default: 1 },
    { name: '9 bad' },
    7,
    { name: 'b' },
  ];
  assert.deepEqual(
    await rejected({ name: ' x', subject: 'a\nb', html: '{% if', variables: variables.filter((_, i) => i % 2 === 0) }),
    ['name', 'subject', 'variables[0].default', 'variables[1].name', 'html'],
  );
  const declared = ['variables[0].default', 'variables[2].name', 'variables[4].name'];
  const malformed = ['variables[1].type', 'variables[3]'];
  assert.deepEqual(await rejected({ name: 'x', html: '{% if', variables }), [...malformed, ...declared, 'html']);
  // A malformed neighbor does not change the issues of a declaration.
  const beside = [{ name: 'a', type: 'string', default: null }, { name: 'b', default: 7 }, { name: 5 }];
  assert.deepEqual(await rejected({ name: 'x', html: 'x', variables: beside }), [
    'variables[2].name',
    'variables[1].default',
  ]);
  const many = Array.from({ length: 501 }, (_, i) => ({ name: i === 499 ? '9' : `v${i}` }));
  assert.deepEqual(await rejected({ name: 'x', text: 'x', variables: many }), ['variables', 'variables[499].name']);
  const preview = await refused(api.post('/templates/render', { html: '{% if', variables }), 400, 'INVALID_REQUEST');
  assert.deepEqual(fields(preview), [...malformed, ...declared, 'html']);
  assert.equal((await api.get(`/templates/${kept.templateId}`)).body.version, 1);
});

test('exceeded limits are reported quickly, together with other issues', async () => {
  const html = `${'{% if a %}'.repeat(3_400)}${'x'.repeat(1_900_000)}`;
  const began = runningMs();
  const error = await refused(
    api.post('/templates', { name: '', html, text: '{{'.repeat(10_001) }),
    400,
    'INVALID_REQUEST',
  );
  assert.deepEqual(fields(error), ['name', 'html', 'text']);
  assert.match(error.details[1]!.message, /nested deeper than 50 levels/);
  assert.match(error.details[2]!.message, /more than 10000 tags/);
  assert.ok(runningMs() - began < 2_000);
});
