/** Scenarios of accounts, keys, credentials, users, approvals, domains, and facts about the database. */
import assert from 'node:assert/strict';
import type { Account, Revocation } from '../../src/accounts/account.ts';
import {
  type AgentRequest,
  agentRequestOperation,
  agentRequestsOperation,
  callerOfKeyOperation,
  decideAgentRequestOperation,
  finishAgentRequestOperation,
  removeAgentRequestsOperation,
  storeAgentRequestOperation,
} from '../../src/accounts/agent-request-store.ts';
import {
  createCredentialOperation,
  createKeyOperation,
  credentialsOperation,
  findCredentialOperation,
  findKeyOperation,
  findSigningKeyOperation,
  keysOperation,
  revokeCredentialOperation,
  revokeKeyOperation,
  updateCredentialOperation,
  updateKeyOperation,
} from '../../src/accounts/credential-store.ts';
import {
  logoOperation,
  logoSummaryOperation,
  removeLogoOperation,
  setLogoOperation,
} from '../../src/accounts/logo-store.ts';
import {
  accountOperation,
  accountsOperation,
  allApprovalsOperation,
  approvalsOperation,
  createAccountOperation,
  decideApprovalOperation,
  patchSettingsOperation,
  requestApprovalOperation,
  setAccountOperation,
} from '../../src/accounts/store.ts';
import { statusNoticeSentOperation, statusNoticesOperation } from '../../src/accounts/suspension-notices.ts';
import { recordUsesOperation } from '../../src/accounts/use-store.ts';
import {
  domainNoticesOperation,
  dueChecksOperation,
  dueRotationsOperation,
  noticeGivenOperation,
  recordCheckOperation,
  removeRetiredKeysOperation,
  rotateKeysOperation,
  trackingChangesOperation,
} from '../../src/domains/check-store.ts';
import {
  addDomainOperation,
  deleteDomainOperation,
  domainByNameOperation,
  domainOperation,
  domainsOperation,
  domainsToCheckOperation,
  type NewDomain,
  sealedKeysOperation,
  sendingDomainOperation,
  signingAccountOperation,
} from '../../src/domains/store.ts';
import { failingDomainsOperation } from '../../src/incidents/store.ts';

import {
  dropOldestWeekOperation,
  hasWeeksOperation,
  makePartitionsOperation,
} from '../../src/messages/partition-store.ts';
import { beatOperation, leaveOperation, nodesOperation } from '../../src/nodes/nodes.ts';
import {
  alignEventOrderOperation,
  firstSecretKeyOperation,
  metaOnceOperation,
  metaOperation,
  rotateSecretKeyOperation,
  secretKeyOperation,
  setMetaOperation,
} from '../../src/storage/meta-store.ts';
import type { Scenario, Stage } from './stage.ts';

/** Returns an account as the operations expect it. */
export function newAccount(stage: Stage, plan: Account['plan'] = 'paid'): Account {
  return {
    id: stage.id('acc'),
    name: 'Übung & Söhne',
    plan,
    status: 'active',
    approvedEmailBytes: 2_000_000,
    limits: {},
    protectionStatus: 'good',
    twoFactorRequired: false,
    timeZone: 'UTC',
    settings: {
      variables: { greeting: 'Grüß Gott' },
      missingVariables: 'error',
      retainContent: '30d',
      defaultFrom: null,
    },
    createdAt: stage.nowMs,
  };
}

const hash = (text: string): Uint8Array => Buffer.from(text.padEnd(32, '.'));

