/** Operators in the portal: the queue, accounts, support access, requests for larger messages, nodes, the doctor, and the log. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import { apiClient, type JsonObject } from '../kit/api.ts';
import { noBrowser, setFirstPassword, signedIn, signInAs, startBrowser, type Visit } from '../kit/browser.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { open } from './every-page.ts';

const skip = noBrowser();
const REFUSAL = '421 4.7.28 unusual rate of mail, try again in 20 minutes';

let visitors: Awaited<ReturnType<typeof startBrowser>>;
let sink: SmtpSink;
let dns: FakeDns;
let service: Service;

before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  sink = await smtpSink({ script: { mail: REFUSAL } });
  dns = await fakeDns({ 'busy.example': { MX: [[10, 'mx.busy.example']] }, 'mx.busy.example': { A: ['127.0.0.1'] } });
  service = await startService({
    env: {
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(sink.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
    },
  });
  await setFirstPassword(service);
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await service?.close();
  await sink?.close();
  await dns?.close();
  await visitors?.close();
});

const asked = async (visit: Visit, path: string, accountId?: string): Promise<JsonObject> => {
  const headers: Record<string, string> = accountId === undefined ? {} : { 'X-Id': accountId };
  const answer = await visit.context.request.get(path, { headers });
  return { status: answer.status(), body: await answer.json() };
};
async function newAccount(visit: Visit, name: string): Promise<JsonObject> {
  const headers = { 'X-Requested-With': 'postrider', Origin: service.url };
  const answer = await visit.context.request.post('/operator/accounts', { data: { name }, headers });
  assert.equal(answer.status(), 201, await answer.text());
  return answer.json();
}

async function download(page: Page, button: string): Promise<string> {
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: button }).click()]);
  return readFileSync(await file.path(), 'utf8');
}

test('the queue shows queued messages with reasons, and a pause is ended', { skip }, async (t) => {
  for (let to = 0; to < 3; to += 1) {
    const mail = { from: 'a@shop.example', to: `${to}@busy.example`, subject: 's', text: 't' };
    assert.equal((await service.api.post('/send', mail)).status, 202);
  }
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await open(page, '/app/operator');
  const row = page.getByRole('table', { name: 'Destinations' }).getByRole('row', { name: /busy\.example/ });
  // Updated without a reload.
  await row.getByText('Paused', { exact: true }).waitFor({ timeout: 20_000 });
  await row.getByText(REFUSAL, { exact: true }).waitFor();
  await row.click();
  const drawer = page.getByRole('dialog');
  await drawer
    .getByText(/mx\.busy\.example requested a pause until \w+ \d+, \d\d:\d\d; 3 messages queued\. Last reply: /)
    .waitFor();
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'detached' });
  await page.getByRole('table', { name: 'By account' }).getByRole('link', { name: 'My account' }).waitFor();
  await page.getByRole('button', { name: 'Resume mx.busy.example' }).click();
  await page.getByText('Probing mx.busy.example…').waitFor();
  const { body } = await asked(visit, '/operator/audit?action=destination.resume');
  assert.equal(body[0].resourceId, 'mx.busy.example');
  visit.assertClean();
});

test('an account is created with keys shown once, found, edited, and suspended after a preview', {
  skip,
}, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await open(page, '/app/operator/accounts');
  await page.getByRole('button', { name: 'Create account' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('Läden & <b>Co</b>');
  await dialog.getByRole('button', { name: 'Create account' }).click();
  const apiKey = await page.getByText(/^pr_live_/).innerText();
  const { accountId } = (await asked(visit, '/operator/accounts')).body[0];
  const client = apiClient(() => service.url, { accountId, apiKey });
  t.after(client.close);
  assert.equal((await client.get('/account')).status, 200);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Done' }).click();
  await page.waitForURL(`**/operator/accounts/${accountId}`);
  await page.getByRole('heading', { level: 1, name: 'Läden & <b>Co</b>' }).waitFor();
  assert.equal(await page.getByText(apiKey).count(), 0);

  await page.getByLabel('Size limit (MB)').fill('30');
  await page.getByLabel('Webhooks').fill('7');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Account saved').waitFor();
  const changed = (await asked(visit, `/operator/accounts/${accountId}`)).body;
  assert.deepEqual(
    [changed.approvedEmailBytes, changed.limits.webhooks, changed.limits.domains],
    [30_000_000, 7, 1_000],
  );

  // Not saved yet, while another operator saves another limit.
  await page.getByLabel('Webhooks').fill('9');
  const other = await visit.context.request.patch(`/operator/accounts/${accountId}`, {
    data: { limits: { domains: 500 } },
    headers: { 'X-Requested-With': 'postrider', Origin: service.url },
  });
  assert.equal(other.status(), 200, await other.text());

  await page.getByRole('button', { name: 'Suspend…' }).click();
  await page.getByText('While suspended:').waitFor();
  await page.getByText('rejected with 403').waitFor();
  assert.equal((await client.get('/account')).status, 200, 'nothing has happened yet');
  await page.getByLabel('Reason').fill('Unpaid invoices');
  await page.getByRole('button', { name: 'Suspend now' }).click();
  await page.getByRole('button', { name: 'Reactivate account' }).waitFor();
  await page.getByText('Unpaid invoices', { exact: true }).waitFor();
  assert.equal((await client.get('/account')).status, 403);
  const limitOf = (name: string) => page.getByRole('textbox', { name, exact: true }).inputValue();
  assert.deepEqual([await limitOf('Webhooks'), await limitOf('Domains')], ['9', '500']);
  await open(page, '/app/operator/accounts');
  await page.getByLabel('Name').fill('läden');
  await page.waitForURL('**/accounts?name=l*');
  await page
    .getByRole('row', { name: /Läden.*Suspended/ })
    .getByRole('link')
    .click();
  await page.getByRole('button', { name: 'Reactivate account' }).click();
  await page.getByText('Account reactivated.').waitFor();
  assert.equal((await client.get('/account')).status, 200);
  visit.assertClean();
});

/** An account whose mail is held after a day with too many bounces (src/reputation/protection.test.ts proves the decision). */
function hold(accountId: string): void {
  const database = new DatabaseSync(dataDirectory(service.dataDir).databaseFile, { timeout: 10_000 });
  const threshold = { warning: 0.05, critical: 0.1 };
  const reason = { rate: 'bounceRate', share: 0.1167, answered: 1_200, periodDays: 1, threshold };
  const set = database.prepare(
    "UPDATE account SET protection_status = 'held', protection_since = ?, protection = ? WHERE id = ?",
  );
  set.run(Date.now(), JSON.stringify({ reason }), accountId);
  database.close();
}

test('the page of an account shows how much of its limits and quota is used', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const { accountId } = await newAccount(visit, 'Nearly full');
  const limits = { apiKeys: 2, domains: 5, messagesPerMonth: 1_000 };
  const data = JSON.stringify({ limits });
  const headers = { 'X-Requested-With': 'postrider', 'Content-Type': 'application/json', Origin: service.url };
  const changed = await visit.context.request.patch(`/operator/accounts/${accountId}`, { data, headers });
  assert.equal(changed.status(), 200, await changed.text());
  await open(page, `/app/operator/accounts/${accountId}`);
  await page.getByText('0 of 1,000', { exact: true }).waitFor();
  await page.getByText('API keys (2 of 2)', { exact: true }).waitFor();
  const described = async (label: string): Promise<string | null> => {
    const id = await page.getByLabel(label, { exact: true }).getAttribute('aria-describedby');
    return id === null ? null : page.locator(`[id="${id}"]`).innerText();
  };
  assert.equal(await described('API keys'), '2 used');
  assert.equal(await described('Domains'), '0 used');
  assert.equal(await described('Messages per month'), '0 used');
  assert.equal(await described('Messages per day'), null, 'no quota, so nothing is counted');
  assert.equal(await described('Concurrent event streams'), null);
  visit.assertClean();
});

test('live mail held by sending protection is released', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const { accountId } = await newAccount(visit, 'Bouncy');
  hold(accountId);
  await open(page, `/app/operator/accounts/${accountId}`);
  await page.getByText('Sending protection: live email is held').waitFor();
  await page.getByText('11.67 % of 1200 live messages hard-bounced').waitFor();
  await page.getByRole('button', { name: 'Release held email' }).click();
  await page.getByText('Held email is being sent').waitFor();
  await page.getByText('Sending protection: live email is held').waitFor({ state: 'detached' });
  assert.equal((await asked(visit, `/operator/accounts/${accountId}`)).body.sendingProtection.status, 'good');
  const { body } = await asked(visit, `/operator/audit?action=account.resume-sending`);
  assert.equal(body.length, 1);
  visit.assertClean();
});

test('an operator views an account read-only under a banner, and leaves it', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const { accountId } = await newAccount(visit, 'ACME');
  await open(page, `/app/operator/accounts/${accountId}`);
  assert.equal((await asked(visit, '/account', accountId)).status, 404);
  await page.getByRole('button', { name: 'View as account (read-only)' }).click();
  await page.getByText(/^Support access: viewing “ACME”, read-only until \d\d:\d\d/).waitFor();
  assert.equal(new URL(page.url()).pathname, '/app/live');
  await page.locator('aside summary', { hasText: 'Account' }).click();
  await page.getByRole('link', { name: 'Team' }).click();
  await page.getByText('Only owners can manage team members.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Invite member' }).count(), 0);
  await page.reload();
  await page.getByText(/^Support access: viewing “ACME”/).waitFor();
  const log = (await asked(visit, '/audit', accountId)).body;
  assert.equal(log[0].action, 'account.start-support-access', 'its owners see it');
  await page.getByRole('button', { name: 'Exit' }).click();
  await page.waitForURL(`**/operator/accounts/${accountId}`);
  await page.getByRole('button', { name: 'View as account (read-only)' }).waitFor();
  assert.equal((await asked(visit, '/account', accountId)).status, 404);
  visit.assertClean();
});

test("an account's page shows its queue, users, and changes as text, and opens its messages", { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const hostile = '<img src=x onerror="document.title=1">';
  const headers = { 'X-Requested-With': 'postrider', Origin: service.url };
  const { accountId } = await newAccount(visit, 'Everything in one place');
  const made = await visit.context.request.post('/operator/keys', {
    data: { name: hostile, scopes: ['write'] },
    headers,
  });
  const { operatorKey, operatorKeyId } = await made.json();
  const changed = await fetch(`${service.url}/operator/accounts/${accountId}`, {
    method: 'PATCH',
    headers: { Authorization: `Bearer ${operatorKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ limits: { messagesPerDay: 500 } }),
  });
  assert.equal(changed.status, 200, await changed.text());
  assert.equal((await visit.context.request.delete(`/operator/keys/${operatorKeyId}`, { headers })).status(), 200);
  await open(page, `/app/operator/accounts/${accountId}`);
  await page.getByText('0 of 500', { exact: true }).waitFor();
  await page.getByText('No users', { exact: true }).waitFor();
  await page.getByText('No queued messages', { exact: true }).waitFor();
  const changes = page.getByRole('table', { name: 'Latest changes' });
  await changes.getByText('account.set', { exact: true }).waitFor();
  await changes.getByText(hostile, { exact: true }).waitFor();
  assert.equal(await page.locator('img[src=x]').count(), 0);

  await open(page, `/app/operator/accounts/${service.live.accountId}`);
  const queue = page.getByRole('table', { name: 'Queue by recipient domain' });
  // Two of the messages were never tried: the pause of their destination says why.
  const busy = queue.getByRole('row', { name: /busy\.example 3/ });
  await busy.waitFor();
  assert.equal(await busy.getByText('None yet').count(), 0);
  await busy.getByText(/unusual rate of mail/).waitFor();
  await page.getByRole('table', { name: 'Users' }).getByText('Owner').waitFor();

  await open(page, `/app/operator/accounts/${accountId}`);
  await page.getByRole('textbox', { name: 'Search messages' }).fill('nobody@example.com');
  await page.getByRole('button', { name: 'Search', exact: true }).click();
  await page.getByText(/^Support access: viewing “Everything in one place”/).waitFor();
  const opened = new URL(page.url());
  assert.deepEqual([opened.pathname, opened.searchParams.get('q')], ['/app/live/messages', 'nobody@example.com']);
  const log = (await asked(visit, '/audit', accountId)).body;
  assert.equal(log[0].action, 'account.start-support-access');
  visit.assertClean();
});

