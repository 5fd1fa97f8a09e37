/**
 * Login through an identity provider (OpenID Connect Core 1.0, code flow with PKCE), by openid-client, which is loaded at the first use.
 * The state of a login in progress (state, nonce, verifier) is encrypted in a cookie of the browser that started it. The provider must
 * report the address as verified, and it must belong to an existing user: a login never creates one. The provider is responsible for the
 * second factor too.
 */
import type { Configuration } from 'openid-client';
import type { Clock } from '../base/clock.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import { open, seal } from '../base/seal.ts';
import { basePathOf } from '../http/base-path.ts';
import type { Database } from '../storage/database.ts';
import { cookiesOf } from './sessions.ts';
import { normalEmail, type SessionRequest, type SignedInUser, type SignInService } from './sign-in.ts';
import { userByEmailOperation } from './store.ts';

const COOKIE = 'postrider_oidc';
const LIFETIME_MS = 10 * 60_000;
const SEAL_CONTEXT = 'oidc flow';
const CALLBACK = '/session/oidc/callback';

export interface OidcSettings {
  issuer: string;
  clientId: string;
  clientSecret: string | undefined;
}

export interface OidcDeps {
  database: Database;
  clock: Clock;
  log: Log;
  secretKey: Uint8Array;
  readonly baseUrl: string;
  /** Absent if none is configured. */
  oidc?: OidcSettings | undefined;
}

interface Flow {
  state: string;
  nonce: string;
  verifier: string;
  expiresAt: number;
}

const UNKNOWN = refuse(failure('NOT_FOUND', { message: 'No identity provider is configured.' }));
const REFUSED = refuse(
  failure('UNAUTHORIZED', { message: 'The identity provider did not confirm the email address of an existing user.' }),
);

const library = () => import('openid-client');

export function createOidc(deps: OidcDeps, signIn: SignInService) {
  const { database, clock, log, oidc } = deps;
  let discovered: Promise<Configuration> | undefined;

  const configuration = ({ issuer, clientId, clientSecret }: OidcSettings): Promise<Configuration> => {
    discovered ??= library()
      .then(({ discovery, allowInsecureRequests }) => {
        const address = new URL(issuer);
        // The setting allows http only for a provider on this machine.
        const execute = address.protocol === 'http:' ? [allowInsecureRequests] : [];
        return discovery(address, clientId, clientSecret, undefined, { execute });
      })
      .catch((error: Error) => {
        discovered = undefined;
        throw error;
      });
    return discovered;
  };

  const flowOf = ({ headers }: SessionRequest): Flow | undefined => {
    const found = cookiesOf(headers).filter(([name]) => name === COOKIE);
    if (found.length !== 1) return undefined;
    try {
      const text = open(deps.secretKey, Buffer.from(found[0]![1], 'base64url'), SEAL_CONTEXT).toString('utf8');
      const flow = JSON.parse(text) as Flow;
      return clock.now() < flow.expiresAt ? flow : undefined;
    } catch {
      return undefined;
    }
  };

  /** Returns the verified address that the provider confirms. */
  const confirmedEmail = async (settings: OidcSettings, flow: Flow, url: string): Promise<string | undefined> => {
    const { authorizationCodeGrant, fetchUserInfo } = await library();
    const config = await configuration(settings);
    const tokens = await authorizationCodeGrant(config, new URL(`${deps.baseUrl}${url}`), {
      pkceCodeVerifier: flow.verifier,
      expectedState: flow.state,
      expectedNonce: flow.nonce,
      idTokenExpected: true,
    });
    const inToken = tokens.claims()!;
    const claims =
      typeof inToken.email === 'string' ? inToken : await fetchUserInfo(config, tokens.access_token, inToken.sub);
    return claims.email_verified === true && typeof claims.email === 'string' ? normalEmail(claims.email) : undefined;
  };

  return {
    /** Returns the redirect for the browser, and the cookie that it keeps in the meantime. */
    begin: async (): Promise<Result<{ url: string; cookie: string }>> => {
      if (oidc === undefined) return UNKNOWN;
      const { buildAuthorizationUrl, calculatePKCECodeChallenge, ...random } = await library();
      const verifier = random.randomPKCECodeVerifier();
      const flow = { state: random.randomState(), nonce: random.randomNonce(), verifier };
      const url = buildAuthorizationUrl(await configuration(oidc), {
        redirect_uri: `${deps.baseUrl}${CALLBACK}`,
        scope: 'openid email',
        state: flow.state,
        nonce: flow.nonce,
        code_challenge: await calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      });
      const sealed = seal(
        deps.secretKey,
        JSON.stringify({ ...flow, expiresAt: clock.now() + LIFETIME_MS }),
        SEAL_CONTEXT,
      );
      const secure = deps.baseUrl.startsWith('https:') ? '; Secure' : '';
      // Lax: the browser returns from another site.
      const rest = `Path=${basePathOf(deps.baseUrl)}/session/oidc; HttpOnly; SameSite=Lax; Max-Age=${LIFETIME_MS / 1000}${secure}`;
      return ok({ url: url.href, cookie: `${COOKIE}=${sealed.toString('base64url')}; ${rest}` });
    },
    finish: async (request: SessionRequest & { readonly url: string }): Promise<Result<SignedInUser>> => {
      if (oidc === undefined) return UNKNOWN;
      const flow = flowOf(request);
      if (flow === undefined) return REFUSED;
      const email = await confirmedEmail(oidc, flow, request.url).catch((error: Error) => {
        log.warn({ error: error.message }, 'identity provider rejected the sign-in');
        return undefined;
      });
      const user = email === undefined ? null : await database.execute(userByEmailOperation, email);
      if (user === null) return REFUSED;
      return signIn.complete(user, request, { taken: [], signedInWith: 'identity-provider' });
    },
  };
}
