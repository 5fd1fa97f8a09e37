/** How the S3 client handles failing and misbehaving stores. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { againIfPaused, runningMs } from '../../../test/kit/running-time.ts';
import { refuse, type ScriptedRequest, type ScriptedS3, SECRET, scriptedS3 } from '../../../test/kit/scripted-s3.ts';
import { Unavailable } from '../../base/failure.ts';
import { S3Error } from './s3-client.ts';

type Script = (request: ScriptedRequest, response: ServerResponse) => void;

async function store(t: TestContext, script: Script, options?: Parameters<typeof scriptedS3>[1]): Promise<ScriptedS3> {
  const scripted = await scriptedS3(script, options);
  t.after(() => scripted.close());
  return scripted;
}

const KEY = `ab/${'k'.repeat(26)}`;
const CONTENT = randomBytes(300_000);
const troubled = (refused: boolean, words: RegExp) => (error: Error) => {
  assert.ok(error instanceof S3Error && error instanceof Unavailable, String(error));
  assert.equal(error.refused, refused, error.message);
  assert.match(error.message, words);
  assert.ok(!error.message.includes(SECRET) && !error.message.includes('\n'));
  return true;
};

test('SlowDown, 5xx, and closed connections are retried a few times with the same bytes', async (t) => {
  const { blobs, requests } = await store(t, ({ number }, response) => {
    if (number === 1) return refuse(response, 503, 'SlowDown');
    if (number === 2) return void response.destroy();
    if (number === 3) return refuse(response, 500, 'InternalError');
    response.setHeader('etag', '"x"').end();
  });
  await blobs.put(CONTENT);
  assert.equal(requests.length, 4);
  for (const { method, body, target } of requests) {
    assert.deepEqual([method, target], ['PUT', requests[0]!.target]);
    assert.deepEqual(body, CONTENT);
  }
});

test('content abandoned before its first piece frees its connection', async (t) => {
  const { blobs } = await store(t, (_request, response) =>
    response.setHeader('content-length', CONTENT.length).end(CONTENT),
  );
  // More requests than connections.
  for (let i = 0; i < 300; i += 1) (await blobs.read(KEY))!.destroy();
  assert.deepEqual(await blobs.get(KEY), CONTENT);
});

test('a persistent failure is Unavailable after a bounded number of attempts', async (t) => {
  const { blobs, requests } = await store(t, (_request, response) => refuse(response, 503, 'SlowDown', 'Reduce.'));
  await assert.rejects(blobs.put(CONTENT), troubled(false, /PutObject failed with 503 SlowDown Reduce\./));
  assert.equal(requests.length, 4);
});

test('a rejection is not retried, and its reason is reported in one line', async (t) => {
  const { blobs, requests } = await store(t, (_request, response) => {
    response.setHeader('x-amz-bucket-region', 'eu-central-1');
    refuse(response, 403, 'InvalidAccessKeyId', 'The key\n you gave &amp; its secret');
  });
  await assert.rejects(
    blobs.get(KEY),
    troubled(true, /403 InvalidAccessKeyId The key you gave & its secret \(.*eu-central-1\)$/),
  );
  assert.equal(requests.length, 1);
});

test('a redirect to another region is rejected and not followed', async (t) => {
  const { blobs, requests } = await store(t, (_request, response) => {
    response.writeHead(301, { location: '/elsewhere' }).end('<Error><Code>PermanentRedirect</Code></Error>');
  });
  await assert.rejects(blobs.put(CONTENT), troubled(true, /301 PermanentRedirect/));
  assert.equal(requests.length, 1);
});

test('a truncated body is retried in memory and an error in a stream, never a short blob', async (t) => {
  const { blobs, requests } = await store(t, ({ number }, response) => {
    response.writeHead(200, { 'content-length': CONTENT.length });
    if (number === 3) return void response.end(CONTENT);
    response.write(CONTENT.subarray(0, 200_000), () => response.destroy());
  });
  assert.deepEqual(await blobs.get(KEY), CONTENT);
  assert.equal(requests.length, 3);
  const stream = (await blobs.read(KEY))!;
  let bytes = 0;
  await assert.rejects(
    async () => {
      for await (const chunk of stream) bytes += (chunk as Buffer).length;
    },
    troubled(false, /GetObject got no complete response/),
  );
  assert.ok(bytes < CONTENT.length);
});

test('a body without a known length is not accepted as complete', async (t) => {
  const { blobs } = await store(t, (_request, response) => {
    response.socket!.end('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of it');
  });
  await assert.rejects(blobs.get(KEY), troubled(false, /has no length/));
});

test('a silent store times out', async (t) => {
  const { blobs } = await store(t, () => undefined, { answerMs: 200 });
  const startedMs = runningMs();
  await assert.rejects(blobs.get(KEY), troubled(false, /GetObject got no complete response/));
  assert.ok(runningMs() - startedMs < 10_000);
});

test('a store that sends byte by byte times out, but a slow reader does not', async (t) => {
  await againIfPaused(() => slowStoreAndSlowReader(t));
});

async function slowStoreAndSlowReader(t: TestContext): Promise<void> {
  let drip = true;
  const { blobs } = await store(
    t,
    (_request, response) => {
      response.writeHead(200, { 'content-length': CONTENT.length });
      if (!drip) return void response.end(CONTENT);
      const timer = setInterval(() => response.write('.'), 20);
      response.once('close', () => clearInterval(timer));
    },
    { answerMs: 300 },
  );
  await assert.rejects(blobs.get(KEY), troubled(false, /too slowly/));
  drip = false;
  let bytes = 0;
  for await (const chunk of (await blobs.read(KEY))!) {
    bytes += (chunk as Buffer).length;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.equal(bytes, CONTENT.length);
}

test('a missing bucket is not a missing blob', async (t) => {
  const { blobs } = await store(t, ({ method }, response) => {
    if (method === 'HEAD') response.writeHead(404).end();
    else refuse(response, 404, 'NoSuchBucket');
  });
  await assert.rejects(blobs.get(KEY), troubled(true, /404 NoSuchBucket/));
  await assert.rejects(blobs.read(KEY), troubled(true, /404 NoSuchBucket/));
  await assert.rejects(blobs.remove(KEY), troubled(true, /404 NoSuchBucket/));
  await assert.rejects(blobs.sizeOf(KEY), troubled(true, /404/));
});

test("requests are signed with the store's time if the clocks differ", async (t) => {
  const clock = fakeClock();
  const storeMs = clock.now() + 3 * 86_400_000;
  const { blobs, requests } = await store(
    t,
    (request, response) => {
      response.setHeader('date', new Date(storeMs).toUTCString());
      const signedAt = String(request.headers['x-amz-date']).replace(/(....)(..)(..T..)(..)(..Z)/, '$1-$2-$3:$4:$5');
      if (Math.abs(Date.parse(signedAt) - storeMs) > 900_000) return refuse(response, 403, 'RequestTimeTooSkewed');
      response.end();
    },
    { clock },
  );
  await blobs.put(CONTENT);
  assert.equal(requests.length, 2, 'learned from the first rejection');
  await blobs.put(CONTENT);
  assert.equal(requests.length, 3, 'and kept');
  const { url } = await blobs.presignPut({
    key: KEY,
    sizeBytes: 1,
    contentType: 'text/plain',
    sha256: Buffer.alloc(32),
    expiresInSeconds: 60,
    nowMs: clock.now(),
  });
  assert.match(url, /X-Amz-Date=20261123T0944/);
});

/** Multipart uploads as far as the script requires. `complete` answers their completion. */
function multipart(complete: Script, head: Script = (_request, response) => refuse(response, 404, 'x')): Script {
  return (request, response) => {
    const { method, target } = request;
    if (method === 'POST' && target.endsWith('?uploads=')) {
      response.setHeader('x', String(request.headers['x-amz-meta-write']));
      response.end('<InitiateMultipartUploadResult><UploadId>u&amp;1</UploadId></InitiateMultipartUploadResult>');
    } else if (method === 'PUT') response.setHeader('etag', `"e${request.body.length}"`).end();
    else if (method === 'POST') complete(request, response);
    else if (method === 'HEAD') head(request, response);
    else response.writeHead(204).end();
  };
}

