/**
 * The sandbox inbox in a real browser: incoming messages, their content, simulated outcomes, the clock with its forecast, clearing with
 * undo, and tests to copy.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { faultsOf } from './every-page.ts';

const HTML = `<html><head><title>Code</title></head><body><h1>Welcome, Ann</h1><p>Your code is <b>482913</b>.</p>
<p><a href="https://shop.example/go?a=1&amp;b=2">Go on</a> <a href="#">Nowhere</a></p></body></html>`;

async function send(service: Service, further: object): Promise<string> {
  const mail = { from: 'Shop <shop@shop.example>', to: 'ann@example.com', subject: 'Hello', text: 'Hello', ...further };
  const { status, body, text } = await service.sandboxApi.post('/send', mail);
  assert.equal(status, 202, text);
  return body.data.messageId;
}

test('the inbox', { skip: noBrowser(), timeout: 170_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService();
  t.after(() => service.close());
  await setFirstPassword(service);
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const list = page.getByRole('list', { name: 'Messages' });
  const inbox = async (): Promise<JsonObject[]> =>
    (await service.sandboxApi.get('/sandbox/inbox')).body as unknown as JsonObject[];

  await t.test('displays incoming messages with the codes and links found in them', async () => {
    await page.goto('/app/sandbox/inbox');
    await page.getByText('No emails yet').waitFor();
    await send(service, { subject: 'Your code', html: HTML, text: undefined, tags: ['code'] });
    await list.getByRole('link', { name: /Your code.*Delivered/ }).click();
    await page.getByRole('heading', { name: 'Your code' }).waitFor();
    await page.frameLocator('iframe').getByRole('heading', { name: 'Welcome, Ann' }).waitFor();
    const found = page.getByRole('region', { name: 'Codes and links' });
    await found.getByText('482913').waitFor();
    const link = found.getByRole('link', { name: 'https://shop.example/go?a=1&b=2' });
    assert.equal(await link.getAttribute('rel'), 'noopener noreferrer');
    await page.getByRole('tab', { name: /Checks/ }).click();
    await page.getByText('Empty link').waitFor();
    assert.deepEqual(await faultsOf(page), []);
    await page.getByRole('tab', { name: 'Headers' }).click();
    await page.getByText('Message-ID', { exact: true }).waitFor();
  });

  await t.test('provides a test to copy, which as-test.long.test.ts runs', async () => {
    await page.getByRole('button', { name: 'Copy as test' }).click();
    const code = await page
      .getByRole('dialog')
      .getByRole('region', { name: /node:test/ })
      .innerText();
    assert.ok(code.includes(`${service.url}/sandbox/inbox/wait`), code);
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  });

  await t.test('simulates another outcome, and explains a rejected one', async () => {
    const outcome = page.getByRole('combobox', { name: 'Simulate an outcome' });
    await outcome.fill('complained');
    await page.getByRole('button', { name: 'Simulate' }).click();
    await list.getByRole('link', { name: /Your code.*Complained/ }).waitFor();
    assert.equal((await inbox())[0]?.outcome, 'Complained');
    await outcome.fill('delivered');
    await page.getByRole('button', { name: 'Simulate' }).click();
    await page.getByText('Something went wrong').waitFor();
  });

  await t.test('the clock previews and triggers due work', async () => {
    await send(service, { to: 'delayed@example.com', subject: 'Slow' });
    await send(service, { subject: 'Later', sendAt: new Date(Date.now() + 1_800_000).toISOString() });
    await list.getByRole('link', { name: /Slow.*Delayed/ }).waitFor();
    await page.getByRole('button', { name: 'Advance clock' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Due in this period: 1 attempt, 1 scheduled email').waitFor();
    await dialog.getByText('15 min', { exact: true }).click();
    await dialog.getByText('Due in this period: 1 attempt', { exact: true }).waitFor();
    assert.deepEqual(await faultsOf(page), []);
    await dialog.getByText('1 h', { exact: true }).click();
    await dialog.getByRole('button', { name: 'Advance 1 h' }).click();
    await dialog.getByText('Clock advanced. 2 attempts ran.').waitFor();
    await dialog.getByText('Nothing is due in this period.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await list.getByRole('link', { name: /Slow.*Delivered/ }).waitFor();
    await list.getByRole('link', { name: /Later.*Delivered/ }).waitFor();
  });

  await t.test('filters are in the URL and stay when a message is open', async () => {
    await page.goto('/app/sandbox/inbox');
    await page.getByLabel('Subject').fill('slow');
    await page.waitForURL(/subject=slow/);
    await waitUntil('only this one', async () => (await list.getByRole('listitem').count()) === 1);
    await list.getByRole('link').click();
    await page.waitForURL(/inbox\/msg_\w+\?subject=slow/);
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await list.getByRole('link', { name: /Your code/ }).waitFor();
  });

  await t.test('on a phone, a message replaces the list', async () => {
    const phone = await signedIn(t, visitors, service, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
    await phone.page.goto('/app/sandbox/inbox');
    await phone.page.getByRole('link', { name: /Your code/ }).click();
    await phone.page.getByRole('heading', { name: 'Your code' }).waitFor();
    assert.deepEqual(await faultsOf(phone.page), []);
    await phone.page.getByRole('list', { name: 'Messages' }).waitFor({ state: 'hidden' });
    await phone.page.getByRole('link', { name: 'Back to inbox' }).click();
    await phone.page.getByRole('list', { name: 'Messages' }).waitFor();
    assert.deepEqual(await faultsOf(phone.page), []);
    phone.assertClean();
  });

  await t.test('is cleared unless that is undone', async () => {
    const button = page.getByRole('button', { name: 'Clear inbox' });
    await button.click();
    await page.getByRole('button', { name: 'Undo' }).click();
    await list.getByRole('link', { name: /Your code/ }).waitFor();
    assert.equal((await inbox()).length, 3);
    await button.click();
    await page.getByText('No emails yet').waitFor();
    // The button is disabled from now on, and loses the focus.
    await page.getByRole('heading', { name: 'Inbox', level: 1 }).and(page.locator(':focus')).waitFor();
    await waitUntil('the inbox to be empty', async () => (await inbox()).length === 0);
  });
  visit.assertClean();
});
