/** Static files: compressed as accepted, identified by ETag, and never read by request path. */
import assert from 'node:assert/strict';
import { get, type IncomingMessage } from 'node:http';
import { after, before, test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { httpShell, type Shell } from '../../test/kit/http-shell.ts';
import { staticRoutes } from './files.ts';

const TEXT = 'body { margin: 0 } '.repeat(100);
const IMAGE = Buffer.from([1, 2, 3]);
let shell: Shell;
let reads = 0;

before(async () => {
  const kept = { cacheControl: 'public, max-age=31536000, immutable' };
  const read = () => {
    reads += 1;
    if (reads === 1) throw new Error('the disk is away');
    return TEXT;
  };
  shell = await httpShell({
    more: staticRoutes([
      { path: '/files/a.css', contentType: 'text/css', read, headers: { 'Referrer-Policy': 'no-referrer' } },
      { path: '/files/b.png', contentType: 'image/png', read: async () => IMAGE, ...kept },
    ]),
  });
});
after(() => shell.close());

interface Got {
  status: number | undefined;
  headers: IncomingMessage['headers'];
  body: Buffer;
}

function ask(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> {
  return new Promise((resolve, reject) => {
    const request = get(`${shell.url}${path}`, { headers, method, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }),
      );
    });
    request.on('error', reject);
  });
}

test('a file that could not be read is read again on the next request, and then cached', async () => {
  assert.equal((await ask('/files/a.css')).status, 500);
  for (let visit = 0; visit < 3; visit += 1) assert.equal((await ask('/files/a.css')).body.toString(), TEXT);
  assert.equal(reads, 2);
});

test('text is compressed only for clients that accept it', async () => {
  const encodings = { br: brotliDecompressSync, gzip: gunzipSync };
  for (const [accepted, encoding] of [
    ['gzip, deflate, br', 'br'],
    ['GZIP;q=0.5, br;q=0', 'gzip'],
    ['gzip', 'gzip'],
    ['br;q=0, gzip;q=0.0', undefined],
    ['identity', undefined],
  ] as const) {
    const { headers, body } = await ask('/files/a.css', { 'Accept-Encoding': accepted });
    assert.equal(headers['content-encoding'], encoding, accepted);
    assert.equal(headers.vary, 'Accept-Encoding');
    assert.equal(headers['referrer-policy'], 'no-referrer');
    assert.equal(headers['cache-control'], 'no-cache');
    assert.equal((encoding === undefined ? body : encodings[encoding](body)).toString(), TEXT);
  }
  const image = await ask('/files/b.png', { 'Accept-Encoding': 'br' });
  assert.equal(image.headers['content-encoding'], undefined);
  assert.match(image.headers['cache-control'] ?? '', /immutable/);
  assert.deepEqual(image.body, IMAGE);
});

test('a client that has the current version gets 304', async () => {
  const { etag = '' } = (await ask('/files/a.css', { 'Accept-Encoding': 'br' })).headers;
  for (const known of [etag, `"other", W/${etag}`, '*']) {
    const again = await ask('/files/a.css', { 'Accept-Encoding': 'br', 'If-None-Match': known });
    assert.equal(again.status, 304, known);
    assert.equal(again.headers.etag, etag);
    assert.equal(again.headers['content-length'], undefined);
    assert.equal(again.body.length, 0);
  }
  const plain = await ask('/files/a.css', { 'If-None-Match': etag });
  assert.equal(plain.status, 200, 'another encoding is another representation');
  const head = await ask('/files/b.png', {}, 'HEAD');
  assert.deepEqual([head.status, head.headers['content-length'], head.body.length], [200, '3', 0]);
});

test('paths outside the list are unknown in any spelling', async () => {
  for (const path of [
    '/files/',
    '/files/c.css',

    '/files/%2e%2e/package.json',
    '/files//a.css',
  ])
    assert.equal((await ask(path)).status, 404, path);
  const posted = await ask('/files/a.css', {}, 'POST');
  assert.deepEqual([posted.status, posted.headers.allow], [405, 'GET, HEAD']);
});