test('requests for larger messages are approved, undone, and rejected with a reason', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const { accountId, apiKey } = await newAccount(visit, 'Archive');
  const client = apiClient(() => service.url, { accountId, apiKey });
  t.after(client.close);
  const ask = async (requestedEmailBytes: number) =>
    assert.equal(
      (await client.post('/approvals', { requestedEmailBytes, reason: 'Scanned <i>invoices</i>' })).status,
      201,
    );
  await ask(20_000_000);
  await open(page, '/app/operator/approvals');
  const request = page.getByRole('region', { name: '“Archive” requests 20.0 MB' });
  await request.getByText('Scanned <i>invoices</i>').waitFor();
  await request.getByText('0 approved, 0 rejected').waitFor();
  await request.getByRole('button', { name: 'Approve 20.0 MB' }).click();
  await request.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await request.getByRole('button', { name: 'Reject…' }).click();
  await page.getByLabel('Reason (visible to the account)').fill('Send links instead of files.');
  await page.getByRole('button', { name: 'Reject', exact: true }).click();
  const decision = async () => ((await client.get('/approvals')).body as unknown as JsonObject[])[0]!;
  await waitUntil('the rejection to be sent', async () => (await decision()).status === 'rejected');
  assert.equal((await decision()).decisionReason, 'Send links instead of files.');
  await ask(25_000_000);
  await page.reload();
  await page.getByRole('button', { name: 'Approve 25.0 MB' }).click();
  await waitUntil('the approval to be sent', async () => (await decision()).status === 'approved');
  assert.equal((await client.get('/account')).body.approvedEmailBytes, 25_000_000);
  await page.getByText('Rejected', { exact: true }).first().click();
  await page.getByText('Send links instead of files.').waitFor();
  visit.assertClean();
});

