/** Messages in a browser: they can be found, appear automatically, show their delivery result, and can be acted on and shared. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser, PASSWORD, setFirstPassword, signedIn, signInAs, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { open } from './every-page.ts';

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
  await service?.close();
  await visitors?.close();
});

const PDF = { name: 'invoice 17.pdf', contentType: 'application/pdf', content: 'JVBERi0xLjcK' };

async function send(to: string, subject: string, changes: object = {}): Promise<string> {
  const mail = { from: 'Shop <orders@shop.example>', to, subject, html: `<h1>Hello</h1><p>${subject}</p>`, ...changes };
  const answer = await service.sandboxApi.post('/send', mail);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data.messageId;
}

const becomes = (id: string, status: string) =>
  waitUntil(status, async () => (await service.sandboxApi.get(`/messages/${id}`)).body.status === status);

const row = (page: Page, subject: string) => page.getByRole('link', { name: subject, exact: true });

async function openMessage(page: Page, id: string): Promise<void> {
  await open(page, `/app/sandbox/messages/${id}`);
  await page.getByRole('heading', { name: 'Activity' }).waitFor();
}

test('messages can be found by any property, and the filters stay in the URL', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await send('ann@example.com', 'Your invoice', { tags: ['invoice'], metadata: { order: '17' } });
  await send('ben@example.com', 'Your order', { tags: ['order'] });
  await becomes(await send('bounced@example.com', 'Your invoice again', { tags: ['invoice'] }), 'bounced');
  await page.goto('/app/sandbox/messages');
  await row(page, 'Your order').waitFor();

  await page.getByRole('searchbox', { name: 'Search' }).fill('INVOICE');
  await page.waitForURL(/q=INVOICE/);
  await row(page, 'Your order').waitFor({ state: 'detached' });
  await page.getByRole('combobox', { name: 'Status' }).click();
  await page.getByRole('option', { name: 'Bounced' }).click();
  await row(page, 'Your invoice').waitFor({ state: 'detached' });
  await row(page, 'Your invoice again').waitFor();
  assert.match(page.url(), /status=bounced/);

  await page.getByRole('button', { name: 'Clear filters' }).click();
  await row(page, 'Your order').waitFor();
  assert.doesNotMatch(page.url(), /status|q=/);
  await page.getByRole('button', { name: 'More filters' }).click();
  await page.getByRole('combobox', { name: 'Metadata' }).fill('order=17');
  await page.getByRole('combobox', { name: 'Metadata' }).press('Enter');
  await row(page, 'Your order').waitFor({ state: 'detached' });
  await row(page, 'Your invoice').waitFor();
  await page.reload();
  await row(page, 'Your invoice').waitFor();
  await page.getByRole('button', { name: 'Filters (1)' }).waitFor();

  await page.goto('/app/sandbox/messages');
  await page.getByRole('searchbox', { name: 'Search' }).fill('status:bounced tag:invoice');
  await row(page, 'Your invoice').waitFor({ state: 'detached' });
  await row(page, 'Your invoice again').waitFor();

  await page.goto('/app/sandbox/messages?q=no+such+mail');
  await page.getByText('No emails match your filters').waitFor();
  visit.assertClean();
});

test('new messages appear automatically, update live, and export as CSV', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await page.goto('/app/sandbox/messages');
  await page.getByText('Auto-updating', { exact: true }).waitFor();
  const id = await send('delayed@example.com', '=A formula');
  await row(page, '=A formula').waitFor();
  await page
    .getByRole('row', { name: /=A formula/ })
    .getByText('Delayed', { exact: true })
    .waitFor();
  await service.sandboxApi.post('/sandbox/clock/advance', { seconds: 120 });
  await becomes(id, 'delivered');
  await page
    .getByRole('row', { name: /=A formula/ })
    .getByText('Delivered', { exact: true })
    .waitFor();

  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export CSV' }).click();
  const csv = readFileSync(await (await saved).path(), 'utf8');
  assert.match(csv, /^\uFEFFSubject,Recipient,Status,Tags,Accepted\r\n/);
  assert.match(csv, /\r\n'=A formula,delayed@example\.com,delivered,/, 'a formula is escaped');
  await row(page, '=A formula').click();
  await page.waitForURL(`**/messages/${id}`);
  visit.assertClean();
});

test('a list that is scrolled down announces new messages, and counts them only without a filter', {
  skip,
}, async (t) => {
  const visit = await signedIn(t, visitors, service, { viewport: { width: 1280, height: 300 } });
  const { page } = visit;
  for (let number = 1; number <= 8; number += 1) await send('list@example.com', `Long list ${number}`);
  const scrollDown = async (): Promise<void> => {
    await page.getByText('Auto-updating', { exact: true }).waitFor();
    await row(page, 'Long list 8').waitFor();
    await page.evaluate('scrollTo(0, 400)');
    await waitUntil('the list to be scrolled', () => page.evaluate<boolean>('scrollY >= 200'));
  };
  await page.goto('/app/sandbox/messages');
  await scrollDown();
  await send('list@example.com', 'Further down');
  await page.getByRole('button', { name: '1 new message', exact: true }).click();
  await row(page, 'Further down').waitFor();

  await page.goto('/app/sandbox/messages?subject=long');
  await scrollDown();
  await send('list@example.com', 'Another subject');
  await page.getByRole('button', { name: 'Check for new messages', exact: true }).click();
  await page.getByRole('button', { name: 'Check for new messages' }).waitFor({ state: 'detached' });
  assert.equal(await row(page, 'Another subject').count(), 0);
  visit.assertClean();
});

test('bulk resend and cancel apply to the eligible messages', {
  skip,
}, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const later = { sendAt: new Date(Date.now() + 86_400_000).toISOString(), tags: ['bulk'] };
  const scheduled = [
    await send('a@example.com', 'Bulk later 1', later),
    await send('b@example.com', 'Bulk later 2', later),
  ];
  await becomes(await send('c@example.com', 'Bulk now', { tags: ['bulk'] }), 'delivered');
  await page.goto('/app/sandbox/messages?tags=bulk');
  await row(page, 'Bulk later 2').waitFor();
  await page.getByRole('checkbox', { name: 'Select all loaded rows' }).check();
  const bar = page.getByRole('region', { name: 'Selected rows' });
  await bar.getByText('3 selected').waitFor();
  await bar.getByRole('button', { name: 'Reschedule (2)' }).click();
  const inTwoDays = new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 16);
  await page.getByLabel('New send time').fill(inTwoDays);
  await page.getByRole('button', { name: 'Reschedule 2 messages' }).click();
  await page.getByText('2 messages rescheduled').waitFor();
  for (const id of scheduled) {
    const moved = (await service.sandboxApi.get(`/messages/${id}`)).body.sendAt;
    const shown = await page.evaluate((text) => new Date(text).toISOString(), inTwoDays);
    assert.equal(moved, shown);
  }
  await page.getByRole('checkbox', { name: 'Select all loaded rows' }).check();
  await bar.getByRole('button', { name: 'Cancel (2)' }).click();
  await page.getByRole('button', { name: 'Cancel 2 messages' }).click();
  await page.getByText('2 messages canceled').waitFor();
  for (const id of scheduled) await becomes(id, 'cancelled');

  await page
    .getByRole('row', { name: /Bulk now/ })
    .getByRole('checkbox')
    .check();
  await bar.getByRole('button', { name: 'Resend', exact: true }).click();
  await page.getByRole('button', { name: 'Resend 1 message' }).click();
  await page.getByText('1 message resent').waitFor();
  await bar.waitFor({ state: 'detached' });
  const { body } = await service.sandboxApi.get('/messages?q=Bulk+now');
  assert.equal(body.length, 2, 'the message and its copy');
  visit.assertClean();
});

test('a message shows its outcome first, then attempts, content, and files', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const hostile = '<img src=x onerror=alert(1)>"&amp; {{name}}';
  const html = `<p>Read me</p><img src="https://elsewhere.example/pixel.png"><script>alert(1)</script>`;
  const id = await send('bounced@example.com', hostile, {
    html,
    text: 'Plain words',
    attachments: [PDF],
    render: false,
  });
  await becomes(id, 'bounced');
  await openMessage(page, id);
  await page.getByRole('heading', { level: 1, name: hostile }).waitFor();
  const answer = page.getByRole('region', { name: 'Status summary' });
  await answer.getByText(/Bounced by example\.com at .*: the mailbox doesn’t exist\./).waitFor();
  await answer.getByText('Action required.').waitFor();

  await page.getByText('Attempt 1').click();
  await page.getByRole('list', { name: 'SMTP transcript' }).getByText('RCPT TO:<bounced@example.com>').waitFor();
  const [transcript] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download SMTP transcript' }).click(),
  ]);
  assert.match(transcript.suggestedFilename(), /^smtp-[\dTZ-]+\.txt$/);
  assert.match(readFileSync(await transcript.path(), 'utf8'), /^ +\d+ ms {2}C: RCPT TO:<bounced@example\.com>$/m);
  await page.frameLocator('iframe').getByText('Read me').waitFor();
  await page.getByRole('tab', { name: 'Text' }).click();
  await page.getByText('Plain words').waitFor();
  await page.getByRole('tab', { name: 'Headers' }).click();
  await page.getByText(/MIME-Version: 1\.0/).waitFor();
  await page.getByRole('tab', { name: 'Attachments (1)' }).click();
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download invoice 17.pdf' }).click();
  const download = await saved;
  assert.equal(download.suggestedFilename(), 'invoice 17.pdf');
  assert.equal(readFileSync(await download.path(), 'utf8'), '%PDF-1.7\n');

  await page.getByRole('button', { name: 'Resend' }).click();
  await page.getByText(/Sends the stored content to bounced@example\.com again/).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Resend' }).click();
  await page.getByRole('link', { name: 'View new message' }).click();
  await page.waitForURL((url) => !url.pathname.endsWith(id));
  const again = page.url().split('/').at(-1)!;
  assert.equal((await service.sandboxApi.get(`/messages/${again}`)).body.to, 'bounced@example.com');
  visit.assertClean();
});

test('queued messages are rescheduled and canceled, and a suppression is removed, with undo', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const id = await send('later@example.com', 'See you', { sendAt: new Date(Date.now() + 7_200_000).toISOString() });
  await openMessage(page, id);
  await page.getByText(/^Scheduled to send at .* \(in 2 hours\)\.$/).waitFor();
  await page.getByRole('button', { name: 'Reschedule' }).click();
  const inTwoDays = new Date(Date.now() + 172_800_000).toISOString().slice(0, 16);
  await page.getByLabel('New send time').fill(inTwoDays);
  await page.getByRole('dialog').getByRole('button', { name: 'Reschedule' }).click();
  await page.getByText(/^Scheduled to send at .* \(in 2 days\)\.$/).waitFor();
  const { sendAt } = (await service.sandboxApi.get(`/messages/${id}`)).body;
  assert.equal(Date.parse(sendAt), new Date(inTwoDays).getTime());

  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Cancel message' }).click();
  await page.getByText(/^Canceled at .*, before sending\.$/).waitFor();
  assert.equal((await service.sandboxApi.get(`/messages/${id}`)).body.status, 'cancelled');

  await service.sandboxApi.post('/suppressions', { email: 'stopped@example.com' });
  await openMessage(page, await send('stopped@example.com', 'Not for you'));
  await page.getByText('Not sent: stopped@example.com is on your suppression list.').waitFor();
  const lift = async (): Promise<void> => {
    await page.getByRole('button', { name: 'Remove suppression' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove suppression' }).click();
  };
  await lift();
  await page.getByRole('button', { name: 'Undo' }).click();
  await lift();
  await page.getByText(/has since been removed from the suppression list/).waitFor();
  assert.equal((await service.sandboxApi.get('/suppressions/stopped@example.com')).status, 404);
  visit.assertClean();
});

test('a share link displays the message without a login, and omits hidden parts', {
  skip,
}, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const id = await send('ann@example.com', 'A private matter', { tags: ['secret-tag'] });
  await becomes(id, 'delivered');
  await openMessage(page, id);
  const make = async (hides: boolean): Promise<string> => {
    await page.getByRole('button', { name: 'Share' }).click();
    if (hides) await page.getByLabel('Hide subject').check();
    await page.getByRole('button', { name: 'Create link' }).click();
    const link = await page.getByRole('textbox', { name: 'Link' }).inputValue();
    await page.getByRole('button', { name: 'Done' }).click();
    return link.slice(link.indexOf('/shared'));
  };
  const [whole, hidden] = [await make(false), await make(true)];

  const guest = await visitors.visit(service.url);
  t.after(() => guest.close());
  await guest.page.goto(whole);
  await guest.page.getByRole('heading', { level: 1, name: 'A private matter' }).waitFor();
  await guest.page.getByText(/^Delivered to mx\.sandbox\.invalid at /).waitFor();
  await guest.page.getByText(/This link expires/).waitFor();
  await guest.page.frameLocator('iframe').getByText('Hello').waitFor();
  assert.equal(await guest.page.getByText('secret-tag').count(), 0);
  assert.equal(await guest.page.getByRole('button', { name: 'Resend' }).count(), 0);
  await guest.page.goto('about:blank');
  await guest.page.goto(hidden);
  await guest.page.getByText('Content hidden').waitFor();
  assert.doesNotMatch(await guest.page.content(), /private matter/);
  await guest.page.goto('about:blank');
  await guest.page.goto(`${whole}x`);
  await guest.page.getByRole('heading', { name: 'This link is invalid or has expired' }).waitFor();
  guest.assertClean();
  visit.assertClean();
});

test('share links are listed per message and for all, and a revoked one stops working', {
  skip,
}, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const id = await send('ann@example.com', 'Shared twice');
  await becomes(id, 'delivered');
  const shared = async (body: object): Promise<string> => {
    const { url } = (await service.sandboxApi.post(`/messages/${id}/share`, body)).body;
    return url.slice(url.indexOf('/shared'));
  };
  const [first, second] = [await shared({ hideSubject: true }), await shared({ hideContent: true })];
  await openMessage(page, id);
  await page.getByRole('button', { name: 'Share' }).click();
  const links = page.getByRole('region', { name: 'Valid links' }).getByRole('listitem');
  await links.nth(1).waitFor();
  assert.match(await links.nth(0).innerText(), /Expires .*Created by .*· Content hidden/s);
  assert.match(await links.nth(1).innerText(), /Subject and content hidden/);
  const isOpen = async (link: string): Promise<boolean> => {
    const token = link.slice(link.indexOf('#token=') + 7);
    const answer = await fetch(`${service.url}/shared/message`, { headers: { 'x-share-token': token } });
    return answer.ok;
  };
  await links.nth(0).getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('The link stops working immediately').waitFor();
  assert.ok(await isOpen(second), 'only after the confirmation');
  await page.getByRole('button', { name: 'Revoke link' }).click();
  await page.getByText('Link revoked').waitFor();
  await waitUntil('one link', async () => (await links.count()) === 1);
  assert.deepEqual([await isOpen(first), await isOpen(second)], [true, false]);

  await open(page, '/app/sandbox/messages');
  await page.getByRole('link', { name: 'Shared links' }).click();
  await page.waitForURL('**/app/sandbox/shares');
  const row = page.getByRole('row').filter({ hasText: id });
  await row.getByText('Subject and content hidden').waitFor();
  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('button', { name: 'Revoke link' }).click();
  await row.waitFor({ state: 'detached' });
  assert.ok(!(await isOpen(first)));
  visit.assertClean();
});

test('a viewer sees everything and no action that would be rejected', { skip }, async (t) => {
  const { body } = await service.api.post('/users', { email: 'viewer@example.com', role: 'viewer' });
  const token = new URL(body.inviteUrl).hash.split('token=')[1];
  assert.equal((await service.anonymous.put('/password', { token, password: PASSWORD })).status, 200);
  const visit = await visitors.visit(service.url);
  t.after(() => visit.close());
  await signInAs(visit, { email: 'viewer@example.com', password: PASSWORD });
  const { page } = visit;
  const id = await send('bounced@example.com', 'Only to look at');
  await becomes(id, 'bounced');
  await openMessage(page, id);
  await page.getByText(/Bounced by example\.com/).waitFor();
  for (const name of ['Resend', 'Share', 'Cancel', 'Reschedule']) {
    assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, name);
  }
  await open(page, '/app/sandbox/messages/msg_none');
  await page.getByText('Not found').waitFor();
  visit.assertClean();
});

test('the command palette finds templates, domains, and suppressed addresses, and switches modes', {
  skip,
}, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const template = { name: 'palette-welcome', subject: 'Welcome', text: 'Hello' };
  const { templateId } = (await service.api.post('/templates', template)).body;
  const { domainId } = (await service.api.post('/domains', { domain: 'palette.example' })).body;
  await service.api.post('/suppressions', { email: 'gone@palette.example' });
  await page.goto('/app/live');
  await page.locator('h1').first().waitFor();
  const search = async (text: string): Promise<void> => {
    await page.keyboard.press('ControlOrMeta+k');
    await page.getByPlaceholder('Search emails, templates, domains, pages…').fill(text);
  };
  const found = (name: string) => page.getByRole('dialog').getByRole('button', { name });
  await search('palette');
  await found('palette-welcome').click();
  await page.waitForURL(`**/templates/${templateId}`);
  await search('palette.example');
  await found('palette.example Domain').click();
  await page.waitForURL(`**/domains/${domainId}`);
  await search('gone@');
  await found('gone@palette.example').click();
  await page.waitForURL('**/suppressions?email=gone%40palette.example');
  // A page or an action comes before mail that contains its name.
  for (const [text, name] of [
    ['web', 'Webhooks'],
    ['log', 'Audit log'],
    ['switch', 'Switch to Sandbox'],
  ]) {
    await search(text!);
    await waitUntil(`the first result for ${text}`, async () =>
      ((await page.getByRole('dialog').getByRole('button').first().textContent()) ?? '').startsWith(name!),
    );
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  }
  await search('sandbox');
  await found('Switch to Sandbox').click();
  await page.waitForURL('**/app/sandbox');
  visit.assertClean();
});
