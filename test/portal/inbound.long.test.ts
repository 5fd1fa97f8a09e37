/**
 * Inbound routes and messages as users of the account see them: an owner creates a route, whose secret is displayed once, reads messages,
 * changes the route, and deletes it; a viewer can only read. Checked at the webhook receiver, in the saved bytes, and in the browser's
 * requests: none goes to another host, even if the HTML of a message names one. Also a bounce that arrives by email after the delivery.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import type { JsonObject } from '../kit/api.ts';
import { bounceAddresses, bring, tokenAddress } from '../kit/bounce-receiver.ts';
import { invited, noBrowser, setFirstPassword, signedIn, startBrowser, type Visit } from '../kit/browser.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { deliveryReport } from '../kit/report-mail.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';
import { faultsOf, load, open } from './every-page.ts';

const ROUTES = '/app/sandbox/inbound-routes';
const PHONE = { width: 390, height: 800 };
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
const title = (page: Page, name: string) => page.getByRole('heading', { level: 1, name });

interface Stage extends Visit {
  service: Service;
  catcher: WebhookCatcher;
}

/** Between desktop and phone width. */
async function assertNoFaults(page: Page): Promise<void> {
  const before = page.viewportSize()!;
  assert.deepEqual(await faultsOf(page), []);
  await page.setViewportSize(PHONE);
  assert.deepEqual(await faultsOf(page), []);
  await page.setViewportSize(before);
}

/** Creates a route on the page. */
async function make({ page, catcher, service }: Stage): Promise<string> {
  await open(page, ROUTES);
  await page.getByText('No inbound routes yet').waitFor();
  await button(page, 'Create route').first().click();
  await page.getByRole('textbox', { name: 'Address' }).fill('a*b@in.shop.example');
  await page.getByLabel('Webhook URL (optional)').fill(catcher.url);
  await page.getByRole('dialog').getByRole('button', { name: 'Create route' }).click();
  await page.getByText('Must be an address such as support@in.shop.example', { exact: false }).waitFor();
  await page.getByRole('textbox', { name: 'Address' }).fill('reply+*@in.shop.example');
  await page.getByRole('dialog').getByRole('button', { name: 'Create route' }).click();
  await page.getByText('Copy it now.').waitFor();
  assert.match(await page.getByText(/^whsec_/).innerText(), /^whsec_.{20,}/);
  await button(page, 'Done').click();
  await title(page, 'reply+*@in.shop.example').waitFor();
  await assertNoFaults(page);
  const id = new URL(page.url()).pathname.split('/').at(-1)!;
  const { body } = await service.sandboxApi.get(`/inbound-routes/${id}`);
  assert.deepEqual([body.url, body.events, body.maxBytes], [catcher.url, false, 25_000_000]);
  return id;
}

async function play({ service }: Stage, mail: JsonObject): Promise<string> {
  const { status, body, text } = await service.sandboxApi.post('/sandbox/inbound', mail);
  assert.equal(status, 201, text);
  return body.inboundId;
}

const ATTACHED = Buffer.from('%PDF-1.4 no document at all\u0000\u00ff');

