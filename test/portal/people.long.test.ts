/** Users in the portal: the team, account settings, and login methods. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { JsonObject } from '../kit/api.ts';
import { noBrowser, PASSWORD, setFirstPassword, signedIn, signInAs, startBrowser, type Visit } from '../kit/browser.ts';
import { totpCode } from '../kit/second-factors.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { TEST_LOGO } from '../kit/test-logo.ts';
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
  await service?.close();
  await visitors?.close();
});

const members = async (): Promise<Record<string, string>> => {
  const { body } = await service.api.get('/users');
  return Object.fromEntries((body as unknown as JsonObject[]).map(({ email, role }) => [email, role]));
};
/** A user of the account with a password. */
const person = async (email: string, role: string): Promise<{ email: string; password: string }> => {
  assert.equal((await service.api.post('/users', { email, role })).status, 201);
  const { password } = await service.cli('user', 'reset-password', '--email', email);
  return { email, password };
};

test('a user is invited by link, promoted, and removed after the undo period', {
  skip,
}, async (t) => {
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await page.goto('/app/live/team');
  const own = page.getByRole('row', { name: /operator@localhost/ });
  await own.waitFor();
  assert.equal(await own.getByRole('button', { name: /Remove/ }).count(), 0, 'the last owner stays');
  assert.ok(await page.getByRole('combobox', { name: 'Role of operator@localhost' }).isDisabled());

  await page.getByRole('button', { name: 'Invite member' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Email').fill('not an address');
  await dialog.getByLabel('Email').fill('ann@example.com');
  await dialog.getByLabel('Viewer').check();
  await dialog.getByRole('button', { name: 'Send invitation' }).click();
  const link = await page.getByRole('region', { name: 'Invitation link' }).innerText();
  await page.getByRole('button', { name: 'Done' }).click();
  assert.equal((await members())['ann@example.com'], 'viewer');

  const guest = await visitors.visit(service.url);
  t.after(() => guest.close());
  const { pathname, hash } = new URL(link.trim());
  await guest.page.goto(pathname + hash);
  await guest.page.getByLabel('New password').fill('a sentence of my own');
  await guest.page.getByRole('button', { name: 'Set password and continue' }).click();
  await guest.page.waitForURL('**/app/sandbox/start');
  await guest.page.goto('/app/live/team');
  await guest.page.getByText('Only owners can manage team members.').waitFor();
  assert.equal(await guest.page.getByRole('button', { name: /Invite|Remove/ }).count(), 0);
  guest.assertClean();

  await page.getByRole('combobox', { name: 'Role of ann@example.com' }).click();
  await page.getByRole('option', { name: 'Owner' }).click();
  await page.getByText('ann@example.com now has the role owner').waitFor();
  assert.equal((await members())['ann@example.com'], 'owner');
  const remove = page.getByRole('button', { name: 'Remove ann@example.com' });
  await remove.click();
  await remove.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await remove.click();
  assert.ok('ann@example.com' in (await members()), 'not before the undo period ends');
  await waitUntil('the removal', async () => !('ann@example.com' in (await members())));
  await page.goto('/app/sandbox/team');
  await page.getByRole('link', { name: 'Switch to Live' }).waitFor();
  assert.equal(await page.getByRole('button', { name: /Invite|Remove/ }).count(), 0);
  visit.assertClean();
});

test('settings are changed individually, and variables are merged', { skip }, async (t) => {
  const settings = async () => (await service.api.get('/account')).body.settings as JsonObject;
  await service.api.patch('/account', { variables: { old: '1', kept: '<b>2</b>' } });
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await page.goto('/app/live/settings');
  await page.getByLabel('Default sender').fill('Shop <orders@shop.example>');
  await page.getByLabel('Keep placeholder').check();
  await page.getByLabel('7 days').check();
  await page.getByRole('region', { name: 'Sending' }).getByRole('button', { name: 'Save' }).click();
  await page.getByText('Settings saved').first().waitFor();
  assert.deepEqual(await settings(), {
    variables: { old: '1', kept: '<b>2</b>' },
    missingVariables: 'keep',
    retainContent: '7d',
    defaultFrom: 'Shop <orders@shop.example>',
  });

  // Typed, but not saved yet; a panel that is saved, and another user's changes, do not discard it.
  await page.getByLabel('Account name').fill('Shop & Sons');
  await page.getByLabel('Default sender').fill('Sons <sons@shop.example>');
  const variables = page.getByRole('region', { name: 'Account variables' });
  await variables.getByLabel(/Company address/).fill('Shop Ltd<br>1 High Street');
  await variables.getByRole('button', { name: 'Remove old' }).click();
  await variables.getByLabel('Variable name').fill('1st');
  await variables.getByText('The name can’t start with a digit.').waitFor();
  await variables.getByLabel('Variable name').fill('brand');
  await variables.getByRole('button', { name: 'Add' }).click();
  await variables.getByRole('textbox', { name: 'brand' }).fill('Shop');
  // Settings changed by someone else in the meantime stay.
  await service.api.patch('/account', { variables: { other: 'x' } });
  await variables.getByRole('button', { name: 'Save' }).click();
  const merged = { kept: '<b>2</b>', company_address_html: 'Shop Ltd<br>1 High Street', brand: 'Shop', other: 'x' };
  await waitUntil('the variables', async () => 'brand' in (await settings()).variables);
  assert.deepEqual((await settings()).variables, merged);
  await variables.getByRole('textbox', { name: 'other' }).waitFor();
  assert.equal(await page.getByLabel('Account name').inputValue(), 'Shop & Sons');
  assert.equal(await page.getByLabel('Default sender').inputValue(), 'Sons <sons@shop.example>');

  await page.getByLabel('Default sender').fill('nonsense');
  await page.getByRole('region', { name: 'Sending' }).getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').getByText('defaultFrom').waitFor();
  await page.getByLabel('Default sender').fill('');
  await page.getByRole('region', { name: 'Sending' }).getByRole('button', { name: 'Save' }).click();
  await waitUntil('the sender to be removed', async () => (await settings()).defaultFrom === null);
  await page.goto('/app/sandbox/settings');
  await page.getByRole('link', { name: 'Switch to Live' }).waitFor();
  assert.ok(await page.getByLabel('Default sender').isDisabled());
  visit.assertClean();
});

test('the account has a name, a time zone, and a logo, and each user chooses their notices', { skip }, async (t) => {
  const account = async () => (await service.api.get('/account')).body as JsonObject;
  const { name: before } = await account();
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  await page.goto('/app/live/settings');
  const identity = page.getByRole('region', { name: 'Account', exact: true });
  await identity.getByLabel('Account name').fill('Shop of Ann');
  await identity.getByRole('combobox', { name: 'Time zone' }).fill('berlin');
  await page.getByRole('option', { name: 'Europe/Berlin' }).click();
  await identity.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Settings saved').first().waitFor();
  const { name, timeZone } = await account();
  assert.deepEqual([name, timeZone], ['Shop of Ann', 'Europe/Berlin']);
  await page.getByText('Shop of Ann').first().waitFor();

  const upload = async (name: string, buffer: Buffer): Promise<void> => {
    const choosing = page.waitForEvent('filechooser');
    await identity.getByRole('button', { name: /(Upload|Replace) logo/ }).click();
    await (await choosing).setFiles({ name, mimeType: 'image/png', buffer });
  };
  await upload('large.png', Buffer.alloc(65_537));
  await identity.getByRole('alert').getByText('larger than 64 KiB').waitFor();
  await upload('logo.png', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'));
  await identity.getByRole('alert').getByText('must be a PNG, JPEG, GIF, or WebP image').waitFor();
  await upload('logo.png', Buffer.from(TEST_LOGO, 'base64'));
  const logo = identity.getByRole('img', { name: 'Logo of the account' });
  await logo.waitFor();
  assert.equal(await identity.getByRole('alert').count(), 0);
  assert.equal(await logo.getAttribute('src'), `data:image/png;base64,${TEST_LOGO}`);
  await waitUntil('the image, which the policy allows', () =>
    logo.evaluate((image) => 'naturalWidth' in image && Number(image.naturalWidth) > 0),
  );

  const notices = page.getByRole('region', { name: 'Notices by email' });
  const row = (kind: string) => notices.getByRole('listitem').filter({ hasText: kind });
  await notices.getByText('Email can’t reach operator@localhost, so you receive no notices.').waitFor();
  await row('Webhooks').getByText('No one receives these notices.').waitFor();
  const ann = await person('ann@notices.example', 'member');
  const guest = await visitors.visit(service.url);
  t.after(() => guest.close());
  await signInAs(guest, ann);
  await guest.page.goto('/app/live/settings');
  const own = guest.page.getByRole('region', { name: 'Notices by email' });
  const webhooks = own.getByRole('switch', { name: 'Webhooks' });
  await own.getByText('Sent to ann@notices.example').first().waitFor();
  assert.ok(await webhooks.isChecked());
  assert.ok(await guest.page.getByLabel('Account name').isDisabled());
  await webhooks.press('Space');
  await own.getByText('No one receives these notices.').waitFor();
  assert.equal(await webhooks.isChecked(), false);
  assert.deepEqual(await faultsOf(guest.page), []);
  await guest.page.goto('/app/sandbox/settings');
  await own.getByRole('switch', { name: 'Webhooks' }).waitFor();
  assert.ok(await own.getByRole('switch', { name: 'Webhooks' }).isDisabled());
  guest.assertClean();

  await page.reload();
  await row('Webhooks').getByText('No one receives these notices.').waitFor();
  await row('Quotas').getByText('Sent to ann@notices.example').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  await identity.getByRole('button', { name: 'Remove logo' }).click();
  await logo.waitFor({ state: 'detached' });
  assert.equal((await account()).logo, null);
  await service.api.patch('/account', { name: before, timeZone: 'UTC' });
  visit.assertClean();
});

/** Makes the session old for the service. */
function ageSessions(email: string): void {
  const database = new DatabaseSync(path.join(service.dataDir, 'postrider.db'), { timeout: 30_000 });
  database
    .prepare(
      'UPDATE user_session SET created_at = created_at - 1000000 WHERE user_id = (SELECT id FROM app_user WHERE email = ?)',
    )
    .run(email);
  database.close();
}

async function fillSignIn(page: Page, credentials: { email: string; password: string }): Promise<void> {
  await page.getByLabel('Email').fill(credentials.email);
  await page.getByRole('textbox', { name: 'Password' }).fill(credentials.password);
}

test('an authenticator app is added after a fresh login, and its codes are then required', {
  skip,
}, async (t) => {
  const ben = await person('ben@example.com', 'member');
  const visit = await visitors.visit(service.url);
  t.after(() => visit.close());
  await signInAs(visit, ben);
  const { page } = visit;
  ageSessions(ben.email);
  await page.goto('/app/live/profile');
  const begin = page.getByRole('button', { name: 'Set up' });
  await waitUntil('the session to be old everywhere', async () => {
    await begin.click();
    const old = page.getByText('Confirm it’s you');
    await old
      .or(page.getByRole('img', { name: 'QR code for the authenticator app' }))
      .first()
      .waitFor();
    const isOld = await old.isVisible();
    if (!isOld) await page.keyboard.press('Escape');
    return isOld;
  });
  await page.getByRole('link', { name: 'Sign in again' }).click();
  await fillSignIn(page, ben);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.waitForURL('**/app/live/profile');
  await begin.click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('img', { name: 'QR code for the authenticator app' }).waitFor();
  const secret = await dialog.getByText(/^[A-Z2-7]{32}$/).innerText();
  await dialog.getByLabel('6-digit code').fill('000000');
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  await dialog.getByRole('alert').waitFor();
  await dialog.getByLabel('6-digit code').fill(totpCode(secret, Date.now()));
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  const listed = page.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem');
  await listed.nth(9).waitFor();
  const codes = await listed.allInnerTexts();
  assert.equal(codes.length, 10);
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download' }).click(),
  ]);
  assert.equal(readFileSync(await file.path(), 'utf8'), `${codes.join('\n')}\n`);
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByText('On. 10 recovery codes left.').waitFor();

  const other = await visitors.visit(service.url);
  t.after(() => other.close());
  await other.page.goto('/sign-in');
  await fillSignIn(other.page, ben);
  await other.page.getByRole('button', { name: 'Use a two-factor code' }).click();
  await other.page.getByLabel('Two-factor code', { exact: true }).fill(codes[0]!);
  await other.page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await other.page.waitForURL('**/app/live');
  await page.getByRole('region', { name: 'Authenticator app' }).getByRole('button', { name: 'Remove' }).click();
  await waitUntil('codes to be no longer required', async () => {
    const answer = await visit.context.request.get('/session');
    return !(await answer.json()).twoFactor.totp;
  });
  await begin.waitFor();
  visit.assertClean();
});

test('a passkey is added, signs in, and is removed', { skip }, async (t) => {
  const eva = await person('eva@example.com', 'member');
  // Passkeys require a hostname, not an IP address.
  const visit = await visitors.visit(service.url.replace('127.0.0.1', 'localhost'));
  t.after(() => visit.close());
  const { page } = visit;
  const session = await visit.context.newCDPSession(page);
  await session.send('WebAuthn.enable');
  await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  await signInAs(visit, eva);
  await page.goto('/app/live/profile');
  const panel = page.getByRole('region', { name: 'Passkeys' });
  await panel.getByLabel('Passkey name').fill('Laptop');
  await panel.getByRole('button', { name: 'Add passkey' }).click();
  await panel.getByText('Laptop').waitFor();
  await page.getByRole('button', { name: eva.email }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
  await page.waitForURL('**/app/live');
  await page.goto('/app/live/profile');
  await panel.getByRole('button', { name: 'Remove “Laptop”' }).click();
  await panel.getByRole('heading', { name: 'Passkeys' }).and(page.locator(':focus')).waitFor();
  await waitUntil('the passkey to be removed', async () => {
    const answer = await visit.context.request.get('/user/passkeys');
    return (await answer.json()).length === 0;
  });
  await panel.getByText('No passkeys yet').waitFor();
  visit.assertClean();
});

test('the password is changed, other sessions end, and the appearance is selected', { skip }, async (t) => {
  const ida = await person('ida@example.com', 'member');
  const visit = await visitors.visit(service.url);
  t.after(() => visit.close());
  await signInAs(visit, ida);
  const others: Visit[] = [];
  for (let i = 0; i < 2; i += 1) {
    const other = await visitors.visit(service.url);
    t.after(() => other.close());
    await signInAs(other, ida);
    others.push(other);
  }
  const statusOf = async (i: number) => (await others[i]!.context.request.get('/session')).status();
  const { page } = visit;
  await page.goto('/app/live/profile');
  const list = page.getByRole('table', { name: 'Active sessions' });
  await list.getByText('This device').waitFor();
  const ends = list.getByRole('button', { name: /^Sign out / });
  assert.equal(await ends.count(), 2, 'this one is not ended here');
  await ends.first().click();
  await waitUntil('one session to end', async () => (await statusOf(1)) === 401);
  assert.equal(await statusOf(0), 200);

  await page.getByLabel('Current password').fill('wrong');
  await page.getByLabel('New password').fill('another sentence of mine');
  await page.getByRole('button', { name: 'Change password' }).click();
  await page.getByRole('region', { name: 'Password' }).getByRole('alert').waitFor();
  await page.getByLabel('Current password').fill(ida.password);
  await page.getByRole('button', { name: 'Change password' }).click();
  await page.getByText('Password changed.').waitFor();
  assert.equal(await statusOf(0), 401);
  assert.equal((await visit.context.request.get('/session')).status(), 200);
  await signInAs(others[0]!, { email: ida.email, password: 'another sentence of mine' });
  await page.getByRole('region', { name: 'Appearance' }).getByText('Dark').click();
  await page.locator('html[data-mantine-color-scheme="dark"]').waitFor({ state: 'attached' });
  assert.notEqual(ida.password, PASSWORD);
  visit.assertClean();
});

/** Confirms an authenticator app in the dialog that is open, and closes the recovery codes. */
async function confirmApp(page: Page): Promise<void> {
  const secret = await page
    .getByRole('dialog')
    .getByText(/^[A-Z2-7]{32}$/)
    .innerText();
  await page.getByLabel('6-digit code').fill(totpCode(secret, Date.now()));
  await page.getByRole('button', { name: 'Confirm' }).click();
  await page.getByRole('list', { name: 'Recovery codes' }).waitFor();
  await page.getByRole('button', { name: 'Done' }).click();
}

test('an owner requires two-factor authentication, and a member is led through the setup', { skip }, async (t) => {
  const una = await person('una@example.com', 'owner');
  const max = await person('max@example.com', 'member');
  const visit = await visitors.visit(service.url);
  t.after(() => visit.close());
  await signInAs(visit, una);
  const { page } = visit;
  await page.goto('/app/live/team');
  const panel = page.getByRole('region', { name: 'Two-factor authentication' });
  await panel.getByText('Set up your own second factor').waitFor();
  assert.equal(await panel.getByRole('button', { name: 'Require…' }).count(), 0);
  await panel.getByRole('link', { name: 'Open profile' }).click();
  await page.getByRole('button', { name: 'Set up' }).click();
  await confirmApp(page);

  const other = await visitors.visit(service.url);
  t.after(() => other.close());
  await signInAs(other, max);
  await other.page.goto('/app/live/messages');
  await other.page.getByRole('heading', { name: 'Messages' }).waitFor();

  await page.goto('/app/live/team');
  await page
    .getByRole('row', { name: /una@example.com/ })
    .getByText('App')
    .waitFor();
  await panel.getByRole('button', { name: 'Require…' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(max.email).waitFor();
  assert.equal(await dialog.getByText(una.email).count(), 0);
  await dialog.getByRole('button', { name: 'Require', exact: true }).click();
  await panel.getByText('Required').waitFor();
  assert.equal((await service.api.get('/account')).body.twoFactorRequired, true);

  // The open page of the member finds out with its next call.
  await other.page.getByRole('link', { name: 'Events' }).click();
  await other.page.getByRole('heading', { name: 'Set up two-factor authentication' }).waitFor();
  await other.page.getByRole('button', { name: 'Set up' }).click();
  await confirmApp(other.page);
  await other.page.getByRole('button', { name: /^Continue to / }).click();
  await other.page.getByRole('heading', { name: 'Events', exact: true }).waitFor();

  await panel.getByRole('button', { name: 'Make optional' }).click();
  await page.getByRole('dialog', { name: 'Make optional' }).getByRole('button', { name: 'Make optional' }).click();
  await panel.getByText('Optional', { exact: true }).waitFor();
  assert.equal((await service.api.get('/account')).body.twoFactorRequired, false);
  visit.assertClean();
  other.assertClean();
});
