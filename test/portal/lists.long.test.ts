/**
 * Lists in a desktop window: the drawer of a row stays open while newer rows arrive, Escape closes one dialog at a time and returns the
 * focus, filters keep what is typed and ignore values they do not know, a list below one that grows shows its rows, and the focus stays in a list
 * whose row is removed.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { apiClient } from '../kit/api.ts';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { open } from './every-page.ts';

const skip = noBrowser();
const PAGE_ROWS = 50;

let visitors: Awaited<ReturnType<typeof startBrowser>>;
let service: Service;

before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  service = await startService();
  await setFirstPassword(service);
});
after(async () => {
  await service?.close();
  await visitors?.close();
});

const isInRow = "document.activeElement.closest('tr[data-index]') !== null";

test('the drawer of a request stays open when newer requests push its row out of the list', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service);
  const refuse = async (): Promise<string> => {
    const { status, headers } = await service.sandboxApi.post('/send/batch', { messages: [{}, {}] });
    assert.equal(status, 200);
    return headers['x-request-id']!;
  };
  const requestId = await refuse();
  await open(page, '/app/sandbox/requests');
  const rows = page.locator('tr[data-index]');
  await waitUntil('the refused messages', async () => (await rows.count()) > 0);
  await rows.last().locator('button').click();
  const drawer = page.getByRole('dialog');
  await drawer.getByText(requestId).waitFor();
  for (let sent = 0; sent <= PAGE_ROWS; sent += 1) await refuse();
  // The list is read again every 10 seconds.
  await page.waitForResponse(async (response) => {
    if (!/\/requests\?/.test(response.url())) return false;
    const listed: { requestId: string }[] = await response.json();
    return listed.length === PAGE_ROWS && listed.every((one) => one.requestId !== requestId);
  });
  await waitUntil('the newer rows', async () => (await rows.count()) > 2);
  assert.ok(await drawer.getByText(requestId).isVisible(), 'the drawer shows the same request');
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'detached' });
  assertClean();
});

test('an action with a dialog closes the drawer of its row, and Escape returns the focus to the row', {
  skip,
}, async (t) => {
  await service.cli('operator-key', 'create', '--name=terraform', '--scope', 'read', '--expires', '90d');
  const { page, assertClean } = await signedIn(t, visitors, service);
  await open(page, '/app/operator/keys');
  const row = page.getByRole('row', { name: /terraform/ });
  await row.getByRole('button', { name: 'terraform', exact: true }).click();
  await page.getByRole('dialog', { name: 'terraform' }).getByRole('button', { name: 'Revoke “terraform”' }).click();
  const confirmation = page.getByRole('dialog', { name: 'Revoke “terraform”?' });
  await confirmation.waitFor();
  await waitUntil('the drawer to close', async () => (await page.getByRole('dialog').count()) === 1);
  await page.keyboard.press('Escape');
  await confirmation.waitFor({ state: 'detached' });
  await waitUntil('the focus to return', () => page.evaluate<boolean>(isInRow));
  assertClean();
});

test('a paused destination is resumed once, and its drawer shows the new state', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service);
  const hour = new Date(Date.now() + 3_600_000).toISOString();
  const destination = {
    destinationId: 'mx.busy.example',
    explanation: 'Requested a pause.',
    depth: 3,
    connections: 0,
    limit: 2,
    pausedUntil: hour,
    blockedSince: null,
    fallback: false,
    nextAttemptAt: null,
    nodes: ['a'],
    lastReplies: [],
  };
  let isPaused = true;
  let isLongGone = false;
  await page.route('**/operator/destinations?*', (route) =>
    route.fulfill({ json: isLongGone ? [] : [{ ...destination, pausedUntil: isPaused ? hour : null }] }),
  );
  const resumed: Route[] = [];
  await page.route('**/operator/destinations/*/resume', (route) => {
    resumed.push(route);
  });
  await open(page, '/app/operator');
  const name = 'Resume mx.busy.example';
  await page.getByRole('button', { name: /^mx\.busy\.example/ }).click();
  const drawer = page.getByRole('dialog');
  const resume = drawer.getByRole('button', { name });
  await resume.click();
  await waitUntil('the call', () => resumed.length > 0);
  await waitUntil('the button to be disabled', () => resume.isDisabled());
  isPaused = false;
  await resumed[0]!.fulfill({ status: 200, json: destination });
  await drawer.getByText('Active', { exact: true }).waitFor();
  await resume.waitFor({ state: 'detached' });
  assert.equal(resumed.length, 1);
  isLongGone = true;
  await page.getByText('No active destinations').waitFor();
  assert.ok(await drawer.getByText('Active', { exact: true }).isVisible(), 'an empty list keeps the drawer');
  assertClean();
});

