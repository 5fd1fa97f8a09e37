/**
 * SMTP user names of other services, with an API key as the password: programs that were set up for Resend, SendGrid, or SparkPost only
 * need another host and password. Only keys with the scope `send` are accepted, so that the password of an SMTP client cannot change an
 * account. Every failure gets the reply of a wrong password, after the same work.
 */
import type { Authenticator, Caller, LogInResult, SmtpAuthenticator } from '../accounts/accounts.ts';
import { failure, refuse } from '../base/failure.ts';
import { isAllowedAddress } from '../net/networks.ts';

const NAMES = new Set(['resend', 'apikey', 'SMTP_Injection']);

const NOT_ALLOWED = refuse(
  failure('UNAUTHORIZED', { message: 'Authentication failed; check user name and password.' }),
);

/** Adds logins with these names to `logins`. The key of a session is remembered as long as its caller, to check it again later. */
export function withForeignNames(logins: SmtpAuthenticator, callers: Pick<Authenticator, 'ofKey'>): SmtpAuthenticator {
  const keys = new WeakMap<Caller, string>();
  const callerOf = async (apiKey: string, address: string): Promise<LogInResult> => {
    const found = await callers.ofKey(apiKey);
    if (!found.ok || found.value.scope !== 'send' || found.value.account.plan === 'free') return NOT_ALLOWED;
    if (!isAllowedAddress(address, found.value.allowedNetworks)) return { ...NOT_ALLOWED, outside: found.value };
    const caller = { ...found.value };
    keys.set(caller, apiKey);
    return { ok: true, value: caller };
  };
  return {
    ...logins,
    recall: async (login) => {
      if (!NAMES.has(login.username)) return logins.recall(login);
      const found = await callerOf(login.password, login.address);
      return found.ok ? found.value : undefined;
    },
    logIn: async (login) => {
      const refused = await logins.logIn(login);
      return NAMES.has(login.username) ? callerOf(login.password, login.address) : refused;
    },
    stillAllowed: (session, caller) => {
      const apiKey = caller && keys.get(caller);
      return apiKey === undefined ? logins.stillAllowed(session, caller) : callerOf(apiKey, session.address);
    },
  };
}
