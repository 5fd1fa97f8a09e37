/** Rejections of POST /send: every field, all issues together, in the order of validation. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { dataOf, GOOD, rowsOf, type SendOptions, type SendRig, sendRig, testAccount } from '../../test/kit/send-rig.ts';
import type { Failure } from '../base/failure.ts';

let rig: SendRig;
before(async () => {
  rig = await sendRig();
});
after(() => rig.close());

async function refused(body: unknown, options?: SendOptions): Promise<Failure> {
  const result = await rig.send(body, options);
  assert.ok(!result.ok, `was accepted: ${JSON.stringify(body).slice(0, 200)}`);
  return result.failure;
}

async function accepted(body: unknown, options?: SendOptions) {
  return dataOf(await rig.send(body, options));
}

const file = (changes: Record<string, unknown> = {}) => ({
  name: 'a.pdf',
  contentType: 'application/pdf',
  content: 'AAAA',
  ...changes,
});

/** The field that must be named, and what is wrong with the request. */
const REFUSED: [field: string, change: Record<string, unknown>][] = [
  ['from', { from: undefined }],
  ['from', { from: '' }],
  ['from', { from: 'nobody' }],
  ['from', { from: 'a@verified.example, b@verified.example' }],
  ['from', { from: 'Shop, Inc <a@verified.example>' }],
  ['from', { from: 7 }],
  ['to', { to: undefined }],
  ['to', { to: [] }],
  ['to', { to: '' }],
  ['to', { to: ',' }],
  ['to[1]', { to: ['a@example.com', 'b@'] }],
  ['to[0]', { to: [7] }],
  ['to', { to: Array.from({ length: 51 }, (_, i) => `a${i}@example.com`) }],
  ['cc', { cc: 'x@[127.0.0.1]' }],
  ['bcc', { bcc: '@a,@b:c@example.com' }],
  ['replyTo', { replyTo: 'a b' }],
  ['replyTo', { replyTo: Array.from({ length: 51 }, (_, i) => `a${i}@example.com`) }],
  ['headers.Reply-To', { headers: { 'Reply-To': Array.from({ length: 51 }, (_, i) => `a${i}@example.com`).join() } }],
  ['from', { from: 'A\u202enn <a@verified.example>' }],
  ['from', { from: '"ceo@bank.example" <a@verified.example>' }],
  ['subject', { subject: undefined }],
  ['subject', { subject: 'x'.repeat(999) }],
  ['subject', { subject: '\u{1f4e6}'.repeat(999) }],
  ['subject', { subject: '{{ s }}', templateVariables: { s: 'x'.repeat(999) } }],
  ['subject', { subject: '{{ s }}', templateVariables: { s: 'a\r\nBcc: x@example.com' } }],
  ['html', { text: undefined }],
  ['html', { text: undefined, html: '' }],
  ['text', { text: 5 }],
  ['templateId', { templateId: '' }],
  ['templateVariables', { templateVariables: 'x' }],
  ['templateVariables.o', { text: '{{ o }}', templateVariables: { o: {} } }],
  ['render', { render: 'false' }],
  ['missingVariables', { missingVariables: 'ignore' }],
  ['headers.X-A', { headers: { 'X-A': 1 } }],
  ['headers.X A', { headers: { 'X A': 'v' } }],
  ['headers.x-a', { headers: { 'X-A': '1', 'x-a': '2' } }],
  ['headers.Reply-To', { headers: { 'Reply-To': 'a b' } }],
  ['headers.Reply-To', { headers: { 'Reply-To': '' } }],
  ['headers.Reply-To', { headers: { 'Reply-To': 'a@example.com\r\nBcc: x@example.com' } }],
  ['headers.reply-to', { headers: { 'Reply-To': 'a@example.com', 'reply-to': 'b@example.com' } }],
  ['headers.Reply-To', { replyTo: 'a@example.com', headers: { 'Reply-To': 'a@example.com' } }],
  ['headers', { headers: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`X-${i}`, 'v'])) }],
  ['headers', { headers: Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`X-${i}`, 'v'.repeat(9_000)])) }],
  ['attachments[0].name', { attachments: [file({ name: '../a.pdf' })] }],
  ['attachments[0].name', { attachments: [file({ name: 'a\\b.pdf' })] }],
  ['attachments[0].name', { attachments: [file({ name: '' })] }],
  ['attachments[0].name', { attachments: [file({ name: 'é'.repeat(128) })] }],
  ['attachments[0].contentType', { attachments: [file({ contentType: 'pdf' })] }],
  ['attachments[0].content', { attachments: [file({ content: 'AAA' })] }],
  ['attachments[0].content', { attachments: [file({ content: 'AA\nAAA=' })] }],
  ['attachments[0].content', { attachments: [file({ content: 'AAAA\nAA A' })] }],
  ['attachments[0].content', { attachments: [file({ content: 'AAAA\tAAAA' })] }],
  ['attachments[0].content', { attachments: [file({ content: 'AA-_' })] }],
  ['attachments[0].content', { attachments: [file({ content: 'A===' })] }],
  ['attachments[0].content', { attachments: [file({ content: 'AA==AAAA' })] }],
  ['attachments[0].content', { attachments: [{ name: 'a', contentType: 'a/b' }] }],
  ['attachments[0].extra', { attachments: [file({ extra: 1 })] }],
  ['attachments[1].contentId', { attachments: [file({ contentId: 'a' }), file({ contentId: 'a' })] }],
  ['attachments[0].contentId', { attachments: [file({ contentId: 'a b' })] }],
  ['attachments', { attachments: Array.from({ length: 101 }, () => file()) }],
  ['cc', { attachmentSubmissionId: 'sub_x', cc: 'b@example.com' }],
  ['bcc', { attachmentSubmissionId: 'sub_x', bcc: ['b@example.com'] }],
  ['to', { attachmentSubmissionId: 'sub_x', to: ['a@example.com', 'b@example.com'] }],
  ['attachments', { attachmentSubmissionId: 'sub_x', attachments: [file()] }],
  ['attachmentSubmissionId', { attachmentSubmissionId: 5 }],
  ['tags[0]', { tags: ['a b'] }],
  ['tags[0]', { tags: ['x'.repeat(65)] }],
  ['tags', { tags: Array.from({ length: 11 }, (_, i) => `t${i}`) }],
  ['metadata', { metadata: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`k${i}`, 'v'])) }],
  ['metadata.k', { metadata: { k: 1 } }],
  ['metadata.k', { metadata: { k: 'v'.repeat(10_001) } }],
  [`metadata.${'k'.repeat(256)}`, { metadata: { ['k'.repeat(256)]: 'v' } }],
  ['metadata.k\u0007', { metadata: { 'k\u0007': 'v' } }],
  ['sendAt', { sendAt: 'tomorrow' }],
  ['sendAt', { sendAt: '2026-11-21T10:00:00' }],
  ['sendAt', { sendAt: '2026-12-20T09:44:00.001Z' }],
  ['expiresAfterSeconds', { expiresAfterSeconds: 59 }],
  ['expiresAfterSeconds', { expiresAfterSeconds: 259_201 }],
  ['expiresAfterSeconds', { expiresAfterSeconds: 60.5 }],
  ['retainContent', { retainContent: '90d' }],
  ['enableClickTracking', { enableClickTracking: 'yes' }],
  ['enableOpenTracking', { enableOpenTracking: 1 }],
  ['listUnsubscribe', { listUnsubscribe: true, headers: { 'List-Unsubscribe': '<https://x.test/>' } }],
  ['listUnsubscribe', { listUnsubscribe: true, headers: { 'list-unsubscribe-post': 'List-Unsubscribe=One-Click' } }],
  ['requireTls', { requireTls: 1 }],
  ['requireTls', { requireTls: 'yes' }],
  ['colour', { colour: 'red' }],
];

