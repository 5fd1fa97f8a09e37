/** A dry run reports what a send would do, and stores nothing. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeTemplate } from '../../test/kit/make-template.ts';
import {
  dataOf,
  GOOD,
  rowsOf,
  type SendOptions,
  type SendRig,
  sendRig,
  settle,
  testAccount,
} from '../../test/kit/send-rig.ts';
import { createUnsubscribeLinks } from '../engagement/engagement.ts';
import { createTokenAddresses } from '../mail/token-address.ts';
import { type DryRun, refusalAfter } from './dry-run.ts';

let rig: SendRig;
before(async () => {
  rig = await sendRig();
});
after(() => rig.close());

async function dry(body: unknown, options: SendOptions = {}): Promise<DryRun> {
  const result = await rig.send(body, { ...options, dryRun: true });
  assert.ok(result.ok, JSON.stringify(result));
  assert.equal(result.value.status, 200);
  return JSON.parse(result.value.json) as DryRun;
}

const codes = (run: DryRun): string[] => run.warnings.map((warning) => warning.code);

test('returns the email with its exact size and stores nothing', async () => {
  const html = '<p>Hi {{ name }}</p> {{ unsubscribe_email_html }}';
  const body = {
    ...GOOD,
    html,
    text: 'Hi {{ name }}',
    subject: 'For {{ name }}',
    templateVariables: { name: 'A & B' },
  };
  const run = await dry(body);
  assert.equal(run.subject, 'For A & B');
  assert.match(run.html!, /^<p>Hi A &amp; B<\/p> <a href="https:\/\/mail\.test\/unsubscribe\//);
  assert.equal(run.text, 'Hi A & B');
  assert.equal(run.limitBytes, 2_000_000);
  assert.deepEqual([run.suppressed, run.missingVariables, run.warnings], [[], [], []]);
  assert.deepEqual(await rowsOf(rig, 'SELECT seq FROM email'), []);
  const sent = dataOf(await rig.send(body));
  const [row] = await rowsOf<{ size_bytes: number }>(rig, 'SELECT size_bytes FROM email');
  assert.equal(run.sizeBytes, row!.size_bytes);
  assert.ok(sent.messageId);
});

test('reports missing variables, an unverified sender, and the size without an error', async () => {
  const run = await dry({ ...GOOD, from: 'a@other.example', text: '{{ a }}{{ b.c }} unsubscribe' });
  assert.deepEqual(run.missingVariables, ['a', 'b.c']);
  assert.deepEqual(codes(run), ['SENDER_NOT_VERIFIED', 'TEMPLATE_VARIABLE_MISSING']);
  assert.deepEqual(codes(await dry({ ...GOOD, text: `unsubscribe ${'x'.repeat(2_000_000)}` })), [
    'EMAIL_SIZE_EXCEEDED',
  ]);
  for (const warning of run.warnings) assert.ok(warning.message.length > 10 && warning.remedy.length > 10);
});

test('warns of a missing variable only if a send with the same setting is rejected', async () => {
  const accountOf = (missingVariables: 'error' | 'empty') => testAccount('acc_test', { missingVariables });
  const variables = [
    { name: 'name', type: 'string' as const, required: true },
    { name: 'city', type: 'string' as const, required: true },
  ];
  await makeTemplate(rig.database, {
    name: 'strict',
    subject: 'S',
    text: '{{ name }} {{ other }} unsubscribe',
    variables,
  });
  const { subject: _subject, text: _text, ...to } = GOOD;
  const plain = { ...GOOD, text: 'Hi {{ name }}! unsubscribe' };
  const strict = { ...to, templateId: 'strict' };
  const settingRemedy = /set missingVariables/;
  for (const [body, setting, warned, missing] of [
    [plain, 'error', ['name'], ['name']],
    [plain, 'empty', [], ['name']],
    [{ ...plain, missingVariables: 'empty' }, 'error', [], ['name']],
    [{ ...plain, missingVariables: 'keep' }, 'error', [], ['name']],
    [{ ...plain, missingVariables: 'error' }, 'empty', ['name'], ['name']],
    [strict, 'empty', ['name', 'city'], ['name', 'city', 'other']],
    [strict, 'error', ['name', 'city', 'other'], ['name', 'city', 'other']],
    [{ ...strict, templateVariables: { name: 'Ann', city: 'Rome' } }, 'empty', [], ['other']],
  ] as const) {
    const account = accountOf(setting);
    const run = await dry(body, { account });
    assert.deepEqual(run.missingVariables, missing);
    const warning = run.warnings.find((one) => one.code === 'TEMPLATE_VARIABLE_MISSING');
    assert.equal(
      warning?.message,
      warned.length === 0 ? undefined : `Variables without a value: ${warned.join(', ')}.`,
    );
    if (warning) assert.equal(settingRemedy.test(warning.remedy), body === plain || 'missingVariables' in body);
    assert.equal(refusalAfter(run)?.code, warning?.code);
    const sent = await rig.send(body, { account });
    assert.equal(sent.ok ? undefined : sent.failure.code, warning?.code, JSON.stringify(body));
  }
});

test('warns about problems that hurt delivery', async () => {
  const html = `<p>{{ company_address_html }}</p>${'<p>x</p>'.repeat(14_000)}`;
  assert.deepEqual(codes(await dry({ ...GOOD, text: undefined, html })), [
    'NO_TEXT_PART',
    'GMAIL_CLIPPING',
    'NO_UNSUBSCRIBE',
    'COMPANY_ADDRESS_EMPTY',
  ]);
  const account = testAccount('acc_test', { variables: { company_address_html: '1 Main St' } });
  const headers = { 'List-Unsubscribe': '<https://x.test/>' };
  const templateVariables = { company_address_html: '2 Side St' };
  assert.deepEqual(codes(await dry({ ...GOOD, html: '{{ company_address_html }}', headers, templateVariables })), []);
  assert.deepEqual(codes(await dry({ ...GOOD, html: '{{ company_address_html }}', headers }, { account })), []);
});

test('with inbound mail List-Unsubscribe includes an address, with or without https', async () => {
  const secretKey = Buffer.alloc(32, 1);
  for (const baseUrl of ['https://mail.test', 'http://mail.test']) {
    const links = createUnsubscribeLinks({ secretKey, baseUrl }, 'bounces.test');
    const other = await sendRig({ unsubscribeLinks: links });
    try {
      const sendAt = new Date(other.clock.now() + 20 * 86_400_000).toISOString();
      for (const [index, change] of [{}, { sendAt }].entries()) {
        const { messageId } = dataOf(await other.send({ ...GOOD, ...change, listUnsubscribe: true }));
        const rows = await rowsOf<{ content: Uint8Array }>(
          other,
          'SELECT content FROM email ORDER BY seq DESC LIMIT 1',
        );
        const header = Buffer.from(rows[0]!.content).toString().split('\r\n\r\n')[0]!;
        const value = /^List-Unsubscribe: ((?:.|\r\n )*)\r$/m.exec(header)![1]!.replaceAll('\r\n', '');
        const [, local] = /<mailto:([^@]+)@bounces\.test\?subject=unsubscribe>$/.exec(value)!;
        assert.ok(value.startsWith(`<${baseUrl}/unsubscribe/`), value);
        assert.equal(/^List-Unsubscribe-Post:/m.test(header), baseUrl.startsWith('https'));
        const leavesMs = other.clock.now() + index * 20 * 86_400_000;
        const tokens = createTokenAddresses(secretKey);
        assert.equal(
          tokens.open(local!, leavesMs + 89 * 86_400_000)?.messageId,
          messageId,
          'valid from the time of sending',
        );
      }
    } finally {
      await other.close();
    }
  }
});

test('one-click unsubscribe requires https, and the dry run reports if it is missing', async () => {
  const secretKey = Buffer.alloc(32, 1);
  for (const [baseUrl, has] of [
    ['https://mail.test', true],
    ['http://mail.test', false],
    ['http://localhost:3000', false],
  ] as const) {
    const other = await sendRig({ unsubscribeLinks: createUnsubscribeLinks({ secretKey, baseUrl }) });
    try {
      const body = { ...GOOD, listUnsubscribe: true };
      const shown = await other.send(body, { dryRun: true });
      assert.ok(shown.ok);
      const { warnings } = JSON.parse(shown.value.json) as { warnings: { code: string; remedy: string }[] };
      const warning = warnings.find((one) => one.code === 'LIST_UNSUBSCRIBE_NEEDS_HTTPS');
      assert.equal(warning === undefined, has, baseUrl);
      if (warning) assert.match(warning.remedy, /POSTRIDER_BASE_URL/);
      dataOf(await other.send(body));
      const header = Buffer.from(other.offered[0]!.content!).toString().split('\r\n\r\n')[0]!;
      assert.ok(
        header.includes(`\r\nList-Unsubscribe: <${baseUrl}/unsubscribe/`) ||
          header.includes(`\r\nList-Unsubscribe:\r\n <${baseUrl}/unsubscribe/`),
        baseUrl,
      );
      assert.equal(/^List-Unsubscribe-Post:/m.test(header), has, baseUrl);
    } finally {
      await other.close();
    }
  }
});

test('lists suppressed addresses, including simulated ones in the sandbox', async () => {
  const bounced = dataOf(await rig.send({ ...GOOD, to: 'Gone@example.com' }));
  await settle(rig, bounced.messageId, { to: 'bounced', suppress: { email: 'gone@example.com', untilMs: null } });
  const body = { ...GOOD, to: 'a@example.com', bcc: 'GONE@example.com' };
  assert.deepEqual((await dry(body)).suppressed, ['GONE@example.com']);
  assert.deepEqual((await dry(body, { mode: 'sandbox' })).suppressed, [], 'each mode has its own list');
  const sent = dataOf(await rig.send(body));
  assert.deepEqual(
    sent.recipients.map((one) => one.status),
    ['queued', 'suppressed'],
  );
  assert.equal(dataOf(await rig.send({ ...GOOD, to: 'gone@example.com' })).status, 'suppressed');
  const run = await dry({ ...GOOD, to: ['suppressed@example.com', 'a@example.com'] }, { mode: 'sandbox' });
  assert.deepEqual(run.suppressed, ['suppressed@example.com']);
});

test('rejects malformed requests', async () => {
  const result = await rig.send({ ...GOOD, to: 'x' }, { dryRun: true });
  assert.equal(!result.ok && result.failure.code, 'INVALID_REQUEST');
});

test('warns only about the domain of a live sender', async (t) => {
  const asked: string[] = [];
  const senderAdvice = async (accountId: string, domain: string) => {
    asked.push(`${accountId} ${domain}`);
    return [{ code: 'DKIM_RECORD_GONE', message: 'It is gone.', remedy: 'Publish it.' }];
  };
  const advised = await sendRig({ senderAdvice });
  t.after(() => advised.close());
  const codesOf = async (from: string, mode: 'live' | 'sandbox'): Promise<string[]> => {
    const result = await advised.send({ ...GOOD, from }, { mode, dryRun: true });
    assert.ok(result.ok);
    return codes(JSON.parse(result.value.json) as DryRun);
  };
  assert.ok((await codesOf('a@verified.example', 'live')).includes('DKIM_RECORD_GONE'));
  assert.ok(!(await codesOf('a@verified.example', 'sandbox')).includes('DKIM_RECORD_GONE'));
  const unverified = await codesOf('a@other.example', 'live');
  assert.ok(unverified.includes('SENDER_NOT_VERIFIED') && !unverified.includes('DKIM_RECORD_GONE'));
  assert.deepEqual(asked, [`${advised.account.id} verified.example`]);
});
