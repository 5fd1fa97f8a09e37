/**
 * The records of a domain in the formats of others: names as DNS providers' forms expect them, long texts split into strings of 255 bytes
 * (RFC 1035 §3.3), a zone file, and Terraform.
 */
import type { Answer } from '../../../../clients/typescript/src/call.ts';

export type DnsRecord = Answer<'getDomainDnsRecords'>[number];

const TTL_SECONDS = 3_600;
const STRING_BYTES = 255;

/** Registries with names below two labels; for others the user selects another zone. */
const PUBLIC_PAIR = /^(?:ac|co|com|edu|gov|go|ne|net|nom|or|org)\.[a-z]{2}$/;

/** Returns the zones that may contain a domain, the most likely first. */
export function zonesOf(domain: string): string[] {
  const labels = domain.split('.');
  const shortest = PUBLIC_PAIR.test(labels.slice(-2).join('.')) ? 3 : 2;
  const zones: string[] = [];
  for (let length = Math.min(shortest, labels.length); length <= labels.length; length += 1)
    zones.push(labels.slice(-length).join('.'));
  return zones;
}

/** Returns the part of a name before its zone; '' for the zone itself. */
export function nameWithin(name: string, zone: string): string {
  if (name === zone) return '';
  return name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1) : name;
}

/** Splits a text into pieces of up to 255 bytes, never within a character. */
export function stringsOf(value: string): string[] {
  const encoder = new TextEncoder();
  const strings: string[] = [];
  let [piece, bytes] = ['', 0];
  for (const character of value) {
    const more = encoder.encode(character).length;
    if (bytes + more > STRING_BYTES) {
      strings.push(piece);
      [piece, bytes] = ['', 0];
    }
    piece += character;
    bytes += more;
  }
  return [...strings, piece];
}

/** Quotes a text for a zone file; bytes other than printable ASCII become \DDD (RFC 1035 §5.1). */
function quoted(text: string): string {
  const escaped = Array.from(new TextEncoder().encode(text), (byte) => {
    if (byte === 0x22 || byte === 0x5c) return `\\${String.fromCharCode(byte)}`;
    return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\${String(byte).padStart(3, '0')}`;
  });
  return `"${escaped.join('')}"`;
}

/** Formats a value for forms and files that expect quoted strings: "…" "…". */
export const quotedStrings = (value: string): string => stringsOf(value).map(quoted).join(' ');

/** Whether a placeholder must be filled in first, for example an address that only the operator knows. */
export const isToFillIn = ({ value }: DnsRecord): boolean => value.includes('<');

/** Whether the record replaces an existing one: two of them would be an error. */
const isReplacement = ({ status }: DnsRecord): boolean => status === 'different';

const oneLine = (text: string): string => text.replace(/\s+/g, ' ');

/** Returns the comment for a record in a file, if any. */
function remarkOf(record: DnsRecord): string | undefined {
  if (isToFillIn(record)) return `Fill in, then add: ${record.name} ${record.type} ${oneLine(record.value)}`;
  return isReplacement(record) ? 'Takes the place of the record of this kind that is there.' : undefined;
}

/** Returns a BIND zone file: names end with a dot, so that no origin is added. */
export function zoneFileOf(domain: string, records: readonly DnsRecord[]): string {
  const lines = [`; DNS records of ${domain} for Postrider`];
  for (const record of records) {
    const remark = remarkOf(record);
    if (remark !== undefined) lines.push(`; ${remark}`);
    const data = record.type === 'TXT' ? quotedStrings(record.value) : `${record.value}.`;
    if (!isToFillIn(record)) lines.push(`${record.name}. ${TTL_SECONDS} IN ${record.type} ${data}`);
  }
  return `${lines.join('\n')}\n`;
}

/** Quotes a text for HCL with its own escapes, and escapes template syntax (${…}, %{…}), which SPF macros resemble. */
function hcl(text: string): string {
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')
    .replaceAll(/([$%])\{/g, '$1$1{');
  return `"${escaped}"`;
}

interface TerraformKind {
  resource: string;
  zoneVariable: string;
  /** Returns the line with the value: quoted strings for text, or a name. */
  value(value: string): string;
  remark?(record: DnsRecord, domain: string): string | undefined;
}

const KINDS = {
  cloudflare: {
    resource: 'cloudflare_dns_record',
    zoneVariable: 'cloudflare_zone_id',
    value: (value) => `content = ${hcl(value)}`,
  },
  route53: {
    resource: 'aws_route53_record',
    zoneVariable: 'route53_zone_id',
    // The Terraform provider adds the outer quotes.
    value: (value) => `records = [${hcl(value.replace(/^"|"$/g, '').replaceAll('" "', '""'))}]`,
    remark: ({ name }, domain) =>
      name === domain ? 'One resource holds all TXT values of a name: list the others that are there, too.' : undefined,
  },
} satisfies Record<string, TerraformKind>;

export function terraformOf(kind: keyof typeof KINDS, domain: string, records: readonly DnsRecord[]): string {
  const { resource, zoneVariable, value, remark }: TerraformKind = KINDS[kind];
  const blocks = records.map((record, index) => {
    const remarks = [remarkOf(record), remark?.(record, domain)].filter((one) => one !== undefined);
    const comment = remarks.map((one) => `# ${one}\n`).join('');
    if (isToFillIn(record)) return comment;
    const label = `postrider_${domain.replaceAll(/[^a-z0-9]/gi, '_')}_${record.purpose}_${index + 1}`;
    return `${comment}resource "${resource}" "${label}" {
  zone_id = var.${zoneVariable}
  name    = ${hcl(record.name)}
  type    = "${record.type}"
  ttl     = ${TTL_SECONDS}
  ${value(record.type === 'TXT' ? quotedStrings(record.value) : record.value)}
}
`;
  });
  return [`variable "${zoneVariable}" {\n  type = string\n}\n`, ...blocks].join('\n');
}