test('every field is validated and named in its issue', async (t) => {
  for (const [field, change] of REFUSED) {
    const { code, details } = await refused({ ...GOOD, ...change });
    assert.equal(code, 'INVALID_REQUEST', `${field}: ${JSON.stringify(change).slice(0, 80)}`);
    assert.ok(
      details.some((issue) => issue.field === field),
      `${field} is not among ${JSON.stringify(details)}`,
    );
    for (const issue of details) assert.ok(issue.message.length > 5);
  }
  t.diagnostic(`${REFUSED.length} requests`);
  assert.deepEqual(await rowsOf(rig, 'SELECT seq FROM email'), [], 'nothing was stored');
});

test('structural, trace, and authentication headers are rejected in any case', async () => {
  for (const name of [
    'From',
    'to',
    'CC',
    'Bcc',
    'Date',
    'Message-ID',
    'Subject',
    'Sender',
    'Reply-To',
    'Received',
    'DKIM-Signature',
    'ARC-Seal',
    'Authentication-Results',
    'Return-Path',
    'Content-Type',
    'content-transfer-encoding',
    'MIME-Version',
    'Resent-To',
    'X-Postrider-Tag',
    'Idempotency-Key',
  ]) {
    const { code, details } = await refused({ ...GOOD, headers: { [name]: 'x' } });
    assert.equal(code, 'INVALID_REQUEST', name);
    assert.equal(details[0]?.field, `headers.${name}`);
  }
});

