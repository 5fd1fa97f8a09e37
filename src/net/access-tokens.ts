/**
 * OAuth 2.0 access tokens for a relay, by the client credentials grant (RFC 6749 §4.4), with openid-client, which is loaded at the first
 * use. A token is used until shortly before its end, or until the relay refuses it. Sessions that start at the same time share a request.
 */
import type { TokenSource } from './smtp-types.ts';

/** How to get tokens for a relay. */
export interface OAuthClient {
  /** The token endpoint of the identity provider: https, or http on this machine. */
  tokenUrl: string;
  clientId: string;
  clientSecret: string;
  scope?: string;
}

/** Tokens are replaced this long before their end, or after nine tenths of their lifetime if that is later. */
const RENEW_BEFORE_MS = 300_000;
/** Lifetime of tokens for which the provider states none. */
const UNSTATED_MS = 300_000;
const TIMEOUT_S = 15;
/** After a failure, requests fail for this long without asking the provider. */
const RETRY_AFTER_MS = 5_000;

interface Cached {
  token: Promise<string>;
  /** By performance.now(). */
  untilMs: number;
}

async function requestToken({ tokenUrl, clientId, clientSecret, scope }: OAuthClient) {
  const { allowInsecureRequests, ClientSecretPost, clientCredentialsGrant, Configuration } = await import(
    'openid-client'
  );
  const url = new URL(tokenUrl);
  const server = { issuer: url.origin, token_endpoint: tokenUrl };
  const config = new Configuration(server, clientId, undefined, ClientSecretPost(clientSecret));
  config.timeout = TIMEOUT_S;
  // The setting allows http only for a provider on this machine.
  if (url.protocol === 'http:') allowInsecureRequests(config);
  return clientCredentialsGrant(config, scope === undefined ? undefined : { scope });
}

/**
 * Returns the reason of a failed request, as the end of a sentence: the provider's error code (RFC 6749 §5.2) if it gave one. Senders see
 * it in the reply of an attempt, so it has no description, which can contain identifiers of the operator.
 */
function reasonOf(error: unknown): string {
  const { error: code, cause, message } = error as Record<string, unknown>;
  if (typeof code === 'string') return shown(code);
  const inner = (cause as { code?: unknown } | undefined)?.code;
  return shown(typeof inner === 'string' ? `${String(message)} (${inner})` : String(message));
}

const shown = (text: string): string => text.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 200);

/** Returns a function that returns the token source of a relay, always the same one for the same settings. */
export function createRelayTokens(): (relay: { oauth?: OAuthClient }) => TokenSource | undefined {
  const sources = new Map<OAuthClient, TokenSource>();
  return ({ oauth }) => {
    if (oauth === undefined) return undefined;
    const source = sources.get(oauth) ?? createTokenSource(oauth);
    sources.set(oauth, source);
    return source;
  };
}

/** Creates the source of the tokens of one client. */
export function createTokenSource(client: OAuthClient, now: () => number = () => performance.now()): TokenSource {
  let cached: Cached | undefined;
  let current: string | undefined;

  const renew = async (own: Cached): Promise<string> => {
    try {
      const answer = await requestToken(client);
      const lifetimeMs = (answer.expires_in ?? UNSTATED_MS / 1_000) * 1_000;
      own.untilMs = now() + Math.max(lifetimeMs - RENEW_BEFORE_MS, lifetimeMs * 0.9);
      current = answer.access_token;
      return answer.access_token;
    } catch (error) {
      own.untilMs = now() + RETRY_AFTER_MS;
      throw new Error(`${new URL(client.tokenUrl).host} issued no access token: ${reasonOf(error)}`);
    }
  };

  return {
    get: () => {
      if (cached !== undefined && now() < cached.untilMs) return cached.token;
      const own: Cached = { token: Promise.resolve(''), untilMs: Number.POSITIVE_INFINITY };
      own.token = renew(own);
      cached = own;
      return own.token;
    },
    reject: (token) => {
      if (token !== current) return;
      current = undefined;
      cached = undefined;
    },
  };
}
