/**
 * The match of an inbound route: one address (`support@in.shop.example`), all addresses with a prefix (`reply+*@…`), or all addresses of a
 * domain (`*@…`). Addresses are compared case-insensitively, domains as A-labels. An address takes precedence over a prefix, and a prefix
 * over a domain.
 */
import { domainToAscii, parseAddress, sameAddressKey } from '../mail/address.ts';

export interface Match {
  /** Lower case: the local part, `prefix+*`, or `*`. */
  local: string;
  /** A-labels. */
  domain: string;
}

type MatchResult = { ok: true; match: Match } | { ok: false; reason: string };

const FORM =
  'must be an address such as support@in.shop.example, a prefix such as reply+*@in.shop.example, or *@in.shop.example';
const ANY = '*';
const PREFIX_END = '+*';

/** Parses a match; the reason is the end of a sentence that starts with the field. */
export function parseMatch(text: string): MatchResult {
  const at = text.lastIndexOf('@');
  const written = text.slice(0, at).normalize('NFC');
  const literal = written === ANY ? 'a' : written.endsWith(PREFIX_END) ? written.slice(0, -PREFIX_END.length) : written;
  if (at < 1 || literal === '' || literal.includes('*')) return { ok: false, reason: FORM };
  const address = parseAddress(`${literal}@${text.slice(at + 1)}`);
  if (!address.ok || address.value.name !== '') return { ok: false, reason: FORM };
  if (address.value.local.startsWith('"')) return { ok: false, reason: 'must not have a quoted local part' };
  if (literal !== written && literal.includes('+'))
    return { ok: false, reason: 'must have at most one + in its prefix, directly before the *' };
  const domain = domainToAscii(address.value.domain);
  if (domain === undefined) return { ok: false, reason: FORM };
  return { ok: true, match: { local: written.toLowerCase(), domain } };
}

/** Returns the match as users write it. */
export function matchText({ local, domain }: Match): string {
  return `${local}@${domain}`;
}

/** Returns the local parts of routes that match an address, the most specific first. Always three, so that every lookup costs the same. */
export function wantedLocals(local: string): [exact: string, prefix: string, any: string] {
  const exact = withoutNeedlessQuotes(local.normalize('NFC').toLowerCase());
  const plus = exact.indexOf('+');
  // Without a + the second one is a local part that no route can have.
  return [exact, `${exact.slice(0, Math.max(0, plus))}${PREFIX_END}`, ANY];
}

/** A quoted local part names the same mailbox as the text in the quotes (RFC 5321 §4.1.2); senders must quote one such as `a..b`. */
function withoutNeedlessQuotes(local: string): string {
  if (!local.startsWith('"')) return local;
  const key = sameAddressKey(`${local}@a.example`);
  return key.slice(0, key.lastIndexOf('@'));
}