test('an operator key is created, shown once, works, and is revoked after a confirmation', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await open(page, '/app/operator');
  await page.getByRole('link', { name: 'Operator keys' }).click();
  await page.getByText('No operator keys yet').waitFor();
  await page.getByRole('button', { name: 'Create operator key' }).click();
  const dialog = page.getByRole('dialog');
  const create = dialog.getByRole('button', { name: 'Create', exact: true });
  await dialog.getByLabel('Name').fill('terraform');
  await dialog.getByLabel('Allowed networks').fill('nonsense');
  await create.click();
  await dialog.getByRole('alert').getByText('allowedNetworks').waitFor();
  await dialog.getByLabel('Allowed networks').press('Backspace');
  await dialog.getByLabel('Allowed networks').fill('127.0.0.0/8');
  await create.click();
  const key = await dialog
    .getByText(/^pr_operator_\w+$/)
    .first()
    .innerText();
  await page.keyboard.press('Escape');
  await dialog.getByRole('button', { name: 'Done' }).click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await page.getByText(key).count(), 0, 'it is shown once');
  const row = page.getByRole('row', { name: /terraform/ });
  await row.getByText('127.0.0.0/8').waitFor();
  await row.getByText('Read', { exact: true }).waitFor();

  const statusOf = async (path: string) =>
    (await fetch(service.url + path, { headers: { authorization: `Bearer ${key}` } })).status;
  assert.equal(await statusOf('/operator/queue'), 200);
  const [listed] = (await asked(visit, '/operator/keys')).body;
  const days = (Date.parse(listed.expiresAt) - Date.parse(listed.createdAt)) / 86_400_000;
  assert.ok(Math.abs(days - 90) < 0.1, `${days} days`);

  await row.getByRole('button', { name: 'Revoke “terraform”' }).click();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  assert.equal(await statusOf('/operator/queue'), 200, 'only after the confirmation');
  await row.getByRole('button', { name: 'Revoke “terraform”' }).click();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('No operator keys yet').waitFor();
  assert.equal(await statusOf('/operator/queue'), 401);
  visit.assertClean();
});

