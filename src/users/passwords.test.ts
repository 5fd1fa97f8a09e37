/** Links with which a user sets a password, and the emails that contain them. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { createAccount } from '../accounts/accounts.ts';
import { createLog } from '../base/log.ts';
import { addDomain } from '../domains/domains.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { createUser, firstRun, resetPassword } from './create.ts';
import { createPasswords, type UserMail } from './passwords.ts';
import { createSignIn } from './sign-in.ts';
import { tokenUserOperation } from './store.ts';
import { tokenHash } from './tokens.ts';

const BASE = 'https://mail.example.com';
const REQUEST = { remoteAddress: '192.0.2.1' };

async function passwordRig(t: TestContext) {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const secretKey = Buffer.alloc(32, 1);
  const lines: string[] = [];
  const mails: Parameters<UserMail['sendTo']>[0][] = [];
  const refused = new Set<string>();
  const mail: UserMail = {
    canSend: true,
    canSendTo: async (email) => !refused.has(email),
    sendTo: async (one) => !refused.has(one.to) && mails.push(one) > 0,
  };
  const log = createLog('info', (line) => lines.push(line));
  const passwords = createPasswords(
    { database, clock, log, baseUrl: BASE, mail },
    createSignIn({ database, clock, secretKey }),
  );
  const { account } = await createAccount({ database, clock }, { name: 'One', plan: 'enterprise' });
  await addDomain({ database, clock, secretKey }, { accountId: account.id, domain: 'example.com', verified: true });
  /** Requests a link and returns its token, once the email was sent. */
  const tokenByMail = async (email: string): Promise<string> => {
    const before = mails.length;
    passwords.requestReset(email, REQUEST);
    await waitUntil('the email', () => mails.length > before);
    return tokenOf(mails.at(-1)!.text);
  };
  const isValid = async (token: string): Promise<boolean> =>
    (await database.execute(tokenUserOperation, { tokenHash: tokenHash(token), nowMs: clock.now() })) !== null;
  return { context: { database, clock }, folder, passwords, lines, mails, refused, tokenByMail, isValid };
}

function tokenOf(text: string): string {
  return /#token=(\w{43})/.exec(text)![1]!;
}

test('a request for a link leaves the links valid that were passed on by hand', async (t) => {
  const { context, folder, passwords, mails, tokenByMail, isValid } = await passwordRig(t);
  const first = await firstRun({ ...context, directory: dataDirectory(folder), baseUrl: BASE });
  const firstToken = tokenOf(first!.signInUrl);
  for (const email of ['ann@example.com', 'ben@example.com']) await createUser(context, { email, isOperator: false });
  const made = await resetPassword(context, { email: 'ann@example.com', baseUrl: BASE });
  assert.ok(made.ok);
  const passedOn = tokenOf(made.value.resetUrl);

  passwords.requestReset('operator@localhost', REQUEST);
  const earlier = await tokenByMail('ann@example.com');
  assert.ok(await isValid(passedOn), 'the link of the operator');
  const later = await tokenByMail('ann@example.com');
  assert.deepEqual(
    [await isValid(earlier), await isValid(later)],
    [false, true],
    'a mailed link replaces the previous one',
  );
  const ofBen = await tokenByMail('ben@example.com');
  assert.deepEqual([await isValid(ofBen), await isValid(later), await isValid(passedOn)], [true, true, true]);
  assert.ok(await isValid(firstToken), 'the link of the first run');
  assert.ok(mails.every(({ to }) => to !== 'operator@localhost'));

  const set = await passwords.setByLink(later, 'a password of mine', { ...REQUEST, headers: {}, requestId: 'req_1' });
  assert.ok(set.ok);
  assert.equal(await isValid(passedOn), false, 'a password that was set ends every link');
});

test('a link that the user does not want by email is logged', async (t) => {
  const { context, passwords, lines, mails, refused } = await passwordRig(t);
  const made = await createUser(context, { email: 'cat@example.com', isOperator: false });
  assert.ok(made.ok);
  refused.add('cat@example.com');
  passwords.requestReset('cat@example.com', REQUEST);
  await waitUntil('the log line', () => lines.length > 0);
  const { msg, userId, why } = JSON.parse(lines[0]!);
  assert.deepEqual([msg, userId], ['password reset email failed', made.value.userId]);
  assert.match(why, /marked an earlier email as spam\. .* postrider user reset-password\./);
  assert.equal(mails.length, 0);
});