/** The message appears in the open list automatically, and is read. */
async function read(stage: Stage): Promise<void> {
  const { page, service, catcher } = stage;
  const order = {
    from: 'Shop <shop@shop.example>',
    to: 'ann@example.com',
    subject: 'Order 17',
    text: 'It is on its way.',
  };
  const { data } = (await service.sandboxApi.post('/send', order)).body;
  await open(page, '/app/sandbox/inbound');
  await page.getByText('No inbound emails yet').waitFor();
  const id = await play(stage, {
    to: `reply+${data.messageId}@in.shop.example`,
    from: 'ann@example.com',
    subject: 'Re: Order 17',
    text: 'It came, thank you.\n\nOn Mon, 23 Nov 2026 at 10:00, Shop <shop@shop.example> wrote:\n> It is on its way.\n',
    html: '<p>It <b>came</b>.</p><script>parent.document.title = "hacked"</script><img src="http://elsewhere.example/x.png">',
    attachments: [{ name: 'Bill 17.pdf', contentType: 'application/pdf', content: ATTACHED.toString('base64') }],
    authentication: {
      spf: { result: 'softfail', domain: 'bounces.example.com' },
      dkim: [{ result: 'pass', domain: 'lists.example' }],
      dmarc: { result: 'fail', domain: 'example.com', policy: 'reject' },
    },
  });
  await page.getByRole('link', { name: 'Re: Order 17' }).waitFor();
  await waitUntil('the webhook of the route', async () => catcher.requests.length === 1);
  await assertNoFaults(page);
  await page.getByRole('link', { name: 'Re: Order 17' }).click();
  await title(page, 'Re: Order 17').waitFor();
  assert.equal(new URL(page.url()).pathname, `/app/sandbox/inbound/${id}`);
  const reply = page.getByRole('region', { name: 'Reply text' });
  await reply.getByText('It came, thank you.').waitFor();
  assert.equal(await reply.getByText('It is on its way.').count(), 0);
  await page.frameLocator('iframe').getByText('came', { exact: true }).waitFor();
  assert.equal(await page.title(), 'Re: Order 17 · Postrider', 'no script of the mail ran');
  await assertNoFaults(page);
  const proof = page.getByRole('region', { name: 'Sender authentication' });
  await proof.getByText('Failed: the policy of example.com is reject').waitFor();
  await proof.getByText('bounces.example.com probably does not authorize this server').waitFor();
  await proof.getByText('Valid signature from lists.example').waitFor();
  assert.equal(await proof.getByText('ARC', { exact: true }).count(), 0, 'nothing to say');
  await page.getByRole('tab', { name: 'Headers' }).click();
  await page.getByText('Subject: Re: Order 17').waitFor();
  await saved(stage, id);
  await foundById(stage, id);
  await page.getByRole('link', { name: 'View original message' }).click();
  await title(page, 'Order 17').waitFor();
  assert.equal(new URL(page.url()).pathname, `/app/sandbox/messages/${data.messageId}`);
}

/** The form simulates an email of a route and opens it; an address without a route is explained at its field. */
async function simulateInForm({ page }: Stage): Promise<void> {
  await open(page, '/app/sandbox/inbound');
  await page.getByRole('button', { name: 'Simulate email' }).click();
  const dialog = page.getByRole('dialog', { name: 'Simulate an inbound email' });
  await dialog.getByLabel('To').fill('nobody@elsewhere.example');
  await dialog.getByLabel('Subject').fill('From the form');
  await dialog.getByRole('button', { name: 'Simulate' }).click();
  await dialog.getByText(/No sandbox inbound route matches this address/).waitFor();
  await assertNoFaults(page);
  await dialog.getByLabel('To').fill('reply+7@in.shop.example');
  await dialog.getByRole('button', { name: 'Simulate' }).click();
  await title(page, 'From the form').waitFor();
}

/** The command palette opens it by the id of its event. */
async function foundById({ page }: Stage, id: string): Promise<void> {
  await open(page, '/app/sandbox');
  await page.locator('h1').first().waitFor();
  await page.keyboard.press('ControlOrMeta+k');
  await page.getByPlaceholder('Search emails, templates, domains, pages…').fill(id);
  await page.getByText(`Open ${id}`).click();
  await title(page, 'Re: Order 17').waitFor();
  assert.equal(new URL(page.url()).pathname, `/app/sandbox/inbound/${id}`);
}

/** The download links save the received bytes unchanged. */
async function saved({ page, service }: Stage, id: string): Promise<void> {
  const downloadOf = async (name: string): Promise<{ name: string; bytes: Buffer }> => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name }).click()]);
    return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
  };
  assert.deepEqual(await downloadOf('Bill 17.pdf'), { name: 'Bill 17.pdf', bytes: ATTACHED });
  const whole = await downloadOf('Download .eml');
  assert.equal(whole.name, `${id}.eml`);
  assert.equal(whole.bytes.toString(), (await service.sandboxApi.get(`/inbound/${id}/content`)).text);
}

/** A message without an event is in the list, and can be found by its outcome; filters are part of the URL. */
async function filter(stage: Stage, routeId: string): Promise<void> {
  const { page, catcher } = stage;
  const headers = [{ name: 'Auto-Submitted', value: 'auto-replied' }];
  await play(stage, {
    to: 'reply+1@in.shop.example',
    from: 'ann@example.com',
    subject: 'I am away',
    text: 'x',
    headers,
  });
  await open(page, `${ROUTES}/${routeId}`);
  await page.getByRole('link', { name: 'View emails' }).click();
  const rows = page.getByRole('table', { name: 'Received emails' }).getByRole('row');
  await rows.filter({ hasText: 'I am away' }).getByText('Automatic reply').waitFor();
  assert.equal(await rows.count(), 3);
  await page.getByRole('combobox', { name: 'Status' }).click();
  await page.getByRole('option', { name: 'Automatic reply' }).click();
  await rows.filter({ hasText: 'Re: Order 17' }).waitFor({ state: 'detached' });
  assert.equal(await rows.count(), 2);
  const { searchParams } = new URL(page.url());
  assert.deepEqual([searchParams.get('route'), searchParams.get('outcome')], [routeId, 'auto-reply']);
  await page.getByRole('combobox', { name: 'Status' }).click();
  await page.getByRole('option', { name: 'Mail loop' }).click();
  await page.getByText('No emails match your filters').waitFor();
  await button(page, 'Clear filters').click();
  await rows.filter({ hasText: 'Re: Order 17' }).waitFor();
  assert.equal(catcher.requests.length, 1, 'an automatic reply is not posted');
}

