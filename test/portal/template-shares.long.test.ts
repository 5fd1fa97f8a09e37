/** Links to previews in the portal: created on the page of a template, opened without a login, listed, and revoked. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { faultsOf } from './every-page.ts';

const skip = noBrowser();
let visitors: Awaited<ReturnType<typeof startBrowser>>;
let service: Service;
before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  service = await startService();
  await setFirstPassword(service);
});
after(async () => {
  await visitors?.close();
  await service?.close();
});

const pathOf = (url: string): string => url.slice(url.indexOf('/preview'));

async function template(name: string): Promise<string> {
  const body = {
    name,
    subject: 'Order {{ order }}',
    html: '<h1>Thank you, {{ name }}</h1><p>Saved</p>{% comment %}secret-source{% endcomment %}',
  };
  const { templateId } = (await service.api.post('/templates', body)).body;
  const samples = [
    { name: 'First', values: { name: 'Ann', order: '17' } },
    { name: 'Second', values: { name: 'Ben', order: '18' } },
  ];
  assert.equal((await service.api.put(`/templates/${templateId}/samples`, { samples })).status, 200);
  return templateId;
}

test('a shared preview of unsaved changes opens without a login, until it is revoked', { skip }, async (t) => {
  const id = await template('order-shipped');
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await page.goto(`/app/live/templates/${id}`);
  await page.frameLocator('iframe').getByText('Thank you, Ann').waitFor();
  await page.getByRole('textbox', { name: 'HTML', exact: true }).click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('<p>A draft</p>');
  await page.getByRole('button', { name: 'Share preview' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('The link shows your unsaved changes.').waitFor();
  await dialog.getByRole('combobox', { name: 'Test data set' }).click();
  await page.getByRole('option', { name: 'Second' }).click();
  await dialog.getByRole('button', { name: 'Create link' }).click();
  const link = pathOf(await dialog.getByRole('textbox', { name: 'Link' }).inputValue());
  await dialog.getByText(/^Expires .*Unsaved changes$|Created by .*Unsaved changes/).waitFor();
  assert.deepEqual(await faultsOf(page), []);
  assert.equal((await service.api.get(`/templates/${id}`)).body.version, 1, 'nothing is saved');

  const guest = await visitors.visit(service.url);
  t.after(() => guest.close());
  await guest.page.goto(link);
  await guest.page.getByRole('heading', { level: 1, name: 'Order 18' }).waitFor();
  await guest.page.getByText(/Preview of the template “order-shipped” \(Unsaved changes\)/).waitFor();
  await guest.page.getByText(/This link expires/).waitFor();
  const mail = guest.page.frameLocator('iframe');
  await mail.getByText('Thank you, Ben').waitFor();
  await mail.getByText('A draft').waitFor();
  assert.match((await guest.page.locator('iframe').getAttribute('sandbox'))!, /^allow-same-origin allow-popups/);
  assert.equal(await guest.page.locator('meta[name="robots"]').getAttribute('content'), 'noindex');
  assert.deepEqual(await faultsOf(guest.page), []);
  await guest.page.getByRole('radio', { name: 'Text', exact: true }).locator('..').click();
  await guest.page.getByRole('region', { name: 'Text' }).getByText('A draft').waitFor();
  assert.doesNotMatch(await guest.page.content(), /secret-source/);

  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('The link stops working immediately').waitFor();
  await page.getByRole('button', { name: 'Revoke link' }).click();
  await page.getByText('Link revoked').waitFor();
  await guest.page.reload();
  await guest.page.getByRole('heading', { name: 'This link is invalid or has expired' }).waitFor();
  await guest.page.goto('about:blank');
  await guest.page.goto('/preview');
  await guest.page.getByRole('heading', { name: 'This link is invalid or has expired' }).waitFor();
  guest.assertClean();
  visit.assertClean();
});

test('all shared previews are listed, and are revoked there', { skip }, async (t) => {
  const id = await template('welcome');
  const { url } = (await service.api.post(`/templates/${id}/share`, {})).body;
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await page.goto('/app/live/templates');
  await page.getByRole('link', { name: 'Shared previews' }).click();
  await page.waitForURL('**/app/live/template-shares');
  const row = page.getByRole('row').filter({ hasText: 'welcome' });
  await row.getByText('Version 1').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  const status = async (): Promise<number> => {
    const token = url.slice(url.indexOf('#token=') + 7);
    return (await fetch(`${service.url}/shared/template`, { headers: { 'x-share-token': token } })).status;
  };
  assert.equal(await status(), 200);
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export CSV' }).click(),
  ]);
  assert.match(readFileSync(await file.path(), 'utf8'), /\r\nwelcome,Version 1,/);
  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('button', { name: 'Revoke link' }).click();
  await row.waitFor({ state: 'detached' });
  await waitUntil('the revocation', async () => (await status()) === 404);
  assert.equal((await service.api.post(`/templates/${id}/share`, {})).status, 201);
  await page.reload();
  await row.getByRole('link', { name: 'welcome' }).click();
  await page.waitForURL(`**/app/live/templates/${id}`);
  visit.assertClean();
});