test('line breaks, NUL, and similar characters are rejected in every header value', async () => {
  for (const evil of ['\r\n', '\n', '\r', '\0', '\u0085', '\u2028', '\u2029', '\u000b']) {
    const value = `a${evil}b`;
    const changes: Record<string, unknown>[] = [
      { from: `"${value}" <shop@verified.example>` },
      { from: `a${evil}@verified.example` },
      { from: `shop@verified.example${evil}` },
      { to: `${value} <a@example.com>` },
      { to: [`a@example.com${evil}`] },
      { cc: `"${value}" <a@example.com>` },
      { bcc: `a${evil}@example.com` },
      { replyTo: `${value} <a@example.com>` },
      { subject: value },
      { subject: `{{s}}${value}`, templateVariables: { s: 1 } },
      { subject: '{{ s }}', templateVariables: { s: value } },
      { headers: { 'X-A': value } },
      { headers: { [`X-${value}`]: 'v' } },
      { attachments: [file({ name: `${value}.pdf` })] },
      { attachments: [file({ contentType: `application/pdf${evil}` })] },
      { attachments: [file({ contentId: value })] },
      { metadata: { [value]: 'v' } },
      { tags: [value] },
    ];
    for (const change of changes) {
      const { code } = await refused({ ...GOOD, ...change });
      assert.equal(code, 'INVALID_REQUEST', JSON.stringify(change));
    }
  }
  assert.deepEqual(await rowsOf(rig, 'SELECT seq FROM email'), []);
});

test('all issues are listed, not only the first', async () => {
  const { details } = await refused({
    from: 'x',
    to: ['a', 'b'],
    headers: { To: 'x' },
    attachments: [file({ content: '*' })],
    tags: [],
  });
  assert.deepEqual(
    details.map((issue) => issue.field),
    ['from', 'to[0]', 'to[1]', 'headers.To', 'attachments[0].content', 'subject', 'html'],
  );
  const besideMalformed: [change: Record<string, unknown>, fields: string[]][] = [
    [{ cc: 7, to: ['a@example.com', 'b'] }, ['cc', 'to[1]']],
    [{ cc: 7, to: 'b' }, ['cc', 'to']],
    [{ templateId: 7, subject: 'a\nb' }, ['templateId', 'subject']],
    // A malformed field may be the one that seems to be missing.
    [{ cc: 7, to: undefined }, ['cc']],
    [{ text: 7 }, ['text']],
    [{ templateId: 7, subject: undefined, text: undefined }, ['templateId']],
    [{ to: [7] }, ['to[0]']],
    // The valid elements of a list are checked and keep their index.
    [{ to: ['ok@example.com', 5, 'bad'] }, ['to[1]', 'to[2]']],
    [
      { attachments: [file({ content: '***' }), { ...file(), name: undefined }] },
      ['attachments[1].name', 'attachments[0].content'],
    ],
    [
      {
        attachments: [
          { ...file({ name: 'a/b', contentType: 'bad', content: '***' }), extra: 1 },
          7,
          file({ name: 'x.exe' }),
        ],
      },
      [
        'attachments[0].extra',
        'attachments[1]',
        'attachments[0].name',
        'attachments[0].contentType',
        'attachments[0].content',
        'attachments[2]',
      ],
    ],
    [{ attachments: [file({ name: 'x.exe', content: '***' })] }, ['attachments[0].content', 'attachments[0]']],
    // A malformed list can have more issues than the field that seems to be missing.
    [{ to: [Array.from({ length: 51 }, (_, i) => `a${i}@x.example`).join(','), 5] }, ['to[1]', 'to']],
    // If there are too many elements, each one is still validated.
    [
      { metadata: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [i === 3 ? 'a\nb' : `m${i}`, 'x'])) },
      ['metadata', 'metadata.a\nb'],
    ],
  ];
  for (const [change, fields] of besideMalformed) {
    const named = (await refused({ ...GOOD, ...change })).details.map((issue) => issue.field);
    assert.deepEqual(named, fields, JSON.stringify(change));
  }
});

