/**
 * Saved filters in a browser: saved on a list, shown in another browser, applied, renamed, deleted with an undo, and found with ⌘K, which
 * also understands the syntax of the search field.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { invited, noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { faultsOf, load, open, SEED_ENV, seed } from './every-page.ts';

const menuOf = (page: Page) => page.getByRole('search').getByRole('button', { name: /^(Saved filters|Delayed)/ });
const item = (page: Page, name: string) => page.getByRole('menuitem', { name, exact: true });

/** A dialog whose code arrives after the menu has closed, when nothing has the focus, returns it to the button of the menu. */
async function returnsLateFocus(page: Page): Promise<void> {
  const { promise: isWanted, resolve: send } = Promise.withResolvers<void>();
  const code = /\/saved-filter-dialogs-[^/]*\.js$/;
  await page.route(code, async (route) => {
    await isWanted;
    await route.continue();
  });
  await menuOf(page).click();
  await item(page, 'Save current filter…').click();
  await item(page, 'Save current filter…').waitFor({ state: 'detached' });
  await page.evaluate('document.activeElement.blur()');
  send();
  await page.getByRole('dialog').getByLabel('Name').waitFor();
  await page.keyboard.press('Escape');
  await waitUntil('the focus to return to the menu', () =>
    page.evaluate<boolean>(`document.activeElement.textContent === 'Saved filters'`),
  );
  await page.unroute(code);
}

/** Every menu is used with the keyboard: Enter opens it, Escape returns the focus to its button, and Tab goes on from there. */
async function keysOfMenus(page: Page, ids: Record<string, string>): Promise<void> {
  for (const [at, name, first, last] of [
    ['/app/sandbox/messages', 'Saved filters', 'Save current filter…', 'Save current filter…'],
    [`/app/sandbox/templates/${ids['sandbox/templates']}`, 'More actions', 'Discard changes', 'Delete'],
    [`/app/sandbox/webhooks/${ids['sandbox/webhooks']}`, 'More actions', 'Edit', 'Delete'],
  ] as const) {
    await open(page, at);
    const button = page.getByRole('button', { name }).first();
    const hasFocus = (named: string) => async () =>
      (await page.evaluate('document.activeElement.ariaLabel ?? document.activeElement.textContent')) === named;
    const openMenu = async (): Promise<void> => {
      await button.focus();
      await page.keyboard.press('Enter');
      await waitUntil(`the focus on ${first}`, hasFocus(first));
    };
    await openMenu();
    assert.deepEqual(await faultsOf(page), [], at);
    await page.keyboard.press('ArrowDown');
    if (last !== first) await waitUntil('the focus to move', async () => !(await hasFocus(first)()));
    await page.keyboard.press('End');
    await waitUntil(`the focus on ${last}`, hasFocus(last));
    await page.keyboard.press('Escape');
    await item(page, first).waitFor({ state: 'detached' });
    await waitUntil('the focus on the button', hasFocus(name));
    await openMenu();
    await page.keyboard.press('Tab');
    await item(page, first).waitFor({ state: 'detached' });
    // Timers of a page run in order: this one runs after the one that returns the focus of a closed menu.
    await page.evaluate('new Promise((resolve) => setTimeout(resolve, 50))');
    const isAfter = `document.querySelector('[aria-haspopup="menu"]').compareDocumentPosition(document.activeElement) & 4`;
    assert.equal(await page.evaluate(isAfter), 4, `${at}: the focus is after the button`);
  }
}