/** Edits the route: it no longer posts anywhere, so its webhook is removed. */
async function change({ page, service }: Stage, routeId: string): Promise<void> {
  await open(page, `${ROUTES}/${routeId}`);
  await page.getByRole('link', { name: 'Deliveries and secret' }).click();
  await page.getByRole('link', { name: 'Managed by its inbound route' }).waitFor();
  await button(page, 'More actions').click();
  await page.getByRole('menuitem').first().waitFor();
  assert.equal(await page.getByRole('menuitem', { name: 'Delete' }).count(), 0);
  await open(page, `${ROUTES}/${routeId}`);
  await button(page, 'Edit').click();
  await page.getByLabel('Maximum size (MB)').fill('26');
  await page.getByText('Must be a number from 0.001 to 25.').waitFor();
  await page.getByLabel('Maximum size (MB)').fill('1.5');
  await page.getByLabel('Webhook URL (optional)').fill('');
  await page.getByLabel('Also send to webhooks subscribed to Inbound').check();
  // Another user changes the address in the meantime.
  const path = `/inbound-routes/${routeId}`;
  const { match, url, events, maxBytes } = (await service.sandboxApi.get(path)).body;
  const renamed = { match: 'answer+*@in.shop.example', url, events, maxBytes };
  assert.equal((await service.sandboxApi.put(path, renamed)).status, 200);
  await button(page, 'Save').click();
  await page.getByText('All webhooks subscribed to Inbound').waitFor();
  const { body } = await service.sandboxApi.get(path);
  assert.deepEqual([body.url, body.webhookId, body.events, body.maxBytes], [null, null, true, 1_500_000]);
  assert.equal(body.match, renamed.match, 'the form does not undo the change of another user');
  await service.sandboxApi.put(path, { ...renamed, match, url: null, events: true, maxBytes: 1_500_000 });
  assert.deepEqual((await service.sandboxApi.get('/webhooks')).body, []);
}

async function viewerReads({ page, context, assertClean }: Visit, { service }: Stage, routeId: string): Promise<void> {
  await open(page, '/app/sandbox/inbound');
  await page.getByRole('link', { name: 'Re: Order 17' }).click();
  await page.frameLocator('iframe').getByText('came', { exact: true }).waitFor();
  await open(page, ROUTES);
  await page.getByRole('link', { name: 'reply+*@in.shop.example' }).click();
  await title(page, 'reply+*@in.shop.example').waitFor();
  for (const name of ['Edit', 'Delete', 'Create route']) assert.equal(await button(page, name).count(), 0, name);
  const headers = {
    'X-Requested-With': 'postrider',
    'X-Id': service.live.accountId,
    'X-Mode': 'sandbox',
    Origin: service.url,
  };
  const answer = await context.request.delete(`/inbound-routes/${routeId}`, { headers, data: { confirm: true } });
  assert.equal(answer.status(), 403, 'nor directly over the API');
  assertClean();
}

async function remove({ page, service }: Stage, routeId: string): Promise<void> {
  await open(page, `${ROUTES}/${routeId}`);
  await button(page, 'Delete').click();
  await page.getByText('Route reply+*@in.shop.example deleted').waitFor();
  await button(page, 'Undo').click();
  await page.getByRole('link', { name: 'reply+*@in.shop.example' }).click();
  await button(page, 'Delete').click();
  await page.getByText('No inbound routes yet').waitFor();
  await waitUntil('the route to be deleted', async () => {
    return (await service.sandboxApi.get(`/inbound-routes/${routeId}`)).status === 404;
  });
  await open(page, '/app/sandbox/inbound');
  await page.getByRole('link', { name: 'Re: Order 17' }).waitFor();
}

