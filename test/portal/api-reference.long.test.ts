/**
 * The API reference of a running service in a browser: on a desktop and on a phone, in light and dark mode, with and without JavaScript. It
 * has no accessibility problems, nothing scrolls sideways, and it loads nothing from other hosts.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { noBrowser, startBrowser, type Visitors } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { COLOR_RULES, faultsOf } from './every-page.ts';

const WINDOWS = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
};

const skip = noBrowser();
let service: Service;
let visitors: Visitors & { close(): Promise<void> };

before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  service = await startService();
});
after(async () => {
  if (skip) return;
  await visitors.close();
  await service.close();
});

for (const [name, viewport] of Object.entries(WINDOWS)) {
  test(`${name}: accessible in light and dark mode, and nothing scrolls sideways`, {
    skip,
    timeout: 590_000,
  }, async (t) => {
    const visit = await visitors.visit(service.url, { colorScheme: 'light', viewport });
    t.after(() => visit.close());
    await visit.page.goto('/docs#sendEmail');
    await visit.page.locator('#sendEmail .tabs').waitFor();
    assert.deepEqual(await faultsOf(visit.page), [], 'light');
    // The document is static, so dark mode changes nothing but its colors. All rules take ten seconds on its 28,000 elements.
    const html = await visit.page.content();
    await visit.page.emulateMedia({ colorScheme: 'dark' });
    assert.equal(await visit.page.content(), html, 'the same document');
    assert.deepEqual(await faultsOf(visit.page, COLOR_RULES), [], 'dark');
    visit.assertClean();
  });
}

test('the chosen language applies to all operations and is remembered', { skip, timeout: 590_000 }, async (t) => {
  const visit = await visitors.visit(service.url, { viewport: { width: 1280, height: 800 } });
  t.after(() => visit.close());
  const { page } = visit;
  await page.goto('/docs#sendEmail');
  assert.deepEqual(await page.locator('#sendEmail .tabs button').allTextContents(), [
    'curl',
    'Node',
    'Python',
    'PHP',
    'Go',
  ]);
  assert.ok(await page.locator('#sendEmail [data-language=curl]').isVisible());
  await page.locator('#sendEmail .tabs').getByRole('button', { name: 'Python' }).click();
  await page.goto('/docs#getAccount');
  await page.reload();
  assert.ok(await page.locator('#getAccount [data-language=python]').isVisible());
  assert.equal(await page.locator('#getAccount [data-language=curl]').isVisible(), false);
  const pressed = page.locator('#getAccount .tabs button[aria-pressed=true]');
  assert.deepEqual(await pressed.allTextContents(), ['Python']);
  visit.assertClean();
});

test('search filters operations, and the menu of a phone closes at its target', {
  skip,
  timeout: 590_000,
}, async (t) => {
  const visit = await visitors.visit(service.url, { viewport: { width: 390, height: 844 } });
  t.after(() => visit.close());
  const { page } = visit;
  await page.goto('/docs');
  await page.getByText('Menu').click();
  await page.getByRole('searchbox').fill('rotate secret');
  const found = page.locator('.contents li li:visible');
  assert.equal(await found.count(), 1);
  assert.equal(await page.locator('.search output').textContent(), '1 operation');
  await page.getByRole('searchbox').fill('/messages/{id}/cancel');
  assert.equal(await found.count(), 1);
  await page.getByRole('searchbox').press('Enter');
  await page.waitForURL('**/docs#cancelMessage');
  assert.equal(await page.getByRole('searchbox').isVisible(), false);
  assert.ok(await page.locator('#cancelMessage h3').isVisible());
  visit.assertClean();
});

test('without JavaScript the page has all programs and its navigation', { skip, timeout: 590_000 }, async (t) => {
  const visit = await visitors.visit(service.url, { javaScriptEnabled: false, viewport: { width: 1280, height: 800 } });
  t.after(() => visit.close());
  const { page } = visit;
  await page.goto('/docs');
  assert.equal(await page.locator('#sendEmail [data-language]:visible').count(), 5);
  assert.equal(await page.getByRole('searchbox').isVisible(), false);
  await page.locator('.contents').getByRole('link', { name: 'Send an email' }).click();
  await page.waitForURL('**/docs#sendEmail');
  visit.assertClean();
});
