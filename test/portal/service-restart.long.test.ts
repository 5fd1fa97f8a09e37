/** The service restarts while the portal is open: drafts survive, and pages load automatically once it responds. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { freePorts } from '../kit/free-ports.ts';
import { startService } from '../kit/start-service.ts';

test('an unloaded page waits for the service, and hovering over its link keeps a draft', {
  skip: noBrowser(),
}, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const [port] = await freePorts(1);
  const service = await startService({ env: { POSTRIDER_HTTP_PORT: String(port) } });
  t.after(() => service.close());
  await setFirstPassword(service);
  const { page } = await signedIn(t, visitors, service);
  await page.goto('/app/live/approvals');
  const draft = page.getByRole('textbox', { name: 'Use case' });
  await draft.fill('Receipts for our customers');
  let loads = 0;
  page.on('load', () => {
    loads += 1;
  });

  await service.kill('SIGTERM');
  const link = page.getByRole('link', { name: 'Webhooks', exact: true });
  const failed = page.waitForEvent('requestfailed', { predicate: (request) => request.url().includes('/assets/') });
  await link.hover();
  await failed;
  assert.equal(await draft.inputValue(), 'Receipts for our customers');
  assert.equal(loads, 0);

  await link.click();
  await page.getByRole('heading', { name: 'Can’t reach Postrider' }).waitFor();
  await page.getByRole('link', { name: 'Suppressions' }).waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { name: 'Can’t reach Postrider' }).waitFor();
  assert.equal(loads, 0, 'the browser never shows its own error page');

  await service.restart();
  await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor();
  assert.equal(new URL(page.url()).pathname, '/app/live/webhooks');
});

test('an unknown path in the portal keeps the menu', { skip: noBrowser() }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await startService();
  t.after(() => service.close());
  await setFirstPassword(service);
  const { page } = await signedIn(t, visitors, service);
  await page.goto('/app/live/no-such-page');
  await page.getByRole('heading', { name: 'Not found', level: 1 }).waitFor();
  await page.emulateMedia({ media: 'print' });
  assert.equal(await page.getByRole('link', { name: 'Webhooks' }).isVisible(), false, 'the menu is not printed');
  await page.emulateMedia({ media: null });
  await page.getByRole('link', { name: 'Webhooks' }).click();
  await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor();
});
