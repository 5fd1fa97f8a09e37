/**
 * Compares the DNS record of a DKIM key (RFC 6376 §3.6.1) with the expected value and describes a difference, such as one caused by a
 * provider's form, in one sentence that says how to fix it. Pure functions.
 */
import type { DnsAnswer } from '../net/dns.ts';

/** The meaning of a DNS response for a record. */
export interface Finding {
  status: 'verified' | 'missing' | 'different' | 'unknown';
  /** The published records of this kind; null if the lookup failed. */
  found: string[] | null;
  note: string | null;
}

/** The text without quotes and backslashes that were entered as part of it. */
export function withoutQuoting(text: string): string {
  return text.replaceAll('\\', '').replaceAll('"', '');
}

/** Describes characters that were entered along with the value, as the end of a sentence that starts with the record. */
export function quotingWords(text: string): string {
  if (text.includes('"')) return 'contains quotation marks. Enter the value without them.';
  return 'contains backslashes. Enter the value without them, also before semicolons.';
}

/** Tags of a key record (RFC 6376 §3.6.1), white space removed. */
function tags(text: string): Map<string, string> {
  const map = new Map<string, string>();
  for (const part of text.split(';')) {
    const equals = part.indexOf('=');
    if (equals > 0) map.set(part.slice(0, equals).trim(), part.slice(equals + 1).replace(/\s+/g, ''));
  }
  return map;
}

function sameKey(published: string, ours: string): boolean {
  const found = tags(published);
  const wanted = tags(ours);
  if ((found.get('v') ?? 'DKIM1') !== 'DKIM1') return false;
  return (found.get('k') ?? 'rsa') === wanted.get('k') && found.get('p') === wanted.get('p');
}

/** Returns the status of a key's record according to this DNS response. */
export function findKey(wanted: { name: string; value: string }, answer: DnsAnswer<string[]>): Finding {
  const { name, value } = wanted;
  if (answer.status === 'temporary') {
    return {
      status: 'unknown',
      found: null,
      note: `The DNS lookup of ${name} failed. Try again in a few minutes.`,
    };
  }
  const texts = answer.status === 'found' ? answer.value : [];
  if (texts.some((text) => sameKey(text, value)) && texts.filter((text) => tags(text).has('p')).length === 1)
    return { status: 'verified', found: texts.filter((text) => tags(text).has('p')), note: null };
  if (texts.length === 0) {
    const note = `There is no TXT record at ${name} yet; publish the value in dns-records. A new record can take up to an hour to become visible.`;
    return { status: 'missing', found: [], note };
  }
  const note = differenceOf(wanted, texts);
  if (note !== undefined) return { status: 'different', found: texts, note };
  return {
    status: 'missing',
    found: texts,
    note: `The TXT record at ${name} is not a DKIM key. Publish the value in dns-records as another TXT record.`,
  };
}

/** Describes why none of these texts is the expected key alone; undefined if none is a key at all. */
function differenceOf({ name, value }: { name: string; value: string }, texts: string[]): string | undefined {
  const keys = texts.filter((text) => tags(text).has('p'));
  if (texts.length > 1 && isInPieces(texts, value)) {
    return `The key at ${name} is split into ${texts.length} records. Publish one record, with the value split into strings of at most 255 characters.`;
  }
  if (keys.length > 1) {
    return `There are ${keys.length} keys at ${name}, and receivers can use any of them (RFC 6376 §3.6.2.2). Keep only the value in dns-records.`;
  }
  const spoilt = texts.find((text) => withoutQuoting(text) !== text && tags(withoutQuoting(text)).has('p'));
  if (spoilt !== undefined) return `The TXT record at ${name} ${quotingWords(spoilt)}`;
  if (keys[0] === undefined) return undefined;
  return wordsOf(name, tags(keys[0]), tags(value));
}

/** Whether the texts, in some order, are the value cut apart. */
function isInPieces(texts: string[], value: string): boolean {
  const bare = (text: string): string => text.replace(/[\s"]+/g, '');
  const [wanted, pieces] = [bare(value), texts.map(bare)];
  const first = pieces.find((piece) => piece !== '' && wanted.startsWith(piece));
  if (first === undefined || first === wanted) return false;
  const rest = wanted.slice(first.length);
  return pieces.some((piece) => piece !== first && piece !== '' && rest.startsWith(piece));
}

function wordsOf(name: string, found: Map<string, string>, wanted: Map<string, string>): string {
  const [theirs, ours] = [found.get('p')!, wanted.get('p')!];
  const version = found.get('v') ?? 'DKIM1';
  if (version !== 'DKIM1') return `The record at ${name} has v=${version}; it must have v=DKIM1.`;
  if (theirs === '')
    return `The key at ${name} is empty, which means that it was revoked. Replace it with the value in dns-records.`;
  const kind = found.get('k') ?? 'rsa';
  if (theirs === ours) return `The record at ${name} has k=${kind}; it must have k=${wanted.get('k')}.`;
  if (ours.startsWith(theirs) || ours.endsWith(theirs)) {
    return `The key at ${name} is truncated: ${theirs.length} of ${ours.length} characters are published. If your DNS provider limits strings to 255 characters, split the value into several quoted strings of one record.`;
  }
  return `The TXT record at ${name} has a different key. Replace it with the value in dns-records, and check that it is not truncated.`;
}
