/** Previews over HTTP: the rendered output, and the same rejections as for a send. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Api } from '../../test/kit/api.ts';
import { fields, refused, type TemplateApp, templateApp } from '../../test/kit/template-app.ts';

let app: TemplateApp;
let api: Api;
let make: TemplateApp['make'];

before(async () => {
  app = await templateApp();
  ({ own: api, make } = app);
});
after(() => app.close());

test('a preview rejects a subject that a send rejects', async () => {
  for (const a of ['x\r\ny', 'x'.repeat(999), `{{${'y'.repeat(999)}`]) {
    const error = await refused(
      api.post('/templates/render', { subject: '{{ a }}', text: 't', templateVariables: { a } }),
      400,
      'INVALID_REQUEST',
    );
    assert.deepEqual(fields(error), ['subject']);
  }
  const most = { subject: '{{ a }}', text: 't', templateVariables: { a: '\u{1f600}'.repeat(998) } };
  assert.equal((await api.post('/templates/render', most)).status, 200);
});

test('a preview that produces too much text is rejected', async () => {
  const body = { html: '{{a}}'.repeat(1_000), templateVariables: { a: '<'.repeat(50_000) } };
  const error = await refused(api.post('/templates/render', body), 400, 'TEMPLATE_INVALID');
  assert.match(error.details[0]!.message, /produces too much text|takes longer than 50 ms/);
});

test('a preview renders, lists missing variables, and checks declared types', async () => {
  const made = await make({
    name: 'preview',
    subject: 'Hi {{ name }}',
    html: '<p>{{ name }} {{ nick }}{{ count }} {{ other.x }}</p>{{ company_address_html }}{{ unsubscribe_email_html }}',
    variables: [
      { name: 'name', type: 'string', required: true },
      { name: 'nick', type: 'string' },
      { name: 'count', type: 'number', default: 3 },
      { name: 'unused', required: true },
    ],
  });
  const path = `/templates/${made.templateId}/render`;
  const empty = await api.call({ method: 'POST', path });
  assert.equal(empty.status, 200, empty.text);
  assert.deepEqual(empty.body.missingVariables, ['name', 'unused', 'other.x']);
  assert.equal(empty.body.subject, 'Hi ');
  const templateVariables = { name: '<A>', unused: 'u', other: { x: 1 } };
  const full = await api.post(path, { templateVariables });
  assert.deepEqual(full.body.missingVariables, []);
  assert.equal(full.body.html, '<p>&lt;A&gt; 3 1</p><a href="https://mail.test/unsubscribe/preview">Unsubscribe</a>');
  assert.match(full.body.text, /^<A> 3 1/);
  const wrong = await refused(api.post(path, { templateVariables: { name: 5, count: '3' } }), 400, 'INVALID_REQUEST');
  assert.deepEqual(fields(wrong), ['templateVariables.name', 'templateVariables.count']);
  await refused(api.post(path, { subject: 'x' }), 400, 'INVALID_REQUEST');
});

test('previews unsaved content', async () => {
  const templateVariables = { a: 1, list: [{ n: 'x' }, { n: 'y' }] };
  const html = '{% for i in list %}<p>{{ i.n }}{{ b }}</p>{% endfor %}';
  const shown = await api.post('/templates/render', { subject: '{{ a }}', html, templateVariables });
  assert.deepEqual(shown.body, { subject: '1', html: '<p>x</p><p>y</p>', text: 'x\n\ny', missingVariables: ['b'] });
  const layout = await make({ name: 'for preview', html: '({{ content }})' });
  const within = await api.post('/templates/render', {
    html: '{{ a }}',
    templateVariables,
    layoutTemplateId: layout.templateId,
  });
  assert.equal(within.body.html, '(1)');
  assert.equal(
    (await api.post('/templates/render', { subject: 'only {{ a }}', templateVariables })).body.subject,
    'only 1',
  );
  const broken = await refused(api.post('/templates/render', { html: 'a\n{{' }), 400, 'TEMPLATE_INVALID');
  assert.deepEqual([broken.details[0]!.line, broken.details[0]!.column], [2, 1]);
  const slow = '{% for i in (1..100000) %}{% for j in (1..1000) %}{{ i }}{% endfor %}{% endfor %}';
  assert.match(
    (await refused(api.post('/templates/render', { text: slow }), 400, 'TEMPLATE_INVALID')).message,
    /cannot be rendered/,
  );
});
