/** Scenarios of users: the first run, links, members of accounts, logins and their limits. */
import assert from 'node:assert/strict';
import { accountOperation, createAccountOperation, setAccountOperation } from '../../src/accounts/store.ts';
import {
  addPasskeyOperation,
  confirmTotpOperation,
  findPasskeyOperation,
  offeredTotpOperation,
  offerTotpOperation,
  passkeysOperation,
  removePasskeyOperation,
  removeTotpOperation,
  resetFactorsOperation,
  usePasskeyOperation,
} from '../../src/users/factor-store.ts';
import {
  changeRoleOperation,
  type Invitation,
  inviteOperation,
  membersOperation,
  removeMemberOperation,
} from '../../src/users/member-store.ts';
import {
  chooseNoticesOperation,
  noticeContactsOperation,
  operatorEmailsOperation,
} from '../../src/users/notice-store.ts';
import {
  beginSignInOperation,
  completeSignInOperation,
  endSessionOperation,
  findSessionOperation,
  passwordHashOperation,
  profileOperation,
  removeOldOperation,
  type SignIn,
  sessionsOperation,
  touchSessionOperation,
} from '../../src/users/session-store.ts';
import {
  changePasswordOperation,
  createUserOperation,
  firstRunOperation,
  requestResetOperation,
  resetByOperatorOperation,
  sendsMailOperation,
  setByTokenOperation,
  tokenUserOperation,
  userByEmailOperation,
} from '../../src/users/store.ts';
import { endSupportAccessOperation, startSupportAccessOperation } from '../../src/users/support-store.ts';
import { requireTwoFactorOperation, requiringAccountOperation } from '../../src/users/two-factor-store.ts';
import { newAccount } from './accounts.ts';
import type { Scenario, Stage } from './stage.ts';

const DAY = 86_400_000;
const hash = (text: string): Uint8Array => Buffer.from(text.padEnd(32, '.'));

function newUser(stage: Stage, email: string, changes: object = {}) {
  const shown = { id: stage.id('usr'), email, emailVerified: 1, isOperator: 0, createdAt: stage.nowMs };
  return { ...shown, passwordHash: 'p' as string | null, ...changes };
}

const link = (stage: Stage, text: string, changes: object = {}) => ({
  tokenHash: hash(text),
  purpose: 'reset',
  byMail: 1,
  createdAt: stage.nowMs,
  expiresAt: stage.nowMs + 10,
  ...changes,
});

