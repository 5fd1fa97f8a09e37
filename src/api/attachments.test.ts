/** POST /attachments and GET /attachments/{submissionId} over real HTTP with a real database. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../../test/kit/api.ts';
import { manifestEntry, someBytes } from '../../test/kit/upload.ts';
import { type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';
import { leastEmailBytes } from '../attachments/register.ts';

const MINUTES = 60_000;
let app: UploadApp;
before(async () => {
  app = await uploadApp();
});
after(() => app.close());

const bytes = someBytes(1_000);
const entry = manifestEntry(bytes);
const code = (answer: { status: number; body: JsonObject }): string => `${answer.status} ${answer.body.error?.code}`;
let accounts = 0;
/** Every test has its own accounts. */
const someAccount = (): string => {
  accounts += 1;
  return `acc_${accounts}`;
};

test('a submission has exactly the documented fields, with one upload per file in order', async () => {
  const before = app.clock.now();
  const account = someAccount();
  const answer = await app.register(account, [entry, manifestEntry(bytes, { contentType: 'text/csv; charset=utf-8' })]);
  assert.equal(answer.status, 201, answer.text);
  const { body } = answer;
  assert.deepEqual(Object.keys(body), [
    'attachmentSubmissionId',
    'expiresAt',
    'attachmentUploads',
    'maximumFinalMimeBytes',
  ]);
  assert.match(body.attachmentSubmissionId, /^sub_[0-9A-Za-z]{21}$/);
  assert.equal(body.expiresAt, before + 15 * MINUTES);
  assert.equal(body.maximumFinalMimeBytes, 40_000_000);
  assert.deepEqual(
    body.attachmentUploads.map((one: JsonObject) => [Object.keys(one), one.requiredHeaders]),
    [
      [['uploadUrl', 'requiredHeaders'], { 'Content-Type': 'application/pdf' }],
      [['uploadUrl', 'requiredHeaders'], { 'Content-Type': 'text/csv; charset=utf-8' }],
    ],
  );
  const state = await app.state(account, body.attachmentSubmissionId);
  assert.deepEqual(state.body, {
    attachmentSubmissionId: body.attachmentSubmissionId,
    expiresAt: body.expiresAt,
    status: 'open',
    files: Array.from({ length: 2 }, () => ({ name: 'report.pdf', sizeBytes: 1_000, status: 'waiting' })),
  });
});

test('JSON errors are reported together with all other issues', async () => {
  const api = app.api(someAccount());
  const file = JSON.stringify(entry);
  const bodies: [body: string, fields: string[]][] = [
    [`{"attachments":[${file}],"attachments":[${file}]}`, ['attachments']],
    [`{"attachments":[${file.replace('report', 'rep\\u0000ort')}]}`, ['attachments[0].name']],
    [`{"attachments":[${file.replace('{', '{"name":"a/b",')}]}`, ['attachments[0].name']],
    [
      `{"attachments":[${file},${JSON.stringify({ ...entry, contentType: 'x' })}],"\\ud800":1}`,
      ['\ud800', 'attachments[1].contentType'],
    ],
  ];
  for (const [body, fields] of bodies) {
    const { status, body: refusal, text } = await api.post('/attachments', body);
    assert.equal(status, 400, text);
    const named = new Set(refusal.error.details.map((issue: JsonObject) => issue.field));
    assert.deepEqual([...named], fields, text);
  }
});

test('an invalid manifest is rejected with all issues, and nothing is created', async () => {
  const account = someAccount();
  const api = app.api(account);
  const bad = await api.post('/attachments', {
    attachments: [
      { ...entry, sha256: 'x' },
      { ...entry, name: '../x' },
    ],
    to: 'a@b.cd',
  });
  assert.equal(code(bad), '400 INVALID_REQUEST');
  assert.deepEqual(bad.body.error.details.map((one: JsonObject) => one.field).sort(), [
    'attachments[0].sha256',
    'attachments[1].name',
    'to',
  ]);
  assert.equal(code(await app.register(account, [])), '400 INVALID_REQUEST');
  assert.equal(code(await app.register(account, Array(11).fill(entry))), '400 INVALID_REQUEST');
  assert.equal(code(await app.register(account, [{ ...entry, name: 'run.exe' }])), '400 UNSUPPORTED_FILE_TYPE');
  assert.equal(code(await api.post('/attachments', '{')), '400 INVALID_REQUEST');
  assert.equal(code(await api.post('/attachments')), '400 INVALID_REQUEST');
  assert.equal(code(await app.register(account, [entry], 'x'.repeat(256))), '400 INVALID_REQUEST');
  const text = await api.call({
    method: 'POST',
    path: '/attachments',
    body: '{}',
    headers: { 'content-type': 'text/plain' },
  });
  assert.equal(code(text), '415 UNSUPPORTED_MEDIA_TYPE');
});

