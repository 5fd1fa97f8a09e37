/**
 * The pages of the portal open without console output or requests to other hosts; axe finds no violations on the first ones that people
 * see.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';
import { everyPage, faultsOf, follow, open, SEED_ENV, seed } from './every-page.ts';

/** Checked by axe here; the slow tests check all pages, in each window. */
const FIRST_SEEN = ['/sign-in', '/app/sandbox', '/app/sandbox/messages', '/app/sandbox/inbox', '/app/sandbox/domains'];

test('every page is accessible in a desktop window', { skip: noBrowser(), timeout: 170_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService({ env: SEED_ENV });
  t.after(() => service.close());
  await setFirstPassword(service);
  // The slow tests check the pages of live mail.
  const pages = everyPage(await seed(service)).filter((at) => !at.startsWith('/app/live/'));
  const visit = await signedIn(t, visitors, service);
  const faults: Record<string, string[]> = {};
  assert.deepEqual(
    FIRST_SEEN.filter((at) => !pages.includes(at)),
    [],
  );
  for (const [index, at] of pages.entries()) {
    const isLinked = [at, pages[index - 1]].every((one) => one?.startsWith('/app/'));
    await (isLinked ? follow : open)(visit.page, at);
    if (!FIRST_SEEN.includes(at)) continue;
    const found = await faultsOf(visit.page);
    if (found.length > 0) faults[at] = found;
  }
  assert.deepEqual(faults, {});
  visit.assertClean();
});
