/** Sends with stored templates: whose parts are used, validation, what is recorded, and that an email uses one version. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import PostalMime from 'postal-mime';
import { makeTemplate } from '../../test/kit/make-template.ts';
import { dataOf, GOOD, rowsOf, type SendOptions, type SendRig, sendRig, testAccount } from '../../test/kit/send-rig.ts';
import type { DryRun } from './dry-run.ts';

let rig: SendRig;
before(async () => {
  rig = await sendRig();
});
after(() => rig.close());

const { subject: _subject, text: _text, ...TO } = GOOD;

async function mailOf(body: object, options: SendOptions = {}) {
  const { messageId } = dataOf(await rig.send({ ...TO, ...body }, options));
  const job = rig.offered.find((one) => one.messageId === messageId);
  assert.ok(job?.content, 'was dispatched with its content');
  const { subject, html, text } = await PostalMime.parse(job.content);
  return { subject, html: html?.trimEnd(), text: text?.trimEnd() };
}

async function refused(body: object, options: SendOptions = {}) {
  const result = await rig.send({ ...TO, ...body }, options);
  assert.ok(!result.ok, 'was expected to be rejected');
  return result.failure;
}

test('a template is sent by ID or name, which the message records', async () => {
  const html = '<p>Hello {{ name }}</p>';
  const made = await makeTemplate(rig.database, { name: 'greeting', subject: 'Hi {{ name }}', html });
  const templateVariables = { name: '<Ann>' };
  for (const templateId of [made.id, 'greeting']) {
    const mail = await mailOf({ templateId, templateVariables });
    assert.deepEqual(mail, { subject: 'Hi <Ann>', html: '<p>Hello &lt;Ann&gt;</p>', text: 'Hello <Ann>' });
  }
  const rows = await rowsOf<{ template_id: string; template_version: number }>(
    rig,
    'SELECT template_id, template_version FROM email',
  );
  assert.deepEqual(
    rows.map((row) => ({ ...row })),
    [made.id, made.id].map((template_id) => ({ template_id, template_version: 1 })),
  );
});

test('parts in the request override those of the template and its layout', async () => {
  const layout = await makeTemplate(rig.database, {
    name: 'frame',
    html: '<b>{{ content }}</b>',
    text: '[{{ content }}]',
  });
  await makeTemplate(rig.database, { name: 'framed', subject: 'S', html: 'H{{ n }}', text: 'T', layoutId: layout.id });
  const use = { templateId: 'framed', templateVariables: { n: 1 } };
  assert.deepEqual(await mailOf(use), { subject: 'S', html: '<b>H1</b>', text: '[T]' });
  assert.deepEqual(await mailOf({ ...use, subject: 'own {{ n }}' }), {
    subject: 'own 1',
    html: '<b>H1</b>',
    text: '[T]',
  });
  assert.deepEqual(await mailOf({ ...use, html: 'own {{ n }}' }), { subject: 'S', html: 'own 1', text: '[T]' });
  assert.deepEqual(await mailOf({ ...use, text: 'own {{ n }}' }), { subject: 'S', html: '<b>H1</b>', text: 'own 1' });
  const literal = await mailOf({ ...use, render: false });
  assert.equal(literal.html, '<b>H{{ n }}</b>');
});

test('the subject comes from the request or the template', async () => {
  await makeTemplate(rig.database, { name: 'no subject', text: 'x' });
  const failure = await refused({ templateId: 'no subject' });
  assert.equal(failure.code, 'INVALID_REQUEST');
  assert.deepEqual(
    failure.details.map((issue) => issue.field),
    ['subject'],
  );
  assert.equal((await mailOf({ templateId: 'no subject', subject: 'own' })).subject, 'own');
});

test('an unknown template is not found, after form and sender are validated', async () => {
  const unknown = await refused({ templateId: 'nobody' });
  assert.equal(unknown.code, 'NOT_FOUND');
  assert.deepEqual(
    unknown.details.map((issue) => issue.field),
    ['templateId'],
  );
  await makeTemplate(rig.database, { accountId: 'acc_other', name: 'foreign', subject: 'x', text: 'x' });
  assert.deepEqual(await refused({ templateId: 'foreign' }), unknown);
  assert.equal((await refused({ templateId: 'nobody', to: 'x' })).code, 'INVALID_REQUEST');
  assert.equal((await refused({ templateId: 'nobody', from: 'a@other.example' })).code, 'SENDER_NOT_VERIFIED');
  assert.equal((await refused({ templateId: 'nobody', from: 'a@other.example' }, { dryRun: true })).code, 'NOT_FOUND');
  assert.equal((await refused({ templateId: 'nobody' }, { mode: 'sandbox' })).code, 'NOT_FOUND');
});

const DECLARED = [
  { name: 'name', type: 'string' as const, required: true },
  { name: 'nick', type: 'string' as const, required: false },
  { name: 'list', type: 'array' as const, required: false },
  { name: 'count', type: 'number' as const, required: false, default: 3 },
  { name: 'flag', type: 'boolean' as const, required: false, default: false },
  { name: 'company_address_html', type: 'string' as const, required: true },
];

test('declared variables have a type, required flag, and default, and can be nullable', async () => {
  const text =
    '{{ name }}|{{ nick }}|{{ nick | upcase }}|{% if nick %}n{% endif %}|{% for i in list %}{{ i }}{% endfor %}|{{ count }}|{{ flag }}|{{ company_address_html }}';
  await makeTemplate(rig.database, { name: 'declared', subject: 's', text, variables: DECLARED });
  const use = (templateVariables: object, more: object = {}) => ({
    templateId: 'declared',
    templateVariables,
    ...more,
  });
  const account = testAccount('acc_test', { variables: { company_address_html: 'Main St' } });
  assert.equal((await mailOf(use({ name: 'A' }), { account })).text, 'A|||||3|false|Main St');
  const all = { name: 'A', nick: 'b', list: [1, 2], count: 4, flag: true, company_address_html: 'x' };
  assert.equal((await mailOf(use(all))).text, 'A|b|B|n|12|4|true|x');
  assert.equal((await mailOf(use({ ...all, nick: null, count: null }))).text, 'A||||12|3|true|x');
  const wrong = await refused(use({ name: 1, nick: [], list: {}, count: '4', flag: 'true' }));
  assert.equal(wrong.code, 'INVALID_REQUEST');
  assert.deepEqual(
    wrong.details.map((issue) => issue.field),
    ['name', 'nick', 'list', 'count', 'flag'].map((name) => `templateVariables.${name}`),
  );
  for (const missingVariables of ['error', 'empty', 'keep']) {
    const missing = await refused(use({ nick: 'x' }, { missingVariables }));
    assert.equal(missing.code, 'TEMPLATE_VARIABLE_MISSING', missingVariables);
    assert.deepEqual(
      missing.details.map((issue) => issue.field),
      ['templateVariables.name'],
    );
    assert.match(missing.message, /render: false/);
  }
});

test('an unprinted required variable is also missing, and each is listed once', async () => {
  const variables = [{ name: 'a', type: 'string' as const, required: true }];
  await makeTemplate(rig.database, { name: 'required', subject: 's', text: '{{ b }}', variables });
  const missing = await refused({ templateId: 'required' });
  assert.deepEqual(
    missing.details.map((issue) => issue.field),
    ['templateVariables.a', 'templateVariables.b'],
  );
  assert.match(missing.message, /^The variables a, b have no value\. Add them to/);
  assert.doesNotMatch(missing.message, /missingVariables/, 'the setting does not apply to required variables');
  const alone = await refused({ templateId: 'required', templateVariables: { b: 1 } });
  assert.match(alone.message, /^The variable a has no value, and the template requires one\. Add it to/);
  for (const missingVariables of ['empty', 'keep']) {
    const still = await refused({ templateId: 'required', missingVariables });
    assert.equal(still.code, 'TEMPLATE_VARIABLE_MISSING');
    assert.deepEqual(
      still.details.map((issue) => issue.field),
      ['templateVariables.a'],
    );
  }
});

test('a template that exceeds the limits inside its layout is rejected, even without variables', async () => {
  const html = '{{ content }}';
  const layout = await makeTemplate(rig.database, { name: 'grown', html });
  await makeTemplate(rig.database, { name: 'inside', subject: 's', html: 'x'.repeat(50_000), layoutId: layout.id });
  await makeTemplate(rig.database, { name: 'grown', templateId: layout.id, html: html.repeat(50) });
  rig.clock.advance(1_000);
  for (const render of [true, false]) {
    const failure = await refused({ templateId: 'inside', render });
    assert.equal(failure.code, 'TEMPLATE_INVALID');
    assert.deepEqual(
      failure.details.map((issue) => issue.field),
      ['html'],
    );
  }
});

test('a dry run returns the same for a template as for any email', async () => {
  const variables = [{ name: 'a', type: 'string' as const, required: true }];
  const html = '<p>{{ a }}{{ b }}{{ company_address_html }}</p>';
  await makeTemplate(rig.database, { name: 'dry', subject: 's', html, variables });
  const result = await rig.send({ ...TO, templateId: 'dry' }, { dryRun: true });
  assert.ok(result.ok, JSON.stringify(result));
  const run = JSON.parse(result.value.json) as DryRun;
  assert.deepEqual(run.missingVariables, ['a', 'b']);
  assert.deepEqual(
    run.warnings.map((warning) => warning.code),
    ['TEMPLATE_VARIABLE_MISSING', 'NO_TEXT_PART', 'NO_UNSUBSCRIBE', 'COMPANY_ADDRESS_EMPTY'],
  );
});

test('the next send uses a changed template, and scheduled messages keep the old one', async () => {
  const made = await makeTemplate(rig.database, { name: 'changing', subject: 's', text: 'one' });
  const sendAt = new Date(rig.clock.now() + 3_600_000).toISOString();
  const scheduled = dataOf(await rig.send({ ...TO, templateId: 'changing', sendAt }));
  assert.equal((await mailOf({ templateId: made.id })).text, 'one');
  await makeTemplate(rig.database, { templateId: made.id, name: 'changed', subject: 's', text: 'two' });
  rig.templates.changed('acc_test');
  assert.equal((await mailOf({ templateId: made.id })).text, 'two');
  assert.equal((await mailOf({ templateId: 'changed' })).text, 'two');
  assert.equal((await refused({ templateId: 'changing' })).code, 'NOT_FOUND');
  const rows = await rowsOf<{ content: Uint8Array; template_version: number }>(
    rig,
    `SELECT e.content, e.template_version FROM email e JOIN message m ON m.email_seq = e.seq WHERE m.id = '${scheduled.messageId}'`,
  );
  assert.match(Buffer.from(rows[0]!.content).toString(), /\r\n\r\none\r\n$/);
  assert.equal(rows[0]!.template_version, 1);
});

test('a change on another node applies within a second', async () => {
  const made = await makeTemplate(rig.database, { name: 'elsewhere', subject: 's', text: 'one' });
  assert.equal((await mailOf({ templateId: made.id })).text, 'one');
  await makeTemplate(rig.database, { templateId: made.id, name: 'elsewhere', subject: 's', text: 'two' });
  rig.clock.advance(1_000);
  assert.equal((await mailOf({ templateId: made.id })).text, 'two');
});

test('all individual copies of an email use one template version', async () => {
  const text = '{{ unsubscribe_email_html }} v1';
  await makeTemplate(rig.database, { name: 'copies', subject: 'v1', text });
  const to = Array.from({ length: 10 }, (_, i) => `c${i}@example.com`);
  const { recipients } = dataOf(await rig.send({ ...TO, to, templateId: 'copies' }));
  const jobs = rig.offered.filter((job) => recipients.some((one) => one.messageId === job.messageId));
  assert.equal(new Set(jobs.map((job) => job.emailSeq)).size, 10);
  for (const job of jobs) assert.match(Buffer.from(job.content!).toString(), /v1/);
});

test('values are not expanded, and only given variables can be read', async () => {
  const html = '{{ a }}{{ constructor }}{{ a.__proto__ }}{{ b.toString }}';
  await makeTemplate(rig.database, { name: 'hostile', subject: '{{ a }}', html });
  const templateVariables = { a: '{{ b }}{% if true %}', b: { constructor: 'own' } };
  const mail = await mailOf({ templateId: 'hostile', templateVariables, missingVariables: 'empty' });
  assert.equal(mail.subject, '{{ b }}{% if true %}');
  assert.equal(mail.html, '{{ b }}{% if true %}');
  const failure = await refused({ templateId: 'hostile', templateVariables: { a: 'x\r\nBcc: y@example.com' } });
  assert.equal(failure.code, 'TEMPLATE_VARIABLE_MISSING');
  const injected = await refused({
    templateId: 'hostile',
    missingVariables: 'empty',
    templateVariables: { a: 'x\r\nBcc: y@example.com' },
  });
  assert.deepEqual(
    injected.details.map((issue) => issue.field),
    ['subject'],
  );
});

test('the sandbox prefers its own template to the live one, which live sends always use', async () => {
  const live = await makeTemplate(rig.database, { name: 'both', subject: 'live', text: 'live' });
  const frame = await makeTemplate(rig.database, { name: 'both frame', html: '[{{ content }}]' });
  const sandbox = { mode: 'sandbox' } as const;
  const own = await makeTemplate(rig.database, { ...sandbox, name: 'both', subject: 'own', text: 'own' });
  const framed = { subject: 's', html: 'x', layoutId: frame.id };
  const within = await makeTemplate(rig.database, { ...sandbox, name: 'within', ...framed });
  assert.equal((await mailOf({ templateId: 'both' })).subject, 'live');
  assert.equal((await mailOf({ templateId: 'both' }, sandbox)).subject, 'own');
  assert.equal((await mailOf({ templateId: own.id }, sandbox)).subject, 'own');
  assert.equal((await mailOf({ templateId: live.id }, sandbox)).subject, 'live');
  assert.equal((await mailOf({ templateId: 'within' }, sandbox)).html, '[x]');
  for (const templateId of [own.id, within.id, 'within']) {
    assert.equal((await refused({ templateId })).code, 'NOT_FOUND', templateId);
    const dry = await rig.send({ ...TO, templateId }, { dryRun: true });
    assert.equal(dry.ok, false);
  }
});