const LARGE = randomBytes(16 * 1024 * 1024 + 5);
const DONE = '<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>';

test('a completion that returns 200 and then an error has failed', async (t) => {
  const { blobs, requests } = await store(
    t,
    multipart((_request, response) =>
      response.end('\n\n<Error><Code>InternalError</Code><Message>Late.</Message></Error>'),
    ),
  );
  await assert.rejects(blobs.put(LARGE), troubled(false, /CompleteMultipartUpload.*InternalError Late\./));
  assert.equal(requests.at(-1)!.method, 'DELETE', 'the upload is aborted');
  assert.match(requests.at(-1)!.target, /\?uploadId=u%261$/);
});

test('a lost reply to a completion is resolved by the mark on the object', async (t) => {
  for (const isDone of [true, false]) {
    let mark = '';
    const { blobs, requests } = await store(
      t,
      multipart(
        (request, response) => {
          assert.equal(
            String(request.body),
            '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&#34;e16777216&#34;</ETag></Part><Part><PartNumber>2</PartNumber><ETag>&#34;e5&#34;</ETag></Part></CompleteMultipartUpload>',
          );
          mark = String(requests[0]!.headers['x-amz-meta-write']);
          if (requests.filter((one) => one.method === 'POST').length === 2) return void response.destroy();
          refuse(response, 404, 'NoSuchUpload');
        },
        (_request, response) => response.setHeader('x-amz-meta-write', isDone ? mark : 'of another').end(),
      ),
    );
    if (isDone) await blobs.put(LARGE);
    else await assert.rejects(blobs.put(LARGE), troubled(true, /NoSuchUpload/));
    assert.ok(mark.length >= 20);
  }
});

