/** Webhooks as users see them: created, tested, inspected, replayed, given a new secret, disabled, and deleted. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Page } from 'playwright-core';
import {
  noBrowser,
  PASSWORD,
  setFirstPassword,
  signedIn,
  signInAs,
  startBrowser,
  type Visit,
  type Visitors,
} from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';
import { animationsEnded, faultsOf, open } from './every-page.ts';

const LIST = '/app/sandbox/webhooks';
const EVERY = { since: '2020-01-01T00:00:00Z', until: '2040-01-01T00:00:00Z' };

interface Stage {
  service: Service;
  catcher: WebhookCatcher;
  page: Page;
}

const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name });
const deliveriesOf = async ({ service }: Stage, id: string) =>
  (await service.sandboxApi.get(`/webhooks/${id}/deliveries?limit=100`)).body as { status: string; attempts: number }[];

async function send({ service }: Stage, count: number, recipient = 'ann'): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const mail = { from: 'shop@shop.example', to: `${recipient}@example.com`, subject: `Order ${i}`, text: 'x' };
    assert.equal((await service.sandboxApi.post('/send', mail)).status, 202);
  }
}

/** Selects an entry of the menu with more actions. */
async function choose(page: Page, name: string): Promise<void> {
  await button(page, 'More actions').click();
  await page.getByRole('menuitem', { name }).click();
}

/** Creates a webhook on the page; returns its id and the displayed secret. */
async function make({ page, catcher }: Stage): Promise<{ id: string; secret: string }> {
  await page.goto(LIST);
  await page.getByText('No webhooks yet').waitFor();
  await page.setViewportSize({ width: 390, height: 600 });
  await button(page, 'Create webhook').first().click();
  await page.getByRole('dialog', { name: 'Create webhook' }).waitFor();
  await animationsEnded(page);
  assert.ok(
    await page.evaluate(
      'document.querySelector("[role=dialog] [type=submit]").getBoundingClientRect().bottom <= innerHeight',
    ),
    'the button is in sight before the fields are scrolled',
  );
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await page.setViewportSize({ width: 1280, height: 720 });
  await button(page, 'Event types').click();
  const catalogue = page.getByRole('dialog', { name: 'Event types' });
  await catalogue.getByText('"eventType": "Send"').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  await page.keyboard.press('Escape');
  await catalogue.waitFor({ state: 'hidden' });
  await button(page, 'Create webhook').first().click();
  await page.getByLabel('Endpoint URL').fill('ftp://shop.example/');
  await page.getByRole('dialog').getByRole('button', { name: 'Create webhook' }).click();
  await page.getByText('Must be a URL that starts with https:// or http://.').waitFor();
  await page.getByLabel('Endpoint URL').fill(catcher.url);
  await page.getByLabel('Complaint').uncheck();
  await page.getByLabel('Send', { exact: true }).check();
  await page.getByLabel('Description').fill('Order service');
  await button(page, 'Add header').click();
  await page.getByLabel('Header name').fill('Host');
  await page.getByLabel('Header value').fill('Bearer s3cret');
  await page.getByRole('dialog').getByRole('button', { name: 'Create webhook' }).click();
  await page.getByText('Is set by Postrider and cannot be changed.').waitFor();
  await page.getByLabel('Header name').fill('Authorization');
  await page.getByRole('dialog').getByRole('button', { name: 'Create webhook' }).click();
  await page.getByText('Copy it now.').waitFor();
  const secret = await page.getByText(/^whsec_/).innerText();
  await page.getByText('PHP', { exact: true }).click();
  await page.getByText('hash_equals').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.getByText('Copy it now.').isVisible(), true, 'a mistake does not lose the secret');
  await button(page, 'Done').click();
  await page.getByRole('heading', { name: 'Order service', level: 1 }).waitFor();
  return { id: new URL(page.url()).pathname.split('/').at(-1)!, secret };
}

