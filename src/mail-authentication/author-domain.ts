/**
 * Finds the Author Domain of a message (RFC 9989 §5.3.1), the domain in its From field. A message with several From fields or domains has
 * none, because a reader may see another one than DMARC checks. For the same reason, there is none if the domain has characters that no
 * domain has, or if another part of the field looks like an address.
 */
import { decodeWords, headerText } from '../mail/mime/header-fields.ts';
import { mailboxItems } from '../mail/mime/mailbox-list.ts';
import { comparableDomain, isDomain } from './dns-query.ts';
import type { Field } from './fields.ts';

/**
 * An @ and the domain after it, or the domain literal (RFC 5322 §3.4.1). Empty if the @ is followed by anything else. White space is that of
 * RFC 5322: other kinds are part of a domain, which is then invalid.
 */
const AT_DOMAIN = /@[ \t]*([^ \t<>(),;:\\@[\]]+|\[[^[\]\\]*\]|)/g;
const QUOTED = /"(?:[^"\\]|\\.)*"/gsu;
const LITERAL = /^\[[!-Z^-~]+\]$/;
/** An @, also in its full-width form. */
const AT = /[@\uff20]/;
const SOURCE_ROUTE = /^@[^:]*:/;

/** Returns the domain in A-labels and lower case; undefined if there is not exactly one. */
export function authorDomain(fields: readonly Field[]): string | undefined {
  const [from, ...others] = fields.filter(({ name }) => name === 'from');
  if (from === undefined || others.length > 0) return undefined;
  const text = headerText(from.text.slice(from.colon + 1).replaceAll('\r\n', ''));
  const domains = new Set(domainsIn(text));
  const [domain] = domains;
  return domains.size === 1 && (isDomain(domain!) || LITERAL.test(domain!)) ? domain : undefined;
}

/**
 * Returns the domains of the field, including those in groups; for a malformed field, all that its text contains. A part that looks like an
 * address without having a domain adds an empty one.
 */
function domainsIn(text: string): string[] {
  const list = mailboxItems(text);
  if (!list.ok) return domainsOf(text);
  return list.items.flatMap((item) => {
    if (item.kind === 'groupEnd') return [];
    const found = item.kind === 'group' ? [] : domainsOf(item.spec);
    const visible = item.kind === 'group' ? item.name : item.name + decodeWords(item.spec.replaceAll('"', ''));
    return found.length === 0 && AT.test(visible) ? [''] : found;
  });
}

/**
 * Returns the domains that a reader might see in an address: one, or several if it is malformed. Text without an @ is a name, such as the
 * first half of `Doe, Ann <ann@example.com>`.
 */
function domainsOf(address: string): string[] {
  const text = address.trim().replace(SOURCE_ROUTE, '').replace(QUOTED, '""');
  return [...text.matchAll(AT_DOMAIN)].map(([, domain]) => comparableDomain(domain!));
}