test('a duplicate JSON key is reported once and not as missing', async () => {
  const rest = '"from":"shop@verified.example","subject":"s"';
  const bodies: [body: string, fields: string[]][] = [
    [`{${rest},"to":"a@example.com","text":"Hi","text":""}`, ['text']],
    [`{${rest},"cc":["a@example.com"],"cc":[],"text":"Hi"}`, ['cc']],
    [`{${rest},"to":"a@example.com","text":"a","text":"b","text":"c"}`, ['text']],
    [`{${rest},"to":"nobody","text":"Hi","text":""}`, ['text', 'to']],
    // More invalid elements than are reported, some of which already have an issue for a duplicate key.
    [
      `{${rest},"to":"x","to":[${Array(30).fill('{}')}],"text":"t","cc":["a@x.example",${Array(120).fill('false')}]}`,
      ['to', ...Array.from({ length: 70 }, (_, i) => `cc[${i + 1}]`)],
    ],
  ];
  for (const [body, fields] of bodies) {
    const { details } = await refused(body);
    assert.deepEqual(
      details.map((issue) => issue.field),
      fields,
      body,
    );
  }
});

test('templates that do not parse are reported together with all other issues', async () => {
  const broken = { ...GOOD, to: 'nobody', tags: ['?'], text: '{{b', html: '{% if %}' };
  const { code, details } = await refused(broken);
  assert.equal(code, 'INVALID_REQUEST');
  assert.deepEqual(
    [...new Set(details.map((issue) => issue.field))],
    ['tags[0]', 'to', 'html', 'text'],
    JSON.stringify(details),
  );
  assert.equal(details.find((issue) => issue.field === 'text')?.line, 1);
  const literal = await refused({ ...broken, render: false });
  assert.deepEqual(
    literal.details.map((issue) => issue.field),
    ['tags[0]', 'to'],
  );
  const entries = await refused({ ...GOOD, metadata: { a: 1, 'b\u0007': 'x' }, headers: { 'X-A': 1, 'X B': 'v' } });
  assert.deepEqual(entries.details.map((issue) => issue.field).sort(), [
    'headers.X B',
    'headers.X-A',
    'metadata.a',
    'metadata.b\u0007',
  ]);
});

test('executables are rejected by extension and by type', async () => {
  for (const one of [file({ name: 'run.EXE' }), file({ contentType: 'application/x-msdownload' })]) {
    const { code, details } = await refused({ ...GOOD, attachments: [file(), one] });
    assert.equal(code, 'UNSUPPORTED_FILE_TYPE');
    assert.equal(details[0]?.field, 'attachments[1]');
  }
});

test('missing variables are rejected by name, left empty, or kept', async () => {
  const body = { ...GOOD, subject: 'Hi {{ name }}', html: '<p>{{ order.id }}</p>', text: '{{ name }}' };
  const failure = await refused(body);
  assert.equal(failure.code, 'TEMPLATE_VARIABLE_MISSING');
  assert.deepEqual(
    failure.details.map((issue) => issue.field),
    ['templateVariables.name', 'templateVariables.order.id'],
  );
  assert.match(failure.message, /render: false/);
  await accepted({ ...body, missingVariables: 'empty' });
  await accepted({ ...body, missingVariables: 'keep' });
  await accepted({ ...body, render: false });
  await accepted(body, { account: testAccount('acc_test', { missingVariables: 'empty' }) });
  const subjects = (await rowsOf<{ subject: string }>(rig, 'SELECT subject FROM email ORDER BY seq')).map(
    (row) => row.subject,
  );
  assert.deepEqual(subjects, ['Hi ', 'Hi {{ name }}', 'Hi {{ name }}', 'Hi ']);
});

