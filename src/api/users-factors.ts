/**
 * Second factors: codes of an authenticator app with recovery codes, and passkeys. Adding or removing one requires a recent login, so that
 * a browser left open does not give the account away permanently.
 */
import type { Caller } from '../accounts/accounts.ts';
import { failure, refuse } from '../base/failure.ts';
import { open, seal } from '../base/seal.ts';
import { answer, type RouteAnswer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { confirmationSchema, named } from '../http/validate.ts';
import {
  confirmTotpOperation,
  offeredTotpOperation,
  offerTotpOperation,
  removeTotpOperation,
} from '../users/factor-store.ts';
import { changesOf, type SessionRequest, totpContext } from '../users/sign-in.ts';
import { base32, newRecoveryCodes, newTotpSecret, otpauthUrl, recoveryCodeHash, verifyTotp } from '../users/totp.ts';
import { missingFactor } from '../users/two-factor.ts';
import { requiringAccountOperation } from '../users/two-factor-store.ts';
import type { UserCaller } from '../users/user.ts';
import { type UserRouteDeps, userRoute } from '../users/user-route.ts';

const FRESH_MS = 15 * 60_000;

const STALE = refuse(
  failure('FORBIDDEN', { message: 'Sign in again first: this requires a session that is less than 15 minutes old.' }),
);

/**
 * Refuses to change second factors with a session that is not recent. If an account requires two-factor authentication, the session must
 * also have proved a factor that the user has: otherwise the password alone would be enough to add another one.
 */
export async function factorRefusal({ clock, database }: UserRouteDeps, caller: UserCaller) {
  if (clock.now() - caller.signedInAt >= FRESH_MS) return STALE;
  if (missingFactor(caller) !== 'sign-in') return undefined;
  const requiredBy = await database.execute(requiringAccountOperation, caller.user.id);
  // Operators can reach accounts that require it through support access.
  if (requiredBy === null && caller.user.isOperator)
    return refuse(failure('FORBIDDEN', { message: 'Sign in again with your second factor first.' }));
  if (requiredBy === null) return undefined;
  const message = `Sign in again with your second factor first: the account "${requiredBy}" requires two-factor authentication.`;
  return refuse(failure('FORBIDDEN', { message }));
}

/** Refuses to remove the last second factor that an account requires. */
export function requiredRefusal(requiredBy: string): RouteAnswer {
  const message = `The account "${requiredBy}" requires two-factor authentication, and this is your last second factor. Add another one before you remove it.`;
  return refuse(failure('CONFLICT', { message }));
}

const totpOffer = named('TotpOffer', {
  secret: Type.String({ description: 'In Base32, for manual entry.' }),
  otpauthUrl: Type.String({ description: 'To display as a QR code.' }),
});
const totpRequest = named('TotpRequest', { code: Type.String({ minLength: 6, maxLength: 16 }) });
const recoveryCodes = named('RecoveryCodes', {
  recoveryCodes: Type.Array(Type.String(), {
    description: 'Returned only once. Each recovery code replaces one code of the authenticator app.',
  }),
});

export function totpRoutes(deps: UserRouteDeps): RouteDefinition<Caller>[] {
  const common = { path: '/user/totp', tag: 'session', access: { auth: 'user' } } as const;
  return [
    userRoute({
      ...common,
      method: 'POST',
      operationId: 'offerTotp',
      summary: 'Start setting up an authenticator app',
      description:
        'Login requires a code only after you confirm the app with PUT /user/totp. Another call generates another secret.',
      response: { status: 201, schema: totpOffer },
      refusals: ['CONFLICT'],
      handle: async ({ caller }) => (await factorRefusal(deps, caller)) ?? offerTotp(deps, caller),
    }),
    userRoute({
      ...common,
      method: 'PUT',
      operationId: 'confirmTotp',
      summary: 'Confirm the authenticator app with a code',
      description:
        'From now on, login with the password requires a code. The response contains the recovery codes, which are shown only once.',
      body: { schema: totpRequest },
      response: { status: 200, schema: recoveryCodes },
      refusals: ['CONFLICT'],
      handle: async (request) =>
        (await factorRefusal(deps, request.caller)) ?? confirmTotp(deps, request, request.body.code),
    }),
    userRoute({
      ...common,
      method: 'DELETE',
      operationId: 'removeTotp',
      summary: 'Turn off the authenticator app',
      description:
        'Deletes the secret and the recovery codes. Returns 409 if it is your last second factor and an account requires one.',
      response: { status: 200, schema: confirmationSchema },
      refusals: ['NOT_FOUND', 'CONFLICT'],
      handle: async (request) => {
        const { caller } = request;
        const refusal = await factorRefusal(deps, caller);
        if (refusal !== undefined) return refusal;
        const removed = await changesOf(deps, caller.user, request).execute(removeTotpOperation, caller.user.id);
        deps.sessions.evictUser(caller.user.id);
        if (typeof removed === 'object') return requiredRefusal(removed.requiredBy);
        if (removed === 'unknown') return refuse(failure('NOT_FOUND', { message: 'No authenticator app is set up.' }));
        return answer({ message: 'Two-factor authentication is off.' });
      },
    }),
  ];
}

async function offerTotp({ database, secretKey }: UserRouteDeps, { user }: UserCaller): Promise<RouteAnswer> {
  const secret = newTotpSecret();
  const sealed = seal(secretKey, secret, totpContext(user.id));
  if (!(await database.execute(offerTotpOperation, { userId: user.id, sealed })))
    return refuse(failure('CONFLICT', { message: 'An authenticator app is already set up. Remove it first.' }));
  return answer({ secret: base32(secret), otpauthUrl: otpauthUrl(secret, user.email) });
}

async function confirmTotp(
  deps: UserRouteDeps,
  request: SessionRequest & { readonly caller: UserCaller },
  code: string,
): Promise<RouteAnswer> {
  const { user, sessionId } = request.caller;
  const { database, secretKey, clock } = deps;
  const sealed = await database.execute(offeredTotpOperation, user.id);
  if (sealed === null)
    return refuse(
      failure('CONFLICT', { message: 'No authenticator app is waiting for confirmation. Start with POST /user/totp.' }),
    );
  const nowMs = clock.now();
  const step = verifyTotp(open(secretKey, sealed, totpContext(user.id)), code.replace(/\s/g, ''), nowMs);
  const codes = newRecoveryCodes();
  const codeHashes = codes.map((one) => recoveryCodeHash(secretKey, one));
  const isConfirmed =
    step !== undefined &&
    (await changesOf(deps, user, request).execute(confirmTotpOperation, {
      userId: user.id,
      sessionId,
      sealed,
      step,
      codeHashes,
      nowMs,
    }));
  if (!isConfirmed)
    return refuse(failure('INVALID_REQUEST', { details: [{ field: 'code', message: 'is not a valid code' }] }));
  deps.sessions.evictUser(user.id);
  return answer({ recoveryCodes: codes });
}