test('a letter typed while the URL changes is kept', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service);
  for (const [at, label] of [
    ['/app/live/suppressions', 'Address contains'],
    ['/app/live/audit', 'Action'],
  ] as const) {
    await open(page, at);
    const field = page.getByRole('search').getByLabel(label, { exact: true });
    // The next letter arrives between the change of the URL and the next rendering.
    await field.focus();
    await page.evaluate(`{
      const field = document.activeElement;
      const replaceState = history.replaceState;
      history.replaceState = function (...given) {
        replaceState.apply(history, given);
        if (!String(given[2]).includes('=ab')) return;
        history.replaceState = replaceState;
        Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, 'abc');
        field.dispatchEvent(new Event('input', { bubbles: true }));
      };
    }`);
    await field.pressSequentially('ab');
    await page.waitForURL(/=ab/);
    await page.waitForURL(/=abc/);
    assert.equal(await field.inputValue(), 'abc', at);
    // The field follows a change that is not its own.
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await waitUntil('the field to be empty', async () => (await field.inputValue()) === '');
  }
  assertClean();
});

test('a filter shows a value that it does not know only if the list is filtered by it', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service);
  for (const [at, label, shown] of [
    ['live/events?type=Nope', 'Type', 'All types'],
    ['live/events?since=yesterday', 'Since', 'Any time'],
    ['live/events?since=2026-01-01', 'Since', '2026-01-01'],
    ['live/suppressions?reason=nope', 'Reason', 'All reasons'],
    ['live/messages?status=nope', 'Status', 'All statuses'],
    ['live/inbound?outcome=nope', 'Status', 'All statuses'],
    ['live/requests?method=NOPE', 'Method', 'Any method'],
    ['live/requests?key=key_deleted', 'API key', 'key_deleted'],
    ['operator/accounts?status=nope', 'Status', 'All statuses'],
  ] as const) {
    await open(page, `/app/${at}`);
    const field = page.getByRole('search').getByLabel(label, { exact: true });
    assert.equal(await field.inputValue(), shown, at);
    assert.equal(await page.getByText('Something went wrong').count(), 0, at);
  }
  await open(page, '/app/live/messages?to=ann');
  const more = page.getByRole('search').getByLabel('Recipient', { exact: true });
  assert.equal(await more.inputValue(), 'ann', 'the other filters are in the same region');
  assertClean();
});

async function isShown(page: Page, text: string): Promise<boolean> {
  const box = await page.getByText(text, { exact: true }).boundingBox({ timeout: 1_000 });
  return box !== null && box.y > 0 && box.y < 800;
}

test('a list shows its rows after the list above it has grown', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, { viewport: { width: 1280, height: 800 } });
  const many = Array.from({ length: 300 }, (_, at) => String(at).padStart(3, '0'));
  const users = many.map((at) => ({
    userId: `usr_${at}`,
    email: `user${at}@shop.example`,
    role: 'member',
    status: 'active',
    totp: false,
    passkeys: 0,
    lastSignInAt: null,
    createdAt: '2026-01-01T00:00:00.000Z',
  }));
  const domains = many.map((at) => ({ domain: `d${at}.example`, depth: 1, nextAttemptAt: null, lastReply: null }));
  await page.route('**/operator/accounts/*/users?*', (route) => route.fulfill({ json: users }));
  const held: Route[] = [];
  await page.route('**/operator/accounts/*/queue', (route) => {
    held.push(route);
  });
  await page.goto(`/app/operator/accounts/${service.live.accountId}`);
  const table = page.getByRole('table', { name: 'Users' });
  await table.getByText('user000@shop.example').waitFor();
  await waitUntil('the call for the queue', () => held.length > 0);
  for (const route of held) await route.fulfill({ json: { depth: 300, isComplete: true, domains } });
  await page.getByText('d000.example').waitFor();
  await waitUntil('the middle of the list', async () => {
    await page.evaluate(`{
      const { top, height } = document.querySelector('table[aria-label="Users"]').getBoundingClientRect();
      scrollTo(0, scrollY + top + height / 2 - innerHeight / 2);
    }`);
    return isShown(page, 'user150@shop.example').catch(() => false);
  });
  assertClean();
});

