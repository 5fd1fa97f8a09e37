/** Reads `Authorization: Bearer` (RFC 6750 §2.1). Without a regular expression over the token: everyone can send this header. */

const SCHEME = 'bearer';

/**
 * Returns the token without surrounding spaces. Returns undefined if the header is missing, has another scheme, or has no token. Takes time
 * proportional to the length of the header.
 */
export function bearerToken(authorization: string | undefined): string | undefined {
  if (authorization === undefined || authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return undefined;
  const rest = authorization.slice(SCHEME.length);
  return rest.startsWith(' ') ? rest.trim() || undefined : undefined;
}
