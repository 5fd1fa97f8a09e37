/** Which JSON is compressed: long responses to GET, for clients that accept gzip. */
import assert from 'node:assert/strict';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { after, before, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { httpShell, type Shell } from '../../test/kit/http-shell.ts';
import { type CallerKey, defineRoute, type RouteDefinition } from './route.ts';

const LONG = { list: Array.from({ length: 200 }, (_, i) => ({ id: i, text: 'Zoë, ‘quoted’' })) };

function jsonRoute(method: 'GET' | 'POST', path: string, body: unknown): RouteDefinition<CallerKey> {
  return defineRoute({
    method,
    path,
    summary: 'Return JSON',
    tag: 'notes',
    access: { auth: 'none' },
    response: { status: 200 },
    handle: () => ({ ok: true, body }),
  });
}

let shell: Shell;
before(async () => {
  shell = await httpShell({
    more: [
      jsonRoute('GET', '/long', LONG),
      jsonRoute('GET', '/short', { text: 'short' }),
      jsonRoute('POST', '/long', LONG),
    ],
  });
});
after(() => shell.close());

function ask(
  method: string,
  path: string,
  acceptEncoding?: string,
): Promise<{ headers: IncomingHttpHeaders; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const headers = acceptEncoding === undefined ? {} : { 'Accept-Encoding': acceptEncoding };
    const sent = httpRequest(`${shell.url}${path}`, { method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ headers: response.headers, body: Buffer.concat(chunks) }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

test('long JSON is compressed for clients that accept gzip', async () => {
  const plain = await ask('GET', '/long');
  assert.deepEqual(JSON.parse(plain.body.toString()), LONG);
  assert.equal(plain.headers['content-encoding'], undefined);
  for (const accepted of ['gzip', 'deflate, GZIP;q=0.5, br']) {
    const { headers, body } = await ask('GET', '/long', accepted);
    assert.deepEqual([headers['content-encoding'], headers.vary], ['gzip', 'Accept-Encoding'], accepted);
    assert.equal(headers['content-length'], String(body.length));
    assert.ok(body.length < plain.body.length / 5, `${body.length} of ${plain.body.length} bytes`);
    assert.deepEqual(gunzipSync(body), plain.body);
  }
});

test('short JSON, POST responses, and responses without gzip support are not compressed', async () => {
  for (const [method, path, accepted] of [
    ['GET', '/short', 'gzip'],
    ['POST', '/long', 'gzip'],
    ['GET', '/long', 'br'],
    ['GET', '/long', 'gzip;q=0'],
    ['GET', '/long', 'identity'],
  ] as const) {
    const { headers, body } = await ask(method, path, accepted);
    assert.equal(headers['content-encoding'], undefined, `${method} ${path} ${accepted}`);
    assert.ok(JSON.parse(body.toString()));
  }
});
