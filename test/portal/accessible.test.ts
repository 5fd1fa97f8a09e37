/** The pages of the portal are there, say nothing on the console, ask nobody else, and axe finds nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';
import { everyPage, faultsOf, open, SEED_ENV, seed } from './every-page.ts';

test('every page, in a window of a desktop', { skip: noBrowser(), timeout: 170_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService({ env: SEED_ENV });
  t.after(() => service.close());
  await setFirstPassword(service);
  // Those of live mail have their turn among the slow tests.
  const pages = everyPage(await seed(service)).filter((at) => !at.startsWith('/app/live/'));
  const visit = await signedIn(t, visitors, service, { reducedMotion: 'reduce' });
  const faults: Record<string, string[]> = {};
  for (const at of pages) {
    await open(visit.page, at);
    const found = await faultsOf(visit.page);
    if (found.length > 0) faults[at] = found;
  }
  assert.deepEqual(faults, {});
  visit.assertClean();
});
