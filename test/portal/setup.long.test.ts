/** Preparing an account to send: its domains, suppression list, keys, and larger messages. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, type TestContext, test } from 'node:test';
import type { Page } from 'playwright-core';
import { apiClient } from '../kit/api.ts';
import { invited, noBrowser, setFirstPassword, signedIn, startBrowser, type Visit } from '../kit/browser.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { sendSubmission, uploadAll } from '../kit/upload-client.ts';
import { faultsOf, open } from './every-page.ts';

const skip = noBrowser();
/** Longer than the undo period. */
const UNDO_OVER_MS = 7_000;

let visitors: Awaited<ReturnType<typeof startBrowser>>;
let service: Service;
let dns: FakeDns;
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-setup-'));

before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  dns = await fakeDns();
  const env = { POSTRIDER_DNS_SERVERS: dns.server, POSTRIDER_SMTP_HOSTNAME: 'out.postrider.example' };
  service = await startService({ env });
  await setFirstPassword(service);
});

after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service?.close();
  await dns?.close();
  await visitors?.close();
});

/** A page whose clock can be moved forward. */
async function visit(t: TestContext, at: string): Promise<Visit> {
  const visit = await signedIn(t, visitors, service, { hasClock: true });
  await visit.page.goto(at);
  return visit;
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
const seen = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor();
const gone = (page: Page, text: string) => page.getByText(text, { exact: true }).first().waitFor({ state: 'detached' });

/** Waits until the undo period ends and the action is done. */
async function letUndoPass(page: Page, call: RegExp): Promise<void> {
  const answered = page.waitForResponse((response) => call.test(new URL(response.url()).pathname));
  await page.clock.fastForward(UNDO_OVER_MS);
  await answered;
}

test('a domain is added, found in the DNS automatically, and removed unless undone', {
  skip,
}, async (t) => {
  const { page, assertClean } = await visit(t, '/app/live/domains');
  await button(page, 'Add domain').first().click();
  await page.getByRole('textbox', { name: 'Domain' }).fill('not a domain');
  await page.getByRole('dialog').getByRole('button', { name: 'Add domain' }).click();
  await page.getByRole('textbox', { name: 'Domain' }).and(page.locator('[aria-invalid=true]')).waitFor();
  await page.getByRole('textbox', { name: 'Domain' }).fill('mail.shop.example');
  await page.getByRole('dialog').getByRole('button', { name: 'Add domain' }).click();
  await page.getByRole('heading', { level: 1, name: 'mail.shop.example' }).waitFor();
  const key = page.getByRole('region', { name: 'DKIM key (RSA)' });
  await key.getByText('Missing').waitFor();

  const [{ domainId, dnsRecords }] = (await service.api.get('/domains')).body as never as [
    { domainId: string; dnsRecords: { name: string; value: string }[] },
  ];
  const { name, value } = dnsRecords[0]!;
  await page.getByRole('combobox', { name: 'Your DNS provider' }).click();
  await page.getByRole('option', { name: 'Amazon Route 53' }).click();
  await key.getByText(name.replace('.shop.example', ''), { exact: true }).waitFor();
  await key.getByText(`"${value.slice(0, 255)}" "${value.slice(255)}"`).waitFor();
  await button(page, 'Export records').click();
  await page.getByRole('region', { name: 'mail.shop.example, Zone file' }).getByText(`${name}. 3600 IN TXT`).waitFor();
  await page.keyboard.press('Escape');

  dns.zone[name] = { TXT: [value] };
  await page.clock.fastForward(31_000);
  await seen(page, /^Email from mail\.shop\.example and its subdomains is signed with DKIM\./);
  await key.getByText('Verified').waitFor();
  assert.equal((await service.api.get(`/domains/${domainId}`)).body.status, 'verified');

  const refusal = { code: 'UNAVAILABLE', message: 'Postrider cannot create keys now.' };
  await page.route('**/rotate-keys', (route) => route.fulfill({ status: 503, json: { error: refusal } }));
  await button(page, 'Rotate DKIM keys').click();
  await page.getByRole('alert').getByText(refusal.message).waitFor();
  await page.unroute('**/rotate-keys');
  await button(page, 'Rotate DKIM keys').click();
  await page
    .getByText(/The next key\. Publish it now\./)
    .first()
    .waitFor();
  assert.equal(await key.count(), 2, 'the present key and the next one');
  assert.equal(await button(page, 'Rotate DKIM keys').count(), 0, 'they are queued already');

  await button(page, 'Delete').click();
  await seen(page, 'No domains yet');
  await button(page, 'Undo').click();
  await page.getByRole('link', { name: 'mail.shop.example' }).click();
  await button(page, 'Delete').click();
  await seen(page, 'No domains yet');
  await letUndoPass(page, /^\/domains\/dom_/);
  assert.equal((await service.api.get(`/domains/${domainId}`)).status, 404);

  await open(page, '/app/sandbox/domains');
  await page.getByRole('link', { name: 'Switch to Live' }).waitFor();
  assert.equal(await button(page, 'Add domain').count(), 0);
  assertClean();
});

test('an operator-verified domain is not shown as signed until its record is found, and a failing one shows when sending stops', {
  skip,
}, async (t) => {
  const { domainId } = await service.cli('domain', 'add', service.live.accountId, 'marked.example', '--verified');
  const { page, assertClean } = await visit(t, '/app/live/domains');
  await page.getByRole('row', { name: /marked\.example DKIM not verified Publish its DKIM record/ }).waitFor();
  await open(page, `/app/live/domains/${domainId}`);
  await seen(page, /^An operator marked this domain as verified, so you can send\./);
  await page.getByRole('heading', { level: 1 }).locator('..').getByText('DKIM not verified').waitFor();
  assert.equal(await page.getByText('is signed with DKIM').count(), 0);

  const { verifiedBy, dnsRecords } = (await service.api.get(`/domains/${domainId}`)).body;
  assert.equal(verifiedBy, 'operator');
  dns.zone[dnsRecords[0].name] = { TXT: [dnsRecords[0].value] };
  await button(page, 'Verify DNS records').click();
  await seen(page, /^Email from marked\.example and its subdomains is signed with DKIM\./);
  await page.getByRole('heading', { level: 1 }).locator('..').getByText('Verified').waitFor();
  assert.equal((await service.api.get(`/domains/${domainId}`)).body.verifiedBy, 'dns');

  // Its record is removed, and missed for longer than a day.
  delete dns.zone[dnsRecords[0].name];
  const stored = new DatabaseSync(path.join(service.dataDir, 'postrider.db'), { timeout: 30_000 });
  stored
    .prepare(`UPDATE domain SET status = 'failing', failing_since = ? WHERE id = ?`)
    .run(Date.now() - 36 * 3_600_000, domainId);
  stored.close();
  await page.reload();
  await page.getByText(/^Sending stopped .*\d\.$/).waitFor();
  await page.goto('/app/live/domains');
  const row = /marked\.example Failing Republish the DKIM record\s*Sending stopped/;
  await page.getByRole('row', { name: row }).waitFor();
  await service.api.delete(`/domains/${domainId}`);
  assertClean();
});

test('an address is suppressed, found, and removed from the list', { skip }, async (t) => {
  const { page, assertClean } = await visit(t, '/app/sandbox/suppressions');
  await button(page, 'Add address').click();
  await page.getByRole('textbox', { name: 'Address', exact: true }).fill('Ann@Example.com');
  await page.getByRole('combobox', { name: 'Reason' }).last().click();
  await page.getByRole('option', { name: 'Complaint' }).click();
  await button(page, 'Add to suppression list').click();
  await seen(page, 'ann@example.com added to the suppression list.');
  const kept = await service.sandboxApi.get('/suppressions/ann@example.com');
  assert.equal(kept.body.reason, 'complaint');

  await page.getByRole('searchbox', { name: 'Address contains' }).fill('ben');
  await page.waitForURL(/email=ben/);
  await seen(page, 'No addresses match your filters');
  await button(page, 'Clear filters').click();
  await button(page, 'Remove ann@example.com').click();
  await gone(page, 'ann@example.com');
  await button(page, 'Undo').click();
  await button(page, 'Remove ann@example.com').click();
  await letUndoPass(page, /^\/suppressions\/ann/);
  assert.equal((await service.sandboxApi.get('/suppressions/ann@example.com')).status, 404);
  assertClean();
});

test('a list is imported in parts with a result per line, and exported', { skip }, async (t) => {
  const lines = Array.from({ length: 2_500 }, (_, at) => `person${at}@customer.example;bounce`);
  lines[2_400] = 'nonsense;bounce';
  lines[2_401] = 'person0@customer.example;bounce';
  const file = path.join(folder, 'list.csv');
  writeFileSync(file, `E-Mail;Reason\r\n${lines.join('\r\n')}\r\n`);
  const { page, assertClean } = await visit(t, '/app/sandbox/suppressions');
  await button(page, 'Import').click();
  await page.locator('input[type=file]').setInputFiles(file);
  await seen(page, '2,500 addresses will be imported, in 2 parts.');
  await page.getByRole('cell', { name: 'person4@customer.example' }).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Import', exact: true }).click();
  await seen(page, '2,498 imported');
  await seen(page, '1 skipped');
  await seen(page, /^Line 2402: the address /);
  await page.getByRole('dialog').getByText('Close', { exact: true }).click();
  const downloading = page.waitForEvent('download');
  await button(page, 'Export').click();
  const exported = readFileSync(await (await downloading).path(), 'utf8');
  assert.equal(exported.trimEnd().split('\r\n').length, 2_499);
  assertClean();
});

test('a key is created, works, and is replaced', { skip }, async (t) => {
  const { page, assertClean } = await visit(t, '/app/live/keys');
  const secret = async (pattern: RegExp): Promise<string> => {
    await seen(page, 'Copy it now.');
    const text = await page.getByRole('dialog').innerText();
    return pattern.exec(text)![0];
  };
  const statusOf = async (apiKey: string): Promise<number> => {
    const api = apiClient(() => service.url, { accountId: service.live.accountId, apiKey });
    const { status } = await api.post('/send?dryRun=true', {
      from: 'orders@shop.example',
      to: 'ann@example.com',
      subject: 'Hello',
      text: 'It works.',
    });
    api.close();
    return status;
  };
  await button(page, 'Create API key').click();
  await page.getByRole('textbox', { name: 'Name' }).fill('web shop');
  await page.getByRole('dialog').getByRole('radio', { name: 'Sandbox' }).check();
  await page.getByRole('combobox', { name: 'Allowed senders' }).fill('orders@shop.example');
  const networks = page.getByRole('combobox', { name: 'Allowed networks' });
  await networks.fill('127.0.0.1/8');
  await button(page, 'Create').click();
  await page
    .getByRole('alert')
    .filter({ hasText: /use 127\.0\.0\.0\/8 for the network/ })
    .waitFor();
  await networks.press('Backspace');
  await networks.fill('127.0.0.0/8');
  await page.getByRole('combobox', { name: 'Expires' }).click();
  await page.getByRole('option', { name: '30 days' }).click();
  await button(page, 'Create').click();
  const first = await secret(/pr_test_\w+/);
  await page.keyboard.press('Escape');
  await button(page, 'Done').click();
  const row = /web shop.*Sandbox.*Sending access.*orders@shop\.example.*127\.0\.0\.0\/8/;
  await page.getByRole('row', { name: row }).waitFor();
  await page.getByRole('row', { name: /web shop.*Expires \w+ \d+, \d\d:\d\d.*Never/ }).waitFor();
  const stored = new DatabaseSync(path.join(service.dataDir, 'postrider.db'), { timeout: 30_000 });
  stored
    .prepare(`INSERT INTO credential_use SELECT id, ?, ? FROM api_key WHERE name = 'web shop'`)
    .run(Date.now() - 3 * 3_600_000, '2001:db8::7');
  stored.close();
  await page.reload();
  const used = page.getByRole('row', { name: 'web shop' }).getByRole('cell').filter({ hasText: '3 hours ago' });
  assert.deepEqual((await used.innerText()).split(/\s*\n\s*/), ['3 hours ago', '2001:db8::7']);
  assert.equal(await statusOf(first), 200);
  const expire = (at: number): void => {
    const database = new DatabaseSync(path.join(service.dataDir, 'postrider.db'), { timeout: 30_000 });
    database.prepare(`UPDATE api_key SET expires_at = ? WHERE name = 'web shop'`).run(at);
    database.close();
  };
  expire(Date.now() - 1_000);
  await page.reload();
  await page.getByRole('row', { name: /web shop Expired\s*Sandbox/ }).waitFor();
  expire(Date.now() + 30 * 86_400_000);
  await page.reload();
  await page.getByRole('row', { name: /web shop Sandbox/ }).waitFor();

  await button(page, 'Rotate “web shop”').click();
  await button(page, 'Create replacement').click();
  const second = await secret(/pr_test_\w+/);
  await button(page, 'Done').click();
  await button(page, 'Revoke old one').click();
  assert.deepEqual(
    [await statusOf(first), await statusOf(second)],
    [200, 200],
    'nothing happens during the undo period',
  );
  await letUndoPass(page, /^\/api-keys\/key_/);
  assert.deepEqual([await statusOf(first), await statusOf(second)], [401, 200]);
  const listed = (await service.api.get('/api-keys')).body as never as {
    name: string;
    allowedSenders: string[];
    allowedNetworks: string[];
    createdAt: string;
    expiresAt: string;
  }[];
  const named = listed.filter((one) => one.name === 'web shop');
  assert.deepEqual(
    named.map(({ allowedSenders, allowedNetworks }) => [allowedSenders, allowedNetworks]),
    [[['orders@shop.example'], ['127.0.0.0/8']]],
  );
  const days = named.map((one) => (Date.parse(one.expiresAt) - Date.parse(one.createdAt)) / 86_400_000);
  assert.deepEqual(days.map(Math.round), [30], 'the replacement lives as long');
  assertClean();
});

test('an SMTP credential comes with framework settings; a plan without SMTP is explained', { skip }, async (t) => {
  const { page, assertClean } = await visit(t, '/app/sandbox/keys?tab=smtp');
  await button(page, 'Create SMTP credential').click();
  const modes = page.getByRole('dialog').getByRole('radiogroup', { name: 'Mode' }).getByRole('radio');
  await modes.first().waitFor();
  assert.equal(await modes.count(), 1);
  await button(page, 'Create').click();
  await page.getByRole('combobox', { name: 'Language' }).click();
  await page.getByRole('option', { name: 'Django' }).click();
  const snippet = await page.getByRole('region', { name: 'Quickstart, Django' }).innerText();
  assert.match(snippet, /EMAIL_HOST = '127\.0\.0\.1'/);
  assert.match(snippet, /EMAIL_HOST_USER = 'smtp_\w+'/);
  await button(page, 'Done').click();

  await service.cli('account', 'set', service.live.accountId, '--plan', 'free');
  t.after(() => service.cli('account', 'set', service.live.accountId, '--plan', 'enterprise'));
  for (const one of (await service.api.get('/smtp-credentials')).body as never as { smtpCredentialId: string }[])
    await service.api.delete(`/smtp-credentials/${one.smtpCredentialId}`);
  await page.reload();
  await seen(page, 'SMTP isn’t available on your plan');
  assertClean();
});

test('a larger limit is requested, granted, and takes effect', { skip }, async (t) => {
  const { page, assertClean } = await visit(t, '/app/live/approvals');
  await page.getByRole('textbox', { name: 'New limit' }).fill('30');
  await page.getByRole('textbox', { name: 'Use case' }).fill('Plans for our customers');
  await button(page, 'Submit request').click();
  await page.getByRole('row', { name: /30\.0 MB Pending Waiting for review/ }).waitFor();
  const granted = await page.evaluate(async () => {
    const headers = { 'X-Requested-With': 'postrider' };
    const answer = await fetch('/operator/approvals?status=pending', { headers });
    const [{ approvalId }] = (await answer.json()) as [{ approvalId: string }];
    return (await fetch(`/operator/approvals/${approvalId}/approve`, { method: 'POST', headers })).status;
  });
  assert.equal(granted, 200);
  await page.clock.fastForward(11_000);
  await page.getByRole('row', { name: /30\.0 MB Approved You can now send emails up to 30\.0 MB/ }).waitFor();
  await page.getByText('30.0 MB', { exact: true }).first().waitFor();

  const { id } = await uploadAll(service.sandboxApi, [{ bytes: Buffer.alloc(14_600_000, 7), name: 'plan.pdf' }]);
  const mail = { from: 'orders@shop.example', to: 'ann@example.com', subject: 'Your plan', text: 'It is attached.' };
  const sent = await sendSubmission(service.sandboxApi, id, mail);
  assert.equal(sent.status, 202, sent.text);
  const { sizeBytes } = (await service.sandboxApi.get(`/messages/${sent.body.data.messageId}`)).body;
  assert.ok(sizeBytes > 19_900_000, String(sizeBytes));
  assertClean();
});

test('a viewer reads every page on a dark phone and finds no actions', { skip }, async (t) => {
  const owner = await signedIn(t, visitors, service);
  const viewer = await visitors.visit(service.url, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
  t.after(() => viewer.close());
  await invited(owner, viewer, service, 'viewer');
  const { domainId } = (await service.api.post('/domains', { domain: 'news.shop.example' })).body;
  await service.api.post('/suppressions', { email: 'ann@example.com' });
  const { page } = viewer;
  const pages: [at: string, text: string, buttons: RegExp][] = [
    ['/app/live/domains', 'news.shop.example', /Add/],
    [`/app/live/domains/${domainId}`, 'Record not found. Add it with the name and value below.', /Verify|Delete/],
    ['/app/live/suppressions', 'ann@example.com', /Add|Import|Remove/],
    ['/app/live/keys', 'Only account owners can manage credentials.', /Create|Rotate|Revoke/],
    ['/app/live/approvals', 'Only account owners can request an increase.', /Submit/],
  ];
  for (const [at, text, buttons] of pages) {
    await open(page, at);
    await seen(page, text);
    assert.equal(await page.getByRole('main').getByRole('button', { name: buttons }).count(), 0, at);
    assert.deepEqual(await faultsOf(page), [], at);
  }
  viewer.assertClean();
});