export const users: Scenario = async (stage) => {
  const { nowMs } = stage;
  const account = newAccount(stage);
  const key = { id: stage.id('key'), accountId: account.id, mode: 'live', scope: 'full', name: null } as const;
  const credential = { id: stage.id('smtp'), accountId: account.id, mode: 'live', username: 'ada' } as const;
  const operator = newUser(stage, 'op@example.com', { isOperator: 1, passwordHash: null });
  const first = {
    marker: 'first-run',
    account,
    keys: [{ ...key, secretHash: hash('a'), createdAt: nowMs }],
    credentials: [{ ...credential, passwordHash: 'h', createdAt: nowMs }],
    user: operator,
    token: { ...link(stage, 'first'), userId: operator.id },
  };
  assert.equal(await stage.act(firstRunOperation, first), true);
  assert.equal(await stage.act(firstRunOperation, first), false);
  await stage.act(noticeContactsOperation, account.id);
  await stage.act(noticeContactsOperation, 'acc_none');
  assert.deepEqual(await stage.act(operatorEmailsOperation, null), ['op@example.com']);
  assert.equal(await stage.act(sendsMailOperation, null), false);

  const ada = newUser(stage, 'ada@example.com');
  assert.equal(await stage.act(createUserOperation, ada), true);
  assert.equal(await stage.act(createUserOperation, { ...ada, id: stage.id('usr') }), false);
  assert.equal((await stage.act(userByEmailOperation, ada.email))?.id, ada.id);
  assert.equal(await stage.act(userByEmailOperation, 'none@example.com'), null);

  assert.equal((await stage.act(tokenUserOperation, { tokenHash: hash('first'), nowMs }))?.id, operator.id);
  assert.equal(await stage.act(tokenUserOperation, { tokenHash: hash('first'), nowMs: nowMs + 10 }), null, 'too late');
  const byToken = { tokenHash: hash('first'), passwordHash: 'q', nowMs };
  assert.equal(await stage.act(setByTokenOperation, { ...byToken, nowMs: nowMs + 10 }), null);
  assert.notEqual(await stage.act(setByTokenOperation, byToken), null);
  assert.equal(await stage.act(setByTokenOperation, byToken), null, 'once');
  assert.equal(await stage.act(passwordHashOperation, operator.id), 'q');
  assert.equal(await stage.act(passwordHashOperation, 'usr_none'), null);

  const ask = (email: string, text: string) =>
    stage.act(requestResetOperation, { email, token: link(stage, text), name: email, address: '192.0.2.1', nowMs });
  assert.equal(await ask('none@example.com', 'x'), null);
  for (const text of ['zero', 'one', 'two']) assert.equal(await ask(ada.email, text), ada.id);
  assert.equal(await ask(ada.email, 'three'), null, 'three mails at once');
  assert.equal(
    await stage.act(tokenUserOperation, { tokenHash: hash('one'), nowMs }),
    null,
    'only the last link is valid',
  );
  assert.equal((await stage.act(tokenUserOperation, { tokenHash: hash('two'), nowMs }))?.id, ada.id);
  const change = { userId: ada.id, oldHash: 'p', passwordHash: 'r', keptSessionId: 'ses_1' };
  assert.equal(await stage.act(changePasswordOperation, { ...change, oldHash: 'wrong' }), false);
  assert.equal(await stage.act(changePasswordOperation, change), true);
  assert.equal(await stage.act(tokenUserOperation, { tokenHash: hash('two'), nowMs }), null);
  const reset = { email: ada.email, passwordHash: 's', token: link(stage, 'op', { byMail: 0 }) };
  assert.equal(await stage.act(resetByOperatorOperation, reset), ada.id);
  assert.equal(await stage.act(resetByOperatorOperation, { ...reset, email: 'ADA@example.com' }), null);
};

export const members: Scenario = async (stage) => {
  const [one, two] = [newAccount(stage), newAccount(stage)];
  for (const account of [one, two]) await stage.act(createAccountOperation, { account, keys: [] });
  const invite = async (accountId: string, email: string, changes: Partial<Invitation> & { byMail?: number } = {}) => {
    const { byMail = 0, ...more } = changes;
    const user = newUser(stage, email, { emailVerified: 0, passwordHash: null });
    const token = { ...link(stage, `${accountId} ${email}`, { byMail }), userId: user.id };
    const asked = {
      accountId,
      role: 'member',
      user,
      token,
      mayHaveAtMost: 3,
      byOperator: false,
      ...more,
      name: email,
    } as const;
    return stage.act(inviteOperation, { ...asked, nowMs: stage.nowMs });
  };
  const outcomeOf = async (invited: ReturnType<typeof invite>) => (await invited).outcome;
  assert.equal(await outcomeOf(invite(one.id, 'ann@example.com', { role: 'owner' })), 'invited');
  assert.equal(await outcomeOf(invite(one.id, 'ann@example.com')), 'member-already');
  assert.equal(await outcomeOf(invite(two.id, 'ann@example.com')), 'unproven', 'the link would open the other account');
  assert.equal(await outcomeOf(invite(two.id, 'ann@example.com', { byMail: 1 })), 'invited');
  const old = { tokenHash: hash(`${one.id} ann@example.com`), nowMs: stage.nowMs };
  assert.equal(await stage.act(tokenUserOperation, old), null, 'the link shown to someone else is invalid');
  await stage.act(createUserOperation, newUser(stage, 'bob@example.com'));
  await stage.act(createUserOperation, newUser(stage, 'eve@example.com', { emailVerified: 0 }));
  assert.equal(await outcomeOf(invite(one.id, 'bob@example.com')), 'added');
  assert.equal(await outcomeOf(invite(one.id, 'eve@example.com')), 'unproven');
  assert.equal(await outcomeOf(invite(one.id, 'eve@example.com', { byOperator: true })), 'added');
  assert.equal(await outcomeOf(invite(one.id, 'full@example.com')), 'full');
  await stage.act(noticeContactsOperation, one.id);

  const list = await stage.act(membersOperation, { accountId: one.id, before: null, limit: 10 });
  assert.equal(list.length, 3);
  await stage.act(membersOperation, { accountId: one.id, before: list[0]!.userId, limit: 1 });
  const idOf = (email: string) => list.find((member) => member.email === email)!.userId;
  const ann = { accountId: one.id, userId: idOf('ann@example.com') };
  const bob = { accountId: one.id, userId: idOf('bob@example.com') };
  const choose = (who: { accountId: string; userId: string }, choices: object) =>
    stage.act(chooseNoticesOperation, { ...who, choices });
  assert.equal(await choose(bob, { webhooks: false, quotas: false }), true);
  assert.equal(await choose(bob, { quotas: true }), true);
  assert.equal(await choose({ ...bob, accountId: 'acc_none' }, { quotas: true }), false);
  const contacts = await stage.act(noticeContactsOperation, one.id);
  assert.deepEqual(contacts.users.find(({ userId }) => userId === bob.userId)?.receives, {
    sendingProtection: true,
    quotas: true,
    domains: true,
    webhooks: false,
  });
  assert.equal(await stage.act(changeRoleOperation, { ...ann, role: 'viewer' }), 'last-owner');
  assert.equal(await stage.act(removeMemberOperation, ann), 'last-owner');
  assert.equal(await stage.act(changeRoleOperation, { ...bob, accountId: two.id, role: 'viewer' }), 'unknown');
  await stage.act(changeRoleOperation, { ...bob, role: 'owner' });
  await stage.act(changeRoleOperation, { ...ann, role: 'viewer' });
  await stage.act(removeMemberOperation, ann);
  assert.equal(await stage.act(removeMemberOperation, ann), 'unknown');
  assert.equal(await stage.act(passwordHashOperation, ann.userId), null);
  assert.equal((await stage.act(membersOperation, { accountId: two.id, before: null, limit: 5 })).length, 1);
  for (const expected of ['added', 'added', 'too-often'] as const) {
    const invited = await invite(two.id, 'eve@example.com', { byOperator: true });
    assert.equal(invited.outcome, expected);
    if ('member' in invited) {
      await stage.act(removeMemberOperation, { accountId: two.id, userId: invited.member.userId });
    }
  }
};

