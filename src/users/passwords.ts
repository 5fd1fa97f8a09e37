/**
 * Passwords of users: changed with the current one, set with a link, and links requested by email. A request for a link is answered before
 * it is processed, so neither the response nor its timing reveals whether the address has a user. The service sends mail once an account
 * has verified a domain; before that an operator resets passwords on the command line.
 */
import { hashPassword } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import { createSemaphore } from '../base/semaphore.ts';
import type { Database } from '../storage/database.ts';
import { limitedAddress, limitedName } from './limits.ts';
import { reachable } from './notice-store.ts';
import { changesOf, normalEmail, normalPassword, type SessionRequest, type SignInService } from './sign-in.ts';
import {
  changePasswordOperation,
  requestResetOperation,
  sendsMailOperation,
  setByTokenOperation,
  tokenUserOperation,
} from './store.ts';
import { linkOf, newSecret, tokenHash, tokenRow } from './tokens.ts';
import type { User, UserCaller } from './user.ts';

/** The service's own mail to one person. */
export interface UserMail {
  /** Whether the service has a host name to send from. */
  canSend: boolean;
  /** Returns false if mail cannot reach the address, or if its user does not want it. */
  canSendTo(email: string): Promise<boolean>;
  /** Returns false if canSendTo() does. */
  sendTo(mail: { to: string; subject: string; text: string }): Promise<boolean>;
}

export interface PasswordDeps {
  database: Database;
  clock: Clock;
  log: Log;
  readonly baseUrl: string;
  mail: UserMail;
}

const RESETS_AT_ONCE = 2;
const RESETS_WAITING = 100;

const NO_LINK = refuse(
  failure('UNAUTHORIZED', {
    message: 'This link has expired. Request a new one with POST /password-reset.',
  }),
);

const resetText = (link: string, nowMs: number): string =>
  [
    'You requested a new password for Postrider. Set it here. The link works once and expires in 1 hour:',
    '',
    link,
    '',
    `If you did not request it, ignore this email: your password has not changed. Requested at ${new Date(nowMs).toISOString()}.`,
    '',
  ].join('\n');

/** Whether Postrider can send invitations and links by email. */
export async function sendsMail({ database, mail }: Pick<PasswordDeps, 'database' | 'mail'>): Promise<boolean> {
  return mail.canSend && (await database.execute(sendsMailOperation, null));
}

export function createPasswords(deps: PasswordDeps, signIn: SignInService) {
  const { database, clock, log } = deps;
  const working = createSemaphore(RESETS_AT_ONCE);
  let waiting = 0;

  const sendReset = async (email: string, remoteAddress: string): Promise<void> => {
    if (reachable(email) === undefined || !(await sendsMail(deps))) return;
    const nowMs = clock.now();
    const secret = newSecret();
    const userId = await database.execute(requestResetOperation, {
      email,
      nowMs,
      name: limitedName(email),
      address: limitedAddress(remoteAddress),
      token: tokenRow(secret, { purpose: 'reset', byMail: true, nowMs }),
    });
    if (userId === null) return;
    const text = resetText(linkOf(deps.baseUrl, 'reset', secret), nowMs);
    if (await deps.mail.sendTo({ to: email, subject: 'Set a new password', text })) return;
    const why = 'The user marked an earlier email as spam. Create a link with postrider user reset-password.';
    log.warn({ userId, why }, 'password reset email failed');
  };

  return {
    /** Sends a link in the background, if the address has a user. Returns immediately. */
    requestReset: (given: string, { remoteAddress }: Pick<SessionRequest, 'remoteAddress'>): void => {
      if (waiting >= RESETS_WAITING) return;
      waiting += 1;
      working
        .run(() => sendReset(normalEmail(given), remoteAddress))
        .catch((error: Error) => log.warn({ error: error.message }, 'password reset email failed'))
        .finally(() => {
          waiting -= 1;
        });
    },
    /** Sets a password with the token of a link, and ends every session of the user. */
    setByLink: async (token: string, password: string, request: SessionRequest): Promise<Result<User>> => {
      const hash = tokenHash(token);
      // Checked first, so that an invalid link does not cost an argon2 hash.
      const owner = await database.execute(tokenUserOperation, { tokenHash: hash, nowMs: clock.now() });
      if (owner === null) return NO_LINK;
      const passwordHash = await hashPassword(normalPassword(password));
      const user = await changesOf(deps, owner, request).execute(setByTokenOperation, {
        tokenHash: hash,
        passwordHash,
        nowMs: clock.now(),
      });
      return user === null ? NO_LINK : ok(user);
    },
    /** Replaces the current password, and ends every other session of the user. */
    change: async (
      caller: UserCaller,
      given: { currentPassword: string; password: string },
      request: SessionRequest,
    ): Promise<Result<undefined>> => {
      const confirmed = await signIn.confirm(caller, given.currentPassword, request);
      if (!confirmed.ok) return confirmed;
      const passwordHash = await hashPassword(normalPassword(given.password));
      const isChanged = await changesOf(deps, caller.user, request).execute(changePasswordOperation, {
        userId: caller.user.id,
        oldHash: confirmed.value,
        passwordHash,
        keptSessionId: caller.sessionId,
      });
      return isChanged
        ? ok(undefined)
        : refuse(
            failure('CONFLICT', {
              message: 'The password was changed by another request. Try again with the new one.',
            }),
          );
    },
  };
}
