/**
 * What an inbound route takes: one address (`support@in.shop.example`), every address of a prefix (`reply+*@…`), or every address
 * of a domain (`*@…`). Compared without case, since nobody has two mailboxes that differ in it; domains as A-labels. Of several
 * routes that fit, the address comes before the prefix, and that before the domain.
 */
import { domainToAscii, parseAddress } from '../mail/address.ts';

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

/** Reads a match as users write it; the reason is the end of a sentence that begins with the field. */
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

/** As users read it. */
export function matchText({ local, domain }: Match): string {
  return `${local}@${domain}`;
}

/**
 * The local parts of routes that take an address, the closest first. Always three, so that looking for one costs the same
 * whatever the address is.
 */
export function wantedLocals(local: string): [exact: string, prefix: string, any: string] {
  const lower = local.normalize('NFC').toLowerCase();
  const plus = lower.indexOf('+');
  // Without a + the second is one that no route can have.
  return [lower, `${lower.slice(0, Math.max(0, plus))}${PREFIX_END}`, ANY];
}