export const signingIn: Scenario = async (stage) => {
  const { nowMs } = stage;
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const ada = newUser(stage, 'ada@example.com');
  await stage.act(createUserOperation, ada);
  const attempt = { email: ada.email, name: 'ada', address: '192.0.2.1', nowMs };
  const begin = (changes: object = {}) => stage.act(beginSignInOperation, { ...attempt, ...changes });
  const begun = await begin();
  assert.ok('taken' in begun && !begun.isKnown && begun.candidate?.passwordHash === 'p');
  const nobody = await begin({ email: 'none@example.com', name: 'none' });
  assert.ok('taken' in nobody && nobody.candidate === null);

  const sessionAt = (text: string, at: number) => ({
    id: stage.id('ses', at),
    tokenHash: hash(text),
    userId: ada.id,
    createdAt: at,
    lastSeenAt: at,
    expiresAt: at + 14 * DAY,
    address: attempt.address,
    userAgent: text === 'a' ? null : 'Browser',
    signedInWith: 'password' as const,
  });
  const complete = (text: string, changes: Partial<SignIn> = {}) =>
    stage.act(completeSignInOperation, {
      session: sessionAt(text, nowMs),
      formerTokenHash: null,
      taken: begun.taken,
      passwordHash: 'p',
      ...changes,
    });
  assert.equal(await complete('a', { passwordHash: 'changed' }), false);
  assert.equal(await complete('a'), true);
  assert.equal(await complete('b', { totpStep: 7 }), true);
  assert.equal(await complete('c', { totpStep: 7 }), false, 'a code is valid once');
  assert.equal(await complete('c', { recoveryCodeHash: hash('none') }), false);
  assert.equal(await complete('d', { totpStep: 8, formerTokenHash: hash('b') }), true);
  assert.ok('isKnown' in (await begin()));

  const find = (text: string, accountId: string | null) =>
    stage.act(findSessionOperation, { tokenHash: hash(text), accountId });
  assert.equal(await find('b', null), null, 'replaced by its successor');
  assert.equal((await find('a', account.id))?.member, null);
  const invitation = { role: 'viewer', mayHaveAtMost: 9, byOperator: true, name: 'ada', nowMs } as const;
  const token = { ...link(stage, 't'), userId: ada.id };
  await stage.act(inviteOperation, { ...invitation, accountId: account.id, user: ada, token });
  assert.equal((await find('a', account.id))?.member?.role, 'viewer');
  await stage.act(profileOperation, { userId: ada.id, sessionId: '', nowMs });
  const of = { userId: ada.id, nowMs, idleSinceMs: nowMs - DAY };
  const sessions = await stage.act(sessionsOperation, of);
  assert.equal(sessions.length, 2);
  await stage.act(touchSessionOperation, { id: sessions[0]!.id, nowMs: nowMs + 5 });
  await stage.act(touchSessionOperation, { id: sessions[0]!.id, nowMs });
  await stage.act(sessionsOperation, { ...of, idleSinceMs: nowMs });
  await stage.act(sessionsOperation, { ...of, nowMs: nowMs + 14 * DAY });
  assert.equal(await stage.act(endSessionOperation, { id: sessions[0]!.id, userId: 'usr_other' }), false);
  assert.equal(await stage.act(endSessionOperation, { id: sessions[0]!.id, userId: ada.id }), true);

  for (let i = 0; i < 55; i += 1) {
    const many = { session: sessionAt(`many ${i}`, nowMs + 10 + i), formerTokenHash: null, taken: [] };
    assert.equal(await stage.act(completeSignInOperation, many), true);
  }
  assert.equal((await stage.act(sessionsOperation, of)).length, 50, 'the oldest have ended');
  const step = Math.floor(nowMs / 30_000);
  assert.equal(await complete('ahead', { totpStep: step + 2 }), true);
  assert.equal(await complete('set back', { totpStep: step + 1 }), true, 'no code can have the step that is stored');
  assert.equal(await complete('again', { totpStep: step + 1 }), false);
  assert.notEqual(await find('set back', null), null, 'a new session stays if the others were used later');
  const old = { nowMs: nowMs + 100 * DAY, idleSinceMs: nowMs, limit: 30 };
  assert.equal(await stage.act(removeOldOperation, old), 30);
  assert.equal(await stage.act(removeOldOperation, old), 20);
  assert.equal(await stage.act(removeOldOperation, old), 0);
};

