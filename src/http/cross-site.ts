/**
 * Protects against cross-site request forgery (CSRF). Calls that change something must have a header that HTML forms cannot set, and an
 * Origin of this service: the base URL's, or that of the host the request was sent to. In addition, the cookie is SameSite=Strict.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Failure, failure } from '../base/failure.ts';

export const REQUESTED_WITH = 'postrider';

const CROSS_SITE: Failure = failure('FORBIDDEN', {
  message:
    'A call with a session that changes something requires the header X-Requested-With: postrider and the Origin of this service.',
});

interface CheckedRequest {
  readonly method?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Whether the client used TLS, with this service or with a trusted proxy. */
  readonly isSecure?: boolean | undefined;
}

/** Returns whether the browser uses https: according to the base URL, or because this request did. */
export function isOverHttps(request: { readonly isSecure?: boolean | undefined }, baseUrl: string): boolean {
  return baseUrl.startsWith('https:') || request.isSecure === true;
}

/** Returns whether a page of this origin belongs to this service. If the browser uses https, http pages do not. */
export function isOwnOrigin(
  { headers: { origin, host }, isSecure }: Pick<CheckedRequest, 'headers' | 'isSecure'>,
  baseUrl: string,
): boolean {
  if (origin === undefined || !URL.canParse(origin)) return false;
  const from = new URL(origin);
  const base = new URL(baseUrl);
  if (from.origin !== origin) return false;
  if (from.origin === base.origin) return true;
  if (from.protocol !== 'https:' && (from.protocol !== 'http:' || isOverHttps({ isSecure }, baseUrl))) return false;
  return host !== undefined && from.host === host.toLowerCase();
}

/** Returns why a call with a session is refused, independent of the user. */
export function crossSiteFailure(request: CheckedRequest, baseUrl: string): Failure | undefined {
  const { method, headers } = request;
  if (method === 'GET' || method === 'HEAD') return undefined;
  if (headers['x-requested-with'] !== REQUESTED_WITH) return CROSS_SITE;
  return isOwnOrigin(request, baseUrl) ? undefined : CROSS_SITE;
}