export const accounts: Scenario = async (stage) => {
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const free = newAccount(stage, 'free');
  await stage.act(createAccountOperation, { account: free, keys: [] });
  await stage.act(accountOperation, account.id);
  await stage.act(accountOperation, 'acc_none');
  await stage.act(accountsOperation, null);
  await stage.act(setAccountOperation, {
    id: account.id,
    plan: 'enterprise',
    status: null,
    approvedEmailBytes: null,
    nowMs: stage.nowMs,
  });
  await stage.act(setAccountOperation, {
    id: account.id,
    plan: null,
    status: 'suspended',
    approvedEmailBytes: 5_000_000_000,
    nowMs: stage.nowMs,
  });
  // The ids of notices are random; src/accounts/suspension-notices.test.ts reads the stored ones on both databases.
  assert.deepEqual(await stage.act(statusNoticesOperation, { after: 'ntc_~', limit: 9 }), []);
  await stage.act(statusNoticeSentOperation, 'ntc_none');
  await stage.act(setAccountOperation, {
    id: 'acc_none',
    plan: 'free',
    status: null,
    approvedEmailBytes: null,
    nowMs: stage.nowMs,
  });
  const patch = { id: account.id, maximumVariables: 3, maximumVariableBytes: 40 };
  await stage.act(patchSettingsOperation, {
    ...patch,
    variables: { a: '1', greeting: null },
    settings: { retainContent: 'none' },
  });
  await stage.act(patchSettingsOperation, { ...patch, variables: { b: 'x'.repeat(50) }, settings: {} });
  await stage.act(patchSettingsOperation, { ...patch, variables: { b: '', c: '', d: '' }, settings: {} });
  await stage.act(patchSettingsOperation, { ...patch, id: 'acc_none', variables: {}, settings: {} });
  const named = { ...patch, name: 'Läden', timeZone: 'Europe/Berlin', variables: {}, settings: {} };
  await stage.act(patchSettingsOperation, named);
  const renamed = {
    id: account.id,
    name: 'Shop',
    plan: null,
    status: null,
    approvedEmailBytes: null,
    nowMs: stage.nowMs,
  };
  assert.equal((await stage.act(setAccountOperation, renamed))?.timeZone, 'Europe/Berlin');
};

export const logos: Scenario = async (stage) => {
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const { id: accountId } = account;
  const set = (content: Uint8Array, updatedAt: number) =>
    stage.act(setLogoOperation, { accountId, contentType: 'image/png', content, updatedAt });
  assert.equal(await stage.act(logoOperation, accountId), null);
  assert.equal(await stage.act(logoSummaryOperation, accountId), null);
  await set(hash('one'), stage.nowMs);
  await set(Buffer.alloc(60_000, 255), stage.nowMs + 1);
  const stored = await stage.act(logoOperation, accountId);
  assert.deepEqual(Buffer.from(stored!.content), Buffer.alloc(60_000, 255));
  const summary = { contentType: 'image/png', bytes: 60_000, updatedAt: stage.nowMs + 1 };
  assert.deepEqual({ ...(await stage.act(logoSummaryOperation, accountId)) }, summary);
  assert.equal(await stage.act(removeLogoOperation, { accountId }), true);
  assert.equal(await stage.act(removeLogoOperation, { accountId }), false);
};

