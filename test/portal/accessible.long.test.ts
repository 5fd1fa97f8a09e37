/** Every page of the portal in light and dark, at phone width and at 200 % zoom: axe finds no violations, and nothing scrolls sideways. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';
import { everyPage, faultsOf, follow, open, SEED_ENV, seed } from './every-page.ts';

const WINDOWS = {
  'light desktop': { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  'dark desktop': { colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
  'light phone': { colorScheme: 'light', viewport: { width: 360, height: 740 } },
  // A window of 1280 pixels at 200 %.
  'light zoom': { colorScheme: 'light', viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 },
} as const;

// The windows are checked at the same time, since most of the time is spent waiting for pages.
test('every page in every viewport and color scheme is accessible', {
  skip: noBrowser(),
  timeout: 890_000,
  concurrency: true,
}, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService({ env: SEED_ENV });
  t.after(() => service.close());
  await setFirstPassword(service);
  const pages = everyPage(await seed(service));
  const examined = Object.entries(WINDOWS).map(([name, window]) =>
    t.test(name, async (within) => {
      const visit = await signedIn(within, visitors, service, window);
      const faults: Record<string, string[]> = {};
      for (const [index, at] of pages.entries()) {
        const isLinked = [at, pages[index - 1]].every((one) => one?.startsWith('/app/'));
        await (isLinked ? follow : open)(visit.page, at);
        const found = await faultsOf(visit.page);
        if (found.length > 0) faults[at] = found;
      }
      assert.deepEqual(faults, {});
      visit.assertClean();
    }),
  );
  await Promise.all(examined);
});
