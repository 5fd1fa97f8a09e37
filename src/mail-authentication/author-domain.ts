/**
 * Finds the Author Domain of a message (RFC 9989 §5.3.1), the domain in its From field. A message with several From fields or domains has
 * none, because a reader may see another one than DMARC checks.
 */
import { headerText } from '../mail/mime/header-fields.ts';
import { mailboxItems } from '../mail/mime/mailbox-list.ts';
import { comparableDomain } from './dns-query.ts';
import type { Field } from './fields.ts';

/** An @ and the domain after it, or the domain literal (RFC 5322 §3.4.1). Empty if the @ is followed by anything else. */
const AT_DOMAIN = /@\s*([^\s"<>(),;:\\@[\]]+|\[[^[\]\\]*\]|)/g;
const QUOTED = /"(?:[^"\\]|\\.)*"/gsu;
const SOURCE_ROUTE = /^@[^:]*:/;

/** Returns the domain in A-labels and lower case; undefined if there is not exactly one. */
export function authorDomain(fields: readonly Field[]): string | undefined {
  const [from, ...others] = fields.filter(({ name }) => name === 'from');
  if (from === undefined || others.length > 0) return undefined;
  const text = headerText(from.text.slice(from.colon + 1).replaceAll('\r\n', ''));
  const domains = new Set(addressesIn(text).flatMap(domainsOf));
  const [domain] = domains;
  return domains.size === 1 && domain !== '' ? domain : undefined;
}

/** Returns the addresses of the field, including those of groups; for a malformed field, the entire text. */
function addressesIn(text: string): string[] {
  const list = mailboxItems(text);
  if (!list.ok) return [text];
  return list.items.flatMap((item) => (item.kind === 'mailbox' ? [item.spec] : []));
}

/**
 * Returns the domains that a reader might see in an address: one, or several if it is malformed. Text without an @ is a name, such as the
 * first half of `Doe, Ann <ann@example.com>`.
 */
function domainsOf(address: string): string[] {
  const text = address.trim().replace(SOURCE_ROUTE, '').replace(QUOTED, '');
  return [...text.matchAll(AT_DOMAIN)].map(([, domain]) => comparableDomain(domain!));
}