export const keys: Scenario = async (stage) => {
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const made = [];
  for (const name of ['one', null, 'three']) {
    const key = {
      id: stage.id('key'),
      accountId: account.id,
      name,
      ...(name === null ? {} : { allowedSenders: [`${name}@x.example`, 'y.example'] }),
      secretHash: hash(`s${name}`),
      createdAt: stage.nowMs,
    };
    made.push(key);
    await stage.act(createKeyOperation, { ...key, mode: 'live', scope: 'send' });
  }
  const [one, two, three] = made.map((key) => key.id);
  const stray = { id: stage.id('key'), accountId: 'acc_none', name: null, secretHash: hash('x'), createdAt: 1 };
  assert.equal(await stage.act(createKeyOperation, { ...stray, mode: 'live', scope: 'send' }), 'unknown-account');
  assert.notEqual(await stage.act(findKeyOperation, { keyId: one!, secretHash: hash('sone') }), null);
  assert.equal(await stage.act(findKeyOperation, { keyId: one!, secretHash: hash('wrong') }), null);
  assert.equal(await stage.act(findKeyOperation, { keyId: 'key_none', secretHash: hash('sone') }), null);
  assert.equal(await stage.act(findKeyOperation, { keyId: 'a', secretHash: hash('sone') }), null);
  await stage.act(keysOperation, { accountId: account.id, before: null, limit: 2 });
  await stage.act(keysOperation, { accountId: account.id, before: two!, limit: 2 });
  const target = { id: one!, accountId: account.id, mode: null };
  const revocation = { ...target, nowMs: stage.nowMs };
  const update = (changes: object) => stage.act(updateKeyOperation, { ...target, ...changes });
  const revoke = (changes: Partial<Revocation>) => stage.act(revokeKeyOperation, { ...revocation, ...changes });
  const allowedNetworks = ['192.0.2.0/24', '2001:db8::/32'];
  assert.equal(await update({ accountId: 'acc_other', name: 'Renamed' }), 'unknown');
  assert.equal(await update({ mode: 'sandbox', name: 'Renamed' }), 'other-mode');
  await update({ name: 'Renamed' });
  await update({ mode: 'live', allowedNetworks });
  await update({});
  const found = await stage.act(findKeyOperation, { keyId: one!, secretHash: hash('sone') });
  assert.deepEqual([found?.actor.name, found?.allowedNetworks], ['Renamed', allowedNetworks]);
  const [listed] = await stage.act(keysOperation, { accountId: account.id, before: two!, limit: 1 });
  assert.deepEqual([listed?.id, listed?.allowedNetworks], [one, allowedNetworks]);
  await update({ allowedNetworks: [] });
  const opened = await stage.act(findKeyOperation, { keyId: one!, secretHash: hash('sone') });
  assert.deepEqual([opened?.actor.name, opened?.allowedNetworks], ['Renamed', []]);
  const usesOf = async () =>
    (await stage.act(keysOperation, { accountId: account.id, before: null, limit: 10 })).map(
      ({ id, lastUsedAt, lastUsedAddress }) => [id, lastUsedAt, lastUsedAddress],
    );
  const never = [null, null];
  assert.deepEqual(
    await usesOf(),
    [three, two, one].map((id) => [id, ...never]),
  );
  const use = (credentialId: string, usedAt: number, address: string) => ({ credentialId, usedAt, address });
  await stage.act(recordUsesOperation, []);
  await stage.act(recordUsesOperation, [use(two!, 2_000, '192.0.2.2'), use(one!, 1_000, '192.0.2.1')]);
  await stage.act(recordUsesOperation, [
    use('key_none', 9_000, '192.0.2.9'),
    use(one!, 999, '2001:db8::1'),
    use(two!, 2_001, '2001:db8::2'),
  ]);
  await stage.act(recordUsesOperation, [use(two!, 2_001, '192.0.2.3')]);
  assert.deepEqual(
    await usesOf(),
    [
      [three, ...never],
      [two, 2_001, '2001:db8::2'],
      [one, 1_000, '192.0.2.1'],
    ],
    'the newest use of each key',
  );
  const renamed = await update({ name: 'Renamed' });
  assert.ok(typeof renamed !== 'string');
  assert.deepEqual([renamed.lastUsedAt, renamed.lastUsedAddress], [1_000, '192.0.2.1']);
  assert.equal(await revoke({ accountId: 'acc_other' }), 'unknown');
  assert.equal(await revoke({ mode: 'sandbox' }), 'other-mode');
  assert.deepEqual((await usesOf()).at(-1), [one, 1_000, '192.0.2.1'], 'kept after rejected revocations');
  assert.equal(await revoke({ mode: 'live' }), 'revoked');
  assert.equal(await revoke({}), 'unknown');
  assert.equal(await update({ allowedNetworks }), 'unknown', 'revoked');
  assert.equal(await revoke({ id: three!, accountId: null }), 'revoked');
  await stage.act(recordUsesOperation, [use(one!, 3_000, '192.0.2.1'), use(three!, 3_000, '192.0.2.1')]);
  await stage.act(findKeyOperation, { keyId: one!, secretHash: hash('sone') });
  await stage.act(keysOperation, { accountId: account.id, before: null, limit: 10 });
};

