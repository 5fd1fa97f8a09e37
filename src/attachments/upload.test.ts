/** PUT to an upload URL over real HTTP: rejections before the body is read, and stored files. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, afterEach, before, test } from 'node:test';
import type { JsonObject } from '../../test/kit/api.ts';
import { speak } from '../../test/kit/http-shell.ts';
import { againIfPaused, runningMs } from '../../test/kit/running-time.ts';
import { manifestEntry, type PutAnswer, someBytes } from '../../test/kit/upload.ts';
import { type UploadApp, uploadApp } from '../../test/kit/upload-app.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';

const MINUTES = 60_000;
let app: UploadApp;
let accounts = 0;
let account = '';
/** Called with each piece that reaches the storage; may wait. */
let onPiece: () => Promise<void> = async () => {};

/** Storage that a test can delay. */
function observed(blobs: Blobs): Blobs {
  return {
    ...blobs,
    putStream: (source, options) => {
      async function* pieces() {
        for await (const piece of source) {
          await onPiece();
          yield piece;
        }
      }
      return blobs.putStream(pieces(), options);
    },
  };
}

before(async () => {
  app = await uploadApp({ around: observed });
});
after(() => app.close());
afterEach(() => {
  onPiece = async () => {};
});

/** Uses a separate app, because such short limits would fail the other tests on a slow machine. */
async function inHaste(run: () => Promise<void>): Promise<void> {
  const usual = app;
  app = await uploadApp({ rate: { stallMs: 400, graceMs: 600, bytesPerSecond: 1_000_000 }, around: observed });
  try {
    await againIfPaused(run);
  } finally {
    await app.close();
    app = usual;
  }
}

const code = (answer: { status: number; body: JsonObject }): string => `${answer.status} ${answer.body.error?.code}`;

interface Open {
  id: string;
  url: string;
  headers: Record<string, string>;
}

/** Creates an open submission of one file, in a new account. */
async function open(bytes: Buffer, contentType = 'application/pdf'): Promise<Open> {
  accounts += 1;
  account = `acc_${accounts}`;
  const { body } = await app.register(account, [manifestEntry(bytes, { contentType })]);
  const [upload] = body.attachmentUploads;
  return { id: body.attachmentSubmissionId, url: upload.uploadUrl, headers: upload.requiredHeaders };
}

const statusOf = async (id: string): Promise<string> => (await app.state(account, id)).body.files[0].status;

async function storedBytes(id: string): Promise<Buffer | undefined> {
  await app.send(account, id);
  const job = app.offered.at(-1);
  return app.blobs.get(job?.options.files?.[0]?.blobKey ?? '');
}

test('an upload returns 200, stores the bytes, and can be repeated before the send', async () => {
  const bytes = someBytes(3_000_001);
  const { id, url, headers } = await open(bytes);
  const before = app.stored().length;
  for (let i = 0; i < 2; i += 1) {
    const answer = await app.put({ url, headers, body: bytes });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.text, '');
  }
  await waitUntil('the replaced blob to be removed', () => app.stored().length === before + 1);
  assert.equal(await statusOf(id), 'uploaded');
  assert.ok((await storedBytes(id))?.equals(bytes));
});

test('empty files and chunked bodies can be uploaded', async () => {
  const empty = await open(Buffer.alloc(0));
  assert.equal((await app.put({ url: empty.url, headers: empty.headers })).status, 200);
  assert.equal(await statusOf(empty.id), 'uploaded');
  const bytes = someBytes(300_000);
  const chunked = await open(bytes);
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += 7_001) yield bytes.subarray(at, at + 7_001);
  }
  assert.equal((await app.put({ url: chunked.url, headers: chunked.headers, body: pieces() })).status, 200);
  assert.ok((await storedBytes(chunked.id))?.equals(bytes));
});

test('100 Continue is sent only if the upload is accepted', async () => {
  const bytes = someBytes(100_000);
  const { url, headers } = await open(bytes);
  const refused = await app.put({ url, headers: {}, body: bytes, waitForContinue: true });
  assert.deepEqual([refused.status, refused.continued], [403, false]);
  const short = await app.put({ url, headers, body: bytes.subarray(1), waitForContinue: true });
  assert.deepEqual([short.status, short.continued], [422, false]);
  const accepted = await app.put({ url, headers, body: bytes, waitForContinue: true });
  assert.deepEqual([accepted.status, accepted.continued], [200, true]);
});

