/** The documentation for agents: search, pages, llms.txt, and the references of the skill. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { apiClient } from '../../test/kit/api.ts';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { indexDocs, readDocs } from './docs.ts';

const root = path.join(import.meta.dirname, '../..');
let app: InProcessApi;
before(async () => {
  app = await inProcessApi();
});
after(() => app.close());

test('a search finds the page about a topic', async () => {
  const index = indexDocs(await readDocs());
  for (const [query, page] of [
    ['verify webhook signature', 'guides/webhooks.md'],
    ['rotate DKIM key of a sending domain', 'guides/domains.md'],
    ['advance the sandbox clock', 'guides/sandbox.md'],
    ['POSTRIDER_MCP', 'guides/ai-agents.md'],
    ['move from resend', 'move/resend.md'],
    ['restore a backup', 'guides/backup.md'],
  ] as const) {
    const pages = index.find(query, 6).map((one) => one.page);
    assert.ok(pages.includes(page), `${query}: ${pages}`);
  }
  assert.deepEqual(index.find('zzzzqqq', 6), []);
});

test('llms.txt links every page, each is served as Markdown, and llms-full.txt has all of them', async () => {
  const api = apiClient(() => `http://127.0.0.1:${app.port}`);
  const list = await api.get('/llms.txt');
  assert.equal(list.status, 200);
  assert.match(list.headers['content-type']!, /^text\/plain/);
  const links = [...list.text.matchAll(/\]\((\/docs\/[^)]+)\)/g)].map(([, link]) => link!);
  const pages = await readDocs();
  assert.equal(links.length, pages.length);
  const full = await api.get('/llms-full.txt');
  for (const [index, link] of links.entries()) {
    const page = await api.get(link);
    assert.deepEqual([link, page.status, page.headers['content-type']], [link, 200, 'text/markdown; charset=utf-8']);
    assert.equal(page.text, pages[index]!.markdown);
    assert.ok(full.text.includes(page.text.trim()));
  }
  for (const link of [
    '/docs/guides/none.md',
    '/docs/decisions/0001-node-without-a-build.md',
    '/docs/..%2f/package.json',
  ])
    assert.equal((await api.get(link)).status, 404, link);
  api.close();
});

test('every file that the skill refers to exists', () => {
  const folder = path.join(root, 'skills/postrider');
  const skill = readFileSync(path.join(folder, 'SKILL.md'), 'utf8');
  assert.match(skill, /^---\nname: postrider\ndescription: .+\n---\n/);
  const references = [...skill.matchAll(/\]\((references\/[^)]+)\)/g)].map(([, link]) => link!);
  assert.equal(references.length, 5);
  for (const reference of references) {
    const text = readFileSync(path.join(folder, reference), 'utf8');
    for (const [page] of text.matchAll(/docs\/[\w/-]+\.md/g)) assert.ok(existsSync(path.join(root, page)), page);
  }
});
