/**
 * Passkeys (WebAuthn Level 3), by @simplewebauthn/server, which is loaded at the first use. They require user verification, so one passkey
 * is both factors. A challenge needs no row: it is random bits and a time, authenticated with a key of the service; only its use is stored,
 * so that no response is accepted twice. The relying party is the host of the base URL.
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

const LIFETIME_MS = 5 * 60_000;
const PASSKEYS_AT_MOST = 20;
const NONCE_BYTES = 16;
const TIME_BYTES = 6;
const TAG_BYTES = 16;

type Purpose = 'add' | 'sign-in';

export interface PasskeyDeps {
  database: Database;
  clock: Clock;
  secretKey: Uint8Array;
  readonly baseUrl: string;
}

/** A credential from the browser, as PublicKeyCredential.toJSON() returns it. */
export type Credential = Record<string, unknown>;

const REFUSED = refuse(failure('UNAUTHORIZED', { message: 'This passkey was not accepted.' }));
const CONFLICTS = {
  'answered-already': 'This challenge was already used. Start again.',
  'known-already': 'This passkey is already registered.',
  full: `A user can have at most ${PASSKEYS_AT_MOST} passkeys. Remove one first.`,
};

const library = () => import('@simplewebauthn/server');

export function createChallenges(secretKey: Uint8Array) {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'passkey challenges', 32));
  const tagOf = (purpose: Purpose, head: Uint8Array): Buffer =>
    createHmac('sha256', key).update(`${purpose}:`).update(head).digest().subarray(0, TAG_BYTES);
  return {
    issue: (purpose: Purpose, nowMs: number): Uint8Array<ArrayBuffer> => {
      const head = Buffer.alloc(NONCE_BYTES + TIME_BYTES);
      randomBytes(NONCE_BYTES).copy(head);
      head.writeUIntBE(nowMs + LIFETIME_MS, NONCE_BYTES, TIME_BYTES);
      return new Uint8Array(Buffer.concat([head, tagOf(purpose, head)]));
    },
    isOurs: (purpose: Purpose, challenge: string, nowMs: number): boolean => {
      const bytes = Buffer.from(challenge, 'base64url');
      if (bytes.length !== NONCE_BYTES + TIME_BYTES + TAG_BYTES) return false;
      const head = bytes.subarray(0, NONCE_BYTES + TIME_BYTES);
      const isWhole = timingSafeEqual(tagOf(purpose, head), bytes.subarray(head.length));
      return isWhole && nowMs < head.readUIntBE(NONCE_BYTES, TIME_BYTES);
    },
  };
}

/** Returns the challenge that a credential answers. */
function challengeOf(credential: Credential): string {
  try {
    const { clientDataJSON } = credential.response as { clientDataJSON: string };
    const { challenge } = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString('utf8')) as {
      challenge: unknown;
    };
    return typeof challenge === 'string' ? challenge : '';
  } catch {
    return '';
  }
}

export function createPasskeys(deps: PasskeyDeps, signIn: SignInService) {
  const { database, clock } = deps;
  const challenges = createChallenges(deps.secretKey);

  const expected = (purpose: Purpose, request: SessionRequest) => {
    const { origin, hostname } = new URL(deps.baseUrl);
    const isOwn = isOwnOrigin(request, deps.baseUrl);
    return {
      expectedChallenge: (challenge: string) => challenges.isOurs(purpose, challenge, clock.now()),
      expectedOrigin: isOwn ? [origin, request.headers.origin!] : [origin],
      expectedRPID: hostname,
      requireUserVerification: true,
    };
  };

  const answeredBy = (userId: string, credential: Credential): Answered => {
    const nowMs = clock.now();
    const times = { createdAt: nowMs, expiresAt: nowMs + LIFETIME_MS };
    return { tokenHash: tokenHash(challengeOf(credential)), userId, purpose: 'answered', byMail: 0, ...times };
  };

  return {
    addOptions: async (user: User): Promise<object> => {
      const { generateRegistrationOptions } = await library();
      const known = await database.execute(passkeysOperation, user.id);
      return generateRegistrationOptions({
        rpName: 'Postrider',
        rpID: new URL(deps.baseUrl).hostname,
        timeout: LIFETIME_MS,
        attestationType: 'none',
        userID: new Uint8Array(Buffer.from(user.id)),
        userName: user.email,
        challenge: challenges.issue('add', clock.now()),
        excludeCredentials: known.map(({ id }) => ({ id })),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      });
    },
    add: async (
      { user, sessionId }: Pick<UserCaller, 'user' | 'sessionId'>,
      { name, credential }: { name: string; credential: Credential },
      request: SessionRequest,
    ): Promise<Result<Passkey>> => {
      const { verifyRegistrationResponse } = await library();
      const response = credential as unknown as Parameters<typeof verifyRegistrationResponse>[0]['response'];
      // The library throws on malformed and invalid responses.
      const verified = await verifyRegistrationResponse({ response, ...expected('add', request) }).catch(
        () => undefined,
      );
      if (!verified?.verified) return REFUSED;
      const { id, publicKey, counter, transports = [] } = verified.registrationInfo.credential;
      const made = { id, userId: user.id, name, publicKey, counter, createdAt: clock.now() };
      const passkey = { ...made, transports: transports.join(',') };
      const added = await changesOf(deps, user, request).execute(addPasskeyOperation, {
        passkey,
        sessionId,
        answered: answeredBy(user.id, credential),
        mayHaveAtMost: PASSKEYS_AT_MOST,
      });
      if (added !== 'added') return refuse(failure('CONFLICT', { message: CONFLICTS[added] }));
      return ok({ ...passkey, lastUsedAt: null });
    },
    /** For any user: the browser offers the passkeys that it has for this service. */
    signInOptions: async (): Promise<object> => {
      const { generateAuthenticationOptions } = await library();
      return generateAuthenticationOptions({
        rpID: new URL(deps.baseUrl).hostname,
        timeout: LIFETIME_MS,
        userVerification: 'required',
        challenge: challenges.issue('sign-in', clock.now()),
      });
    },
    signIn: async (credential: Credential, request: SessionRequest): Promise<Result<SignedInUser>> => {
      const holder = await database.execute(findPasskeyOperation, String(credential.id).slice(0, 1_024));
      const admitted = await signIn.admit(
        holder?.user.email ?? `passkey ${String(credential.id).slice(0, 100)}`,
        request,
      );
      if (!admitted.ok) return admitted;
      if (holder === null) return REFUSED;
      const { verifyAuthenticationResponse } = await library();
      const { id, counter } = holder.passkey;
      const verified = await verifyAuthenticationResponse({
        response: credential as unknown as Parameters<typeof verifyAuthenticationResponse>[0]['response'],
        ...expected('sign-in', request),
        credential: { id, counter, publicKey: new Uint8Array(holder.passkey.publicKey) },
      }).catch(() => undefined);
      if (!verified?.verified) return REFUSED;
      const isUsed = await database.execute(usePasskeyOperation, {
        id,
        counter: verified.authenticationInfo.newCounter,
        nowMs: clock.now(),
        answered: answeredBy(holder.user.id, credential),
      });
      if (!isUsed) return REFUSED;
      return signIn.complete(holder.user, request, { taken: admitted.value, signedInWith: 'second-factor' });
    },
  };
}