/** An operator of one account has support access to another: with one session, for a limited time, and never to their own account. */
export const supportAccess: Scenario = async (stage) => {
  const { nowMs } = stage;
  const [own, other] = [newAccount(stage), newAccount(stage)];
  for (const account of [own, other]) await stage.act(createAccountOperation, { account, keys: [] });
  const operator = newUser(stage, 'op@example.com', { isOperator: 1 });
  await stage.act(createUserOperation, operator);
  const invitation = { role: 'owner', mayHaveAtMost: 9, byOperator: true, name: 'op', nowMs } as const;
  const token = { ...link(stage, 't'), userId: operator.id };
  await stage.act(inviteOperation, { ...invitation, accountId: own.id, user: operator, token });
  const session = (text: string) => ({
    id: stage.id('ses'),
    tokenHash: hash(text),
    userId: operator.id,
    createdAt: nowMs,
    lastSeenAt: nowMs,
    expiresAt: nowMs + 14 * DAY,
    address: '192.0.2.1',
    userAgent: null,
    signedInWith: 'password' as const,
  });
  const [one, two] = [session('one'), session('two')];
  for (const begun of [one, two])
    await stage.act(completeSignInOperation, { session: begun, formerTokenHash: null, taken: [] });

  const access = { sessionId: one.id, userId: operator.id, accountId: other.id, untilMs: nowMs + 5 };
  assert.equal(await stage.act(startSupportAccessOperation, { ...access, accountId: own.id }), 'member');
  assert.equal(await stage.act(startSupportAccessOperation, { ...access, accountId: 'acc_none' }), 'unknown');
  assert.equal(await stage.act(startSupportAccessOperation, { ...access, sessionId: 'ses_ended' }), 'unknown');
  assert.equal(await stage.act(startSupportAccessOperation, access), 'started');
  assert.equal(await stage.act(startSupportAccessOperation, { ...access, untilMs: nowMs + 9 }), 'started');
  const memberOf = async (text: string, accountId: string) => {
    const found = await stage.act(findSessionOperation, { tokenHash: hash(text), accountId });
    return [found?.member?.role, found?.member?.supportAccessUntil];
  };
  assert.deepEqual(await memberOf('one', other.id), ['viewer', nowMs + 9]);
  assert.deepEqual(await memberOf('one', own.id), ['owner', undefined]);
  assert.deepEqual(await memberOf('two', other.id), [undefined, undefined], 'another session is not affected');
  const accounts = async (sessionId: string, at: number) =>
    (await stage.act(profileOperation, { userId: operator.id, sessionId, nowMs: at })).memberships.map(
      ({ account }) => account.id,
    );
  assert.deepEqual(await accounts(one.id, nowMs), [own.id, other.id]);
  assert.deepEqual(await accounts(one.id, nowMs + 9), [own.id], 'it is over');
  assert.deepEqual(await accounts(two.id, nowMs), [own.id]);
  const ending = { sessionId: one.id, accountId: other.id };
  assert.equal(await stage.act(endSupportAccessOperation, ending), true);
  assert.equal(await stage.act(endSupportAccessOperation, ending), false);
  for (const { id: sessionId } of [one, two]) await stage.act(startSupportAccessOperation, { ...access, sessionId });
  await stage.act(endSessionOperation, { id: one.id, userId: operator.id });
  const removal = { nowMs: nowMs + 5, idleSinceMs: 0, limit: 9 };
  assert.equal(await stage.act(removeOldOperation, removal), 1, 'the other went with its session');
};

