/** Behavior of every page: login links, several tabs, the number of calls per load, locale formats, and undo. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { firstLink, noBrowser, PASSWORD, signedIn, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { animationsEnded, faultsOf, load, open, SEED_ENV, type Seeded, seed } from './every-page.ts';

const skip = noBrowser();
const OPERATOR = { email: 'operator@localhost', password: PASSWORD };

let visitors: Awaited<ReturnType<typeof startBrowser>>;
let service: Service;
let seeded: Seeded;

before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  service = await startService({ env: SEED_ENV });
  const [, token] = firstLink(service).split('#token=');
  assert.equal((await service.anonymous.put('/password', { token, password: PASSWORD })).status, 200);
  seeded = await seed(service);
});

after(async () => {
  await service?.close();
  await visitors?.close();
});

test('a used link offers to log in and to reset the password', { skip }, async (t) => {
  const { page, close, assertClean } = await visitors.visit(service.url);
  t.after(close);
  await page.goto(firstLink(service));
  await page.getByLabel('New password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set password and continue' }).click();
  await page.getByRole('heading', { level: 1, name: 'This link has expired or was already used' }).waitFor();
  assert.doesNotMatch(await page.getByRole('main').innerText(), /POST|PUT|GET|\/password/);
  assert.deepEqual(await faultsOf(page), []);
  await page.getByRole('link', { name: 'Reset password' }).click();
  await page.getByRole('heading', { level: 1, name: 'Reset your password' }).waitFor();
  await page.getByRole('textbox', { name: 'Email' }).fill(OPERATOR.email);
  const requested = page.waitForResponse((response) => response.request().method() === 'POST');
  await page.getByRole('button', { name: 'Send reset link' }).click();
  assert.equal((await requested).status(), 202);
  await page.getByRole('status').getByText('Postrider sent a reset link').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  await page.getByRole('button', { name: 'Back to sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  await page.goBack();
  await page.getByRole('heading', { level: 1, name: 'Reset your password' }).waitFor();
  assertClean();
});

test('logging out in one tab removes the data of the others', { skip }, async (t) => {
  const { page, context, assertClean } = await signedIn(t, visitors, service);
  const other = await context.newPage();
  await open(page, '/app/live/suppressions');
  await open(other, '/app/live/suppressions');
  await other.getByText('nobody@example.com').waitFor();
  await page.getByRole('button', { name: OPERATOR.email }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  await other.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  assert.equal(await other.getByText('nobody@example.com').count(), 0);
  assert.equal(await other.evaluate('sessionStorage.length'), 0, 'secrets of the tab are removed');
  assertClean();
});

test('a logout that fails is reported, and the user stays logged in', { skip }, async (t) => {
  const { page, context, assertClean } = await signedIn(t, visitors, service);
  const other = await context.newPage();
  await open(page, '/app/live/suppressions');
  await open(other, '/app/live/suppressions');
  await other.getByText('nobody@example.com').waitFor();
  const signOut = async (): Promise<void> => {
    if (!(await page.getByRole('button', { name: 'Sign out' }).isVisible()))
      await page.getByRole('button', { name: OPERATOR.email }).click();
    await page.getByRole('button', { name: 'Sign out' }).click();
  };
  const failure = page.getByRole('alert').filter({ hasText: 'Something went wrong' });
  const refusal = { code: 'INTERNAL_ERROR', message: 'The session is not ended.' };
  await page.route('**/session', (route) => {
    if (route.request().method() !== 'DELETE') return route.continue();
    return route.fulfill({ status: 500, json: { error: refusal } });
  });
  await signOut();
  await failure.getByText(refusal.message).waitFor();
  assert.equal(new URL(page.url()).pathname, '/app/live/suppressions');
  await other.reload();
  await other.getByText('nobody@example.com').waitFor();
  await page.unroute('**/session');
  await failure.getByRole('button').click();
  assertClean();

  await context.setOffline(true);
  await signOut();
  await failure.waitFor();
  await context.setOffline(false);
  await signOut();
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  await other.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
});

