/**
 * The first minute of a new user: from the first-run link to a received message, with few clicks, on both databases; a real key in the
 * examples; and a setup checklist that matches the API.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { apiClient } from '../kit/api.ts';
import { firstLink, invited, noBrowser, PASSWORD, setFirstPassword, signInAs, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { DIALECTS, type Dialect } from '../kit/temp-database.ts';
import { tempPostgres } from '../kit/temp-postgres.ts';
import { faultsOf } from './every-page.ts';

const CLICKS_AT_MOST = 5;
/** The doctor queries no public DNS. */
const NO_DNS = { POSTRIDER_DNS_SERVERS: '127.0.0.1:1' };

async function started(t: TestContext, dialect: Dialect): Promise<Service> {
  const server = dialect === 'postgres' ? await tempPostgres() : undefined;
  const service = await startService({ env: { ...NO_DNS, ...(server && { POSTRIDER_DATABASE_URL: server.url }) } });
  t.after(async () => {
    await service.close();
    await server?.drop();
  });
  return service;
}

const panel = (page: Page, name: string): Locator => page.getByRole('region', { name, exact: true });

/** From the first-run link to the received message; returns the number of clicks. */
async function firstMinute(page: Page, service: Service): Promise<number> {
  let clicks = 0;
  const click = async (where: Locator): Promise<void> => {
    clicks += 1;
    await where.click();
  };
  await page.goto(firstLink(service));
  await page.locator('input[type=password]').fill(PASSWORD);
  await click(page.locator('button[type=submit]'));
  await page.waitForURL('**/app/sandbox/start');
  await page.getByText('Waiting for your first email').waitFor();
  await click(page.getByRole('button', { name: 'Send test email' }));
  const arrived = panel(page, 'Received emails').getByRole('link', { name: /Hello from Postrider/ });
  await arrived.getByText('Delivered').waitFor();
  await click(arrived);
  await page.getByRole('heading', { name: 'Hello from Postrider' }).waitFor();
  return clicks;
}

for (const dialect of DIALECTS) {
  test(`a first message is displayed after few clicks, on ${dialect}`, {
    skip: noBrowser(),
    timeout: 120_000,
  }, async (t) => {
    const visitors = await startBrowser();
    t.after(() => visitors.close());
    const service = await started(t, dialect);
    const visit = await visitors.visit(service.url);
    const clicks = await firstMinute(visit.page, service);
    assert.ok(clicks <= CLICKS_AT_MOST, `${clicks} clicks`);
    const { body } = await service.sandboxApi.get('/sandbox/inbox');
    assert.deepEqual([body.length, body[0].subject, body[0].outcome], [1, 'Hello from Postrider', 'Delivered']);
    visit.assertClean();
  });
}

test('examples, the setup checklist, and roles', { skip: noBrowser(), timeout: 150_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const service = await started(t, 'sqlite');
  const credentials = await setFirstPassword(service);
  const visit = await visitors.visit(service.url);
  await signInAs(visit, credentials);
  const { page } = visit;

  await t.test('a real key is filled in, works, and stays on other pages', async () => {
    await page.goto('/app/live/start');
    const example = page.getByRole('region', { name: /^Language, curl/ });
    assert.match(await example.innerText(), /\$POSTRIDER_KEY/);
    await page.getByRole('button', { name: 'Insert API key' }).click();
    await page.getByText('Sandbox key inserted').waitFor();
    const [apiKey] = /pr_test_\w+/.exec(await example.innerText())!;
    const api = apiClient(() => service.url, { accountId: service.live.accountId, apiKey });
    const mail = { from: 'a@app.example', to: 'code@example.com', subject: 'By my own code', text: 'Hello' };
    assert.equal((await api.post('/send', mail)).status, 202);
    api.close();
    await panel(page, 'Received emails').getByText('By my own code').waitFor();
    const keys = (await service.api.get('/api-keys')).body as unknown as { name: string; mode: string }[];
    assert.deepEqual(
      keys.filter(({ name }) => name === 'Get started').map(({ mode }) => mode),
      ['sandbox'],
    );
    await page.getByRole('link', { name: 'Events' }).click();
    await page.getByRole('link', { name: 'Get started' }).click();
    await page.getByText('Sandbox key inserted').waitFor();
  });

  await t.test('SMTP credentials are filled into their examples', async () => {
    await page.getByRole('button', { name: 'Insert SMTP credential' }).click();
    await page.getByText('Sandbox SMTP credential inserted').waitFor();
    for (const language of ['swaks', 'Nodemailer', 'Python', 'Node', 'curl']) {
      await page.getByRole('combobox', { name: 'Language' }).click();
      await page.getByRole('option', { name: language, exact: true }).click();
      const code = await page.getByRole('region', { name: `Language, ${language}` }).innerText();
      assert.doesNotMatch(code, /POSTRIDER_(?:KEY|SMTP)/, language);
    }
  });

  await t.test('a viewer sees why no action is available', async () => {
    const viewer = await visitors.visit(service.url, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
    await invited(visit, viewer, service, 'viewer');
    await viewer.page.goto('/app/sandbox/start');
    await viewer.page.getByText('Viewers can’t send.').waitFor();
    await viewer.page.getByText('Only owners can create keys.').waitFor();
    assert.equal(await viewer.page.getByRole('button', { name: /Send test email|Insert/ }).count(), 0);
    assert.equal(await panel(viewer.page, 'System health').count(), 0);
    await viewer.page.getByText('This account has a live API key.').waitFor();
    assert.deepEqual(await faultsOf(viewer.page), []);
    viewer.assertClean();
  });

  await t.test('the checklist matches the API and updates with it', async () => {
    const account = panel(page, 'Go-live checklist');
    const item = (name: string): Locator => account.getByRole('listitem').filter({ hasText: name });
    await item('Create a live API key').getByText('Done').waitFor();
    await item('Verify a domain').getByText('To do').waitFor();
    await item('Sending health').getByText('Not checked').waitFor();
    await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
    await page.reload();
    // Without its DKIM record in the DNS, the domain can send but is not complete.
    await item('Verify a domain').getByText('An operator marked shop.example as verified').waitFor();
    await item('Verify a domain').getByText('To do').waitFor();
    const node = panel(page, 'System health');
    assert.equal(await node.getByText('Set POSTRIDER_BASE_URL').isVisible(), false);
    await node.getByText(/^\d+ checks need attention$/).click();
    await node.getByText('Set POSTRIDER_BASE_URL').waitFor();
    assert.ok((await node.getByText('To do').count()) > 0);
    assert.deepEqual(await faultsOf(page), []);
  });
  visit.assertClean();
});
