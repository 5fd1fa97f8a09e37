/**
 * The static documentation site builds, has every page, finds them by search, and loads nothing from other hosts. Skipped without the
 * packages of site/, which `npm run docs:site` installs.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { guideRoutes } from '../../src/http/guide.ts';
import { noBrowser, startBrowser } from '../kit/browser.ts';
import { httpShell } from '../kit/http-shell.ts';
import { root } from './source-tree.ts';

const site = path.join(root, 'site');
const installed = existsSync(path.join(site, 'node_modules/vitepress'));

interface SearchIndex {
  loadJSON(json: string, options: object): { search(words: string, options: object): { id: string }[] };
}

/** Returns the pages for a query, best first, as the search box ranks them. */
async function searchOf(words: string): Promise<string[]> {
  const [file] = globSync('dist/assets/chunks/@localSearchIndexroot.*.js', { cwd: site });
  assert.ok(file, 'the site has a search index');
  const index = (await import(pathToFileURL(path.join(site, file)).href)) as { default: string };
  const library = path.join(site, 'node_modules/minisearch/dist/es/index.js');
  const { default: MiniSearch } = (await import(pathToFileURL(library).href)) as {
    default: SearchIndex;
  };
  const options = { fields: ['title', 'titles', 'text'], storeFields: ['title', 'titles'] };
  const boosted = { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } };
  return MiniSearch.loadJSON(index.default, options)
    .search(words, boosted)
    .map(({ id }) => id.split('#')[0]!)
    .filter((page, index, all) => all.indexOf(page) === index);
}

test('the site builds every page, and search finds them', {
  skip: !installed && 'the packages of site/ are not installed; npm run docs:site installs them',
  timeout: 300_000,
}, async (t) => {
  const env = { ...process.env, NODE_PATH: '' };
  execFileSync(process.execPath, [path.join(root, 'scripts/build-docs-site.ts')], { cwd: root, env, stdio: 'pipe' });
  const pages = globSync('docs/**/*.md', { cwd: root });
  assert.ok(pages.length > 60);
  for (const page of pages) {
    const html = path
      .join(site, 'dist', page.replace(/^docs\//, '').replace(/README\.md$/, 'index.md'))
      .replace(/\.md$/, '.html');
    assert.ok(existsSync(html), `${page} is in the site`);
    const loaded = [...readFileSync(html, 'utf8').matchAll(/<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"/g)];
    assert.deepEqual(loaded, [], `${page} loads nothing from other hosts`);
  }
  for (const [words, page] of [
    ['warm up new addresses', '/guide/guides/warm-up'],
    ['suppression list import', '/guide/guides/suppressions'],
    ['535', '/guide/guides/troubleshooting'],
  ] as const) {
    const found = await searchOf(words);
    assert.ok(found.slice(0, 10).includes(page), `${words}: ${found.slice(0, 10).join(', ')}`);
  }
  assert.deepEqual(await searchOf('zzzzqqqq'), [], 'control');
  await walk(t);
});

/** Visits the site as the service serves it: search, links within it, and a page that is opened by its address. */
async function walk(t: TestContext): Promise<void> {
  if (noBrowser()) return t.diagnostic('not walked through in a browser: chromium is not installed');
  const shell = await httpShell({ more: guideRoutes() });
  const visitors = await startBrowser();
  t.after(async () => {
    await visitors.close();
    await shell.close();
  });
  const { page, assertClean } = await visitors.visit(shell.url);
  await page.goto('/guide');
  await page.getByRole('link', { name: 'Quickstart' }).first().click();
  await page.waitForURL('**/guide/get-started/quickstart');
  await page.getByRole('button', { name: /Search/ }).click();
  await page.getByRole('searchbox').fill('warm up new addresses');
  await page.locator('.result', { hasText: 'Warm' }).first().click();
  await page.waitForURL('**/guide/guides/warm-up*');
  await page.goto('/guide/move');
  await page.locator('main').getByRole('link', { name: 'Resend', exact: true }).first().click();
  await page.waitForURL('**/guide/move/resend');
  await page.getByRole('heading', { level: 1 }).waitFor();
  await page.getByRole('link', { name: 'API reference' }).first().click();
  await page.waitForURL('**/guide/api/');
  await page.locator('#sendEmail .tabs').getByRole('button', { name: 'Go' }).click();
  await page.locator('#sendEmail [data-language=go]').waitFor();
  await page.getByRole('link', { name: 'OpenAPI document' }).click();
  await page.waitForURL('**/guide/openapi.json');
  assertClean();
}