/** The API calls of the portal from now on, by path, without the stream. */
function callsOf(page: Page): string[] {
  const calls: string[] = [];
  page.on('request', (request) => {
    if (request.resourceType() === 'fetch' && !request.url().includes('/events/stream'))
      calls.push(`${request.method()} ${new URL(request.url()).pathname}${new URL(request.url()).search}`);
  });
  return calls;
}

test('a page requests each response once when it loads', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, { hasClock: true });
  for (const at of ['/app/live', '/app/live/incidents', '/app/sandbox/start', '/app/live/inbound']) {
    const calls = callsOf(page);
    const streamed = page.waitForResponse((response) => response.url().includes('/events/stream'));
    await load(page, at);
    await streamed;
    // Longer than the portal's longest refresh interval.
    await page.clock.fastForward(2_500);
    await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
    const twice = calls.filter((call, index) => calls.indexOf(call) !== index);
    assert.deepEqual(twice, [], at);
    page.removeAllListeners('request');
  }
  assertClean();
});

test("times use the browser's locale, the year if it differs, and the time zone", {
  skip,
}, async (t) => {
  const texts: Record<string, string> = {};
  for (const locale of ['en-US', 'en-GB', 'de-DE']) {
    const options = { locale, timezoneId: 'Europe/Berlin' };
    const { page, assertClean } = await signedIn(t, visitors, service, options);
    await page.route('**/domains?*', async (route) => {
      const response = await route.fetch();
      const [domain] = (await response.json()) as object[];
      await route.fulfill({ response, json: [{ ...domain, createdAt: '2019-03-04T12:05:00.000Z' }] });
    });
    await open(page, '/app/live/domains');
    const time = page.locator('time[datetime^="2019"]').first();
    texts[locale] = (await time.innerText()).replaceAll('\u202f', ' ');
    await time.hover();
    await page
      .getByRole('tooltip')
      .getByText(/2019.*(?:GMT\+1|MEZ|CET)/)
      .waitFor();
    assertClean();
  }
  assert.deepEqual(texts, {
    'en-US': 'Mar 4, 2019, 13:05',
    'en-GB': '4 Mar 2019, 13:05',
    'de-DE': '4. März 2019, 13:05',
  });
});

test('the undo button is entirely visible in its notice, even on a phone', { skip }, async (t) => {
  for (const viewport of [
    { width: 1280, height: 800 },
    { width: 390, height: 844 },
  ]) {
    const { page, close, assertClean } = await signedIn(t, visitors, service, { viewport });
    await open(page, `/app/live/domains/${seeded.ids['live/domains']}`);
    await page.getByRole('button', { name: 'Delete' }).click();
    const undo = page.getByRole('button', { name: 'Undo' });
    await undo.waitFor();
    await animationsEnded(page);
    const isClipped = ({ scrollWidth, clientWidth }: Record<string, number>) => scrollWidth! > clientWidth!;
    const isLabelCut: boolean = await undo.locator('.mantine-Button-label').evaluate(isClipped as never);
    const [own, frame] = [await undo.boundingBox(), await page.locator('.mantine-Notification-root').boundingBox()];
    const isOutside = own!.x + own!.width > frame!.x + frame!.width || own!.y + own!.height > frame!.y + frame!.height;
    const isCut = isLabelCut || isOutside;
    assert.equal(isCut, false);
    await undo.click();
    await close();
    assertClean();
  }
});

test('the usage of every limited list is displayed', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service);
  await open(page, '/app/live/usage');
  const limits = page.getByRole('region', { name: 'Limits' });
  for (const row of ['Webhooks 2', 'Domains 1', 'Templates 2', 'Inbound routes 1'])
    await limits.getByRole('row', { name: new RegExp(`^${row} `) }).waitFor();
  const cells = await limits.getByRole('cell').allInnerTexts();
  assert.deepEqual(
    cells.filter((text) => text.trim() === ''),
    [],
    'no empty cell',
  );
  assertClean();
});
