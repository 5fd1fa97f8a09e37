/**
 * Verifies a message with the mailauth package in strict mode, to compare with Postrider's own verification. Differs from mailauth in one
 * decision: a DKIM signature that does not cover the entire body (`l=`) is `policy`.
 */
import { arc } from 'mailauth/lib/arc/index.js';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { dmarc } from 'mailauth/lib/dmarc/index.js';
import { spf } from 'mailauth/lib/spf/index.js';
import type { QueryType, Resolve } from '../../src/mail-authentication/dns-query.ts';

type NodeResolver = (name: string, type: string) => Promise<unknown[]>;

/** Returns the address of a name below in-addr.arpa or ip6.arpa. */
function addressOf(name: string): string {
  const labels = name.split('.').slice(0, -2).toReversed();
  if (name.endsWith('.in-addr.arpa')) return labels.join('.');
  const groups = labels.join('').replace(/.{4}(?=.)/g, '$&:');
  return new URL(`http://[${groups}]`).hostname.slice(1, -1);
}

/** Converts answers to the format of node:dns/promises. */
function asNode(resolve: Resolve): NodeResolver {
  return async (name, type) => {
    const answer = await resolve(type === 'PTR' ? addressOf(name) : name, type as QueryType);
    if (answer.status !== 'found') {
      const code = { 'no-such-domain': 'ENOTFOUND', 'no-data': 'ENODATA', temporary: 'ESERVFAIL' }[answer.status];
      throw Object.assign(new Error(`${type} of ${name}: ${code}`), { code });
    }
    if (type === 'TXT') return answer.value.map((text) => [text]);
    if (type === 'MX') return answer.value.map((exchange, priority) => ({ exchange, priority }));
    return answer.value;
  };
}

export interface MailToJudge {
  content: Buffer;
  address: string;
  helo: string;
  envelopeFrom: string;
}

/** Results as `pass`, and so on; DMARC with its policy. */
export interface Judgment {
  spf: string;
  dkim: string[];
  dmarc: string;
  arc: string;
}

export async function spfByMailauth(
  { address, helo, envelopeFrom }: Omit<MailToJudge, 'content'>,
  resolve: Resolve,
): Promise<{ result: string; comment: string; domain: string }> {
  const input = { ip: address, helo, sender: envelopeFrom, mta: 'mx.example', strict: true };
  const { status, domain } = await spf({ ...input, resolver: asNode(resolve) as never });
  return { result: status.result, comment: status.comment ?? '', domain };
}

function isPartial(status: object): boolean {
  return 'underSized' in status && Number(status.underSized) > 0;
}

export async function judgeByMailauth(mail: MailToJudge, resolve: Resolve): Promise<Judgment> {
  const options = { resolver: asNode(resolve) as never, strict: true };
  const found = await spfByMailauth(mail, resolve);
  const dkim = await dkimVerify(mail.content, { ...options, sender: mail.envelopeFrom });
  const chain = await arc(dkim.arc as never, options as never);
  const signatures = dkim.results.map(({ status, signingDomain: domain }) => ({
    domain,
    result: status.result === 'pass' && isPartial(status) ? 'policy' : status.result,
  }));
  const judged = await dmarc({
    ...options,
    headerFrom: dkim.headerFrom,
    fromFields: dkim.fromFields,
    spfDomains: found.result === 'pass' ? [found.domain] : [],
    dkimDomains: signatures.filter(({ result }) => result === 'pass'),
  } as never);
  return {
    spf: found.result,
    dkim: signatures.flatMap(({ result }) => (result === 'none' ? [] : [result])),
    dmarc: judged === false ? 'permerror null' : `${judged.status.result} ${judged.policy ?? null}`,
    arc: chain.status.result,
  };
}
