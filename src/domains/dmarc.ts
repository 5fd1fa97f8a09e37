/** The DMARC record of a domain (RFC 7489 §6.3): whether receivers can read what is published, in one sentence. Pure. */
import type { DnsAnswer } from '../net/dns.ts';
import { type Finding, quotingWords, withoutQuoting } from './key-record.ts';

const isDmarc = (text: string): boolean => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text);

/** How the record of `_dmarc.<domain>` stands by this answer. */
export function findDmarc(domain: string, answer: DnsAnswer<string[]>): Finding {
  const name = `_dmarc.${domain}`;
  if (answer.status === 'temporary')
    return { status: 'unknown', found: null, note: `The DNS did not answer for ${name}; try again in a few minutes.` };
  const texts = answer.status === 'found' ? answer.value : [];
  const records = texts.filter(isDmarc);
  const [record] = records;
  const different = (found: string[], note: string): Finding => ({ status: 'different', found, note });
  if (records.length > 1) {
    return different(
      records,
      `There are ${records.length} DMARC records at ${name}, which receivers take for none (RFC 7489 §6.6.3): leave one.`,
    );
  }
  if (record === undefined) {
    const spoilt = texts.find((text) => isDmarc(withoutQuoting(text)));
    if (spoilt !== undefined) return different([spoilt], `The DMARC record at ${name} ${quotingWords(spoilt)}`);
    return { status: 'missing', found: texts, note: null };
  }
  if (record.includes('\\')) return different(records, `The DMARC record at ${name} ${quotingWords(record)}`);
  if (!/;\s*p\s*=\s*(?:none|quarantine|reject)\s*(?:;|$)/i.test(record)) {
    return different(
      records,
      `The DMARC record at ${name} has no policy that receivers know: p must be none, quarantine or reject.`,
    );
  }
  return { status: 'verified', found: records, note: null };
}
