/**
 * Tells a call of our own pages from one that a page of another site made a browser send along with its cookie (CSRF). Calls that
 * change something carry a header that no form can set, and an Origin of our own: that of the base URL, or of the host that
 * the request came to. The cookie is SameSite=Strict besides.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type Failure, failure } from '../base/failure.ts';

export const REQUESTED_WITH = 'postrider';

const CROSS_SITE: Failure = failure('FORBIDDEN', {
  message:
    'A call with a session that changes something carries X-Requested-With: postrider and the Origin of this service.',
});

interface CheckedRequest {
  readonly method?: string | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Whether the client used TLS, with this service or with a trusted proxy. */
  readonly isSecure?: boolean | undefined;
}

/** Whether the browser reaches this service over https: the public address says so, or this request came that way. */
export function isOverHttps(request: { readonly isSecure?: boolean | undefined }, baseUrl: string): boolean {
  return baseUrl.startsWith('https:') || request.isSecure === true;
}

/** Whether a page of this origin is one of this service. If the browser uses https, pages that were loaded over http are not. */
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

/** Why a call with a session is refused, for any user. */
export function crossSiteFailure(request: CheckedRequest, baseUrl: string): Failure | undefined {
  const { method, headers } = request;
  if (method === 'GET' || method === 'HEAD') return undefined;
  if (headers['x-requested-with'] !== REQUESTED_WITH) return CROSS_SITE;
  return isOwnOrigin(request, baseUrl) ? undefined : CROSS_SITE;
}