test('files must fit the approved limit together with the smallest email, to the byte', async () => {
  const account = someAccount();
  const item = (sizeBytes: number) => ({ ...entry, sizeBytes });
  const sizeAt = (limit: number): number => {
    let sizeBytes = Math.floor((limit - 1_500) / 78) * 57;
    while (leastEmailBytes([item(sizeBytes + 1)]) <= limit) sizeBytes += 1;
    return sizeBytes;
  };
  for (const limit of [2_000_000, 10_000_001, 40_000_000]) {
    app.approve(limit);
    const fits = sizeAt(limit);
    assert.equal((await app.register(account, [item(fits)])).status, 201, `${fits} bytes within ${limit}`);
    const over = await app.register(account, [item(fits + 1)]);
    assert.equal(code(over), '413 EMAIL_SIZE_EXCEEDED');
    assert.match(over.body.error.message, new RegExp(`at least ${leastEmailBytes([item(fits + 1)])} bytes.*${limit}`));
  }
  assert.equal(code(await app.register(account, [item(Number.MAX_SAFE_INTEGER)])), '413 EMAIL_SIZE_EXCEEDED');
  const least = leastEmailBytes([item(1_000_000), item(2_000_000)]);
  app.approve(least - 1);
  assert.equal(code(await app.register(account, [item(1_000_000), item(2_000_000)])), '413 EMAIL_SIZE_EXCEEDED');
  app.approve(40_000_000);
});

test('the same key and manifest return the same submission, with new URLs only after expiry', async () => {
  const account = someAccount();
  const first = await app.register(account, [entry], 'key-1');
  assert.equal(first.headers['idempotent-replayed'], undefined);
  const again = await app.register(account, [{ ...entry, sha256: entry.sha256.toUpperCase() }], 'key-1');
  assert.equal(again.status, 201);
  assert.deepEqual(again.body, first.body);
  assert.equal(again.headers['idempotent-replayed'], 'true');
  assert.equal(code(await app.register(account, [entry, entry], 'key-1')), '422 IDEMPOTENCY_KEY_REUSED');

  app.clock.advance(15 * MINUTES);
  const [old] = first.body.attachmentUploads;
  const late = await app.put({ url: old.uploadUrl, headers: old.requiredHeaders, body: bytes });
  assert.equal(code(late), '403 UPLOAD_URL_INVALID');
  const refreshed = await app.register(account, [entry], 'key-1');
  assert.equal(refreshed.status, 201);
  assert.equal(refreshed.body.attachmentSubmissionId, first.body.attachmentSubmissionId);
  assert.equal(refreshed.body.expiresAt, app.clock.now() + 15 * MINUTES);
  const [fresh] = refreshed.body.attachmentUploads;
  assert.notEqual(fresh.uploadUrl, old.uploadUrl);
  // The old URL is invalid regardless of the clock.
  app.clock.advance(-10 * MINUTES);
  assert.equal(
    code(await app.put({ url: old.uploadUrl, headers: old.requiredHeaders, body: bytes })),
    '403 UPLOAD_URL_INVALID',
  );
  app.clock.advance(10 * MINUTES);
  assert.equal((await app.put({ url: fresh.uploadUrl, headers: fresh.requiredHeaders, body: bytes })).status, 200);
  assert.equal(app.stored().length, 1);
});

test('every call without a key creates a submission, and keys are scoped to account and mode', async () => {
  const [one, two] = [someAccount(), someAccount()];
  const answers = [
    await app.register(one, [entry]),
    await app.register(one, [entry]),
    await app.register(one, [entry], 'k'),
    await app.register(one, [entry], 'k', 'sandbox'),
    await app.register(two, [entry, entry], 'k'),
  ];
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [201, 201, 201, 201, 201],
  );
  assert.equal(new Set(answers.map((answer) => answer.body.attachmentSubmissionId)).size, 5);
});

