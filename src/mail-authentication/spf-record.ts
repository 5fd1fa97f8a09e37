/** Parses SPF records (RFC 7208 §4.6, §5, §6). The entire record must be valid, because an error in any term is an error of the record. */
import { type Network, parseNetwork } from '../net/networks.ts';
import { isMacroString, type MacroPart, parseDomainSpec } from './spf-macro.ts';

export type Qualifier = '+' | '-' | '~' | '?';

export type Mechanism =
  | { kind: 'all' }
  | { kind: 'include' | 'exists'; spec: MacroPart[] }
  /** Without `spec`, the current domain. `bits`: the prefix lengths for IPv4 and IPv6. */
  | { kind: 'a' | 'mx'; spec: MacroPart[] | undefined; bits: { ipv4: number; ipv6: number } }
  | { kind: 'ptr'; spec: MacroPart[] | undefined }
  | { kind: 'network'; network: Network };

export interface SpfRecord {
  directives: { qualifier: Qualifier; mechanism: Mechanism }[];
  /** The domain whose record applies if no directive matches. */
  redirect: MacroPart[] | undefined;
}

/** Several times the size of legitimate records, of which RFC 7208 §3.4 recommends 450 bytes. */
const MAX_RECORD_BYTES = 4096;
const VERSION = /^v=spf1(?: |$)/i;
const MODIFIER = /^([^:/=]*)=(.*)$/;
const MODIFIER_NAME = /^[a-z][a-z0-9._-]*$/i;
const DIRECTIVE = /^([-+?~]?)([^:/]*)(.*)$/;
const DOMAIN_AND_PREFIXES = /^(?::(.+?))?(?:\/([0-9]+))?(?:\/\/([0-9]+))?$/;
const IPV4 = /^:((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3})(?:\/(.*))?$/;
const IPV6 = /^:([0-9a-f:.]+)(?:\/(.*))?$/i;
const PREFIX = /^(?:0|[1-9]\d{0,2})$/;

export function isSpfRecord(text: string): boolean {
  return VERSION.test(text);
}

/** Returns the record, or the problem. */
export function parseSpfRecord(text: string): SpfRecord | string {
  if (text.length > MAX_RECORD_BYTES) return `SPF record has more than ${MAX_RECORD_BYTES} bytes`;
  if (/[^ -~]/.test(text)) return 'DNS response includes invalid characters';
  const record: SpfRecord = { directives: [], redirect: undefined };
  const once = new Set<string>();
  for (const term of text.split(' ').slice(1)) {
    if (term === '') continue;
    const modifier = MODIFIER.exec(term);
    if (modifier) {
      const name = modifier[1]!.toLowerCase();
      if (!MODIFIER_NAME.test(name)) return `Invalid modifier name "${modifier[1]}"`;
      if (name !== 'redirect' && name !== 'exp') {
        if (!isMacroString(modifier[2]!)) return `Invalid modifier "${term}"`;
        continue;
      }
      const spec = parseDomainSpec(modifier[2]!);
      if (!spec) return `Invalid domain-spec "${modifier[2]}"`;
      if (once.has(name)) return `more than 1 ${name} found`;
      once.add(name);
      if (name === 'redirect') record.redirect = spec;
      continue;
    }
    const [, qualifier, name = '', rest = ''] = DIRECTIVE.exec(term)!;
    const mechanism = parseMechanism(name.toLowerCase(), rest);
    if (!mechanism) return `Invalid term "${term}"`;
    record.directives.push({ qualifier: (qualifier || '+') as Qualifier, mechanism });
  }
  return record;
}

/** `rest` is everything after the name. Returns undefined if the syntax is invalid. */
function parseMechanism(name: string, rest: string): Mechanism | undefined {
  switch (name) {
    case 'all':
      return rest === '' ? { kind: 'all' } : undefined;
    case 'include':
    case 'exists': {
      const spec = rest.startsWith(':') ? parseDomainSpec(rest.slice(1)) : undefined;
      return spec && { kind: name, spec };
    }
    case 'ptr': {
      if (rest === '') return { kind: 'ptr', spec: undefined };
      const spec = rest.startsWith(':') ? parseDomainSpec(rest.slice(1)) : undefined;
      return spec && { kind: 'ptr', spec };
    }
    case 'a':
    case 'mx':
      return parseHosts(name, rest);
    case 'ip4':
    case 'ip6': {
      const [, address, prefix] = (name === 'ip4' ? IPV4 : IPV6).exec(rest) ?? [];
      if (address === undefined || (prefix !== undefined && !PREFIX.test(prefix))) return undefined;
      const network = parseNetwork(prefix === undefined ? address : `${address}/${prefix}`);
      const family = name === 'ip4' ? 'ipv4' : 'ipv6';
      return network?.family === family ? { kind: 'network', network } : undefined;
    }
    default:
      return undefined;
  }
}

function parseHosts(kind: 'a' | 'mx', rest: string): Mechanism | undefined {
  const [whole, domain, prefix4 = '32', prefix6 = '128'] = DOMAIN_AND_PREFIXES.exec(rest) ?? [];
  const spec = domain === undefined ? undefined : parseDomainSpec(domain);
  if (whole === undefined || (domain !== undefined && !spec)) return undefined;
  if (!PREFIX.test(prefix4) || !PREFIX.test(prefix6) || Number(prefix4) > 32 || Number(prefix6) > 128) return undefined;
  return { kind, spec, bits: { ipv4: Number(prefix4), ipv6: Number(prefix6) } };
}
