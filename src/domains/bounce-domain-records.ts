/** DNS records of the bounce domain that make senders use TLS (MTA-STS, RFC 8461 §3.1) and report TLS failures (TLS-RPT, RFC 8460 §3). */
import type { Dns, DnsAnswer } from '../net/dns.ts';
import type { Finding } from './key-record.ts';

export interface TlsRecord {
  purpose: 'mta-sts' | 'tls-rpt';
  name: string;
  /** Suggested value; another policy id or reporting address is also valid. */
  value: string;
  classify(answer: DnsAnswer<string[]>): Finding;
}

/** Returns both records; they are recommended but not required. */
export function tlsRecordsOf(bounceDomain: string): TlsRecord[] {
  const policyAt = `_mta-sts.${bounceDomain}`;
  const policy = {
    name: policyAt,
    kind: /^v=STSv1/,
    shape: /^v=STSv1[ \t]*;(?:.*;)?[ \t]*id[ \t]*=[ \t]*[A-Za-z0-9]{1,32}[ \t]*(?:;|$)/,
    more: `The policy itself is a file at https://mta-sts.${bounceDomain}/.well-known/mta-sts.txt.`,
  };
  const reportsAt = `_smtp._tls.${bounceDomain}`;
  const reports = {
    name: reportsAt,
    kind: /^v=TLSRPTv1/,
    shape: /^v=TLSRPTv1[ \t]*;(?:.*;)?[ \t]*rua=(?:mailto:[^ ,;]+@|https:\/\/)/,
  };
  return [
    {
      purpose: 'mta-sts',
      name: policyAt,
      value: 'v=STSv1; id=1;',
      classify: (answer) => findingOf(answer, policy),
    },
    {
      purpose: 'tls-rpt',
      name: reportsAt,
      value: `v=TLSRPTv1; rua=mailto:postmaster@${bounceDomain}`,
      classify: (answer) => findingOf(answer, reports),
    },
  ];
}

interface Wanted {
  name: string;
  kind: RegExp;
  shape: RegExp;
  /** Additional sentence if the record is missing. */
  more?: string;
}

function findingOf(answer: DnsAnswer<string[]>, { name, kind, shape, more }: Wanted): Finding {
  if (answer.status === 'temporary')
    return { status: 'unknown', found: null, note: `The DNS lookup of ${name} failed. Try again in a few minutes.` };
  const texts = answer.status === 'found' ? answer.value.filter((text) => kind.test(text)) : [];
  if (texts.length === 1 && shape.test(texts[0]!)) return { status: 'verified', found: texts, note: null };
  if (texts.length === 0) return { status: 'missing', found: [], note: more ?? null };
  const note =
    texts.length > 1
      ? `There are ${texts.length} of these records at ${name}. Keep only one.`
      : `The record at ${name} has a syntax error.`;
  return { status: 'different', found: texts, note };
}

/** Looks up the records through a resolver. */
export async function findTlsRecords(
  bounceDomain: string,
  dns: Pick<Dns, 'resolveTxt'>,
): Promise<(TlsRecord & Finding)[]> {
  return Promise.all(
    tlsRecordsOf(bounceDomain).map(async (record) => ({
      ...record,
      ...record.classify(await dns.resolveTxt(record.name)),
    })),
  );
}
