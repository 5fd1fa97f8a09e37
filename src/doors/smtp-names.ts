/**
 * SMTP user names of other services, with an API key as the password: programs that were set up for Resend, SendGrid, or SparkPost only
 * need another host and password. Only keys with the scope `send` are accepted, so that the password of an SMTP client cannot change an
 * account. Every failure gets the reply of a wrong password, after the same work.
 */
import type { Authenticator, Caller, SmtpAuthenticator } from '../accounts/accounts.ts';
import { failure, type Result, refuse } from '../base/failure.ts';

const NAMES = new Set(['resend', 'apikey', 'SMTP_Injection']);

const NOT_ALLOWED = refuse(
  failure('UNAUTHORIZED', { message: 'Authentication failed; check user name and password.' }),
);

/** Adds logins with these names to `logins`. The key of a session is remembered as long as its caller, to check it again later. */
export function withForeignNames(logins: SmtpAuthenticator, callers: Pick<Authenticator, 'ofKey'>): SmtpAuthenticator {
  const keys = new WeakMap<Caller, string>();
  const callerOf = async (apiKey: string): Promise<Result<Caller>> => {
    const found = await callers.ofKey(apiKey);
    if (!found.ok || found.value.scope !== 'send' || found.value.account.plan === 'free') return NOT_ALLOWED;
    const caller = { ...found.value };
    keys.set(caller, apiKey);
    return { ok: true, value: caller };
  };
  return {
    ...logins,
    recall: async (username, password) => {
      if (!NAMES.has(username)) return logins.recall(username, password);
      const found = await callerOf(password);
      return found.ok ? found.value : undefined;
    },
    stillAllowed: (username, caller) => {
      const apiKey = caller && keys.get(caller);
      return apiKey === undefined ? logins.stillAllowed(username, caller) : callerOf(apiKey);
    },
  };
}
