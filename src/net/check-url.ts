/**
 * Checks a webhook's URL when it is saved. The connection is checked again at every POST (guarded-connector.ts): this here
 * tells the user early. A name that does not resolve right now is accepted, because endpoints are often configured before
 * their DNS exists and a resolver's bad minute is not the user's fault; a name with any address that is refused is not.
 */
import type { Cidr } from './address-guard.ts';
import { guardedAddresses, type Lookup, NotConnected } from './guarded-connector.ts';

const MAX_URL_LENGTH = 2_048;

/** Why a URL is refused whatever it leads to, as the end of a sentence that starts with the field. */
export function urlIssue(text: string): string | undefined {
  if (text.length > MAX_URL_LENGTH) return `must be at most ${MAX_URL_LENGTH} characters`;
  // The URL parser would strip or rewrite these without a word.
  if (/[^\x21-\x7e\x80-\u{10ffff}]|\\/u.test(text)) return 'must not have spaces, controls or backslashes; encode them';
  const url = URL.parse(text);
  if (!url || !/^https?:\/\/[^/]/i.test(text)) return 'must be a URL that starts with https:// or http://';
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/i.test(text)) {
    return 'must not have a user name or password; verify the signature of the webhook instead';
  }
  if (text.includes('#')) return 'must not have a fragment (#…): it is never sent';
  return undefined;
}

/** Why the URL is refused, as the end of a sentence that starts with the field; undefined when it may be saved. */
export async function checkUrl(
  text: string,
  options: { lookup: Lookup; allow: readonly Cidr[] },
): Promise<string | undefined> {
  const fault = urlIssue(text);
  if (fault !== undefined) return fault;
  try {
    await guardedAddresses(new URL(text).hostname, options);
  } catch (error) {
    if (!(error instanceof NotConnected)) throw error;
    if (error.kind === 'refused-address') return `must lead to a public address: ${error.message}`;
  }
  return undefined;
}