export const limits: Scenario = async (stage) => {
  const ada = newUser(stage, 'ada@example.com');
  await stage.act(createUserOperation, ada);
  let nowMs = stage.nowMs;
  const begin = (email: string, address: string) =>
    stage.act(beginSignInOperation, { email, name: email, address, nowMs });
  const waits = async (email: string, address: string): Promise<number> => {
    const begun = await begin(email, address);
    return 'waitMs' in begun ? begun.waitMs : 0;
  };
  const session = { id: stage.id('ses'), tokenHash: hash('s'), userId: ada.id, createdAt: nowMs, lastSeenAt: nowMs };
  const from = { address: '192.0.2.7', userAgent: null, signedInWith: 'password' } as const;
  const known = { ...session, ...from, expiresAt: nowMs + DAY };
  await stage.act(completeSignInOperation, { session: known, formerTokenHash: null, taken: [] });

  for (let i = 0; i < 10; i += 1) assert.equal(await waits(ada.email, `198.51.100.${i}`), 0);
  assert.equal(await waits(ada.email, '198.51.100.99'), 60_000, 'ten at a user, then one a minute');
  assert.equal(await waits(ada.email, '192.0.2.7'), 0, 'not from a known address');
  nowMs += 60_000;
  assert.equal(await waits(ada.email, '198.51.100.99'), 0);
  assert.equal(await waits(ada.email, '198.51.100.99'), 60_000);
  for (let i = 0; i < 10; i += 1) assert.equal(await waits('none@example.com', `203.0.113.${i}`), 0);
  assert.equal(await waits('none@example.com', '203.0.113.99'), 60_000, 'as for an existing user');
  for (let i = 0; i < 30; i += 1) assert.equal(await waits(`${i}@example.com`, '203.0.113.200'), 0);
  assert.equal(await waits('30@example.com', '203.0.113.200'), 20_000, 'thirty from an address');
  for (let i = 0; i < 10; i += 1) assert.equal(await waits(ada.email, '192.0.2.7'), 0);
  assert.equal(await waits(ada.email, '192.0.2.7'), 60_000, 'known addresses get no more guesses');

  const old = { idleSinceMs: 0, limit: 99 };
  await stage.act(removeOldOperation, { ...old, nowMs });
  assert.equal(await waits(ada.email, '192.0.2.7'), 60_000, 'limits in use stay');
  nowMs -= 600_000;
  assert.equal(await waits(ada.email, '192.0.2.7'), 660_000, 'and apply to a node whose clock is behind');
  nowMs += 600_000 - DAY;
  for (let i = 0; i < 10; i += 1) assert.equal(await waits(ada.email, '203.0.113.200'), 0, 'the clock was set back');
  assert.equal(await waits(ada.email, '203.0.113.200'), 60_000);
  assert.ok((await stage.act(removeOldOperation, { ...old, nowMs })) > 30, 'limits of a later time are deleted');
  assert.equal(await waits(ada.email, '203.0.113.201'), 60_000, 'limits in use stay');
};