/** A live route requires a domain; its MX record is displayed, and checked on demand and while the page is open. */
async function live({ page, service }: Stage, dns: Awaited<ReturnType<typeof fakeDns>>): Promise<void> {
  // The clock is not installed earlier, since its script must not run in the frame of a message. No other visit gets this context.
  await page.clock.install();
  await load(page, '/app/live/inbound-routes');
  await button(page, 'Create route').first().click();
  await page.getByRole('textbox', { name: 'Address' }).fill('*@in.shop.example');
  await page.getByRole('dialog').getByRole('button', { name: 'Create route' }).click();
  await page.getByText('Must be in a verified domain of this account.').waitFor();
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await page.getByRole('dialog').getByRole('button', { name: 'Create route' }).click();
  await title(page, '*@in.shop.example').waitFor();
  const record = page.getByRole('region', { name: 'MX record' });
  await record.getByText('in.shop.example', { exact: true }).waitFor();
  await button(page, 'Verify MX record').click();
  await record.getByText('Missing').waitFor();
  await assertNoFaults(page);
  const [route] = (await service.api.get('/inbound-routes')).body as unknown as JsonObject[];
  dns.zone['in.shop.example'] = { MX: [[10, 'mx.elsewhere.example']] };
  await button(page, 'Verify MX record').click();
  await record.getByText('10 mx.elsewhere.example', { exact: true }).waitFor();
  dns.zone['in.shop.example'] = { MX: [[10, route!.dnsRecord.value]] };
  await page.clock.fastForward(31_000);
  await record.getByText('MX record found.').waitFor();
  await open(page, '/app/live/inbound-routes');
  await page.getByRole('row', { name: '*@in.shop.example' }).getByText('Verified').waitFor();
  await assertNoFaults(page);
}

test('inbound routes and inbound messages', { skip: noBrowser(), timeout: 300_000 }, async (t) => {
  const visitors = await startBrowser();
  t.after(visitors.close);
  const [catcher, dns] = [await webhookCatcher(), await fakeDns({})];
  t.after(() => Promise.all([catcher.close(), dns.close()]));
  const service = await startService({
    env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8', POSTRIDER_DNS_SERVERS: dns.server },
  });
  t.after(service.close);
  await setFirstPassword(service);
  const owner = await signedIn(t, visitors, service, { isNew: true });
  const viewer = await visitors.visit(service.url);
  t.after(() => viewer.close());
  await invited(owner, viewer, service, 'viewer');
  const stage: Stage = { ...owner, service, catcher };
  const routeId = await make(stage);
  await read(stage);
  await filter(stage, routeId);
  await simulateInForm(stage);
  await change(stage, routeId);
  await viewerReads(viewer, stage, routeId);
  await remove(stage, routeId);
  await live(stage, dns);
  owner.assertClean();
});

test('a bounce received by email appears in the timeline after the delivery', { skip: noBrowser() }, async (t) => {
  const visitors = await startBrowser();
  const sink = await smtpSink();
  const service = await startService({ env: { ...bounceAddresses, POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  t.after(async () => {
    await visitors.close();
    await service.close();
    await sink.close();
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await setFirstPassword(service);
  const mail = { from: 'a@shop.example', to: 'ann@example.com', subject: 'Your order', text: 'x' };
  const id = (await service.api.post('/send', mail)).body.data.messageId as string;
  const becomes = (status: string) =>
    waitUntil(status, async () => (await service.api.get(`/messages/${id}`)).body.status === status);
  await becomes('delivered');
  const { page, assertClean } = await signedIn(t, visitors, service);
  await open(page, `/app/live/messages/${id}`);
  const story = page.getByRole('region', { name: 'Activity' });
  const happened = (what: string) => story.getByRole('strong').filter({ hasText: what });
  await happened('Delivered').waitFor();
  assert.equal(await story.getByText('Asynchronous bounce (reported after acceptance)').count(), 0);

  const content = deliveryReport({ recipient: 'ann@example.com' });
  assert.match(await bring(service.inboundPort, { to: tokenAddress('bounce', id), content }), /^250 /);
  await becomes('bounced');
  await page.reload();
  const bounce = story.getByRole('listitem').filter({ hasText: 'Asynchronous bounce (reported after acceptance)' });
  await bounce.getByRole('strong').filter({ hasText: 'Bounced' }).waitFor();
  await happened('Delivered').waitFor();
  assert.equal(await bounce.count(), 1);
  await assertNoFaults(page);
  assertClean();
});
