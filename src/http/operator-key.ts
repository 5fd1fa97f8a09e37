/**
 * Keys of the operator API as they appear in requests: `Authorization: Bearer pr_operator_…`, and the scopes that they need. A key can have
 * several scopes, and none includes another. operator/keys.ts creates and verifies keys.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Failure, failure, refuse } from '../base/failure.ts';
import { bearerToken } from './bearer.ts';

/** To add a scope, add it here and return it from `operatorScopeFor` for its routes. */
export const OPERATOR_SCOPES = ['read', 'write'] as const;
export type OperatorScope = (typeof OPERATOR_SCOPES)[number];

export const OPERATOR_KEY_PREFIX = 'pr_operator_';
const ANY_KEY_PREFIX = 'pr_';

/** Returns the scope that a key needs for a route of the operator API. */
function operatorScopeFor({ method }: { method: string }): OperatorScope {
  return method === 'GET' ? 'read' : 'write';
}

export function isOperatorKey(text: string | undefined): boolean {
  return text?.startsWith(OPERATOR_KEY_PREFIX) === true;
}

/**
 * Returns the key of a request to the operator API. A session cookie is used only if the bearer token is not a key of this service: proxies
 * that authenticate users may add tokens of their own.
 */
export function operatorKeyOf(headers: IncomingHttpHeaders, hasSession: boolean): string | undefined {
  const token = bearerToken(headers.authorization);
  if (token === undefined) return undefined;
  return token.startsWith(ANY_KEY_PREFIX) || !hasSession ? token : undefined;
}

/** Returns whether a request to any other route authenticates with an operator key. */
export function hasOperatorKey(headers: IncomingHttpHeaders): boolean {
  const apiKey = headers['x-api-key'];
  return isOperatorKey(typeof apiKey === 'string' ? apiKey : bearerToken(headers.authorization));
}

export const OPERATOR_KEY_ELSEWHERE = refuse(
  failure('UNAUTHORIZED', {
    message:
      'An operator key opens only the routes below /operator. For this call, send an API key of the account in X-Api-Key and the id of the account in X-Id.',
  }),
);
export const OPERATOR_KEY_IN_API_KEY = refuse(
  failure('UNAUTHORIZED', { message: 'Send the operator key as Authorization: Bearer, not in X-Api-Key.' }),
);
export const OPERATOR_UNAUTHORIZED = refuse(
  failure('UNAUTHORIZED', {
    message:
      'This call needs the session of an operator, or an operator key as Authorization: Bearer. API keys of accounts are not accepted.',
  }),
);
export const OPERATOR_KEY_REFUSED = refuse(
  failure('UNAUTHORIZED', {
    message:
      'The bearer token is not an active operator key: it is unknown, revoked, expired, or sent twice. Create a key with postrider operator-key create. API keys of accounts are not accepted.',
  }),
);
const OPERATORS_ONLY = failure('FORBIDDEN', {
  message: 'Only an operator who is signed in can make this call, not an operator key.',
});

/** Returns why an operator key with these scopes is not allowed to call a route. */
export function operatorKeyFailure(
  scopes: readonly OperatorScope[],
  route: { method: string; auth: string; peopleOnly?: boolean | undefined },
): Failure | undefined {
  if (route.auth !== 'operator') return OPERATOR_KEY_ELSEWHERE.failure;
  if (route.peopleOnly) return OPERATORS_ONLY;
  const needed = operatorScopeFor(route);
  if (scopes.includes(needed)) return undefined;
  return failure('FORBIDDEN', {
    message: `This call requires an operator key with the scope ${needed}. The scopes of this key are: ${scopes.join(', ')}.`,
  });
}
