/** What a first visit loads, of the page to sign in: at most 200 KB compressed; and at most 60 KB more for any other page (1 KB = 1,000 bytes). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signInAs, startBrowser } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';
import { everyPage, open, SEED_ENV, seed } from './every-page.ts';

const FIRST_LOAD_BYTES = 200_000;
const ROUTE_BYTES = 60_000;

test('pages are small', { skip: noBrowser(), timeout: 890_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService({ env: SEED_ENV });
  t.after(() => service.close());
  const operator = await setFirstPassword(service);
  const pages = everyPage(await seed(service)).filter((at) => /^\/app\/(live|operator)/.test(at));

  /** Compressed bytes of the portal's own files that a browser without a cache loads for a page. */
  const loadedBy = async (at: string): Promise<number> => {
    const visit = await visitors.visit(service.url);
    await signInAs(visit, operator);
    const sizes: Promise<number>[] = [];
    visit.page.on('response', (response) => {
      // The editor comes when the page of a template stands already.
      const isOwn = /\/assets\/(?!codemirror)|\/app\//.test(response.url());
      if (isOwn)
        sizes.push(
          response
            .request()
            .sizes()
            .then(({ responseBodySize }) => responseBodySize),
        );
    });
    await open(visit.page, at);
    const total = (await Promise.all(sizes)).reduce((sum, one) => sum + one, 0);
    await visit.context.close();
    return total;
  };
  const first = await loadedBy('/sign-in');
  t.diagnostic(`first load ${first} bytes`);
  assert.ok(first <= FIRST_LOAD_BYTES, `the first load has ${first} bytes`);
  const more = new Map<string, number>();
  for (const at of pages) more.set(at, (await loadedBy(at)) - first);
  const [[largest, bytes] = []] = [...more].sort((a, b) => b[1] - a[1]);
  t.diagnostic(`the most of a page: ${bytes} bytes for ${largest}`);
  const tooLarge = Object.fromEntries([...more].filter(([, of]) => of > ROUTE_BYTES));
  assert.deepEqual(tooLarge, {});
});
