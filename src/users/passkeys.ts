/**
 * Passkeys (WebAuthn Level 3): options for the browser, challenges, and storage; `webauthn.ts` verifies the responses. They require user
 * verification, so one passkey is both factors. A challenge needs no row: it is random bits and a time, authenticated with a key of the
 * service; only its use is stored, so no response is accepted twice. The relying party is the host of the base URL.
 */
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import { isOwnOrigin } from '../http/cross-site.ts';
import type { Database } from '../storage/database.ts';
import {
  type Answered,
  addPasskeyOperation,
  findPasskeyOperation,
  type Passkey,
  passkeysOperation,
  usePasskeyOperation,
} from './factor-store.ts';
import { changesOf, type SessionRequest, type SignedInUser, type SignInService } from './sign-in.ts';
import { tokenHash } from './tokens.ts';
import type { User, UserCaller } from './user.ts';
import {
  ALGORITHMS,
  type AssertionCredential,
  type Expected,
  type RegistrationCredential,
  verifyAssertion,
  verifyRegistration,
} from './webauthn.ts';

const LIFETIME_MS = 5 * 60_000;
const PASSKEYS_AT_MOST = 20;
const NONCE_BYTES = 16;
const TIME_BYTES = 6;
const TAG_BYTES = 16;

/** A challenge for adding a passkey is valid for one user only. */
type Purpose = `add:${string}` | 'sign-in';

export interface PasskeyDeps {
  database: Database;
  clock: Clock;
  secretKey: Uint8Array;
  readonly baseUrl: string;
}

const REFUSED = refuse(failure('UNAUTHORIZED', { message: 'This passkey was not accepted.' }));
const CONFLICTS = {
  'answered-already': 'This challenge was already used. Start again.',
  'known-already': 'This passkey is already registered.',
  full: `A user can have at most ${PASSKEYS_AT_MOST} passkeys. Remove one first.`,
};

export function createChallenges(secretKey: Uint8Array) {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'passkey challenges', 32));
  const tagOf = (purpose: Purpose, head: Uint8Array): Buffer =>
    createHmac('sha256', key).update(`${purpose}:`).update(head).digest().subarray(0, TAG_BYTES);
  return {
    /** Returns a challenge in base64url. */
    issue: (purpose: Purpose, nowMs: number): string => {
      const head = Buffer.alloc(NONCE_BYTES + TIME_BYTES);
      randomBytes(NONCE_BYTES).copy(head);
      head.writeUIntBE(nowMs + LIFETIME_MS, NONCE_BYTES, TIME_BYTES);
      return Buffer.concat([head, tagOf(purpose, head)]).toString('base64url');
    },
    isValid: (purpose: Purpose, challenge: string, nowMs: number): boolean => {
      const bytes = Buffer.from(challenge, 'base64url');
      if (bytes.length !== NONCE_BYTES + TIME_BYTES + TAG_BYTES || bytes.toString('base64url') !== challenge)
        return false;
      const head = bytes.subarray(0, NONCE_BYTES + TIME_BYTES);
      const isAuthentic = timingSafeEqual(tagOf(purpose, head), bytes.subarray(head.length));
      return isAuthentic && nowMs < head.readUIntBE(NONCE_BYTES, TIME_BYTES);
    },
  };
}

export function createPasskeys(deps: PasskeyDeps, signIn: SignInService) {
  const { database, clock } = deps;
  const challenges = createChallenges(deps.secretKey);

  const expected = (purpose: Purpose, request: SessionRequest): Expected => {
    const { origin, hostname } = new URL(deps.baseUrl);
    const isOwn = isOwnOrigin(request, deps.baseUrl);
    return {
      isChallenge: (challenge) => challenges.isValid(purpose, challenge, clock.now()),
      origins: isOwn ? [...new Set([origin, request.headers.origin!])] : [origin],
      rpId: hostname,
    };
  };

  const answeredBy = (userId: string, challenge: string): Answered => {
    const nowMs = clock.now();
    const times = { createdAt: nowMs, expiresAt: nowMs + LIFETIME_MS };
    return { tokenHash: tokenHash(challenge), userId, purpose: 'answered', byMail: 0, ...times };
  };

  return {
    /** PublicKeyCredentialCreationOptionsJSON. */
    addOptions: async (user: User): Promise<object> => {
      const known = await database.execute(passkeysOperation, user.id);
      return {
        rp: { name: 'Postrider', id: new URL(deps.baseUrl).hostname },
        user: { id: Buffer.from(user.id).toString('base64url'), name: user.email, displayName: user.email },
        challenge: challenges.issue(`add:${user.id}`, clock.now()),
        pubKeyCredParams: Object.values(ALGORITHMS).map((alg) => ({ type: 'public-key', alg })),
        timeout: LIFETIME_MS,
        attestation: 'none',
        excludeCredentials: known.map(({ id }) => ({ type: 'public-key', id })),
        authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
      };
    },
    add: async (
      { user, sessionId }: Pick<UserCaller, 'user' | 'sessionId'>,
      { name, credential }: { name: string; credential: RegistrationCredential },
      request: SessionRequest,
    ): Promise<Result<Passkey>> => {
      const verified = verifyRegistration(credential, expected(`add:${user.id}`, request));
      if (!verified.ok) return verified;
      const { id, publicKey, counter, challenge } = verified.value;
      const passkey = {
        id,
        userId: user.id,
        name,
        publicKey,
        counter,
        transports: (credential.response.transports ?? []).join(','),
        createdAt: clock.now(),
      };
      const added = await changesOf(deps, user, request).execute(addPasskeyOperation, {
        passkey,
        sessionId,
        answered: answeredBy(user.id, challenge),
        mayHaveAtMost: PASSKEYS_AT_MOST,
      });
      if (added !== 'added') return refuse(failure('CONFLICT', { message: CONFLICTS[added] }));
      return ok({ ...passkey, lastUsedAt: null });
    },
    /** PublicKeyCredentialRequestOptionsJSON for any user: the browser offers the passkeys that it has for this service. */
    signInOptions: (): object => ({
      rpId: new URL(deps.baseUrl).hostname,
      challenge: challenges.issue('sign-in', clock.now()),
      timeout: LIFETIME_MS,
      userVerification: 'required',
    }),
    /** Responds to an unknown passkey and to an invalid response with the same UNAUTHORIZED. */
    signIn: async (credential: AssertionCredential, request: SessionRequest): Promise<Result<SignedInUser>> => {
      const holder = await database.execute(findPasskeyOperation, credential.id);
      const admitted = await signIn.admit(holder?.user.email ?? `passkey ${credential.id.slice(0, 100)}`, request);
      if (!admitted.ok) return admitted;
      if (holder === null) return REFUSED;
      const verified = verifyAssertion(credential, holder.passkey, expected('sign-in', request));
      if (!verified.ok) return REFUSED;
      const { counter, challenge } = verified.value;
      const isUsed = await database.execute(usePasskeyOperation, {
        id: holder.passkey.id,
        counter,
        nowMs: clock.now(),
        answered: answeredBy(holder.user.id, challenge),
      });
      if (!isUsed) return REFUSED;
      return signIn.complete(holder.user, request, { taken: admitted.value, signedInWith: 'second-factor' });
    },
  };
}