export const signingKeys: Scenario = async (stage) => {
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const id = stage.id('key');
  const signing = { accessKeyId: `AKIA${'A'.repeat(16)}`, secretSealed: hash('sealed') };
  const expiresAt = stage.nowMs + 1_000;
  await stage.act(createKeyOperation, {
    id,
    accountId: account.id,
    mode: 'sandbox',
    scope: 'send',
    name: 'aws',
    allowedNetworks: ['192.0.2.0/24'],
    secretHash: hash('none'),
    signing,
    expiresAt,
    createdAt: stage.nowMs,
  });
  const holder = await stage.act(findSigningKeyOperation, signing.accessKeyId);
  assert.deepEqual([holder?.caller.keyId, holder?.caller.expiresAt], [id, expiresAt]);
  assert.deepEqual(holder?.caller.allowedNetworks, ['192.0.2.0/24']);
  assert.deepEqual(Buffer.from(holder!.secretSealed), Buffer.from(signing.secretSealed));
  assert.equal(await stage.act(findSigningKeyOperation, `AKIA${'B'.repeat(16)}`), null);
  const of = { keyId: id, accountId: account.id };
  const caller = await stage.act(callerOfKeyOperation, { ...of, nowMs: expiresAt - 1 });
  assert.deepEqual([caller?.scope, caller?.allowedNetworks], ['send', ['192.0.2.0/24']]);
  assert.equal(await stage.act(callerOfKeyOperation, { ...of, nowMs: expiresAt }), null, 'expired');
  assert.equal(await stage.act(callerOfKeyOperation, { ...of, accountId: 'acc_other', nowMs: 0 }), null);
  await stage.act(revokeKeyOperation, { id, accountId: account.id, mode: null, nowMs: stage.nowMs });
  assert.equal(await stage.act(findSigningKeyOperation, signing.accessKeyId), null);
  assert.equal(await stage.act(callerOfKeyOperation, { ...of, nowMs: 0 }), null, 'revoked');
};

export const agentRequests: Scenario = async (stage) => {
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const { nowMs } = stage;
  const requestOf = (digest: string, expiresAt = nowMs + 600_000): AgentRequest => ({
    id: stage.id('agr'),
    accountId: account.id,
    mode: 'live',
    keyId: 'key_agent',
    client: 'agent 1.0',
    tool: 'send_email',
    call: '{"to":"a@x.example"}',
    digest,
    status: 'pending',
    createdAt: nowMs,
    expiresAt,
    decidedAt: null,
    decidedBy: null,
    result: null,
  });
  const ask = (request: AgentRequest, mostPending = 3) =>
    stage.act(storeAgentRequestOperation, { request, mostPending, id: request.id });
  const first = requestOf('d1');
  const expired = requestOf('d2', nowMs);
  assert.equal((await ask(first))?.id, first.id);
  assert.equal((await ask(requestOf('d1')))?.id, first.id, 'repeating the call creates one request');
  assert.equal((await ask(expired))?.id, expired.id);
  const second = requestOf('d3');
  assert.equal((await ask(second))?.id, second.id);
  assert.equal(await ask(requestOf('d4'), 2), null, 'too many');
  const key = { id: first.id, accountId: account.id, mode: 'live' as const };
  assert.equal(await stage.act(agentRequestOperation, { ...key, mode: 'sandbox' }), null);
  assert.equal((await stage.act(agentRequestOperation, key))?.call, first.call);
  const page = { accountId: account.id, mode: 'live' as const, before: null, limit: 10 };
  const all = await stage.act(agentRequestsOperation, { ...page, pendingAtMs: null });
  assert.deepEqual(
    all.map(({ id }) => id),
    [second.id, expired.id, first.id],
  );
  const pending = await stage.act(agentRequestsOperation, { ...page, pendingAtMs: nowMs });
  assert.deepEqual(
    pending.map(({ id }) => id),
    [second.id, first.id],
  );
  const decide = (id: string, digest: string, status: 'running' | 'declined' = 'running') =>
    stage.act(decideAgentRequestOperation, { ...key, id, digest, status, decidedBy: 'usr_1', nowMs });
  assert.equal((await decide('agr_none', 'd1')).outcome, 'unknown');
  assert.equal((await decide(first.id, 'd9')).outcome, 'other-call');
  assert.equal((await decide(expired.id, 'd2')).outcome, 'expired');
  assert.equal((await decide(first.id, 'd1')).outcome, 'decided');
  assert.equal((await decide(first.id, 'd1')).outcome, 'already-decided');
  assert.equal((await decide(second.id, 'd3', 'declined')).outcome, 'decided');
  await stage.act(finishAgentRequestOperation, { id: second.id, status: 'done', result: '{}' });
  await stage.act(finishAgentRequestOperation, { id: first.id, status: 'done', result: '{"status":200}' });
  const done = await stage.act(agentRequestOperation, key);
  assert.deepEqual([done?.status, done?.call, done?.result], ['done', '', '{"status":200}']);
  const declined = await stage.act(agentRequestOperation, { ...key, id: second.id });
  assert.deepEqual([declined?.status, declined?.result], ['declined', null], 'a declined request is never executed');
  await stage.act(removeAgentRequestsOperation, { beforeMs: 0, nowMs: nowMs + 1, limit: 10 });
  assert.equal((await stage.act(agentRequestOperation, { ...key, id: expired.id }))?.call, '');
  assert.equal(await stage.act(removeAgentRequestsOperation, { beforeMs: nowMs + 1, nowMs, limit: 2 }), 2);
};