export const factors: Scenario = async (stage) => {
  const { nowMs } = stage;
  const ada = newUser(stage, 'ada@example.com');
  await stage.act(createUserOperation, ada);
  const of = { userId: ada.id, sealed: hash('sealed') };
  assert.equal(await stage.act(offeredTotpOperation, ada.id), null);
  assert.equal(await stage.act(offerTotpOperation, of), true);
  await stage.act(offeredTotpOperation, ada.id);
  const confirmation = { ...of, sessionId: 'ses_none', step: 5, codeHashes: [hash('one'), hash('two')], nowMs };
  assert.equal(await stage.act(confirmTotpOperation, { ...confirmation, sealed: hash('other') }), false);
  assert.equal(await stage.act(confirmTotpOperation, confirmation), true);
  assert.equal(await stage.act(offerTotpOperation, of), false);
  await stage.act(profileOperation, { userId: ada.id, sessionId: '', nowMs: stage.nowMs });
  assert.equal(await stage.act(resetFactorsOperation, { email: ada.email }), ada.id);
  assert.equal(await stage.act(removeTotpOperation, ada.id), 'unknown');

  const passkey = (id: string) => ({
    id,
    userId: ada.id,
    name: 'Laptop',
    publicKey: hash('key'),
    counter: 0,
    transports: 'usb',
    createdAt: nowMs,
  });
  const answered = (text: string) => ({ ...link(stage, text, { purpose: 'answered' }), userId: ada.id });
  const add = (id: string, challenge: string, mayHaveAtMost = 2) =>
    stage.act(addPasskeyOperation, {
      passkey: passkey(id),
      sessionId: 'ses_none',
      answered: answered(challenge),
      mayHaveAtMost,
    });
  assert.equal(await add('a', 'c1'), 'added');
  assert.equal(await add('b', 'c1'), 'answered-already');
  assert.equal(await add('a', 'c2'), 'known-already');
  assert.equal(await add('b', 'c2'), 'added');
  assert.equal(await add('c', 'c3'), 'full');
  await stage.act(passkeysOperation, ada.id);
  assert.equal((await stage.act(findPasskeyOperation, 'a'))?.user.email, ada.email);
  assert.equal(await stage.act(findPasskeyOperation, 'none'), null);
  const use = (challenge: string, counter: number) =>
    stage.act(usePasskeyOperation, { id: 'a', counter, nowMs, answered: answered(challenge) });
  assert.equal(await use('c1', 0), false, 'a used challenge');
  assert.equal(await use('c4', 0), true, 'an authenticator that does not count');
  assert.equal(await use('c5', 7), true);
  assert.equal(await use('c5', 8), false);
  assert.equal(await use('c6', 7), false, 'a concurrent login stored the same counter');
  assert.equal(await use('c6', 8), true);
  await stage.act(findPasskeyOperation, 'a');
  assert.equal(await stage.act(removePasskeyOperation, { id: 'a', userId: 'usr_other' }), 'unknown');
  assert.equal(await stage.act(removePasskeyOperation, { id: 'a', userId: ada.id }), 'removed');
};