test('nodes, the doctor, and the log of all accounts with its files', { skip }, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await open(page, '/app/operator/nodes');
  await page.getByRole('row', { name: /api, smtp, delivery, webhooks/ }).waitFor();
  await page.getByRole('link', { name: 'Postmaster mail' }).click();
  await page.getByText('No postmaster mail').waitFor();
  await page.getByRole('link', { name: 'System health' }).click();
  await page.getByRole('region', { name: 'Passed' }).getByText('all settings are valid').waitFor();
  await page.getByText('Set POSTRIDER_BASE_URL to the public https URL').waitFor();
  await page.getByRole('region', { name: 'Skipped' }).getByText('skipped: DNS, mail servers').waitFor();
  const answered = page.waitForResponse('**/operator/doctor');
  await page.getByRole('button', { name: 'Run again' }).click();
  assert.equal((await answered).status(), 200);

  await newAccount(visit, 'Logged');
  await page.getByRole('link', { name: 'Audit log' }).click();
  await page.getByLabel('Action', { exact: true }).fill('account.create');
  await page.waitForURL('**/audit?action=account.create');
  const shown = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'Logged' }) });
  await shown.getByRole('button', { name: 'account.create' }).click();
  await page.getByRole('dialog').getByRole('row', { name: 'name – Logged' }).waitFor();
  await page.keyboard.press('Escape');
  const csv = (await download(page, 'Export CSV')).trim().split('\r\n');
  assert.match(csv[0]!, /^auditId,time/);
  const lines = (await download(page, 'Export JSONL')).trim().split('\n');
  const entries = lines.map((line) => JSON.parse(line) as JsonObject);
  assert.equal(csv.length - 1, entries.length);
  assert.ok(
    entries.length > 0 && entries.every(({ action }) => action === 'account.create'),
    'with the filters of the page',
  );
  visit.assertClean();
});

test('a non-operator sees who can use these pages, and nothing is requested', { skip }, async (t) => {
  const invited = await service.api.post('/users', { email: 'ann@example.com', role: 'owner' });
  assert.equal(invited.status, 201);
  const { password } = await service.cli('user', 'reset-password', '--email', 'ann@example.com');
  const visit = await visitors.visit(service.url);
  t.after(() => visit.close());
  await signInAs(visit, { email: 'ann@example.com', password });
  const calls: string[] = [];
  visit.page.on('request', (request) => calls.push(new URL(request.url()).pathname));
  for (const path of ['', `/accounts/${service.live.accountId}`, '/audit']) {
    await visit.page.goto(`/app/operator${path}`);
    await visit.page.getByText('Operators only').waitFor();
  }
  assert.deepEqual(
    calls.filter((path) => path.startsWith('/operator')),
    [],
  );
  visit.assertClean();
});
