/**
 * Looks up and parses DKIM key records (RFC 6376 §3.6.1, RFC 8463 §4). RSA keys under 1,024 bits are refused (RFC 8301 §3.2). Each record
 * is looked up once per message.
 */
import { createPublicKey, type KeyObject } from 'node:crypto';
import { type Resolve, toALabels } from './dns-query.ts';
import { listItems, parseTagList, type TagList } from './tag-list.ts';

export interface DkimKey {
  type: 'rsa' | 'ed25519';
  key: KeyObject;
  /** `t=s`: the domain in i= must be the signing domain itself, not a subdomain. */
  isStrict: boolean;
}

/** A key that cannot be used. The results are those of RFC 8601 §2.7.1. */
export interface KeyProblem {
  result: 'neutral' | 'policy' | 'temperror';
  reason: string;
}

export type KeyLookup = (domain: string, selector: string) => Promise<DkimKey | KeyProblem>;

const MIN_RSA_BITS = 1024;
const ED25519_BYTES = 32;
/** The DER that precedes the bytes of an Ed25519 key (RFC 8410 §4). */
const ED25519_SPKI = Buffer.from('302a300506032b6570032100', 'hex');
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

const unusable = (reason: string): KeyProblem => ({ result: 'neutral', reason });

/** Returns the name of a key's record (RFC 6376 §3.6.2.1). */
export function keyName(domain: string, selector: string): string {
  return `${toALabels(selector)}._domainkey.${toALabels(domain)}`.toLowerCase();
}

/** Returns the function that looks up the keys of one message. */
export function createKeyLookup(resolve: Resolve): KeyLookup {
  const keys = new Map<string, Promise<DkimKey | KeyProblem>>();
  return (domain, selector) => {
    const name = keyName(domain, selector);
    const known = keys.get(name) ?? lookUp(name, resolve);
    keys.set(name, known);
    return known;
  };
}

async function lookUp(name: string, resolve: Resolve): Promise<DkimKey | KeyProblem> {
  const answer = await resolve(name, 'TXT');
  if (answer.status === 'temporary') return { result: 'temperror', reason: `DNS failure: ${answer.cause}` };
  if (answer.status !== 'found') return unusable('no key');
  // RFC 6376 §3.6.2.2 leaves several records undefined. A wildcard may add some that are not keys, in any order.
  const lists = answer.value.map((record) => parseTagList(record.replace(/\s+/g, '')));
  const keys = lists.filter(({ tags }) => tags.has('p'));
  if (new Set(keys.map(({ tags }) => tags.get('p'))).size > 1) return unusable('several keys');
  return parseKey(keys[0] ?? lists[0]!);
}

/** Parses a key record from which white space was removed. */
function parseKey({ tags, error }: TagList): DkimKey | KeyProblem {
  const data = tags.get('p') ?? '';
  // An empty p= means that the key was revoked.
  if (error !== undefined || data === '' || !BASE64.test(data)) return unusable('invalid public key');
  const version = tags.get('v');
  // v= is optional, but then the first tag.
  if (version !== undefined && (version !== 'DKIM1' || tags.keys().next().value !== 'v'))
    return unusable('unknown key version');
  const services = listItems(tags.get('s') ?? '*');
  if (!services.includes('*') && !services.includes('email')) return unusable('key not for email');
  if (tags.has('h') && !listItems(tags.get('h')!).includes('sha256')) return unusable('inappropriate hash algorithm');
  return decodeKey(tags.get('k')?.toLowerCase() ?? 'rsa', Buffer.from(data, 'base64'), {
    isStrict: listItems(tags.get('t') ?? '').includes('s'),
  });
}

function decodeKey(type: string, data: Buffer, flags: { isStrict: boolean }): DkimKey | KeyProblem {
  if (type === 'ed25519') {
    if (data.length !== ED25519_BYTES) return unusable('invalid public key');
    const key = createPublicKey({ key: Buffer.concat([ED25519_SPKI, data]), format: 'der', type: 'spki' });
    return { type, key, ...flags };
  }
  const key = type === 'rsa' ? decodeRsa(data) : undefined;
  if (key?.asymmetricKeyType !== 'rsa') return unusable('unknown key type');
  return (key.asymmetricKeyDetails?.modulusLength ?? 0) < MIN_RSA_BITS
    ? { result: 'policy', reason: 'weak-key' }
    : { type: 'rsa', key, ...flags };
}

/** Returns undefined if the bytes are not a key. */
function decodeRsa(data: Buffer): KeyObject | undefined {
  try {
    return createPublicKey({ key: data, format: 'der', type: isBareRsaKey(data) ? 'pkcs1' : 'spki' });
  } catch {
    return undefined;
  }
}

/**
 * Distinguishes an RSAPublicKey, as RFC 6376 §3.6.1 says, from a SubjectPublicKeyInfo, as most domains publish it: its sequence starts with
 * an INTEGER, not with another sequence.
 */
function isBareRsaKey(der: Buffer): boolean {
  const length = der[1] ?? 0;
  return der[length < 0x80 ? 2 : 2 + (length & 0x7f)] === 0x02;
}