export const credentials: Scenario = async (stage) => {
  const account = newAccount(stage);
  const free = newAccount(stage, 'free');
  await stage.act(createAccountOperation, { account, keys: [] });
  await stage.act(createAccountOperation, { account: free, keys: [] });
  const row = { accountId: account.id, mode: 'live', passwordHash: '$argon2id$', createdAt: stage.nowMs } as const;
  const id = stage.id('smtp');
  await stage.act(createCredentialOperation, { ...row, id, username: 'shop', allowedSenders: ['x.example'] });
  await stage.act(createCredentialOperation, { ...row, id: stage.id('smtp'), username: 'Shop' });
  await stage.act(createCredentialOperation, { ...row, id: stage.id('smtp'), username: 'x', accountId: free.id });
  await stage.act(createCredentialOperation, { ...row, id: stage.id('smtp'), username: 'y', accountId: 'acc_none' });
  await assert.rejects(
    stage.database.execute(createCredentialOperation, { ...row, id: stage.id('smtp'), username: 'shop' }),
  );
  await stage.act(credentialsOperation, { accountId: account.id, before: null, limit: 10 });
  await stage.act(credentialsOperation, { accountId: account.id, before: id, limit: 10 });
  await stage.act(findCredentialOperation, 'shop');
  await stage.act(findCredentialOperation, 'SHOP');
  const update = (changes: object) =>
    stage.act(updateCredentialOperation, { id, accountId: account.id, mode: null, ...changes });
  const allowedNetworks = ['192.0.2.7/32'];
  assert.equal(await update({ accountId: free.id, allowedNetworks }), 'unknown');
  assert.equal(await update({ mode: 'sandbox', allowedNetworks }), 'other-mode');
  await update({ allowedNetworks });
  await update({});
  assert.deepEqual((await stage.act(findCredentialOperation, 'shop'))?.allowedNetworks, allowedNetworks);
  await stage.act(recordUsesOperation, [{ credentialId: id, usedAt: 5_000, address: '192.0.2.7' }]);
  const [, used] = await stage.act(credentialsOperation, { accountId: account.id, before: null, limit: 10 });
  assert.deepEqual([used?.id, used?.lastUsedAt, used?.lastUsedAddress], [id, 5_000, '192.0.2.7']);
  for (const accountId of [free.id, account.id]) {
    await stage.act(revokeCredentialOperation, { id, accountId, mode: null, nowMs: stage.nowMs });
  }
  await stage.act(findCredentialOperation, 'shop');
};

