/**
 * Connects undici only to addresses that the guard allows. The host is resolved once; if any of its addresses is refused, none is used. The
 * connection goes to exactly the address that was checked, so a second DNS answer cannot change it. The addresses of localhost are fixed,
 * so the allowed ones among them are used. IP literals are checked in the same way. TLS is verified against the name in the URL.
 */
import { isIP } from 'node:net';
import type { buildConnector } from 'undici';
import { addressRefusal, type Cidr } from './address-guard.ts';
import type { DnsAnswer } from './dns.ts';
import { isLocalhost } from './dns-name.ts';
import { withoutInterimResponses } from './interim-responses.ts';

export type Lookup = (host: string) => Promise<DnsAnswer<string[]>>;

/** Why no connection was tried; the message may be shown to the owner of the URL. */
export class NotConnected extends Error {
  override name = 'NotConnected';
  readonly kind: 'refused-address' | 'dns';

  constructor(kind: 'refused-address' | 'dns', message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Returns the addresses of a host, all of them checked; throws NotConnected. */
async function guardedAddresses(host: string, options: { lookup: Lookup; allow: readonly Cidr[] }): Promise<string[]> {
  const answer = await options.lookup(host);
  if (answer.status === 'temporary') throw new NotConnected('dns', `the name ${host} does not resolve at the moment`);
  if (answer.status !== 'found' || answer.value.length === 0) {
    throw new NotConnected('dns', `the name ${host} has no address`);
  }
  const allowed: string[] = [];
  let refused: NotConnected | undefined;
  for (const address of answer.value) {
    const reason = addressRefusal(address, options.allow);
    if (reason === undefined) allowed.push(address);
    else refused ??= refusedAddress(host, address, reason);
  }
  if (refused !== undefined && !(isLocalhost(host) && allowed.length > 0)) throw refused;
  return allowed;
}

function refusedAddress(host: string, address: string, reason: string): NotConnected {
  return new NotConnected(
    'refused-address',
    `${host} resolves to ${address}, which is not a public address (${reason})`,
  );
}

/** Wraps a connector so that it only connects to addresses that were checked. */
export function guardedConnector(options: {
  lookup: Lookup;
  allow: readonly Cidr[];
  /** undici's connector, which connects to one address. */
  connector: buildConnector.connector;
}): buildConnector.connector {
  const { lookup, allow, connector: connect } = options;

  return (target, callback) => {
    const dial = (addresses: readonly string[], index: number): void => {
      const address = addresses[index]!;
      const { servername: _, ...rest } = target;
      const secure = target.protocol === 'https:' && isIP(target.hostname) === 0;
      const named = secure ? { servername: target.servername || target.hostname } : {};
      connect({ ...rest, ...named, hostname: address }, (error, socket) => {
        if (error && index + 1 < addresses.length) dial(addresses, index + 1);
        else if (error) callback(error, null);
        else callback(null, withoutInterimResponses(socket!));
      });
    };
    guardedAddresses(target.hostname, { lookup, allow }).then(
      (addresses) => dial(addresses, 0),
      (error: Error) => callback(error, null),
    );
  };
}

const MAX_URL_LENGTH = 2_048;

/** Returns why a URL is refused regardless of its address, as the rest of a sentence that starts with the field. */
export function urlIssue(text: string): string | undefined {
  if (text.length > MAX_URL_LENGTH) return `must be at most ${MAX_URL_LENGTH} characters`;
  // The URL parser would strip or rewrite these silently.
  if (/[^\x21-\x7e\x80-\u{10ffff}]|\\/u.test(text))
    return 'must not have spaces, control characters, or backslashes; percent-encode them';
  const url = URL.parse(text);
  if (!url || !/^https?:\/\/[^/]/i.test(text)) return 'must be a URL that starts with https:// or http://';
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/i.test(text)) {
    return 'must not have a user name or password; verify the signature of the webhook instead';
  }
  if (text.includes('#')) return 'must not have a fragment (#…): it is never sent';
  return undefined;
}

/** Returns why the URL is refused, as the rest of a sentence that starts with the field; undefined if it is accepted. */
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
    if (error.kind === 'refused-address') return `must resolve to a public address: ${error.message}`;
  }
  return undefined;
}