test('filters are saved, shared, applied, renamed and deleted', { skip: noBrowser(), timeout: 590_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService({ env: SEED_ENV });
  t.after(() => service.close());
  await setFirstPassword(service);
  const { ids } = await seed(service);
  const owner = await signedIn(t, visitors, service);
  const { page } = owner;
  await keysOfMenus(page, ids);
  // The code of the dialogs must not be loaded yet.
  await load(page, '/app/sandbox/messages');
  await menuOf(page).click();
  await page.getByText('Filter the list, then save the filter here.').waitFor();
  assert.ok(await item(page, 'Save current filter…').isDisabled(), 'there is no filter to save');
  await page.keyboard.press('Escape');
  await item(page, 'Save current filter…').waitFor({ state: 'detached' });

  const save = async (name: string, visibleTo: string): Promise<void> => {
    await menuOf(page).click();
    await item(page, 'Save current filter…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill(name);
    await dialog.getByLabel(visibleTo).check();
    assert.deepEqual(await faultsOf(page), []);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('search').getByRole('button', { name, exact: true }).waitFor();
    await waitUntil('the focus to return to the menu', () =>
      page.evaluate<boolean>(`document.activeElement.textContent === ${JSON.stringify(name)}`),
    );
  };
  const rows = page.getByRole('table', { name: 'Messages' }).locator('tbody tr');
  await page.getByLabel('Search', { exact: true }).fill('to:bounced@example.com status:bounced tag:order');
  await page.waitForURL(/q=to/);
  await waitUntil('the syntax of the search field to filter', async () => (await rows.count()) === 1);
  await rows.filter({ hasText: 'bounced@example.com' }).waitFor();
  await returnsLateFocus(page);
  await save('Bounced orders', 'Only you');
  await open(page, '/app/sandbox/messages?tags=order&range=7d');
  await save('Delayed', 'Everyone in the account');

  const colleague = await visitors.visit(service.url, { viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
  t.after(() => colleague.close());
  await invited(owner, colleague, service, 'viewer');
  await open(colleague.page, '/app/sandbox/messages');
  await menuOf(colleague.page).click();
  await item(colleague.page, 'Delayed').waitFor();
  assert.equal(await item(colleague.page, 'Bounced orders').count(), 0, 'private filters are private');
  assert.deepEqual(await faultsOf(colleague.page), []);
  await item(colleague.page, 'Delayed').click();
  await colleague.page.waitForURL(/tags=order/);
  assert.equal(new URL(colleague.page.url()).searchParams.get('range'), '7d');

  const other = await signedIn(t, visitors, service);
  await open(other.page, '/app/sandbox/messages?status=queued');
  await menuOf(other.page).click();
  await item(other.page, 'Bounced orders').click();
  await other.page.waitForURL(/q=to/);
  assert.equal(new URL(other.page.url()).searchParams.get('status'), null, 'the filter before is replaced');
  assert.match(await other.page.getByLabel('Search', { exact: true }).inputValue(), /^to:bounced@example\.com/);

  await other.page.getByRole('search').getByRole('button', { name: 'Bounced orders' }).click();
  await item(other.page, 'Manage saved filters…').click();
  const dialog = other.page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Rename “Bounced orders”' }).click();
  await dialog.getByLabel('New name').fill('Order bounces');
  await dialog.getByRole('button', { name: 'Rename', exact: true }).click();
  await dialog.getByText('Order bounces').waitFor();
  assert.deepEqual(await faultsOf(other.page), []);
  await dialog.getByRole('button', { name: 'Delete “Delayed”' }).click();
  await dialog.getByText('Delayed').waitFor({ state: 'detached' });
  await other.page.getByRole('button', { name: 'Undo' }).click();
  await dialog.getByText('Delayed').waitFor();
  await dialog.getByRole('button', { name: 'Delete “Delayed”' }).click();
  const deleted = other.page.waitForResponse((response) => response.request().method() === 'DELETE');
  assert.equal((await deleted).status(), 200);
  await other.page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await other.page.evaluate('document.activeElement.textContent'), 'Order bounces', 'the focus returns');

  // Another browser has renamed a filter and deleted one.
  await load(page, '/app/sandbox');
  await page.keyboard.press('Control+K');
  const palette = page.getByRole('dialog');
  const search = palette.getByRole('textbox');
  await search.fill('order bounces');
  await palette.getByRole('button', { name: /Order bounces/ }).click();
  await page.waitForURL(/\/messages\?q=to/);
  await page.keyboard.press('Control+K');
  await search.fill('to:complained@example.com status:complained tag:order');
  await palette.getByRole('button', { name: /complained@example\.com · complained/ }).waitFor();
  assert.equal(await palette.getByRole('button', { name: /@example\.com · / }).count(), 1);
  for (const [text, name] of [
    ['receipt-sand', /receipt-sandbox.*Template/],
    ['shop.exa', /shop\.example.*Domain/],
    ['/hook', /127\.0\.0\.1:9\/hook.*Webhook/],
    ['nobody@', /nobody@example\.com.*Suppressed address/],
    ['dark app', /Use dark appearance/],
    ['switch to', /Switch to Live/],
  ] as const) {
    await search.fill(text);
    await palette.getByRole('button', { name }).waitFor();
  }
  for (const visit of [owner, other, colleague]) visit.assertClean();
});

/** Returns the number of rows of the filters in a window of 1280 pixels, without the rare ones below them. */
const rowsOfFilters = (page: Page) =>
  page.evaluate<number>(`new Set([...document.querySelectorAll('search > *')]
    .filter((one) => getComputedStyle(one).flexBasis !== '100%' && one.offsetHeight > 0)
    .map((one) => Math.round(one.getBoundingClientRect().bottom))).size`);

test('every list with filters saves and applies them', { skip: noBrowser(), timeout: 590_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService();
  t.after(() => service.close());
  await setFirstPassword(service);
  const { page, assertClean } = await signedIn(t, visitors, service);
  for (const [list, query] of [
    ['messages', 'status=bounced&tags=order'],
    ['events', 'type=Bounce&tag=order'],
    ['requests', 'status=failed&code=INVALID_REQUEST'],
    ['suppressions', 'email=ann&reason=manual'],
    ['inbound', 'outcome=delivered'],
    ['audit', 'action=webhook.create'],
  ] as const) {
    await open(page, `/app/live/${list}?${query}`);
    await page.getByRole('button', { name: 'Saved filters' }).click();
    await item(page, 'Save current filter…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill(`Of ${list}`);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: `Of ${list}`, exact: true }).waitFor();
    await open(page, `/app/live/${list}`);
    assert.equal(await rowsOfFilters(page), 1, list);
    await page.getByRole('button', { name: 'Saved filters' }).click();
    await item(page, `Of ${list}`).click();
    await page.waitForURL((url) => url.search === `?${query}`);
    await page.getByRole('button', { name: `Of ${list}`, exact: true }).waitFor();
    assert.equal(await rowsOfFilters(page), 1, `${list}, filtered`);
    if (list === 'suppressions') assert.equal(await page.getByRole('searchbox').inputValue(), 'ann');
    assert.deepEqual(await faultsOf(page), []);
  }
  assertClean();
});
