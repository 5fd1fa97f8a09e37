/** Notices: who receives which kind by default, what users choose for themselves, and who receives a kind that no user receives. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { createAccount } from '../accounts/accounts.ts';
import { createUser } from './create.ts';
import { noticeRecipients } from './notice-store.ts';

let app: InProcessApi;
before(async () => {
  app = await inProcessApi();
});
after(() => app.close());

interface Notices {
  yours: Record<string, boolean> | null;
  kinds: { kind: string; sentTo: string; recipients: { userId: string; email: string }[] }[];
}

async function newAccount(name: string): Promise<string> {
  return (await createAccount(app.parts, { name, plan: 'paid' })).account.id;
}

async function member(email: string, role: 'owner' | 'member' | 'viewer', accountId: string) {
  const user = await app.user(email, role, accountId);
  const browser = await app.signedIn(user.email, user.password);
  const call = (method: string, path: string, body?: unknown, headers = {}): Promise<Answer> =>
    browser.call(method, path, body, { 'x-id': accountId, ...headers });
  return { ...user, browser, call };
}

const shown = ({ status, body, text }: Answer): Notices => {
  assert.equal(status, 200, text);
  return body as unknown as Notices;
};

/** Each kind with the addresses that receive it, or where it goes otherwise. */
const receiving = ({ kinds }: Notices): Record<string, string[] | string> =>
  Object.fromEntries(
    kinds.map(({ kind, sentTo, recipients }) => [
      kind,
      sentTo === 'users' ? recipients.map(({ email }) => email).sort() : sentTo,
    ]),
  );

test('owners and members receive all kinds until they turn them off, viewers none until they turn them on', async () => {
  const accountId = await newAccount('Defaults');
  const owner = await member('owner@defaults.example', 'owner', accountId);
  const other = await member('member@defaults.example', 'member', accountId);
  const viewer = await member('viewer@defaults.example', 'viewer', accountId);
  const both = ['member@defaults.example', 'owner@defaults.example'];
  assert.deepEqual(receiving(shown(await owner.call('GET', '/account/notices'))), {
    sendingProtection: both,
    quotas: both,
    domains: both,
    webhooks: both,
  });
  const none = { sendingProtection: false, quotas: false, domains: false, webhooks: false };
  assert.deepEqual(shown(await viewer.call('GET', '/account/notices')).yours, none);

  const chosen = shown(await viewer.call('PATCH', '/account/notices', { quotas: true }));
  assert.deepEqual(chosen.yours, { ...none, quotas: true });
  await other.call('PATCH', '/account/notices', { quotas: false, webhooks: false });
  await other.call('PATCH', '/account/notices', { webhooks: true });
  const now = shown(await owner.call('GET', '/account/notices'));
  assert.deepEqual(receiving(now), {
    sendingProtection: both,
    quotas: ['owner@defaults.example', 'viewer@defaults.example'],
    domains: both,
    webhooks: both,
  });
  assert.deepEqual(now.yours, { sendingProtection: true, quotas: true, domains: true, webhooks: true });

  // A viewer who becomes a member receives what was not turned off; a removed one receives nothing.
  await owner.call('PATCH', `/users/${viewer.userId}`, { role: 'member' });
  assert.equal(shown(await owner.call('GET', '/account/notices')).kinds[3]!.recipients.length, 3);
  await owner.call('DELETE', `/users/${viewer.userId}`);
  await owner.call('DELETE', `/users/${other.userId}`);
  assert.deepEqual(
    shown(await owner.call('GET', '/account/notices')).kinds.flatMap(({ recipients }) => recipients),
    Array.from({ length: 4 }, () => ({ userId: owner.userId, email: 'owner@defaults.example' })),
  );
});

