/**
 * What a domain that takes mail publishes so that others send to it in TLS (RFC 8461 §3.1) and report where that fails (RFC 8460 §3): the
 * records of the bounce domain.
 */
import type { Dns, DnsAnswer } from '../net/dns.ts';
import type { Finding } from './key-record.ts';

export interface TlsRecord {
  purpose: 'mta-sts' | 'tls-rpt';
  name: string;
  /** What to publish; the id of a policy and the address for reports may be others. */
  value: string;
  classify(answer: DnsAnswer<string[]>): Finding;
}

/** Both are recommended, neither is required. */
export function tlsRecordsOf(bounceDomain: string): TlsRecord[] {
  const policyAt = `_mta-sts.${bounceDomain}`;
  const policy = {
    ...{
      name: policyAt,
      kind: /^v=STSv1/,
      shape: /^v=STSv1[ \t]*;(?:.*;)?[ \t]*id[ \t]*=[ \t]*[A-Za-z0-9]{1,32}[ \t]*(?:;|$)/,
    },
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
      ...{ purpose: 'mta-sts', name: policyAt, value: 'v=STSv1; id=1;' },
      classify: (answer) => findingOf(answer, policy),
    },
    {
      ...{ purpose: 'tls-rpt', name: reportsAt, value: `v=TLSRPTv1; rua=mailto:postmaster@${bounceDomain}` },
      classify: (answer) => findingOf(answer, reports),
    },
  ];
}

interface Wanted {
  name: string;
  /** What the texts of this kind begin with. */
  kind: RegExp;
  shape: RegExp;
  /** A further sentence where it is not there. */
  more?: string;
}

function findingOf(answer: DnsAnswer<string[]>, { name, kind, shape, more }: Wanted): Finding {
  if (answer.status === 'temporary')
    return { status: 'unknown', found: null, note: `The DNS did not answer for ${name}; try again in a few minutes.` };
  const texts = answer.status === 'found' ? answer.value.filter((text) => kind.test(text)) : [];
  if (texts.length === 1 && shape.test(texts[0]!)) return { status: 'verified', found: texts, note: null };
  if (texts.length === 0) return { status: 'missing', found: [], note: more ?? null };
  const note =
    texts.length > 1
      ? `There are ${texts.length} of them at ${name}; leave one.`
      : `What is at ${name} is not written as it must be.`;
  return { status: 'different', found: texts, note };
}

/** As a resolver sees them. */
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