test('a changed URL returns 403, or 404 outside /uploads, and stores nothing', async () => {
  const bytes = someBytes(10);
  const { id, url, headers } = await open(bytes);
  const before = app.stored();
  const { pathname } = new URL(url);
  const tries: Promise<PutAnswer>[] = [];
  for (let at = 1; at < pathname.length; at += 1) {
    const other = pathname[at] === 'A' ? 'B' : 'A';
    const altered = new URL(pathname.slice(0, at) + other + pathname.slice(at + 1), url).href;
    tries.push(app.put({ url: altered, headers, body: bytes }));
  }
  const answers = await Promise.all(tries);
  const below = '/uploads/'.length - 1;
  assert.ok(answers.slice(0, below).every((answer) => answer.status === 404));
  const within = answers.slice(below);
  assert.deepEqual([...new Set(within.map(code))], ['403 UPLOAD_URL_INVALID']);
  for (const more of ['?x=1', '?', '%41'])
    assert.equal((await app.put({ url: url + more, headers, body: bytes })).status, 403);
  for (const method of ['POST', 'GET', 'DELETE']) {
    const answer = await app.put({ url, headers, method });
    assert.equal(answer.status, 405);
    assert.equal(answer.headers.allow, 'PUT');
  }
  assert.equal(await statusOf(id), 'waiting');
  assert.deepEqual(app.stored(), before);
});

test('the required headers must be present exactly once and unchanged', async () => {
  const bytes = someBytes(10);
  const { id, url } = await open(bytes, 'text/csv; charset=utf-8');
  const wrong: Record<string, string | string[]>[] = [
    {},
    { 'Content-Type': 'text/csv' },
    { 'Content-Type': 'text/csv; charset=UTF-8' },
    { 'Content-Type': 'application/json' },
    { 'Content-Type': ['text/csv; charset=utf-8', 'text/csv; charset=utf-8'] },
  ];
  for (const headers of wrong) {
    const answer = await app.put({ url, headers, body: bytes });
    assert.equal(code(answer), '403 UPLOAD_URL_INVALID', JSON.stringify(headers));
    assert.deepEqual(answer.body.error.details[0].field, 'Content-Type');
  }
  assert.equal(await statusOf(id), 'waiting');
  assert.equal(
    (await app.put({ url, headers: { 'content-type': 'text/csv; charset=utf-8' }, body: bytes })).status,
    200,
  );
});

test('a different Content-Length is rejected before the body is read', async () => {
  const bytes = someBytes(10);
  const { url } = await open(bytes);
  const { pathname } = new URL(url);
  for (const length of ['9', '11', '0', '99999999999']) {
    const head = `PUT ${pathname} HTTP/1.1\r\nHost: a\r\nContent-Type: application/pdf\r\nContent-Length: ${length}\r\n\r\n`;
    // The body is never sent, so the response depends on the headers only.
    const text = await speak(app.port, head, (received) => received.includes('UPLOAD_MISMATCH'));
    assert.match(text, /^HTTP\/1\.1 422 /);
  }
  const without = await app.put({ url, headers: { 'Content-Type': 'application/pdf' } });
  assert.equal(code(without), '422 UPLOAD_MISMATCH');
});

test('an invalid HTTP body returns 400, at its start and in the middle', async () => {
  const bytes = someBytes(200_000);
  const { id, url, headers } = await open(bytes);
  const before = app.stored();
  const head = `PUT ${new URL(url).pathname} HTTP/1.1\r\nHost: a\r\nContent-Type: ${headers['Content-Type']}\r\n`;
  const good = `1000\r\n${'x'.repeat(4_096)}\r\n`;
  for (const body of ['zz\r\n', `${good.repeat(20)}zz\r\n`]) {
    const text = await speak(app.port, `${head}Transfer-Encoding: chunked\r\n\r\n${body}`, () => false);
    assert.match(text, /^HTTP\/1\.1 400 [\s\S]*INVALID_REQUEST/);
  }
  assert.deepEqual(app.stored(), before);
  assert.equal(await statusOf(id), 'waiting');
});

