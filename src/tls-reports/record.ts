/** The TXT record at `_smtp._tls.<domain>` with the addresses for TLS reports (RFC 8460 §3). Pure. */
import { type Address, parseAddress } from '../mail/address.ts';

export type ReportAddress = { kind: 'mail'; uri: string; address: Address } | { kind: 'https'; uri: string };

/** Maximum number of addresses that a report is sent to. */
const MAX_ADDRESSES = 10;

/**
 * Returns the addresses in the record among these texts; empty if there is none, more than one (§3), or none of a known kind. Unknown
 * fields are ignored.
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
    // An invalid percent-encoding.
    return undefined;
  }
}