test('a request is rejected while another one with the same key is in progress', async () => {
  const account = someAccount();
  const key = { accountId: account, mode: 'live' as const, endpoint: '/attachments', key: 'busy' };
  app.inFlight.take(key);
  const busy = await app.register(account, [entry], 'busy');
  assert.equal(code(busy), '409 DUPLICATE_REQUEST_IN_PROGRESS');
  app.inFlight.release(key);
  assert.equal((await app.register(account, [entry], 'busy')).status, 201);
  const many = await Promise.all(Array.from({ length: 8 }, () => app.register(account, [entry], 'at once')));
  const made = many.filter((answer) => answer.status === 201);
  assert.equal(new Set(made.map((answer) => answer.body.attachmentSubmissionId)).size, 1);
  assert.ok(many.every((answer) => answer.status === 201 || code(answer) === '409 DUPLICATE_REQUEST_IN_PROGRESS'));
});

test('a rejected request does not use its key', async () => {
  const account = someAccount();
  app.approve(2_000_000);
  const large = { ...entry, sizeBytes: 3_000_000 };
  assert.equal(code(await app.register(account, [large], 'mended')), '413 EMAIL_SIZE_EXCEEDED');
  assert.equal(code(await app.register(account, [{ ...entry, sizeBytes: -1 }], 'mended')), '400 INVALID_REQUEST');
  assert.equal((await app.register(account, [entry], 'mended')).status, 201);
  app.approve(40_000_000);
});

test('an unknown submission, or one of another account or mode, is not found', async () => {
  const [one, two] = [someAccount(), someAccount()];
  const { attachmentSubmissionId: id } = (await app.register(one, [entry])).body;
  const unknown = await app.state(one, 'sub_000000000000000000000');
  const foreign = await app.state(two, id);
  const otherMode = await app.api(one, 'sandbox').get(`/attachments/${id}`);
  for (const answer of [unknown, foreign, otherMode]) {
    assert.equal(code(answer), '404 SUBMISSION_NOT_FOUND');
    assert.deepEqual(answer.body.error, unknown.body.error);
  }
});

test('a manifest accepted at the limit can be sent', async () => {
  const account = someAccount();
  const least = leastEmailBytes([entry]);
  app.approve(least - 1);
  assert.equal(code(await app.register(account, [entry])), '413 EMAIL_SIZE_EXCEEDED');
  app.approve(least);
  const { body } = await app.register(account, [entry], undefined, 'sandbox');
  const [{ uploadUrl: url, requiredHeaders: headers }] = body.attachmentUploads;
  assert.equal((await app.put({ url, headers, body: bytes })).status, 200);
  const mail = { from: 'a@b.c', to: 'a@b.c', subject: '', html: '{{x}}', templateVariables: { x: '' }, tags: ['t'] };
  const submission = { attachmentSubmissionId: body.attachmentSubmissionId };
  const dry = await app.api(account, 'sandbox').post('/send?dryRun=true', { ...mail, ...submission });
  assert.equal(dry.body.sizeBytes, least, dry.text);
  assert.equal((await app.api(account, 'sandbox').post('/send', { ...mail, ...submission })).status, 202);
  app.approve(40_000_000);
});

test('a retry succeeds even if the size limit has changed', async () => {
  const account = someAccount();
  const large = { ...entry, sizeBytes: 3_000_000 };
  const first = await app.register(account, [large], 'lowered');
  assert.equal(first.status, 201);
  app.approve(2_000_000);
  const again = await app.register(account, [large], 'lowered');
  assert.equal(again.status, 201, again.text);
  assert.deepEqual(again.body, first.body);
  const other = await app.register(account, [{ ...large, sizeBytes: 3_000_001 }], 'lowered');
  assert.equal(code(other), '422 IDEMPOTENCY_KEY_REUSED');
  assert.equal(code(await app.register(account, [{ ...large, sizeBytes: -1 }], 'lowered')), '400 INVALID_REQUEST');
  assert.equal(code(await app.register(account, [large], 'new')), '413 EMAIL_SIZE_EXCEEDED');
  assert.equal(code(await app.register(account, [large])), '413 EMAIL_SIZE_EXCEEDED');
  const huge = { ...entry, sizeBytes: Number.MAX_SAFE_INTEGER };
  assert.equal(code(await app.register(account, Array(10).fill(huge), 'huge')), '413 EMAIL_SIZE_EXCEEDED');
  app.clock.advance(15 * MINUTES);
  assert.equal((await app.register(account, [large], 'lowered')).status, 201, 'even with new URLs');
  app.approve(40_000_000);
});