async function testEvents({ page, catcher }: Stage): Promise<void> {
  const dialog = page.getByRole('dialog', { name: 'Send test event' });
  const result = dialog.getByRole('region', { name: 'Result' });
  catcher.answer({ status: 503, body: '<b>closed for today</b>' });
  await button(page, 'Send test event').click();
  const type = dialog.getByRole('combobox', { name: 'Event type' });
  await type.waitFor();
  await waitUntil('the focus in the first field', () =>
    page.evaluate<boolean>(`document.activeElement.matches('[role="dialog"] input')`),
  );
  await type.click();
  await page.getByRole('option', { name: 'Bounce' }).click();
  await dialog.getByText('Sample payload').click();
  await dialog.getByText('"category": "mailbox-not-found"').waitFor();
  await dialog.getByRole('button', { name: 'Send', exact: true }).click();
  await result.getByText('Test event failed').waitFor();
  await result.getByText('The endpoint returned HTTP status 503.').waitFor();
  await result.getByText('<b>closed for today</b>').waitFor();
  catcher.answer({ body: 'thanks' });
  await dialog.getByRole('button', { name: 'Send', exact: true }).click();
  await result.getByText('Test event delivered').waitFor();
  await result.getByText('thanks').waitFor();
  assert.deepEqual(
    catcher.requests.map(({ body }) => [JSON.parse(body).eventType, JSON.parse(body).test]),
    [
      ['Bounce', true],
      ['Bounce', true],
    ],
  );
  assert.deepEqual(await faultsOf(page), []);
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await dialog.waitFor({ state: 'hidden' });
}

/** The list and the page of a webhook show that it fails, since when, and when Postrider tries again. */
async function fails({ page }: Stage, id: string): Promise<void> {
  const state = page.getByRole('heading', { level: 1 }).locator('..');
  await state.getByText('Failing').waitFor();
  await page
    .getByText(/^Deliveries to this webhook are failing Every attempt has failed since .* HTTP status 500/)
    .waitFor();
  await page.getByText(/Next attempt in [345] minutes/).waitFor();
  await page.getByRole('navigation').getByRole('link', { name: 'Webhooks' }).click();
  await page.getByRole('row', { name: /Order service.*Failing\s*Since .*Next attempt in [345] minutes/ }).waitFor();
  await page.getByRole('link', { name: /Order service/ }).click();
  await page.waitForURL((url) => url.pathname === `${LIST}/${id}`);
}

/** Deliveries appear automatically; a failed one shows the error, and is retried. */
async function deliveries(stage: Stage, id: string): Promise<void> {
  const { page, catcher } = stage;
  catcher.answer({ status: 500, body: 'no disk space left' });
  await send(stage, 1, 'bounced');
  const rows = page.getByRole('table', { name: 'Deliveries of this webhook' }).getByRole('row');
  const bounce = page.getByRole('button', { name: 'Bounce', exact: true });
  await rows.filter({ has: bounce, hasText: '500' }).filter({ hasText: 'bounced@example.com' }).waitFor();
  await waitUntil('the second attempt', async () => (await deliveriesOf(stage, id)).every((one) => one.attempts > 1));
  await fails(stage, id);
  await rows.getByRole('button', { name: 'Bounce', exact: true }).click();
  const drawer = page.getByRole('dialog', { name: 'Delivery' });
  await drawer.getByText('The endpoint returned HTTP status 500.').waitFor();
  const attempts = drawer.getByRole('list', { name: 'Attempts' }).getByRole('listitem');
  await waitUntil('both attempts in the drawer', async () => (await attempts.count()) > 1);
  await attempts.first().locator('summary').click();
  await attempts.first().getByText('no disk space left').waitFor();
  await drawer.getByText('"recipient": "bounced@example.com"').waitFor();
  assert.match(page.url(), /delivery=del_/);
  assert.deepEqual(await faultsOf(page), []);
  catcher.answer({ body: 'ok' });
  await drawer.getByRole('button', { name: 'Redeliver' }).click();
  await drawer.getByText('Delivered to your endpoint.').waitFor();
  await drawer.getByRole('button', { name: 'Close' }).click();
  await page.getByText(/1 of the last 2 succeeded, 1 pending/).waitFor();
  await page.getByRole('heading', { level: 1 }).locator('..').getByText('Enabled').waitFor();
  await page.getByRole('combobox', { name: 'Event' }).click();
  await page.getByRole('option', { name: 'Bounce' }).click();
  await page.waitForURL(/type=Bounce/);
  await rows
    .filter({ has: page.getByRole('button', { name: 'Send', exact: true }) })
    .first()
    .waitFor({ state: 'detached' });
  await page.getByRole('combobox', { name: 'Status' }).click();
  await page.getByRole('option', { name: 'Failed' }).click();
  await page.getByText('No deliveries match your filters').waitFor();
  await page.goto(`${LIST}/${id}`);
  await page.getByText('Authorization', { exact: true }).waitFor();
}