test('an account without users gets one with its key, and a link opens it in a new tab', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page, context } = visit;
  const headers = { 'X-Requested-With': 'postrider', Origin: service.url };
  const made = await context.request.post('/operator/accounts', { data: { name: 'Bakery' }, headers });
  const { accountId, apiKey } = await made.json();
  await open(page, `/app/operator/accounts/${accountId}`);
  await page.getByText('Add the first one with POST /users and a live API key of the account.').waitFor();
  const bakery = apiClient(() => service.url, { accountId, apiKey });
  t.after(bakery.close);
  const added = await bakery.post('/users', { email: 'baker@bakery.example', role: 'owner' });
  assert.equal(added.status, 201, added.text);

  await open(page, `/app/operator/accounts/${service.live.accountId}`);
  const link = page.getByRole('link', { name: 'Open account' });
  const [tab] = await Promise.all([context.waitForEvent('page'), link.click({ button: 'middle' })]);
  await tab.waitForURL(`**/app/live?account=${service.live.accountId}`);
  await tab.getByRole('heading', { level: 1 }).waitFor();
  await tab.close();
  await link.click();
  await page.waitForURL((url) => url.pathname === '/app/live' && url.search === '');
  visit.assertClean();
});

test('after a row is removed, the focus goes to the next one, and at last to the heading of the empty list', {
  skip,
}, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service);
  const focused = (): Promise<string> =>
    page.evaluate("(document.activeElement.closest('tr[data-index]') ?? document.activeElement).textContent");
  for (const name of ['c', 'b', 'a']) {
    const { status } = await service.sandboxApi.post('/suppressions', {
      email: `${name}@gone.example`,
      reason: 'manual',
    });
    assert.equal(status, 201);
  }
  await open(page, '/app/sandbox/suppressions');
  const rows = page.locator('tr[data-index]');
  await rows.nth(2).waitFor();
  // One row is removed by its icon, another in its drawer, and then the last one.
  await rows
    .nth(1)
    .getByRole('button', { name: /^Remove / })
    .click();
  await waitUntil('the next row to have the focus', async () => (await focused()).startsWith('c@'));
  assert.ok(await page.evaluate<boolean>(isInRow));
  await page.keyboard.press('Enter');
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^Remove / })
    .click();
  await waitUntil('the row before to have the focus', async () => (await focused()).startsWith('a@'));
  await rows
    .first()
    .getByRole('button', { name: /^Remove / })
    .click();
  await waitUntil('the heading to have the focus', () =>
    page.evaluate<boolean>("document.activeElement.matches('main h2')"),
  );
  assertClean();
});

test('another account opens the same list, without what the URL says about the account before', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page, context } = visit;
  const headers = { 'X-Requested-With': 'postrider', Origin: service.url };
  const made = await context.request.post('/operator/accounts', { data: { name: 'Second' }, headers });
  const { accountId } = await made.json();
  const access = await context.request.post(`/operator/accounts/${accountId}/support-access`, { headers });
  assert.ok(access.ok(), await access.text());
  await open(page, `/app/live/webhooks?account=${accountId}&panel=event-types`);
  await page.keyboard.press('Escape');
  const choice = page.getByRole('complementary').getByRole('combobox', { name: 'Account' });
  assert.equal(await choice.inputValue(), accountId);
  await choice.selectOption(service.live.accountId);
  await page.waitForURL((url) => url.pathname === '/app/live/webhooks' && url.search === '');
  await page.reload();
  await page.getByRole('heading', { level: 1 }).waitFor();
  assert.equal(await choice.inputValue(), service.live.accountId);
  visit.assertClean();
});
