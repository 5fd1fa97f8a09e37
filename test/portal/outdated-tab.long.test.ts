/** A tab from before an upgrade, whose files no longer exist: it loads the new version automatically, on the requested page. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';

test('a page whose file no longer exists is reloaded once', { skip: noBrowser() }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService();
  t.after(() => service.close());
  await setFirstPassword(service);
  const { page } = await signedIn(t, visitors, service);
  await page.goto('/app/live/team');
  await page.getByRole('heading', { name: 'Team', level: 1 }).waitFor();
  let loads = 0;
  page.on('load', () => {
    loads += 1;
  });
  let isGone = true;
  await page.route('**/assets/suppressions-*', (route) => {
    if (!isGone) return route.continue();
    isGone = false;
    return route.fulfill({ status: 404, body: '' });
  });
  await page.getByRole('link', { name: 'Suppressions' }).click();
  await page.getByRole('heading', { name: 'Suppressions', level: 1 }).waitFor();
  assert.equal(new URL(page.url()).pathname, '/app/live/suppressions');
  assert.ok(loads <= 1, `${loads} loads`);
  assert.equal(isGone, false, 'the missing file was requested');
});
