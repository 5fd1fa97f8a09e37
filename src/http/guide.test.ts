/** The built documentation below /guide: pages without extension, folders, files, its policy, and the path of the base URL. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { httpShell, type Shell } from '../../test/kit/http-shell.ts';
import { guideRoutes } from './guide.ts';

const INLINE = "document.documentElement.classList.add('dark')";
const PAGE = `<html><link rel="stylesheet" href="/guide/assets/style.1.css"><script id="dark">${INLINE}</script></html>`;

async function guide(t: TestContext, { built = true, basePath = '' } = {}): Promise<Shell> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-guide-'));
  if (built) {
    for (const name of ['assets', 'guides', 'move']) mkdirSync(path.join(folder, name));
    for (const name of ['index', 'guides/send', 'move/index']) writeFileSync(path.join(folder, `${name}.html`), PAGE);
    writeFileSync(path.join(folder, 'assets/style.1.css'), "@font-face { src: url('/guide/assets/inter.woff2') }");
    writeFileSync(path.join(folder, 'assets/inter.woff2'), '/guide/ is no address in a font');
    writeFileSync(path.join(folder, 'notes.unknown'), 'not served');
  }
  const shell = await httpShell({ more: guideRoutes({ basePath, folder }) });
  t.after(async () => {
    await shell.close();
    rmSync(folder, { recursive: true });
  });
  return shell;
}

test('pages are served without an extension, under a policy that allows only their inline script', async (t) => {
  const { url } = await guide(t);
  const hash = createHash('sha256').update(INLINE).digest('base64');
  for (const at of ['/guide/', '/guide/guides/send', '/guide/move/']) {
    const answer = await fetch(url + at);
    assert.equal(answer.status, 200, at);
    assert.equal(await answer.text(), PAGE);
    assert.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8');
    const policy = answer.headers.get('content-security-policy')!;
    assert.ok(policy.includes(`script-src 'self' 'sha256-${hash}';`), policy);
  }
  for (const at of ['/guide/guides/send/', '/guide/guides', '/guide/notes.unknown', '/guide/../package.json'])
    assert.equal((await fetch(url + at)).status, 404, at);
});

test('a folder without a trailing slash is redirected because links are relative', async (t) => {
  const { url } = await guide(t, { basePath: '/mail' });
  for (const [from, to] of [
    ['/guide', '/mail/guide/'],
    ['/guide/move', '/mail/guide/move/'],
  ]) {
    const answer = await fetch(url + from, { redirect: 'manual' });
    assert.deepEqual([answer.status, answer.headers.get('location')], [308, to]);
  }
});

test('links start with the base path, and assets are cached indefinitely', async (t) => {
  const { url } = await guide(t, { basePath: '/mail' });
  assert.ok((await (await fetch(`${url}/guide/`)).text()).includes('href="/mail/guide/assets/style.1.css"'));
  const style = await fetch(`${url}/guide/assets/style.1.css`);
  assert.equal(await style.text(), "@font-face { src: url('/mail/guide/assets/inter.woff2') }");
  assert.match(style.headers.get('cache-control')!, /immutable/);
  const font = await fetch(`${url}/guide/assets/inter.woff2`);
  assert.equal(await font.text(), '/guide/ is no address in a font');
});

test('without a built site there are no routes', async (t) => {
  const { url } = await guide(t, { built: false });
  assert.equal((await fetch(`${url}/guide/`)).status, 404);
});
