/** Templates of other services, imported into a running service: their export formats, drafts, layouts, names, and repetition. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { runInProcess } from '../../test/kit/in-process-command.ts';
import { type Service, startService } from '../../test/kit/start-service.ts';

let service: Service;
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-import-templates-'));

before(async () => {
  service = await startService();
});
after(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

let files = 0;
function file(content: unknown): string {
  files += 1;
  const target = path.join(folder, `export-${files}`);
  writeFileSync(target, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
  return target;
}

const run = (...args: string[]) =>
  runInProcess(['import-from', ...args], { ...process.env, POSTRIDER_DATA_DIR: service.dataDir });

async function json(...args: string[]) {
  const ran = await run(...args, '--json');
  assert.equal(ran.code, 0, ran.stdout + ran.stderr);
  return JSON.parse(ran.stdout);
}

async function named(name: string) {
  const { body } = await service.sandboxApi.get('/templates?limit=100');
  return (body as unknown as { name: string; templateId: string; version: number; publishedVersion?: number }[]).find(
    (one) => one.name === name,
  );
}

const sendgrid = (name: string, html: string, more: object = {}) => ({
  id: 'd-4f0a1b',
  name,
  generation: 'dynamic',
  updated_at: '2026-01-02 10:11:12',
  versions: [
    {
      id: 'v1',
      template_id: 'd-4f0a1b',
      active: 0,
      name: 'old',
      html_content: 'old',
      plain_content: '',
      subject: 'old',
    },
    {
      id: 'v2',
      template_id: 'd-4f0a1b',
      active: 1,
      name: 'new',
      html_content: html,
      plain_content: 'Hi {{name}}',
      generate_plain_content: false,
      subject: 'For {{name}}',
      ...more,
    },
  ],
});

const mailgun = (name: string, template: string, more: object = {}) => ({
  name,
  description: '',
  createdAt: 'Wed, 29 Aug 2018 23:31:13 UTC',
  createdBy: 'api',
  id: '46565d87',
  version: { tag: 'initial', template, engine: 'handlebars', mjml: '', active: true, id: 'f6f5', ...more },
});

interface Case {
  service: string;
  content: unknown;
  name: string;
  values: Record<string, unknown>;
  subject: string | null;
  html: string | null;
  text?: string;
}

const CASES: Case[] = [
  {
    service: 'sendgrid',
    content: sendgrid('SendGrid receipt', '<p>{{#each items}}{{this}};{{/each}}{{nick}}</p>'),
    name: 'SendGrid receipt',
    values: { name: 'A & B', items: ['<1>', 2] },
    subject: 'For A & B',
    html: '<p>&lt;1&gt;;2;</p>',
    text: 'Hi A & B',
  },
  {
    service: 'mailgun',
    content: {
      items: [
        mailgun('mailgun-welcome', '{{#if name}}Hi {{name}}{{/if}}', { headers: { Subject: 'Welcome {{name}}' } }),
      ],
      paging: { first: 'u', last: 'u' },
    },
    name: 'mailgun-welcome',
    values: { name: 'Ann' },
    subject: 'Welcome Ann',
    html: 'Hi Ann',
  },
  {
    service: 'mailgun',
    content: { template: mailgun('mailgun-single', '{{{name}}}') },
    name: 'mailgun-single',
    values: { name: '<i>' },
    subject: null,
    html: '<i>',
  },
  {
    service: 'ses',
    content: {
      Template: {
        TemplateName: 'SesV1',
        SubjectPart: 'Hi {{name}}',
        TextPart: 'Dear {{name}}',
        HtmlPart: '<p>{{name}}</p>',
      },
      ResponseMetadata: { RequestId: 'x' },
    },
    name: 'SesV1',
    values: { name: '<A>' },
    subject: 'Hi <A>',
    html: '<p>&lt;A&gt;</p>',
    text: 'Dear <A>',
  },
  {
    service: 'ses',
    content: { TemplateName: 'SesV2', TemplateContent: { Subject: 'S', Html: '{{#unless x}}none{{/unless}}' } },
    name: 'SesV2',
    values: { x: 0 },
    subject: 'S',
    html: 'none',
  },
  {
    service: 'postmark',
    content: {
      TemplateId: 1234,
      Name: 'Onboarding Email',
      Subject: 'Hi {{name}}',
      HtmlBody: '{{#company}}{{name}}{{/company}}{{^company}}no one{{/company}}',
      TextBody: '',
      AssociatedServerId: 1,
      Active: true,
      Alias: 'onboarding-v1',
      TemplateType: 'Standard',
      LayoutTemplate: null,
    },
    name: 'onboarding-v1',
    values: { company: { name: 'X' } },
    subject: 'Hi ',
    html: 'X',
  },
  {
    service: 'resend',
    content: {
      object: 'template',
      id: '34a080c9',
      alias: 'reset',
      name: 'Reset password',
      status: 'published',
      from: 'a@x.test',
      subject: 'Hi {{{NAME}}}',
      reply_to: null,
      html: '<p>{{{NAME}}} {{{PRICE}}}{{{OTHER|!}}}</p>',
      text: null,
      variables: [
        { id: '1', key: 'NAME', type: 'string', fallback_value: 'you' },
        { id: '2', key: 'PRICE', type: 'number', fallback_value: null },
      ],
      published_at: '2026-10-06 23:47:56+00',
    },
    name: 'reset',
    values: { PRICE: 3 },
    subject: 'Hi you',
    html: '<p>you 3!</p>',
  },
];

for (const one of CASES) {
  test(`${one.service}: the template ${one.name} renders identically after the import`, async () => {
    const args = [one.service, file(one.content)];
    const planned = await json(...args);
    assert.deepEqual(planned.templates.added, [one.name]);
    assert.equal(planned.files[0].kind, 'templates');
    assert.equal(await named(one.name), undefined);
    const done = await json(...args, '--yes');
    assert.deepEqual([done.templates.added, done.templates.drafts, done.templates.refused], [[one.name], [], []]);
    const { templateId, publishedVersion } = (await named(one.name))!;
    assert.notEqual(publishedVersion, 0);
    const shown = await service.sandboxApi.post(`/templates/${templateId}/render`, { templateVariables: one.values });
    assert.equal(shown.body.html, one.html);
    assert.equal(shown.body.subject, one.subject);
    if (one.text !== undefined) assert.equal(shown.body.text, one.text);
    const again = await json(...args, '--yes');
    assert.deepEqual([again.templates.added, again.templates.present], [[], [one.name]]);
    assert.equal((await named(one.name))!.version, 1);
  });
}

test('--replace creates a new version of an existing template, which is kept otherwise', async () => {
  await json('mailgun', file({ items: [mailgun('replaced', 'one')] }), '--yes');
  const next = file({ items: [mailgun('replaced', 'two {{x}}'), mailgun('beside', 'new')] });
  const kept = await json('mailgun', next);
  assert.deepEqual([kept.templates.present, kept.templates.added], [['replaced'], ['beside']]);
  const done = await json('mailgun', next, '--replace', '--yes');
  assert.deepEqual([done.templates.replaced, done.templates.added], [['replaced'], ['beside']]);
  const { templateId, version } = (await named('replaced'))!;
  assert.equal(version, 2);
  const shown = await service.sandboxApi.get(`/templates/${templateId}`);
  assert.equal(shown.body.html, 'two {{ x | default: "" }}');
});

test('a construct that cannot be converted creates a draft and keeps the published version', async () => {
  await json('sendgrid', file(sendgrid('with partial', 'plain')), '--yes');
  const broken = file(sendgrid('with partial', '<p>\n{{> footer}}\n{{name}}</p>'));
  const ran = await run('sendgrid', broken, '--replace', '--yes');
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(ran.stdout, /1 of them as drafts: with partial/);
  assert.match(
    ran.stdout,
    /not converted\s+with partial, html, line 2: \{\{> footer\}\}: a template cannot include another/,
  );
  const { templateId, version, publishedVersion } = (await named('with partial'))!;
  assert.deepEqual([version, publishedVersion], [2, 1]);
  const { body } = await service.sandboxApi.get(`/templates/${templateId}`);
  assert.ok(String(body.html).includes('{% raw %}{{> footer}}{% endraw %}'), String(body.html));
  const legacy = await json('sendgrid', file({ ...sendgrid('legacy', 'Hi -name-'), generation: 'legacy' }), '--yes');
  assert.deepEqual(legacy.templates.drafts, ['legacy']);
  assert.equal((await named('legacy'))!.publishedVersion, 0);
});

const resend = (alias: string, more: object) => ({
  object: 'template',
  id: '34a080c9',
  alias,
  name: alias,
  status: 'published',
  from: null,
  subject: 'S',
  reply_to: null,
  html: '<p>x</p>',
  text: null,
  variables: [],
  ...more,
});

test('a draft stays a draft, and inactive templates are skipped with the reason', async () => {
  const drafts = [resend('unpublished', { status: 'draft', published_at: null }), resend('live', {})];
  const done = await json('resend', file(drafts.map((one) => JSON.stringify(one)).join('')), '--yes');
  assert.deepEqual([done.templates.added, done.templates.drafts], [['unpublished', 'live'], ['unpublished']]);
  assert.equal((await named('unpublished'))!.publishedVersion, 0);
  assert.notEqual((await named('live'))!.publishedVersion, 0);
  const page = { TemplateId: 1, Name: 'Old', Alias: 'inactive', TemplateType: 'Standard', Subject: 'S', HtmlBody: 'x' };
  const inactive = await json('postmark', file({ ...page, Active: false }), '--yes');
  assert.deepEqual(inactive.skipped, [{ reason: 'templates that are not active', rows: 1 }]);
  const version = await json('mailgun', file({ template: mailgun('inactive', 'x', { active: false }) }), '--yes');
  assert.deepEqual(version.skipped, [{ reason: 'template versions that are not active', rows: 1 }]);
  assert.equal(await named('inactive'), undefined);
});

test('a default sender, which Postrider does not store with a template, is listed as a check', async () => {
  const senders = { from: 'Shop <a@x.test>', reply_to: ['b@x.test', 'c@x.test'] };
  const { stdout } = await run('resend', file(resend('with sender', senders)));
  assert.match(
    stdout,
    /check\s+with sender, from: Shop <a@x\.test>: the default sender is not imported; set from in each/,
  );
  assert.match(stdout, /check\s+with sender, replyTo: b@x\.test, c@x\.test: the default reply address is not imported/);
  const headers = { Subject: 'S', From: 'a@x.test', 'Reply-To': 'b@x.test' };
  const done = await json('mailgun', file({ items: [mailgun('with headers', 'x', { headers })] }), '--yes');
  const found = done.templates.checks.map(({ part, what }: Record<string, string>) => [part, what]);
  assert.deepEqual(found, [
    ['from', 'a@x.test'],
    ['replyTo', 'b@x.test'],
  ]);
  assert.deepEqual([done.templates.added, done.templates.drafts], [['with headers'], []]);
});

test('an unreadable template is skipped and named with its part and line', async () => {
  const content = {
    items: [
      mailgun('unbalanced', '\n{{#if a}}x'),
      mailgun('tpl_x', 'x'),
      mailgun('fine', 'x'),
      mailgun('deep', '{{#if a}}'.repeat(60) + '{{/if}}'.repeat(60)),
      mailgun('long', '{{a}}'.repeat(200_000)),
      mailgun('much', `${'{{a_long_name_of_a_variable}}'.repeat(2_000)}`),
    ],
  };
  const done = await json('mailgun', file(content), '--yes');
  assert.deepEqual(done.templates.added, ['fine']);
  const problems = new Map(done.templates.refused.map(({ name, problem }: Record<string, string>) => [name, problem]));
  assert.match(String(problems.get('unbalanced')), /^html has a block that is not closed: \{\{#if a\}\} \(line 2\)$/);
  assert.match(String(problems.get('tpl_x')), /^name must not start with tpl_/);
  assert.match(String(problems.get('deep')), /deeper than 50/);
  assert.match(String(problems.get('long')), /10000 tags/);
  assert.match(String(problems.get('much')), /35000 characters in its tags/);
  for (const name of ['unbalanced', 'tpl_x', 'deep', 'long', 'much']) assert.equal(await named(name), undefined);
});

test('Postmark layouts are imported first, and templates without their layout are skipped', async () => {
  const base = { AssociatedServerId: 1, Active: true, TextBody: null };
  const page = {
    ...base,
    TemplateId: 1,
    Name: 'Page',
    Alias: 'page',
    TemplateType: 'Standard',
    LayoutTemplate: 'frame',
  };
  const templates = [
    { ...page, Subject: 'Hi', HtmlBody: 'Dear {{name}}' },
    {
      ...base,
      TemplateId: 2,
      Name: 'Frame',
      Alias: 'frame',
      TemplateType: 'Layout',
      HtmlBody: '<b>{{{@content}}}</b>{{shop}}',
    },
  ];
  const alone = await json('postmark', file(templates[0]));
  assert.match(alone.templates.refused[0].problem, /needs the layout "frame"/);
  const lines = templates.map((one) => JSON.stringify(one)).join('\n');
  const done = await json('postmark', file(lines), '--yes');
  assert.deepEqual(done.templates.added, ['frame', 'page']);
  const { templateId } = (await named('page'))!;
  const values = { templateVariables: { name: '<A>', shop: 'S' } };
  const shown = await service.sandboxApi.post(`/templates/${templateId}/render`, values);
  assert.equal(shown.body.html, '<b>Dear &lt;A&gt;</b>S');
});

test('a list without contents imports nothing and names the export to use', async () => {
  const lists: [service: string, content: unknown][] = [
    ['sendgrid', { result: [{ ...sendgrid('x', 'x'), versions: [{ id: 'v', active: 1, name: 'n' }] }], _metadata: {} }],
    [
      'postmark',
      { TotalCount: 1, Templates: [{ Active: true, TemplateId: 1, Name: 'x', Alias: 'x', TemplateType: 'Standard' }] },
    ],
    ['ses', { TemplatesMetadata: [{ Name: 'x', CreatedTimestamp: 1 }] }],
    ['mailgun', { items: [{ name: 'x', description: '', createdAt: 'x', createdBy: '', id: '1' }], paging: {} }],
    ['resend', { object: 'list', data: [{ id: '1', name: 'x', status: 'draft', published_at: null, alias: 'x' }] }],
  ];
  for (const [name, content] of lists) {
    const done = await json(name, file(content), '--yes');
    assert.deepEqual(done.templates.added, [], name);
    assert.match(done.skipped[0].reason, /without content/);
  }
  const twice = await run('mailgun', file({ items: [mailgun('a', '1'), mailgun('a', '2')] }), '--yes');
  assert.match(twice.stderr, /item 2: the name "a" is already used by another template/);
});