/** The number is displayed before anything is sent, and everything arrives. */
async function replays(stage: Stage, id: string): Promise<void> {
  const { page, catcher, service } = stage;
  await send(stage, 3);
  await waitUntil('eight deliveries', async () => (await deliveriesOf(stage, id)).length === 8);
  await waitUntil('their end', async () => {
    const { body } = await service.sandboxApi.post(`/webhooks/${id}/replay?dryRun=true`, EVERY);
    return body.events === 8;
  });
  await button(page, 'Replay events').click();
  await page.getByText('8 events will be replayed').waitFor();
  await page.getByRole('combobox', { name: 'Period' }).click();
  await page.getByRole('option', { name: 'Custom range' }).click();
  await page.getByLabel('From').fill('2090-01-01T00:00');
  await page.getByText('Start must be before end.').waitFor();
  await page.getByLabel('From').fill('2020-01-01T00:00');
  await page.getByText('8 events will be replayed').waitFor();
  for (const name of ['Send', 'Bounce'])
    await page.locator('.mantine-Pill-root', { hasText: name }).getByRole('button', { includeHidden: true }).click();
  await page.getByText('3 events will be replayed').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  const before = catcher.requests.length;
  await button(page, 'Replay 3 events').click();
  await page.getByText('Replay complete: 3 events sent').waitFor();
  await waitUntil('three requests', () => catcher.requests.length === before + 3);
}

async function rotates({ page }: Stage, first: string): Promise<void> {
  await choose(page, 'Rotate secret');
  await button(page, 'Rotate secret').click();
  await page.getByText('Both secrets are valid until').waitFor();
  assert.notEqual(await page.getByText(/^whsec_/).innerText(), first);
  await button(page, 'Done').click();
}

/** A received request is genuine; reformatted it is not, and the page explains why. */
async function checks({ page, catcher }: Stage, secret: string): Promise<void> {
  const { headers, body } = catcher.requests.at(-1)!;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const field = (name: string) => page.getByRole('textbox', { name });
  await choose(page, 'Verify signature');
  await page.getByText('Paste the headers, the body, and the secret').waitFor();
  await field('Headers').fill(lines.join('\n'));
  await field('Raw body').fill(body);
  await field('Secret').fill(secret);
  await page.getByText('Valid signature').waitFor();
  await field('Raw body').fill(JSON.stringify(JSON.parse(body), null, 2));
  await page.getByText('The body was parsed and serialized again.').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  await page.keyboard.press('Escape');
}

async function orders({ page, service }: Stage, id: string): Promise<void> {
  const ordered = page.getByRole('checkbox', { name: 'Keep the order of each recipient’s events' });
  const isOrdered = async () => (await service.sandboxApi.get(`/webhooks/${id}`)).body.ordered;
  const save = async (): Promise<void> => {
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  };
  await choose(page, 'Edit');
  assert.equal(await ordered.isChecked(), false);
  await ordered.check();
  assert.deepEqual(await faultsOf(page), []);
  await save();
  await page.getByText('One event at a time per recipient').waitFor();
  assert.equal(await isOrdered(), true);
  await choose(page, 'Edit');
  await ordered.uncheck();
  await page.getByRole('spinbutton', { name: 'Events per request' }).fill('20');
  await save();
  await page.getByText('Events per request, at most').waitFor();
  assert.equal((await service.sandboxApi.get(`/webhooks/${id}`)).body.maxBatch, 20);
  await waitUntil('the order to end', async () => (await isOrdered()) === false);
}

/** A form that is open while another user changes the webhook keeps that change. */
async function edits({ page, service }: Stage, id: string): Promise<void> {
  const path = `/webhooks/${id}`;
  const { events, description } = (await service.sandboxApi.get(path)).body;
  await choose(page, 'Edit');
  await page.getByRole('dialog').getByLabel('Description').fill('Renamed here');
  const changed = (await service.sandboxApi.patch(path, { events: [...events, 'Complaint'] })).body.events;
  // The page below the form reloads the webhook.
  await page.locator('main').getByText(changed.join(', '), { exact: true }).waitFor({ state: 'attached' });
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  const { body } = await service.sandboxApi.get(path);
  assert.deepEqual([body.events, body.description], [changed, 'Renamed here']);
  await service.sandboxApi.patch(path, { events, description });
  await page.getByRole('heading', { name: description, level: 1 }).waitFor();
}