test('uploads are rejected while the account is suspended, without revealing it for invalid URLs', async () => {
  const bytes = someBytes(10);
  const { id, url, headers } = await open(bytes);
  const direct = new DatabaseSync(path.join(app.temp.folder, 'postrider.db'), { timeout: 5_000 });
  const insert = `INSERT INTO account (id, name, plan, status, approved_email_bytes, settings, created_at)
    VALUES (?, 'a', 'paid', 'suspended', 2000000, '{}', 0)`;
  direct.prepare(insert).run(account);
  assert.equal(code(await app.put({ url, headers, body: bytes })), '403 ACCOUNT_SUSPENDED');
  const forged = url.slice(0, -1) + (url.endsWith('A') ? 'B' : 'A');
  assert.equal(code(await app.put({ url: forged, headers, body: bytes })), '403 UPLOAD_URL_INVALID');
  assert.equal(await statusOf(id), 'waiting');
  direct.prepare("UPDATE account SET status = 'active' WHERE id = ?").run(account);
  direct.close();
  assert.equal((await app.put({ url, headers, body: bytes })).status, 200);
});

test('wrong bytes return 422 and are not stored, even if the right ones already are', async () => {
  const bytes = someBytes(200_000);
  const { id, url, headers } = await open(bytes);
  const before = app.stored();
  const other = Buffer.from(bytes);
  other[100_000] = (other[100_000] ?? 0) ^ 1;
  assert.equal(code(await app.put({ url, headers, body: other })), '422 UPLOAD_MISMATCH');
  async function* short() {
    yield bytes.subarray(0, -1);
  }
  assert.equal(code(await app.put({ url, headers, body: short() })), '422 UPLOAD_MISMATCH');
  assert.deepEqual(app.stored(), before);
  assert.equal(await statusOf(id), 'waiting');
  assert.equal((await app.put({ url, headers, body: bytes })).status, 200);
  assert.equal(code(await app.put({ url, headers, body: other })), '422 UPLOAD_MISMATCH');
  assert.equal(app.stored().length, before.length + 1);
  assert.ok((await storedBytes(id))?.equals(bytes));
});

test('an endless body is cut off after the announced size', async () => {
  const bytes = someBytes(100_000);
  const { url, headers } = await open(bytes);
  const before = app.stored();
  let sent = 0;
  async function* endless() {
    for (;;) {
      sent += bytes.length;
      yield bytes;
      if (sent > 500_000_000) throw new Error('nobody cut it off');
    }
  }
  const answer = await app.put({ url, headers, body: endless() }).catch((error: Error) => error);
  if (!(answer instanceof Error)) assert.equal(code(answer), '422 UPLOAD_MISMATCH');
  assert.ok(sent < 400_000_000, `${sent} bytes were accepted`);
  assert.deepEqual(app.stored(), before);
});

test('an upload that stalls or is too slow returns 408 and stores nothing', () => inHaste(stallAndCrawl));

async function stallAndCrawl(): Promise<void> {
  const bytes = someBytes(2_000_000);
  const { id, url, headers } = await open(bytes);
  const before = app.stored();
  async function* stalled() {
    yield bytes.subarray(0, 1_000_000);
    await new Promise((resolve) => setTimeout(resolve, 3_000).unref());
  }
  const began = runningMs();
  const answers = await Promise.all([
    app.put({ url, headers: { ...headers, 'Content-Length': String(bytes.length) }, body: stalled() }),
    app.put({ url, headers: { ...headers, 'Content-Length': String(bytes.length) }, body: crawl(bytes) }),
  ]);
  assert.deepEqual(answers.map(code), ['408 INVALID_REQUEST', '408 INVALID_REQUEST']);
  assert.ok(runningMs() - began < 2_500);
  assert.deepEqual(app.stored(), before);
  assert.equal(await statusOf(id), 'waiting');
}

/** Sends one byte at a time without stalling. */
async function* crawl(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < 40; at += 1) {
    yield bytes.subarray(at, at + 1);
    await new Promise((resolve) => setTimeout(resolve, 100).unref());
  }
}