test('a request is validated in order: form, sender, submission, size', async () => {
  const big = 'x'.repeat(2_000_001);
  const all = { ...GOOD, from: 'a@other.example', text: big, attachmentSubmissionId: 'sub_unknown' };
  assert.equal((await refused({ ...all, tags: ['?'] })).code, 'INVALID_REQUEST');
  assert.equal((await refused({ ...all, subject: '{{ x }}' })).code, 'SENDER_NOT_VERIFIED');
  assert.equal((await refused({ ...all, text: 'x', subject: '{{ x }}' })).code, 'TEMPLATE_VARIABLE_MISSING');
  assert.equal((await refused(all)).code, 'SENDER_NOT_VERIFIED');
  assert.equal((await refused({ ...all, from: GOOD.from })).code, 'SUBMISSION_NOT_FOUND');
  assert.equal((await refused({ ...GOOD, text: big })).code, 'EMAIL_SIZE_EXCEEDED');
  await accepted({ ...GOOD, from: 'a@other.example' }, { mode: 'sandbox' });
});

test('an account can have a default sender', async () => {
  const account = testAccount('acc_test', { defaultFrom: 'Default <d@verified.example>' });
  assert.equal((await accepted({ ...GOOD, from: undefined }, { account })).from, 'Default <d@verified.example>');
});

test('the complete email is limited to 2,000,000 bytes', async () => {
  const sizeOf = async (text: string) => {
    const data = await accepted({ ...GOOD, text });
    const [row] = await rowsOf<{ size_bytes: number }>(
      rig,
      `SELECT size_bytes FROM email e JOIN message m ON m.email_seq = e.seq WHERE m.id = '${data.messageId}'`,
    );
    return row!.size_bytes;
  };
  const line = `${'x'.repeat(70)}\n`;
  const text = line.repeat(20_000);
  const rest = 2_000_000 - (await sizeOf(text));
  const lines = Math.floor(rest / 72);
  const fitting = line.repeat(20_000 + lines) + 'x'.repeat(rest - lines * 72);
  // The last line may need a line break, so the exact text is found with the computed size.
  let exact = fitting;
  while ((await rig.send({ ...GOOD, text: exact })).ok === false) exact = exact.slice(0, -1);
  assert.equal(await sizeOf(exact), 2_000_000);
  const failure = await refused({ ...GOOD, text: `${exact}x` });
  assert.equal(failure.code, 'EMAIL_SIZE_EXCEEDED');
  assert.match(failure.message, /2000001 bytes.*2000000 bytes/);
});

test('hostile keys and values do not pollute prototypes', async () => {
  await refused(
    '{"from":"a@verified.example","to":"a@example.com","subject":"x","text":"x","__proto__":{"polluted":1}}',
  );
  await refused({ ...GOOD, text: '{{ constructor.constructor }}{{ __proto__.polluted }}' });
  assert.equal(({} as { polluted?: number }).polluted, undefined);
});

test('an error is small for any input and parses no more than necessary', async () => {
  const commas = Array.from({ length: 200 }, () => ','.repeat(60_000));
  const sameAddress = Array.from({ length: 200 }, () => 'a@example.com,'.repeat(500).slice(0, -1));
  const names = Array.from({ length: 450 }, (_, i) => `{{ ${'v'.repeat(60)}${i} }}`).join('');
  const hostile: [change: Record<string, unknown>, details: number][] = [
    [{ to: commas }, 100],
    [{ cc: commas, bcc: commas, replyTo: commas }, 100],
    [{ replyTo: commas }, 100],
    [{ to: ['"'.repeat(63_999), ...commas] }, 100],
    [{ to: ',' }, 1],
    [{ to: sameAddress }, 1],
    [{ replyTo: sameAddress }, 1],
    [{ text: names }, 100],
  ];
  for (const [change, count] of hostile) {
    const { message, details } = await refused({ ...GOOD, ...change });
    assert.equal(details.length, count, Object.keys(change).join());
    assert.ok(message.length <= 2_001, `${message.length} characters`);
    assert.ok(JSON.stringify(details).length < 60_000);
  }
  assert.match((await refused({ ...GOOD, to: sameAddress })).details[0]!.message, /more than 1000 addresses/);
  await accepted({ ...GOOD, to: Array.from({ length: 900 }, (_, i) => `A${i % 50}@example.com`) });
  await accepted({ ...GOOD, replyTo: Array.from({ length: 50 }, (_, i) => `a${i}@example.com`) });
});
