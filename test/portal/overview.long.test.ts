/**
 * Delivery statistics for users: the overview of a new and of an active account, retrying an incident, failed calls, the audit log, and
 * usage. The service sends to a server that rejects some messages.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { JsonObject } from '../kit/api.ts';
import { noBrowser, PASSWORD, setFirstPassword, signInAs, startBrowser, type Visit } from '../kit/browser.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { faultsOf, load, open } from './every-page.ts';

const REPLY = '451 4.7.1 greylisted, try again later';

describe('delivery overview', { skip: noBrowser() }, () => {
  let visitors: Awaited<ReturnType<typeof startBrowser>>;
  let sink: SmtpSink;
  let service: Service;
  let visit: Visit;
  let page: Page;
  before(async () => {
    visitors = await startBrowser();
    sink = await smtpSink();
    sink.setScript({ rcpt: ({ line }) => (/@slow\.example/.test(line) ? REPLY : undefined) });
    service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
    visit = await visitors.visit(service.url);
    await signInAs(visit, await setFirstPassword(service));
    page = visit.page;
  });
  after(async () => {
    await visitors?.close();
    await service?.close();
    await sink?.close();
  });

  const seen = (text: string | RegExp) => page.getByText(text).first().waitFor();
  const accessible = async () => assert.deepEqual(await faultsOf(page), []);
  const incidents = async (): Promise<JsonObject[]> =>
    (await service.api.get('/incidents')).body as unknown as JsonObject[];

  test('a new account is guided to its first steps', async () => {
    await open(page, '/app/live');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.getByRole('heading', { name: 'No emails in the last 30 days' }).waitFor();
    await accessible();
    await page.getByRole('main').getByRole('link', { name: 'Get started' }).click();
    await page.waitForURL('**/app/live/start');
    visit.assertClean();
  });

  test('the overview charts outcomes as lines and as a table, and lists failures', async () => {
    await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
    await open(page, '/app/live');
    const to = ['a@good.example', 'b@good.example', 'c@good.example', 'd@slow.example', 'e@slow.example'];
    const messages = to.map((one) => ({ from: 'a@shop.example', to: one, subject: 's', text: 't', tags: ['order'] }));
    await service.api.post('/send/batch', { messages });
    // Without a reload: the page receives events.
    await page.getByRole('button', { name: /^Accepted\s*5$/ }).waitFor();
    await page.getByRole('button', { name: /^Delivered\s*3$/ }).waitFor();
    await page.getByRole('button', { name: /^Delayed\s*2$/ }).waitFor();
    await page.getByRole('link', { name: 'Emails to slow.example are delayed' }).waitFor();
    const figures = page.getByRole('list', { name: 'Last 7 days' }).getByRole('listitem');
    await figures.filter({ hasText: 'Delivery rate' }).filter({ hasText: '100%' }).waitFor();
    await figures.filter({ hasText: 'Accepted' }).filter({ hasText: 'No earlier data' }).waitFor();
    await seen(/Not enough data \(3 of 100 messages\)/);
    await page.locator('canvas').first().waitFor();
    await accessible();

    await page.getByRole('switch', { name: 'Show as table' }).first().click();
    const rows = page.getByRole('region', { name: 'Email volume' }).getByRole('row');
    await rows.nth(7).waitFor();
    assert.equal(await rows.count(), 8, 'seven days and their names');
    assert.match((await rows.nth(1).textContent()) ?? '', /53200$/);
    const accepted = page.getByRole('button', { name: /^Accepted/ });
    await accepted.click();
    await page.getByRole('button', { name: /^Accepted/, pressed: false }).waitFor();

    await page.getByText('24 h', { exact: true }).click();
    await page.waitForURL('**/app/live?range=24h');
    await seen('Last 24 hours');
    visit.assertClean();
  });

  test('one button retries all messages of an incident', async () => {
    await open(page, '/app/live/incidents');
    await page.getByRole('link', { name: 'Emails to slow.example are delayed' }).click();
    await page.getByRole('heading', { level: 1, name: 'Emails to slow.example are delayed' }).waitFor();
    await seen(REPLY);
    await seen('Retries 2 messages now. Limits and pauses of the destination still apply.');
    await page.getByRole('link', { name: 'd@slow.example' }).waitFor();
    await accessible();

    sink.setScript({});
    await page.getByRole('button', { name: 'Retry all 2' }).click();
    await page.getByRole('heading', { name: 'This incident is resolved' }).waitFor();
    assert.deepEqual(
      await waitUntil('no failures', async () => ((await incidents()).length === 0 ? [] : undefined)),
      [],
    );
    const { body } = await service.api.get('/messages?status=delivered');
    assert.equal(body.length, 5);
    await page.getByRole('link', { name: 'All incidents' }).click();
    await page.getByRole('heading', { name: 'No incidents' }).waitFor();
    visit.assertClean();
  });

  test('requests are listed, and a failed one explains its code and the fields to fix', async () => {
    await service.api.post('/send', { from: 'a@shop.example', subject: 's', text: 't' });
    await service.api.post('/send', { from: 'a@other.example', to: 'b@good.example', subject: 's', text: 't' });
    await service.api.get('/messages');
    await open(page, '/app/live/requests');
    await page.getByRole('cell', { name: /other\.example is not verified/ }).waitFor();
    await page.getByText('GET /messages', { exact: true }).first().waitFor();
    await page.getByRole('radiogroup', { name: 'Status' }).getByText('Failed').click();
    await page.waitForURL('**/requests?status=failed');
    await page.getByText('GET /messages', { exact: true }).first().waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'More filters' }).click();
    await page.getByLabel('Code').fill('INVALID_REQUEST');
    await page.waitForURL('**/requests?status=failed&code=INVALID_REQUEST');
    await page.getByRole('cell', { name: /other\.example is not verified/ }).waitFor({ state: 'detached' });
    await page.getByRole('cell', { name: /^to is required/ }).click();
    const dialog = page.getByRole('dialog', { name: 'INVALID_REQUEST' });
    await dialog.getByText('The request is not valid. Fix the fields listed in details and send it again.').waitFor();
    await dialog.getByRole('cell', { name: 'to', exact: true }).waitFor();
    await dialog.getByText('POST /send').waitFor();
    await accessible();
    visit.assertClean();
  });

  test('failed requests are counted from the midnight of the user, and the list opens with the same ones', async (t) => {
    const abroad = await visitors.visit(service.url, { timezoneId: 'Pacific/Kiritimati' });
    t.after(() => abroad.close());
    await signInAs(abroad, { email: 'operator@localhost', password: PASSWORD });
    const sinceOf = async (limit: string): Promise<string | null> => {
      const request = await abroad.page.waitForRequest((one) => {
        const { pathname, searchParams } = new URL(one.url());
        return pathname === '/requests' && searchParams.get('limit') === limit;
      });
      return new URL(request.url()).searchParams.get('since');
    };
    const counted = sinceOf('100');
    await abroad.page.goto('/app/live');
    assert.match((await counted) ?? '', /T10:00:00\.000Z$/, 'its midnight in UTC');
    const listed = sinceOf('50');
    await abroad.page.getByRole('link', { name: /^Failed requests today/ }).click();
    assert.equal(await listed, await counted);
    abroad.assertClean();
  });

  test('an audit log entry shows fields before and after, and the log exports completely', async () => {
    await service.api.patch('/account', { retainContent: '7d' });
    await open(page, '/app/live/audit');
    await page.getByRole('button', { name: 'account.update' }).click();
    const dialog = page.getByRole('dialog', { name: 'account.update' });
    const row = dialog.getByRole('row', { name: /settings\.retainContent/ });
    await row.getByRole('cell').last().waitFor();
    assert.deepEqual(await row.getByRole('cell').allTextContents(), ['30d', '7d']);
    await accessible();
    await dialog.getByRole('button', { name: 'Show all for this resource' }).click();
    await page.waitForURL(`**/audit?resourceId=${service.live.accountId}`);
    await page.getByRole('button', { name: 'domain.add' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Clear filters' }).click();
    await page.getByRole('button', { name: 'domain.add' }).waitFor();

    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export JSONL' }).click();
    const lines = readFileSync(await (await download).path(), 'utf8')
      .trimEnd()
      .split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).action),
      ((await service.api.get('/audit')).body as unknown as JsonObject[]).map(({ action }) => action),
    );
    visit.assertClean();
  });

  test('statistics show rates by tag and recipient domain, and export their counts', async () => {
    await open(page, '/app/live/statistics');
    await page.getByRole('list', { name: 'Last 7 days' }).getByText('100%').first().waitFor();
    await page.getByRole('row', { name: /^order 5 100%/ }).waitFor();
    await accessible();
    await page.getByText('Domain', { exact: true }).click();
    await page.waitForURL('**/statistics?group=recipientDomain');
    await page.getByRole('row', { name: /^good\.example 3 100%/ }).waitFor();
    await page.getByRole('row', { name: /^slow\.example 2 100%/ }).waitFor();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export CSV' }).click(),
    ]);
    const [names, first] = readFileSync(await file.path(), 'utf8')
      .replace('\uFEFF', '')
      .split('\r\n');
    assert.match(names!, /^Recipient domain,Accepted,Delivery rate,.*,delivered,bounced,complained,opened,clicked$/);
    assert.match(first!, /^good\.example,3,1\.00000,.*,3,0,0,0,0$/);
    visit.assertClean();
  });

  test('a page whose data does not load keeps its heading and offers to try again', async () => {
    const error = { error: { code: 'CONFLICT', message: 'Not now.' } };
    await page.route('**/account', (route) => route.fulfill({ status: 409, json: error }));
    await load(page, '/app/live/usage');
    await page.getByText('Couldn’t load this data').waitFor();
    await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
    await accessible();
    await page.unroute('**/account');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('region', { name: 'Limits' }).waitFor();
    visit.assertClean();
  });

  test('statistics by mailbox provider sum the domains of a provider, without links', async () => {
    const to = ['a@gmail.com', 'b@googlemail.com', 'c@web.de'];
    const messages = to.map((one) => ({ from: 'a@shop.example', to: one, subject: 's', text: 't' }));
    await service.api.post('/send/batch', { messages });
    await open(page, '/app/live/statistics');
    await page.getByText('Provider', { exact: true }).click();
    await page.waitForURL('**/statistics?group=mailboxProvider');
    const google = page.getByRole('row', { name: /^Google 2 100%/ });
    await google.waitFor();
    await page.getByRole('row', { name: /^GMX and WEB\.DE 1 100%/ }).waitFor();
    await page.getByRole('row', { name: /^Other 5 100%/ }).waitFor();
    await seen(/Company domains count as Other/);
    assert.equal(await google.getByRole('link').count(), 0);
    await accessible();
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export CSV' }).click(),
    ]);
    assert.equal(file.suggestedFilename(), 'statistics-by-mailboxProvider.csv');
    const [names, first] = readFileSync(await file.path(), 'utf8')
      .replace('\uFEFF', '')
      .split('\r\n');
    assert.match(names!, /^Mailbox provider,Accepted,Delivery rate,/);
    assert.match(first!, /^Google,2,1\.00000,/);
    visit.assertClean();
  });

  test('usage of limits is listed', async () => {
    await open(page, '/app/live/usage');
    const domains = page.getByRole('region', { name: 'Limits' }).getByRole('row', { name: /^Domains/ });
    await domains.getByRole('cell', { name: '1,000' }).waitFor();
    await domains.getByRole('cell', { name: '1', exact: true }).waitFor();
    await accessible();
    visit.assertClean();
  });
});
