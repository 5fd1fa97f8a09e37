/** Every page of the portal in light and dark, at phone width and at 200 % zoom: axe finds no violations, and nothing scrolls sideways. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';
import { COLOR_RULES, everyPage, faultsOf, open, SEED_ENV, seed } from './every-page.ts';

/** Rules that do not depend on colors are checked in the light windows. */
const WINDOWS = {
  'light desktop': { colorScheme: 'light', width: 1280, height: 800, deviceScaleFactor: 1 },
  'dark desktop': { colorScheme: 'dark', width: 1280, height: 800, deviceScaleFactor: 1, rules: COLOR_RULES },
  'light phone': { colorScheme: 'light', width: 360, height: 740, deviceScaleFactor: 1 },
  'light zoom, 1280 px at 200 %': { colorScheme: 'light', width: 640, height: 400, deviceScaleFactor: 2 },
} as const;

// A page is opened once, and its window changes: opening it takes more CPU time than checking it. Each window opens a quarter of the pages.
test('every page in every viewport and color scheme is accessible', {
  skip: noBrowser(),
  timeout: 890_000,
}, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService({ env: SEED_ENV });
  t.after(() => service.close());
  await setFirstPassword(service);
  const pages = everyPage(await seed(service));
  const { page, context, assertClean } = await signedIn(t, visitors, service);
  const session = await context.newCDPSession(page);
  const faults: Record<string, string[]> = {};
  const windows = Object.entries(WINDOWS);
  for (const [index, at] of pages.entries()) {
    const first = index % windows.length;
    for (const [name, window] of [...windows.slice(first), ...windows.slice(0, first)]) {
      const { colorScheme, width, height, deviceScaleFactor, ...only } = window;
      await page.emulateMedia({ colorScheme });
      const metrics = { width, height, deviceScaleFactor, mobile: false };
      await session.send('Emulation.setDeviceMetricsOverride', metrics);
      if (name === windows[first]![0]) await open(page, at);
      await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
      assert.deepEqual(await page.evaluate('[innerWidth, devicePixelRatio]'), [width, deviceScaleFactor]);
      const found = await faultsOf(page, 'rules' in only ? only.rules : undefined);
      if (found.length > 0) faults[`${at} in ${name}`] = found;
    }
  }
  assert.deepEqual(faults, {});
  assertClean();
});