test('a choice applies to one account, and the audit log has it', async () => {
  const [one, two] = [await newAccount('One'), await newAccount('Two')];
  const ann = await member('ann@choices.example', 'owner', one);
  await ann.call('PATCH', '/account/notices', { domains: false });
  await ann.call('PATCH', '/account/notices', { domains: false });
  const entries = (await ann.call('GET', '/audit?action=user.choose-notices')).body as unknown as {
    resourceId: string;
    before: unknown;
    after: unknown;
    actor: { name: string };
  }[];
  assert.deepEqual(
    entries.map(({ resourceId, before, after, actor }) => [resourceId, before, after, actor.name]),
    [
      [
        ann.userId,
        { userId: ann.userId, notices: {} },
        { userId: ann.userId, notices: { domains: false } },
        'ann@choices.example',
      ],
    ],
    'a choice that changes nothing is not recorded',
  );
  const bob = await member('bob@choices.example', 'owner', two);
  assert.equal(shown(await bob.call('GET', '/account/notices')).kinds[2]!.sentTo, 'users');
  assert.deepEqual(
    receiving(shown(await ann.call('GET', '/account/notices'))).domains,
    'none',
    'the only owner turned it off',
  );
});

test('only users of the account choose, for both modes, and the fields are checked', async () => {
  const accountId = await newAccount('Refusals');
  const ann = await member('ann@refusals.example', 'owner', accountId);
  assert.equal((await ann.call('PATCH', '/account/notices', { webhooks: false }, { 'x-mode': 'sandbox' })).status, 403);
  for (const body of [{}, { incidents: true }, { webhooks: 'no' }, { webhooks: true, quotas: 1 }])
    assert.equal((await ann.call('PATCH', '/account/notices', body)).status, 400, JSON.stringify(body));
  const byKey = await app.live.patch('/account/notices', { webhooks: false });
  assert.equal(byKey.status, 403);
  assert.equal(shown(await app.live.get('/account/notices')).yours, null, 'a key is not a user');

  const created = await createUser(app.parts, { email: 'op@refusals.example', isOperator: true });
  assert.ok(created.ok);
  const operator: Browser = await app.signedIn('op@refusals.example', created.value.password);
  const asSupport = (method: string, path: string, body?: unknown) =>
    operator.call(method, path, body, { 'x-id': accountId });
  await operator.call('POST', `/operator/accounts/${accountId}/support-access`);
  assert.equal(shown(await asSupport('GET', '/account/notices')).yours, null);
  assert.equal((await asSupport('PATCH', '/account/notices', { webhooks: false })).status, 403);
});

test('operators receive the notices of an account without a user that email can reach', () => {
  const receives = { sendingProtection: true, quotas: true, domains: true, webhooks: true };
  const user = (email: string, changes: object = {}) =>
    ({ userId: email, email, role: 'owner', receives, ...changes }) as const;
  const operators = ['operator@localhost', 'op@service.example'];
  const sentTo = (users: ReturnType<typeof user>[]) => {
    const { sentTo, addresses } = noticeRecipients({ users, operators }, 'quotas');
    return [sentTo, ...addresses.map(({ address }) => address)];
  };
  const off = { receives: { ...receives, quotas: false } };
  assert.deepEqual(sentTo([]), ['operators', 'op@service.example']);
  assert.deepEqual(sentTo([user('operator@localhost')]), ['operators', 'op@service.example']);
  assert.deepEqual(sentTo([user('operator@localhost'), user('a@x.example')]), ['users', 'a@x.example']);
  assert.deepEqual(sentTo([user('a@x.example', off)]), ['none']);
  assert.deepEqual(sentTo([user('operator@localhost'), user('a@x.example', off)]), ['operators', 'op@service.example']);
  assert.deepEqual(sentTo([user('v@x.example', { role: 'viewer', ...off })]), ['operators', 'op@service.example']);
  const unreachable = noticeRecipients({ users: [], operators: ['operator@localhost'] }, 'quotas');
  assert.deepEqual([unreachable.sentTo, unreachable.isWanted], ['none', true], 'wanted, and reported as failed');
  assert.deepEqual(sentTo([user('a@x.example', off), user('v@x.example', { role: 'viewer' })]), [
    'users',
    'v@x.example',
  ]);
});