/** A session that sets up the first factor proves it; another session of the user, and one that adds a second factor, do not. */
export const requiredTwoFactor: Scenario = async (stage) => {
  const { nowMs } = stage;
  const [account, other] = [newAccount(stage), newAccount(stage)];
  for (const one of [account, other]) await stage.act(createAccountOperation, { account: one, keys: [] });
  const ada = newUser(stage, 'ada@example.com');
  await stage.act(createUserOperation, ada);
  const invitation = { role: 'owner', mayHaveAtMost: 9, byOperator: true, name: 'ada', nowMs } as const;
  const token = { ...link(stage, 't'), userId: ada.id };
  await stage.act(inviteOperation, { ...invitation, accountId: account.id, user: ada, token });
  const begin = async (text: string) => {
    const session = {
      id: stage.id('ses'),
      tokenHash: hash(text),
      userId: ada.id,
      createdAt: nowMs,
      lastSeenAt: nowMs,
      expiresAt: nowMs + DAY,
      address: '192.0.2.1',
      userAgent: null,
      signedInWith: 'password' as const,
    };
    await stage.act(completeSignInOperation, { session, formerTokenHash: null, taken: [] });
    return session.id;
  };
  const [one, two] = [await begin('one'), await begin('two')];
  const find = async (text: string) => {
    const found = await stage.act(findSessionOperation, { tokenHash: hash(text), accountId: account.id });
    return [found?.hasSecondFactor, found?.session.signedInWith, found?.member?.account.twoFactorRequired];
  };
  assert.deepEqual(await find('one'), [false, 'password', false]);

  const requirement = { accountId: account.id, required: true };
  assert.equal(await stage.act(requireTwoFactorOperation, requirement), true);
  assert.equal(await stage.act(requireTwoFactorOperation, requirement), false, 'already required');
  assert.deepEqual(await find('one'), [false, 'password', true]);
  assert.equal((await stage.act(accountOperation, other.id))?.twoFactorRequired, false);
  assert.equal(await stage.act(requiringAccountOperation, ada.id), account.name);
  assert.equal(await stage.act(requiringAccountOperation, 'usr_none'), null);

  const of = { userId: ada.id, sealed: hash('sealed') };
  await stage.act(offerTotpOperation, of);
  assert.equal(await stage.act(removeTotpOperation, ada.id), 'removed', 'an app that is not confirmed is no factor');
  assert.equal(await stage.act(resetFactorsOperation, { email: 'none@example.com' }), null);
  await stage.act(offerTotpOperation, of);
  const confirmation = { ...of, sessionId: one, step: 5, codeHashes: [hash('one'), hash('two')], nowMs };
  assert.equal(await stage.act(confirmTotpOperation, { ...confirmation, sealed: hash('other') }), false);
  assert.deepEqual(await find('one'), [false, 'password', true], 'control: nothing was confirmed');
  assert.equal(await stage.act(confirmTotpOperation, confirmation), true);
  assert.deepEqual(await find('one'), [true, 'second-factor', true]);
  assert.deepEqual(await find('two'), [true, 'password', true]);
  assert.equal(
    (await stage.act(profileOperation, { userId: ada.id, sessionId: one, nowMs })).signedInWith,
    'second-factor',
  );

  const requiredBy = { requiredBy: account.name };
  assert.deepEqual(await stage.act(removeTotpOperation, ada.id), requiredBy);
  const passkey = {
    userId: ada.id,
    name: 'Laptop',
    publicKey: hash('key'),
    counter: 0,
    transports: '',
    createdAt: nowMs,
  };
  const add = (id: string, sessionId: string) =>
    stage.act(addPasskeyOperation, {
      passkey: { ...passkey, id },
      sessionId,
      answered: { ...link(stage, id, { purpose: 'answered' }), userId: ada.id },
      mayHaveAtMost: 9,
    });
  assert.equal(await add('a', two), 'added');
  assert.deepEqual(await find('two'), [true, 'password', true], 'the app was not proved');
  assert.equal(await stage.act(removeTotpOperation, ada.id), 'removed', 'the passkey is left');
  assert.deepEqual(await stage.act(removePasskeyOperation, { id: 'a', userId: ada.id }), requiredBy);
  assert.equal(await stage.act(removePasskeyOperation, { id: 'none', userId: ada.id }), 'unknown');
  assert.equal(await add('b', two), 'added');
  const members = await stage.act(membersOperation, { accountId: account.id, before: null, limit: 9 });
  assert.deepEqual([members[0]?.hasTotp, members[0]?.passkeys], [false, 2]);
  assert.equal(await stage.act(removePasskeyOperation, { id: 'a', userId: ada.id }), 'removed');

  const emergency = { id: account.id, plan: null, status: null, approvedEmailBytes: null, nowMs: stage.nowMs };
  assert.equal((await stage.act(setAccountOperation, emergency))?.twoFactorRequired, true, 'control');
  const stopped = await stage.act(setAccountOperation, { ...emergency, twoFactorRequired: false });
  assert.equal(stopped?.twoFactorRequired, false);
  assert.equal(await stage.act(removePasskeyOperation, { id: 'b', userId: ada.id }), 'removed');
  assert.equal(await stage.act(requireTwoFactorOperation, { ...requirement, accountId: 'acc_none' }), false);
};