async function disables({ page, service }: Stage, id: string): Promise<void> {
  const isEnabled = async () => (await service.sandboxApi.get(`/webhooks/${id}`)).body.enabled;
  // Meanwhile another user changes the description, which the page does not show yet.
  const path = `/webhooks/${id}`;
  const { description } = (await service.sandboxApi.get(path)).body;
  await service.sandboxApi.patch(path, { description: 'Renamed meanwhile' });
  await choose(page, 'Disable');
  await page.getByText('This webhook is disabled').waitFor();
  assert.equal(await isEnabled(), false);
  assert.equal((await service.sandboxApi.get(path)).body.description, 'Renamed meanwhile');
  await service.sandboxApi.patch(path, { description: description ?? '' });
  await button(page, 'Replay events').click();
  await page.getByText('Enable the webhook before you replay events.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Replay', exact: true }).isEnabled(), false);
  await button(page, 'Cancel').click();
  await button(page, 'Enable').click();
  await page.getByText('Webhook enabled.').waitFor();
  assert.equal(await isEnabled(), true);
}

/** A deletion can be undone; otherwise it takes effect. */
async function removes({ page, service }: Stage, id: string): Promise<void> {
  await choose(page, 'Delete');
  await page.getByText('No webhooks yet').waitFor();
  await button(page, 'Undo').click();
  await page.getByRole('link', { name: /Order service/ }).click();
  await choose(page, 'Delete');
  await page.getByText('No webhooks yet').waitFor();
  const path = `/webhooks/${id}`;
  await waitUntil('the delete', async () => (await service.sandboxApi.get(path)).status === 404);
}

/** A viewer sees everything and no actions. */
async function reads({ service }: Stage, { page }: { page: Page }, id: string): Promise<void> {
  await page.goto(`${LIST}/${id}`);
  await page.getByRole('heading', { name: 'Order service', level: 1 }).waitFor();
  await page.getByRole('button', { name: 'Bounce', exact: true }).click();
  await page.getByText('Delivered to your endpoint.').waitFor();
  const changing = /Send|Redeliver|Enable|More actions|Create webhook/;
  assert.equal(await page.getByRole('dialog').getByRole('button', { name: changing }).count(), 0);
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(
    await page
      .locator('main')
      .getByRole('button', { name: /^(Send test|Replay|Enable|More)/ })
      .count(),
    0,
  );
  assert.deepEqual(await faultsOf(page), []);
  await open(page, `${LIST}?panel=new`);
  await page.getByRole('link', { name: /Order service/ }).waitFor();
  assert.equal(await button(page, changing).count(), 0);
  assert.equal((await service.sandboxApi.get('/webhooks')).body.length, 1);
}

/** A viewer's window on a dark phone. */
async function viewer(t: TestContext, visitors: Visitors, service: Service): Promise<Visit> {
  const email = 'viewer@example.com';
  const { body } = await service.api.post('/users', { email, role: 'viewer' });
  await service.anonymous.put('/password', { token: String(body.inviteUrl).split('#token=')[1], password: PASSWORD });
  const visit = await visitors.visit(service.url, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
  t.after(() => visit.close());
  await signInAs(visit, { email, password: PASSWORD });
  return visit;
}

test('a webhook from creation to deletion', { skip: noBrowser(), timeout: 170_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const catcher = await webhookCatcher();
  t.after(() => catcher.close());
  const service = await startService({ env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
  t.after(() => service.close());
  await setFirstPassword(service);
  const visit = await signedIn(t, visitors, service);
  visit.page.setDefaultTimeout(20_000);
  const stage: Stage = { service, catcher, page: visit.page };
  const { id, secret } = await make(stage);
  await testEvents(stage);
  await deliveries(stage, id);
  await replays(stage, id);
  await rotates(stage, secret);
  await checks(stage, secret);
  await orders(stage, id);
  await edits(stage, id);
  await disables(stage, id);
  const other = await viewer(t, visitors, service);
  await reads(stage, other, id);
  await removes(stage, id);
  visit.assertClean();
  other.assertClean();
});
