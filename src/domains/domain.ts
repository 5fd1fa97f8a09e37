/**
 * Sender domains: shapes, and which names may be one. A domain is kept in A-labels and lower case. Refused are single
 * labels, addresses and the public suffixes that are met most; a less known suffix cannot be verified anyway, since its zone
 * is not the customer's.
 */
import { isIP } from 'node:net';
import { domainToAscii } from '../mail/address.ts';

export type DomainStatus = 'pending' | 'verified' | 'failing';
export type DkimAlgorithm = 'rsa' | 'ed25519';

export interface DomainKey {
  algorithm: DkimAlgorithm;
  selector: string;
  /** Value of the TXT record. */
  publicKey: string;
  /** Unix ms of the last check, if that found it in the DNS. */
  publishedAt: number | null;
}

export interface SenderDomain {
  id: string;
  accountId: string;
  domain: string;
  status: DomainStatus;
  /** Unix ms. */
  createdAt: number;
  checkedAt: number | null;
  keys: DomainKey[];
}

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** Longest domain that still leaves room for the selector and `_domainkey` in a DNS name. */
const MAX_DOMAIN_LENGTH = 200;
/** Second-level suffixes such as co.uk, under the country codes that use them. */
const PUBLIC_SUFFIX =
  /^(?:co|com|org|net|gov|edu|ac|mil|or|ne|go|gob|gouv|sch|plc|ltd|me)\.(?:uk|au|nz|za|jp|kr|br|in|il|th|tr|mx|ar|sg|hk|my|cn|tw|id|ph|vn|ke|ng|eg|sa|ae|pk|bd|ve|pe|ec|uy)$/;

export type DomainName = { ok: true; domain: string } | { ok: false; reason: string };

/** The name as it is kept, or why it cannot be a sender domain (the end of a sentence that begins with the field). */
export function senderDomainName(text: string): DomainName {
  const refused = (reason: string): DomainName => ({ ok: false, reason });
  const typed = text.replace(/\.$/, '');
  if (isIP(typed.replace(/^\[|\]$/g, '')) !== 0) return refused('is an address; give a domain name');
  if (typed.includes('@')) return refused('is an email address; give the part after the @');
  const domain = domainToAscii(typed.normalize('NFC'));
  if (domain === undefined) return refused('is not a valid domain name');
  const labels = domain.split('.');
  if (labels.length < 2) return refused('must have at least two labels, such as example.com');
  if (domain.length > MAX_DOMAIN_LENGTH) return refused(`must be at most ${MAX_DOMAIN_LENGTH} characters long`);
  if (!labels.every((label) => LABEL.test(label))) {
    return refused('must be a domain name of letters, digits and hyphens, such as example.com');
  }
  if (/^\d+$/.test(labels.at(-1)!)) return refused('must not end in a number');
  if (PUBLIC_SUFFIX.test(domain))
    return refused('is a public suffix, under which others register; give your own domain');
  return { ok: true, domain };
}

/** The domain and those above it that could cover it, longest first: `a.b.example.com` → itself, b.example.com, example.com. */
export function coveringDomains(domain: string): string[] {
  const labels = domain.split('.');
  const list: string[] = [];
  for (let i = 0; i + 2 <= labels.length && list.length < 20; i += 1) list.push(labels.slice(i).join('.'));
  return list;
}

/** Whether it counts as verified on an operator's word alone: no check has found its key. */
export function isVouched(domain: Pick<SenderDomain, 'status' | 'keys'>): boolean {
  return (
    domain.status === 'verified' && domain.keys.every((key) => key.algorithm !== 'rsa' || key.publishedAt === null)
  );
}

/** Whether mail may be sent: a domain whose record vanished after it was verified keeps sending, and shows it. */
export const MAY_SEND: readonly DomainStatus[] = ['verified', 'failing'];
