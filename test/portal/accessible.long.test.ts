/** Every page of the portal in light and dark, at phone width and at 200 % zoom: axe finds no violations, and nothing scrolls sideways. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser, type Visit } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';
import { everyPage, faultsOf, open, SEED_ENV, seed } from './every-page.ts';

const DESKTOP = { width: 1280, height: 800 };
/** These windows follow each other in one visit, since a page that is opened again takes half the CPU time. */
const WINDOWS = {
  'light desktop': { colorScheme: 'light', viewport: DESKTOP },
  'dark desktop': { colorScheme: 'dark', viewport: DESKTOP },
  'light phone': { colorScheme: 'light', viewport: { width: 360, height: 740 } },
} as const;
/** A window of 1280 pixels at 200 %, which is a visit of its own. */
const ZOOM = { colorScheme: 'light', viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 } as const;

async function assertAccessible({ page, assertClean }: Visit, pages: readonly string[]): Promise<void> {
  const faults: Record<string, string[]> = {};
  for (const at of pages) {
    await open(page, at);
    const found = await faultsOf(page);
    if (found.length > 0) faults[at] = found;
  }
  assert.deepEqual(faults, {});
  assertClean();
}

// Both visits take place at the same time, since most of the time is spent waiting for pages.
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
  const normal = t.test('at 100 %', async (within) => {
    const visit = await signedIn(within, visitors, service);
    for (const [name, { colorScheme, viewport }] of Object.entries(WINDOWS)) {
      await within.test(name, async () => {
        await visit.page.emulateMedia({ colorScheme });
        await visit.page.setViewportSize(viewport);
        await assertAccessible(visit, pages);
      });
    }
  });
  const zoomed = t.test('light zoom', async (within) => {
    await assertAccessible(await signedIn(within, visitors, service, ZOOM), pages);
  });
  await Promise.all([normal, zoomed]);
});