export const approvals: Scenario = async (stage) => {
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const ask = {
    accountId: account.id,
    requestedEmailBytes: 20_000_000,
    reason: 'catalogues',
    nowMs: stage.nowMs,
    maximumPending: 2,
  };
  const [one, two, three] = [stage.id('apr'), stage.id('apr'), stage.id('apr')];
  for (const id of [one, two, three]) await stage.act(requestApprovalOperation, { ...ask, id });
  await stage.act(approvalsOperation, { accountId: account.id, before: null, limit: 1 });
  await stage.act(approvalsOperation, { accountId: account.id, before: two, limit: 5 });
  await stage.act(decideApprovalOperation, { id: one, status: 'approved', reason: null, nowMs: stage.nowMs + 5 });
  await stage.act(decideApprovalOperation, { id: one, status: 'rejected', reason: 'no', nowMs: stage.nowMs + 6 });
  await stage.act(decideApprovalOperation, { id: two, status: 'rejected', reason: 'no', nowMs: stage.nowMs + 7 });
  await stage.act(decideApprovalOperation, { id: 'apr_none', status: 'rejected', reason: null, nowMs: stage.nowMs });
  await stage.act(allApprovalsOperation, 10);
  await stage.act(accountOperation, account.id);
};

export const domains: Scenario = async (stage) => {
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const keysOf = (selector: string): NewDomain['keys'] => [
    { algorithm: 'ed25519', selector: `${selector}e`, publicKey: 'e', privateKeySealed: Buffer.from([0, 1, 255]) },
    { algorithm: 'rsa', selector, publicKey: 'r', privateKeySealed: Buffer.alloc(0) },
  ];
  const add = (domain: string, status: NewDomain['status']): NewDomain => ({
    id: stage.id('dom'),
    accountId: account.id,
    domain,
    status,
    nowMs: stage.nowMs,
    keys: keysOf('s1'),
  });
  const shop = add('shop.example', 'pending');
  await stage.act(addDomainOperation, shop);
  await stage.act(addDomainOperation, add('shop.example', 'pending'));
  await stage.act(sendingDomainOperation, {
    accountId: account.id,
    names: ['mail.shop.example', 'shop.example'],
    failingAfterMs: null,
  });
  await stage.act(addDomainOperation, add('shop.example', 'verified'));
  assert.equal(
    await stage.act(signingAccountOperation, 'shop.example'),
    null,
    'marked as verified, and not in the DNS',
  );
  await stage.act(addDomainOperation, add('mail.shop.example', 'verified'));
  await stage.act(addDomainOperation, { ...add('other.example', 'verified'), accountId: 'acc_none' });
  await stage.act(sendingDomainOperation, {
    accountId: account.id,
    names: ['mail.shop.example', 'shop.example'],
    failingAfterMs: null,
  });
  await stage.act(sendingDomainOperation, { accountId: account.id, names: ['else.example'], failingAfterMs: null });
  await stage.act(domainByNameOperation, { accountId: account.id, domain: 'shop.example' });
  await stage.act(domainByNameOperation, { accountId: account.id, domain: 'SHOP.example' });
  await stage.act(domainOperation, { id: shop.id, accountId: null });
  await stage.act(domainOperation, { id: shop.id, accountId: 'acc_other' });
  await stage.act(sealedKeysOperation, shop.id);
  const names = { accountId: account.id, names: ['shop.example'], failingAfterMs: null };
  for (const [ed25519, status] of [
    [true, 'verified'],
    [null, 'verified'],
    [false, 'verified'],
    [true, 'failing'],
  ] as const) {
    const keys = [
      { selector: 's1', isPublished: status === 'verified', isEverywhere: status === 'verified' },
      { selector: 's1e', isPublished: ed25519, isEverywhere: ed25519 },
    ] as const;
    const found = { id: shop.id, status, keys: [...keys], isReturnPath: ed25519, promotes: false };
    const tracking = status === 'verified' ? 'served' : undefined;
    await stage.act(recordCheckOperation, { ...found, nowMs: stage.nowMs + 1, tracking });
    assert.equal((await stage.act(trackingChangesOperation, stage.nowMs + 1))[0]?.state, 'served');
    const sending = await stage.act(sendingDomainOperation, names);
    assert.deepEqual(
      sending?.selectors,
      ed25519 === false ? ['s1'] : ['s1', 's1e'],
      'a key without a DNS result is unchanged',
    );
    const signer = await stage.act(signingAccountOperation, 'shop.example');
    assert.equal(signer, status === 'verified' ? account.id : null);
    await stage.act(domainOperation, { id: shop.id, accountId: account.id });
    await stage.act(failingDomainsOperation, { accountId: account.id, limit: 5 });
  }
  for (const failingAfterMs of [stage.nowMs, stage.nowMs + 1])
    await stage.act(sendingDomainOperation, { ...names, failingAfterMs });
  await domainKeys(stage, shop.id);
  await stage.act(domainsOperation, { accountId: account.id, before: null, limit: 1 });
  await stage.act(domainsOperation, { accountId: account.id, before: shop.id, limit: 5 });
  await stage.act(domainsToCheckOperation, 10);
  await stage.act(deleteDomainOperation, { id: shop.id, accountId: 'acc_other' });
  await stage.act(deleteDomainOperation, { id: shop.id, accountId: account.id });
  await stage.act(domainsToCheckOperation, 10);
};

