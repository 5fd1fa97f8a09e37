/** The portal's page, its files, and its frames as a browser gets them; and the response if it was not built. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import { httpShell, type Shell } from '../../test/kit/http-shell.ts';
import { portalRoutes } from './portal.ts';

const SCRIPT = 'console.log(1);'.repeat(50);

async function portal(t: TestContext, { built, basePath = '' }: { built: boolean; basePath?: string }): Promise<Shell> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-portal-'));
  if (built) {
    mkdirSync(path.join(folder, 'assets'));
    writeFileSync(
      path.join(folder, 'index.html'),
      '<meta nonce="CSP-NONCE"><meta name="identity-provider" content="HAS-IDENTITY-PROVIDER"><meta name="base-path" content="BASE-PATH"><script src="./assets/index-1.js">',
    );
    writeFileSync(path.join(folder, 'icon.svg'), '<svg/>');
    writeFileSync(path.join(folder, 'assets/index-1.js'), SCRIPT);
    writeFileSync(path.join(folder, 'assets/index-1.js.br'), brotliCompressSync(SCRIPT));
  }
  const shell = await httpShell({ more: portalRoutes({ hasIdentityProvider: true, basePath, folder }) });
  t.after(async () => {
    await shell.close();
    rmSync(folder, { recursive: true });
  });
  return shell;
}

test('every page has a new nonce, under a policy without exceptions', async (t) => {
  const shell = await portal(t, { built: true });
  const nonces = new Set<string>();
  for (const at of [
    '/',
    '/sign-in',
    '/welcome',
    '/reset',
    '/shared',
    '/preview',
    '/app',
    '/app/',
    '/app/live',
    '/app/live/messages/msg_1',
  ]) {
    const answer = await fetch(shell.url + at);
    assert.equal(answer.status, 200, at);
    const policy = answer.headers.get('content-security-policy')!;
    const nonce = /style-src 'self' 'nonce-([\w+/=]{24})'/.exec(policy)![1]!;
    const html = await answer.text();
    assert.ok(html.includes(`nonce="${nonce}"`));
    assert.ok(html.includes('name="identity-provider" content="yes"'));
    assert.match(policy, /default-src 'none'; script-src 'self';/);
    assert.doesNotMatch(policy, /unsafe|https?:/);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.equal(answer.headers.get('x-frame-options'), 'DENY');
    nonces.add(nonce);
  }
  assert.equal(nonces.size, 10);
});

test('files are cacheable indefinitely, and no path reaches other files', async (t) => {
  const shell = await portal(t, { built: true });
  const answer = await fetch(`${shell.url}/assets/index-1.js`, { headers: { 'Accept-Encoding': 'gzip, br' } });
  assert.equal(await answer.text(), SCRIPT);
  assert.equal(answer.headers.get('content-encoding'), 'br');
  assert.equal(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable');
  for (const other of ['/assets/index-1.js.br', '/assets/index-0.js', '/assets/..%2Findex.html', '/index.html'])
    assert.equal((await fetch(shell.url + other)).status, 404, other);
});

test('email frames run no scripts and load nothing, except images in the image frame', async (t) => {
  const shell = await portal(t, { built: true });
  const policyOf = async (at: string) => (await fetch(shell.url + at)).headers.get('content-security-policy')!;
  const [closed, open] = [await policyOf('/app-frame'), await policyOf('/app-frame-with-images')];
  for (const policy of [closed, open]) {
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /sandbox allow-same-origin allow-popups/);
    assert.doesNotMatch(policy, /script-src|allow-scripts|allow-forms|allow-top-navigation/);
  }
  assert.match(closed, /img-src data:;/);
  assert.match(open, /img-src data: https: http:;/);
});

test('a portal that was not built returns 503 with the build command', async (t) => {
  const shell = await portal(t, { built: false });
  for (const at of ['/', '/sign-in', '/app/live/messages']) {
    const answer = await fetch(shell.url + at);
    assert.equal(answer.status, 503);
    assert.match(answer.headers.get('content-type') ?? '', /^text\/html/);
    const text = await answer.text();
    assert.match(text, /The portal is not built/);
    assert.match(text, /npm run build/);
  }
});

test('the page loads its files from below the base path', async (t) => {
  const shell = await portal(t, { built: true, basePath: '/tools/a&b' });
  const html = await (await fetch(`${shell.url}/app/live`)).text();
  assert.match(html, /<script src="\/tools\/a&#38;b\/assets\/index-1\.js">/);
  assert.match(html, /<meta name="base-path" content="\/tools\/a&#38;b">/);
  const plain = await (await fetch(`${(await portal(t, { built: true })).url}/`)).text();
  assert.match(plain, /<script src="\/assets\/index-1\.js">/);
  assert.match(plain, /<meta name="base-path" content="">/);
});