test("storage time does not count toward the client's time", () => inHaste(slowStorage));

async function slowStorage(): Promise<void> {
  const bytes = someBytes(2_000_000);
  const { url, headers } = await open(bytes);
  let held = 0;
  onPiece = async () => {
    held += 1;
    if (held <= 3) await new Promise((resolve) => setTimeout(resolve, 350));
  };
  assert.equal((await app.put({ url, headers, body: bytes })).status, 200);
  assert.ok(held >= 3);
}

test('an upload that started before the expiry can finish after it', async () => {
  const bytes = someBytes(500_000);
  const { id, url, headers } = await open(bytes);
  app.clock.advance(15 * MINUTES - 1);
  onPiece = async () => {
    onPiece = async () => {};
    app.clock.advance(1);
  };
  assert.equal((await app.put({ url, headers, body: bytes })).status, 200);
  assert.equal(await statusOf(id), 'uploaded');
  assert.equal(code(await app.put({ url, headers, body: bytes })), '403 UPLOAD_URL_INVALID');
  app.clock.advance(-MINUTES);
});

test('two simultaneous uploads leave one complete file, and an invalid one does not affect it', async () => {
  const bytes = someBytes(1_500_000);
  const { id, url, headers } = await open(bytes);
  const before = app.stored().length;
  const wrong = Buffer.from(bytes).fill(0, 700_000, 700_010);
  const bodies = [bytes, wrong, bytes, wrong, bytes];
  const answers = await Promise.all(bodies.map((body) => app.put({ url, headers, body })));
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [200, 422, 200, 422, 200],
  );
  await waitUntil('the losing blobs to be removed', () => app.stored().length === before + 1);
  assert.ok((await storedBytes(id))?.equals(bytes));
});

test('a file can have up to eight simultaneous uploads', async () => {
  const bytes = someBytes(1_000);
  const { url, headers } = await open(bytes);
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  onPiece = () => gate;
  const nine = Array.from({ length: 9 }, () => app.put({ url, headers, body: bytes }));
  // The other uploads cannot end before they are released.
  const refused = await Promise.race(nine);
  assert.equal(code(refused), '503 OVERLOADED');
  assert.ok(Number(refused.headers['retry-after']) > 0);
  release();
  const answers = await Promise.all(nine);
  assert.equal(answers.filter((answer) => answer.status === 200).length, 8);
  assert.equal((await app.put({ url, headers, body: bytes })).status, 200);
});

test('an upload that starts or ends after the send is rejected', async () => {
  const bytes = someBytes(400_000);
  const { id, url, headers } = await open(bytes);
  await app.put({ url, headers, body: bytes });
  let release = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  let began = false;
  onPiece = () => {
    began = true;
    return gate;
  };
  const stored = app.stored();
  const slow = app.put({ url, headers, body: bytes });
  await waitUntil('the upload to start', () => began);
  const sent = await app.send(account, id);
  assert.equal(sent.status, 202, sent.text);
  release();
  assert.equal(code(await slow), '403 UPLOAD_URL_INVALID');
  assert.equal(code(await app.put({ url, headers, body: bytes })), '403 UPLOAD_URL_INVALID');
  await waitUntil('the late bytes to be removed', () => app.stored().length === stored.length);
  const blobKey = app.offered.at(-1)?.options.files?.[0]?.blobKey ?? '';
  assert.ok((await app.blobs.get(blobKey))?.equals(bytes), 'the sent file is the earlier one');
});

test('a client that disconnects mid-upload stores nothing', async () => {
  const bytes = someBytes(1_000_000);
  const { id, url, headers } = await open(bytes);
  const before = app.stored();
  async function* dying() {
    yield bytes.subarray(0, 500_000);
    await waitUntil('the upload to be in progress', () => app.stored().length > before.length);
    throw new Error('the client dies');
  }
  await assert.rejects(app.put({ url, headers: { ...headers, 'Content-Length': '1000000' }, body: dying() }));
  await waitUntil('the remaining files to be removed', () => app.stored().length === before.length);
  assert.equal(await statusOf(id), 'waiting');
});