/** Notices, due checks, and successive keys of a failing domain. */
async function domainKeys(stage: Stage, id: string): Promise<void> {
  const { nowMs } = stage;
  const notices = await stage.act(domainNoticesOperation, 10);
  assert.deepEqual(
    notices.map(({ kind, domain }) => [kind, domain.id]),
    [['failing', id]],
  );
  await stage.act(noticeGivenOperation, { id, kind: 'rotation' });
  assert.equal((await stage.act(domainNoticesOperation, 10)).length, 1, 'another notice');
  await stage.act(noticeGivenOperation, { id, kind: 'failing' });
  assert.equal((await stage.act(domainNoticesOperation, 10)).length, 0);
  for (const beforeMs of [nowMs, nowMs + 1]) {
    const due = await stage.act(dueChecksOperation, { beforeMs, aheadMs: nowMs + 60_000, limit: 5 });
    assert.equal(due.length, beforeMs - nowMs, 'domains marked as verified are not checked');
  }
  const afterCorrection = { beforeMs: nowMs - 86_400_000, aheadMs: nowMs - 1, limit: 5 };
  assert.equal((await stage.act(dueChecksOperation, afterCorrection)).length, 1, 'a check recorded in the future');
  const seen = (selector: string) => ({ selector, isPublished: true, isEverywhere: true });
  const check = {
    id,
    status: 'verified',
    keys: [seen('s1'), seen('s1e')],
    isReturnPath: null,
    promotes: false,
  } as const;
  await stage.act(recordCheckOperation, { ...check, keys: [...check.keys], nowMs: nowMs + 2 });
  const { keys: active } = (await stage.act(domainOperation, { id, accountId: null }))!;
  const record = (basis: { startedMs: number; keys: typeof active }, of = id) =>
    stage.act(recordCheckOperation, { ...check, status: 'failing', keys: [], nowMs: nowMs + 2, basis, id: of });
  assert.equal(await record({ startedMs: nowMs, keys: active }), 'verified', 'a later check is recorded');
  assert.equal(await record({ startedMs: nowMs + 2, keys: [] }), 'keys-changed');
  assert.equal(await record({ startedMs: nowMs + 2, keys: [] }, 'dom_none'), 'deleted');
  for (const beforeMs of [nowMs, nowMs + 1]) {
    const due = await stage.act(dueRotationsOperation, { beforeMs, limit: 5 });
    assert.equal(due.length, beforeMs - nowMs);
  }
  const keys: NewDomain['keys'] = [
    { algorithm: 'rsa', selector: 's2', publicKey: 'r2', privateKeySealed: Buffer.of(2) },
    { algorithm: 'ed25519', selector: 's2e', publicKey: 'e2', privateKeySealed: Buffer.of(3) },
  ];
  const rotation = { id, keys, nowMs: nowMs + 3, isNoticed: true };
  assert.equal(await stage.act(rotateKeysOperation, rotation), true);
  assert.equal(await stage.act(rotateKeysOperation, rotation), false, 'such keys exist already');
  assert.equal(await stage.act(rotateKeysOperation, { ...rotation, id: 'dom_none' }), false);
  assert.equal((await stage.act(domainNoticesOperation, 10))[0]?.kind, 'rotation');
  assert.equal((await stage.act(dueRotationsOperation, { beforeMs: nowMs + 9, limit: 5 })).length, 0);
  const both = { ...check, keys: [...check.keys, seen('s2')] };
  await stage.act(recordCheckOperation, { ...both, nowMs: nowMs + 4 });
  await stage.act(recordCheckOperation, { ...both, keys: [{ ...seen('s2'), isEverywhere: false }], nowMs: nowMs + 5 });
  await stage.act(domainOperation, { id, accountId: null });
  for (const promotes of [true, true]) await stage.act(recordCheckOperation, { ...both, nowMs: nowMs + 6, promotes });
  const promoted = await stage.act(domainOperation, { id, accountId: null });
  assert.deepEqual(
    promoted?.keys.map(({ selector, state }) => [selector, state]),
    [
      ['s2', 'active'],
      ['s2e', 'active'],
      ['s1', 'retired'],
      ['s1e', 'retired'],
    ],
  );
  await stage.act(sealedKeysOperation, id);
  assert.equal(await stage.act(removeRetiredKeysOperation, nowMs + 6), 0);
  assert.equal(await stage.act(removeRetiredKeysOperation, nowMs + 7), 2);
  await stage.act(domainOperation, { id, accountId: null });
}