test('a rejected part aborts the upload', async (t) => {
  const { blobs, requests } = await store(t, (request, response) => {
    if (request.method === 'PUT') return refuse(response, 403, 'AccessDenied');
    multipart((_request, done) => done.end(DONE))(request, response);
  });
  await assert.rejects(blobs.put(LARGE), troubled(true, /UploadPart failed with 403 AccessDenied/));
  assert.equal(requests.at(-1)!.method, 'DELETE');
});

test('a listing continues until the store reports its end and skips foreign names', async (t) => {
  const contents = (key: string): string =>
    `<Contents><Key>${key}</Key><LastModified>2026-11-20T09:44:00.000Z</LastModified></Contents>`;
  const keys = [1, 2, 3].map((n) => `ab/${String(n).repeat(26)}`);
  const { blobs, requests } = await store(t, ({ number }, response) => {
    const next =
      number === 1 ? '<IsTruncated>true</IsTruncated><NextContinuationToken>a&lt;/b+&#61;</NextContinuationToken>' : '';
    const own =
      number === 1
        ? contents(`a/${keys[0]}`)
        : keys
            .slice(1)
            .map((key) => contents(`a/${key}`))
            .join('');
    response.end(`<ListBucketResult>${next}${own}${contents('a/x&amp;y')}${contents('other/ab/x')}</ListBucketResult>`);
  });
  const found = await Array.fromAsync(blobs.list());
  assert.deepEqual(
    found.map(({ key }) => key),
    keys,
  );
  assert.equal(found[0]!.writtenAtMs, Date.UTC(2026, 10, 20, 9, 44));
  const query = new URLSearchParams(requests[1]!.target.split('?')[1]);
  assert.equal(query.get('continuation-token'), 'a</b+=');
  assert.equal(query.get('prefix'), 'a/');
});

test("unfinished uploads of blobs are aborted after an hour on the store's clock, but no uploads of other programs", async (t) => {
  const clock = fakeClock();
  const storeMs = Date.UTC(2026, 0, 5, 12);
  const upload = (key: string, agoMs: number): string =>
    `<Upload><Key>${key}</Key><UploadId>${agoMs}</UploadId><Initiated>${new Date(storeMs - agoMs).toISOString()}</Initiated></Upload>`;
  const { blobs, requests } = await store(
    t,
    ({ method }, response) => {
      response.setHeader('date', new Date(storeMs).toUTCString());
      if (method === 'DELETE') return void response.writeHead(204).end();
      response.end(
        `<ListMultipartUploadsResult>${upload(`a/${KEY}`, 3_601_000)}${upload(`a/${KEY}`, 3_599_000)}${upload(`b/${KEY}`, 9e6)}${upload(`a/backups/x`, 9e6)}${upload(`a/a/${KEY}`, 9e6)}</ListMultipartUploadsResult>`,
      );
    },
    { clock },
  );
  for (const jumpMs of [0, 3 * 86_400_000, -9 * 86_400_000]) {
    clock.advance(jumpMs);
    assert.equal(await blobs.removeUnfinished(), 1);
  }
  const removed = requests.filter(({ method }) => method === 'DELETE').map(({ target }) => target);
  assert.deepEqual(removed, Array(3).fill(`/box/a/${KEY}?uploadId=3601000`));
});

test('an upload that this process is writing is never aborted as unfinished', async (t) => {
  const storeMs = Date.UTC(2026, 0, 5, 12);
  const initiated = new Date(storeMs - 9e6).toISOString();
  const uploads = ['u&amp;1', 'crashed'].map(
    (id) => `<Upload><Key>a/${KEY}</Key><UploadId>${id}</UploadId><Initiated>${initiated}</Initiated></Upload>`,
  );
  const { blobs } = await store(t, (request, response) => {
    response.setHeader('date', new Date(storeMs).toUTCString());
    if (request.method !== 'GET') return multipart((_request, done) => done.end(DONE))(request, response);
    response.end(`<ListMultipartUploadsResult>${uploads.join('')}</ListMultipartUploadsResult>`);
  });
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield LARGE;
    assert.equal(await blobs.removeUnfinished(), 1);
    yield LARGE;
  }
  await blobs.putStream(slow(), { key: KEY });
  assert.equal(await blobs.removeUnfinished(), 2, 'the upload has ended');
});
