/**
 * Live mail held by sending protection, as users of the account see it: on the overview and as an incident. A viewer reads why and cannot
 * release it; an owner can with one click. Counted at the receiving server.
 */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import type { JsonObject } from '../kit/api.ts';
import { invited, noBrowser, setFirstPassword, signedIn, startBrowser, type Visit } from '../kit/browser.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const WHY = /11\.67 % of 1200 live messages hard-bounced \(warning at 5 %, hold at 10 %\)/;

/** An account whose mail is held after a day with too many bounces (src/reputation/protection.test.ts proves the decision). */
function hold({ dataDir, live }: Service): void {
  const database = new DatabaseSync(dataDirectory(dataDir).databaseFile, { timeout: 10_000 });
  const threshold = { warning: 0.05, critical: 0.1 };
  const reason = { rate: 'bounceRate', share: 0.1167, answered: 1_200, periodDays: 1, threshold };
  const set = database.prepare(
    "UPDATE account SET protection_status = 'held', protection_since = ?, protection = ? WHERE id = ?",
  );
  assert.equal(set.run(Date.now(), JSON.stringify({ reason }), live.accountId).changes, 1);
  database.close();
}

async function openIncident({ page }: Visit): Promise<void> {
  await page.goto('/app/live');
  await page.getByRole('link', { name: 'Live email is held' }).click();
  await page.getByRole('heading', { level: 1, name: 'Live email is held' }).waitFor();
  await page.getByText(WHY).waitFor();
  await page.getByText('Many addresses don’t exist.', { exact: false }).waitFor();
}

/** The list of accounts and the page of an account display the same state; the account itself stays active. */
async function isHeldForOperators({ page }: Visit): Promise<void> {
  await page.goto('/app/operator/accounts');
  await page.getByRole('row', { name: /My account.*Sending on hold/ }).waitFor();
  await page.getByRole('combobox', { name: 'Status' }).click();
  await page.getByRole('option', { name: 'Sending on hold' }).click();
  await page.waitForURL('**/accounts?status=held');
  await page
    .getByRole('row', { name: /My account.*Sending on hold/ })
    .getByRole('link')
    .click();
  await page.getByRole('heading', { level: 1, name: 'My account' }).waitFor();
  await page.getByText('Sending on hold', { exact: true }).waitFor();
}

const letLeave = ({ page }: Visit) => page.getByRole('button', { name: 'Release held email' });

test('a viewer sees why live mail is held, and an owner releases it', { skip: noBrowser() }, async (t) => {
  const visitors = await startBrowser();
  t.after(visitors.close);
  const sink = await smtpSink();
  t.after(sink.close);
  const service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  t.after(service.close);
  await setFirstPassword(service);
  const owner = await signedIn(t, visitors, service);
  const viewer = await visitors.visit(service.url);
  t.after(() => viewer.close());
  await invited(owner, viewer, service, 'viewer');
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const send = async (to: string): Promise<string> => {
    const { status, body } = await service.api.post('/send', { from: 'a@shop.example', to, subject: 's', text: 't' });
    assert.equal(status, 202);
    return body.data.messageId;
  };
  const statusOf = async (id: string): Promise<string> => (await service.api.get(`/messages/${id}`)).body.status;
  const resume = async (visit: Visit): Promise<number> => {
    const headers = { 'X-Requested-With': 'postrider', 'X-Id': service.live.accountId, Origin: service.url };
    return (await visit.context.request.post('/account/resume-sending', { data: { confirm: true }, headers })).status();
  };
  const first = await send('first@x.example');
  await waitUntil('control: mail is sent', async () => (await statusOf(first)) === 'delivered');
  const checkedMs = Date.now();
  await owner.page.goto('/app/live');
  await owner.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  assert.equal(await owner.page.getByText('Live email is held').count(), 0);

  // The delivery may use a cached account for up to a second.
  await waitUntil('the check of the account to be out of date', () => Date.now() - checkedMs > 1_000);
  hold(service);
  const held = [await send('a@x.example'), await send('b@x.example')];
  await openIncident(viewer);
  await viewer.page.getByText('Only account owners can release held email.').waitFor();
  assert.equal(await letLeave(viewer).count(), 0);
  assert.equal(await resume(viewer), 403, 'nor directly over the API');
  await isHeldForOperators(owner);
  await openIncident(owner);
  await letLeave(owner).waitFor();
  assert.deepEqual(await Promise.all(held.map(statusOf)), ['queued', 'queued']);
  assert.equal(sink.accepted, 1, 'nothing was sent so far');

  await letLeave(owner).click();
  await owner.page.getByText('Held email is being sent.').waitFor();
  await owner.page.getByRole('heading', { name: 'This incident is resolved' }).waitFor();
  await viewer.page.getByRole('heading', { name: 'This incident is resolved' }).waitFor();
  await waitUntil('the mail', async () => (await Promise.all(held.map(statusOf))).every((one) => one === 'delivered'));
  assert.equal(sink.accepted, 3);
  assert.equal(await resume(owner), 409, 'control: an owner may, and nothing is held');
  const [row] = (await service.api.get('/audit?action=account.resume-sending')).body as unknown as JsonObject[];
  assert.deepEqual([row!.actor.kind, row!.actor.name], ['user', 'operator@localhost']);
  await owner.page.goto('/app/live/incidents');
  await owner.page.getByRole('heading', { name: 'No incidents' }).waitFor();
  owner.assertClean();
  viewer.assertClean();
});