export const facts: Scenario = async (stage) => {
  await stage.act(metaOperation, 'colour');
  await stage.act(metaOnceOperation, { key: 'colour', value: 'red' });
  await stage.act(metaOnceOperation, { key: 'colour', value: 'blue' });
  await stage.act(metaOperation, 'colour');
  await stage.act(setMetaOperation, { key: 'colour', value: 'green' });
  await stage.act(setMetaOperation, { key: 'shade', value: 'dark' });
  assert.deepEqual(
    [await stage.act(metaOperation, 'colour'), await stage.act(metaOperation, 'shade')],
    ['green', 'dark'],
  );
  const none = { check: null, dataKey: null };
  assert.deepEqual(await stage.act(secretKeyOperation, null), none);
  assert.equal(await stage.act(firstSecretKeyOperation, 'one'), 'one');
  assert.equal(await stage.act(firstSecretKeyOperation, 'other'), 'one');
  assert.equal(await stage.act(rotateSecretKeyOperation, { from: 'one', to: 'two', dataKey: 'sealed' }), true);
  assert.equal(await stage.act(rotateSecretKeyOperation, { from: 'one', to: 'three', dataKey: 'lost' }), false);
  assert.deepEqual(await stage.act(secretKeyOperation, null), { check: 'two', dataKey: 'sealed' });
  assert.equal(await stage.act(alignEventOrderOperation, null), false, 'nothing was restored');
  assert.equal(await stage.act(makePartitionsOperation, { nowMs: stage.nowMs, table: 'event' }), 0, 'all are there');
  assert.equal(await stage.act(hasWeeksOperation, { nowMs: stage.nowMs }), true);
  assert.equal(await stage.act(dropOldestWeekOperation, { beforeMs: stage.nowMs - 8 * 86_400_000 }), false);
  const state = JSON.stringify({ leases: { delivery: 1 }, destinations: [] });
  const node = { id: 'b', host: 'h', version: '1', roles: 'api,delivery', state, nowMs: stage.nowMs, silentMs: 60_000 };
  await stage.act(beatOperation, node);
  await stage.act(beatOperation, { ...node, id: 'B' });
  await stage.act(leaveOperation, 'b');
  assert.deepEqual(
    (await stage.act(nodesOperation, null)).map((one) => [one.id, one.state]),
    [['B', state]],
  );
  await stage.act(beatOperation, { ...node, id: 'a' });
};
