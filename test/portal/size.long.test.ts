/**
 * The compressed bytes of a first visit: at most 150 KB for the login page, and at most 266 KB for any other page (1 KB = 1,000 bytes).
 * While the overview loads, existing content does not move. Prints when the first page is painted on a slow processor, which no assertion
 * limits because it depends on the machine.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser, setFirstPassword, signInAs, startBrowser } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';
import { everyPage, open, SEED_ENV, seed } from './every-page.ts';

const FIRST_LOAD_BYTES = 150_000;
const PAGE_BYTES = 266_000;
const LAYOUT_SHIFT = 0.05;
const [SLOWER_BY, VISITS] = [4, 3];

/** Milliseconds from the start of the visit to the first and the largest paint. */
function paintsOf(page: Page): Promise<{ first: number; largest: number }> {
  return page.evaluate(`new Promise((resolve) => {
    const first = performance.getEntriesByName('first-contentful-paint')[0].startTime;
    // The first call has all earlier entries.
    new PerformanceObserver((list) => {
      resolve({ first, largest: list.getEntries().at(-1).startTime });
    }).observe({ type: 'largest-contentful-paint', buffered: true });
  })`);
}

const median = (values: readonly number[]): number =>
  Math.round(values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!);

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
      // The editor loads after the page of a template is displayed.
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
  const loaded = new Map<string, number>();
  for (const at of pages) loaded.set(at, await loadedBy(at));
  const [[largest, bytes] = []] = [...loaded].sort((a, b) => b[1] - a[1]);
  t.diagnostic(`the largest page: ${bytes} bytes for ${largest}`);
  const tooLarge = Object.fromEntries([...loaded].filter(([, of]) => of > PAGE_BYTES));
  assert.deepEqual(tooLarge, {});

  for (const viewport of [
    { width: 1280, height: 800 },
    { width: 390, height: 844 },
  ]) {
    const visit = await visitors.visit(service.url, { viewport });
    await signInAs(visit, operator);
    // The sandbox has an incident, which is displayed above everything else.
    await open(visit.page, '/app/sandbox');
    await visit.page.locator('canvas').first().waitFor();
    const shift = await visit.page.evaluate<number>(`new Promise((resolve) => {
      let sum = 0;
      new PerformanceObserver((list) => {
        for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) sum += value;
      }).observe({ type: 'layout-shift', buffered: true });
      // Earlier entries are delivered in a separate task.
      setTimeout(() => resolve(sum), 300);
    })`);
    t.diagnostic(`layout shift of the overview at ${viewport.width} px: ${shift}`);
    assert.ok(shift <= LAYOUT_SHIFT, `the overview moves by ${shift} while it loads`);
    await visit.context.close();
  }

  for (const at of ['/sign-in', '/app/live']) {
    const paints: { first: number; largest: number }[] = [];
    for (let visits = 0; visits < VISITS; visits += 1) {
      // A new context has an empty cache.
      const visit = await visitors.visit(service.url);
      if (at !== '/sign-in') await signInAs(visit, operator);
      const session = await visit.context.newCDPSession(visit.page);
      await session.send('Emulation.setCPUThrottlingRate', { rate: SLOWER_BY });
      await open(visit.page, at);
      paints.push(await paintsOf(visit.page));
      await visit.context.close();
    }
    const [first, largest] = [median(paints.map((one) => one.first)), median(paints.map((one) => one.largest))];
    t.diagnostic(
      `paints of ${at} with a processor ${SLOWER_BY} times slower: first ${first} ms, largest ${largest} ms`,
    );
  }
});
