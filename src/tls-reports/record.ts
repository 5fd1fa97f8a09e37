/** Where a domain wants its TLS reports: the TXT record at `_smtp._tls.<domain>` (RFC 8460 §3). Pure. */
import { type Address, parseAddress } from '../mail/address.ts';

export type ReportAddress = { kind: 'mail'; uri: string; address: Address } | { kind: 'https'; uri: string };

/** A report goes to no more addresses than these. */
const MAX_ADDRESSES = 10;

/**
 * The addresses in the record among these texts; empty where there is none, more than one (§3), or none of a kind that is known. Fields that
 * are not known are passed over.
 */
export function reportAddresses(texts: readonly string[]): ReportAddress[] {
  const own = texts.filter((text) => /^v=TLSRPTv1[ \t]*;/.test(text));
  if (own.length !== 1) return [];
  const uris = own[0]!.split(';').flatMap((field) => {
    const [name = '', ...value] = field.split('=');
    return name.trim() === 'rua' ? value.join('=').split(',') : [];
  });
  const known = new Map<string, ReportAddress>();
  for (const uri of uris) {
    const address = addressOf(uri.trim());
    if (address && known.size < MAX_ADDRESSES) known.set(address.uri, address);
  }
  return [...known.values()];
}

function addressOf(uri: string): ReportAddress | undefined {
  if (/^https:\/\//i.test(uri)) return URL.canParse(uri) ? { kind: 'https', uri } : undefined;
  const mailto = /^mailto:([^?]+)/i.exec(uri);
  if (!mailto) return undefined;
  try {
    const address = parseAddress(decodeURIComponent(mailto[1]!));
    return address.ok ? { kind: 'mail', uri, address: address.value } : undefined;
  } catch {
    // A percent sign that encodes nothing.
    return undefined;
  }
}
