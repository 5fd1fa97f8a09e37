/**
 * Verifies DKIM signatures (RFC 6376, 8301, 8463): `rsa-sha256` and `ed25519-sha256`, any canonicalization, `l=`, `x=`, and `i=`. Signatures
 * with SHA-1 are not evaluated. The results are those of RFC 8601 §2.7.1: `fail` for a message that was changed or a forged signature,
 * `neutral` for a signature that cannot be used.
 *
 * A signature that covers only the start of a body (`l=`) is `policy`, because anyone can add text to the body or replace its visible part.
 *
 * In three steps: `readSignature` parses a field, `BodyHashes` reads the body once for all signatures, `verifySignature` looks up the key
 * and verifies. The work for a field grows linearly with its length and the header.
 */
import { hash, type KeyObject, verify } from 'node:crypto';
import { BodyHash, type Canonicalization } from '../mail/dkim-canonicalization.ts';
import type { KeyLookup } from './dkim-key.ts';
import { comparableDomain, isSameOrBelow, toALabels } from './dns-query.ts';
import { type Field, relaxedField, textOf, withoutSignature } from './fields.ts';
import { listItems, parseTagList, type TagList, withoutSpaces } from './tag-list.ts';

export interface SignatureResult {
  result: 'pass' | 'fail' | 'policy' | 'neutral' | 'temperror';
  /** Undefined for a plain pass. */
  reason?: string;
}

/** A signature that can be verified. */
export interface Signature {
  field: Field;
  type: 'rsa' | 'ed25519';
  domain: string;
  selector: string;
  /** Domain of i=, comparable; the signing domain if there is no i=. */
  identityDomain: string;
  header: Canonicalization;
  body: Canonicalization;
  /** Canonical bytes of the body that are signed; infinite without l=. */
  bodyLimit: number;
  bodyHash: string;
  /** Names in h=, in lower case. */
  signedFields: string[];
  signature: Buffer;
  /** Unix time in seconds after which the signature is not valid. */
  expiresAt: number | undefined;
}

const REQUIRED = ['v', 'a', 'b', 'bh', 'd', 'h', 's'];
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const DOMAIN = new RegExp(`^${LABEL}(?:\\.${LABEL})+$`);
/** Selectors of some senders contain an underscore, which other verifiers accept too; RFC 6376 §3.1 does not allow it. */
const SELECTOR_LABEL = '[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?';
const SELECTOR = new RegExp(`^${SELECTOR_LABEL}(?:\\.${SELECTOR_LABEL})*$`);
const TIME = /^[0-9]{1,12}$/;
const LENGTH = /^[0-9]{1,76}$/;
const CANONICALIZATIONS = /^(simple|relaxed)(?:\/(simple|relaxed))?$/;
/** A dot-atom, also with the UTF-8 of RFC 6531, or a quoted string. */
const LOCAL_PART =
  /^(?:[^\s"(),.:;<>@[\\\]\0-\x1f\x7f]+(?:\.[^\s"(),.:;<>@[\\\]\0-\x1f\x7f]+)*|"(?:[^"\\\r\n]|\\.)*")?$/;

/** Returns the signing algorithm of a= (RFC 8301, RFC 8463); `sha1` for rsa-sha1; undefined if it is unknown. */
export function algorithmOf(tag: string | undefined): 'rsa' | 'ed25519' | 'sha1' | undefined {
  switch (tag?.toLowerCase()) {
    case 'rsa-sha256':
      return 'rsa';
    case 'ed25519-sha256':
      return 'ed25519';
    case 'rsa-sha1':
      return 'sha1';
    default:
      return undefined;
  }
}

/** Returns the tags of a signature, or why they are not a valid signature (RFC 6376 §6.1.1). */
export function readSignature(field: Field, list: TagList = parseTagList(textOf(field))): Signature | SignatureResult {
  const { tags, error } = list;
  const neutral = (reason: string): SignatureResult => ({ result: 'neutral', reason });
  const type = algorithmOf(tags.get('a'));
  if (type === undefined) return neutral('unknown algorithm');
  const forms = CANONICALIZATIONS.exec(tags.get('c')?.toLowerCase() ?? 'simple');
  if (!forms) return neutral('unknown canonicalization');
  if (error !== undefined) return neutral('signature syntax error');
  if (REQUIRED.some((name) => !tags.has(name))) return neutral('signature missing required tag');
  if (tags.get('v') !== '1') return neutral('incompatible version');
  const problem = problemOfValues(tags);
  if (problem !== undefined) return neutral(problem);
  if (type === 'sha1') return { result: 'policy', reason: 'weak algorithm' };
  return signatureOf(field, tags, { type, header: forms[1]!, body: forms[2] ?? 'simple' } as Forms);
}

interface Forms {
  type: 'rsa' | 'ed25519';
  header: Canonicalization;
  body: Canonicalization;
}

export function signatureOf(field: Field, tags: TagList['tags'], forms: Forms): Signature {
  const domain = tags.get('d')!;
  return {
    ...forms,
    field,
    domain,
    selector: tags.get('s')!,
    identityDomain: tags.has('i') ? identityOf(tags.get('i')!).domain : comparableDomain(domain),
    bodyLimit: Number(tags.get('l') ?? Number.POSITIVE_INFINITY),
    bodyHash: withoutSpaces(tags.get('bh')!),
    signedFields: listItems(tags.get('h')!),
    signature: Buffer.from(tags.get('b')!, 'base64'),
    expiresAt: tags.has('x') ? Number(tags.get('x')) : undefined,
  };
}

/** Returns whether d= and s= of a tag list can be the parts of a key's name (RFC 6376 §3.5). */
export function hasSigningName(tags: TagList['tags']): boolean {
  return DOMAIN.test(toALabels(tags.get('d')!)) && SELECTOR.test(toALabels(tags.get('s')!));
}

/** Returns the problem with the values of a complete tag list. */
function problemOfValues(tags: TagList['tags']): string | undefined {
  const isValid = (name: string, pattern: RegExp): boolean => pattern.test(tags.get(name) ?? '0');
  if (!isValid('t', TIME) || !isValid('x', TIME) || !isValid('l', LENGTH)) return 'signature syntax error';
  const signedFields = listItems(tags.get('h')!);
  if (signedFields.length === 0) return 'signature syntax error';
  if (!hasSigningName(tags)) return 'signature syntax error';
  if (!listItems(tags.get('q') ?? 'dns/txt').includes('dns/txt')) return 'unsupported query method';
  if (tags.has('i')) {
    const { local, domain } = identityOf(tags.get('i')!);
    if (!LOCAL_PART.test(local) || !DOMAIN.test(domain)) return 'signature syntax error';
    if (!isSameOrBelow(domain, comparableDomain(tags.get('d')!))) return 'domain mismatch';
  }
  if (tags.has('t') && tags.has('x') && Number(tags.get('x')) <= Number(tags.get('t'))) return 'invalid expiration';
  return signedFields.includes('from') ? undefined : 'From field not signed';
}

/** Returns the parts of an i= tag, which is in quoted-printable (RFC 6376 §2.11). Without an @, the domain is empty. */
function identityOf(tag: string): { local: string; domain: string } {
  const bytes = Buffer.from(withoutSpaces(tag)).toString('latin1');
  const decoded = bytes.replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  const identity = Buffer.from(decoded, 'latin1').toString();
  const at = identity.lastIndexOf('@');
  return {
    local: identity.slice(0, Math.max(0, at)),
    domain: at === -1 ? '' : toALabels(identity.slice(at + 1)).toLowerCase(),
  };
}

/** Returns a key that is equal for signatures with the same hash of the body. */
export function bodyFormOf({ body, bodyLimit }: Signature): string {
  return `${body} ${bodyLimit}`;
}

/** The hashes of one body, one for each canonicalization and length among its signatures. */
export class BodyHashes {
  readonly #hashes = new Map<string, BodyHash>();
  readonly #digests = new Map<string, string>();

  constructor(signatures: readonly Signature[]) {
    for (const signature of signatures) {
      const key = bodyFormOf(signature);
      if (!this.#hashes.has(key)) this.#hashes.set(key, new BodyHash(signature.body, signature.bodyLimit));
    }
  }

  get size(): number {
    return this.#hashes.size;
  }

  update(piece: Uint8Array): void {
    for (const one of this.#hashes.values()) one.update(piece);
  }

  /** Returns the hash in Base64. Call it after the last `update`. */
  of(signature: Signature): { digest: string; unsignedBytes: number } {
    const key = bodyFormOf(signature);
    const bodyHash = this.#hashes.get(key)!;
    const digest = this.#digests.get(key) ?? bodyHash.digest();
    this.#digests.set(key, digest);
    return { digest, unsignedBytes: bodyHash.unhashedBytes() };
  }
}

export interface SignedMessage {
  fields: readonly Field[];
  bodyHashes: BodyHashes;
  keys: KeyLookup;
  /** Unix time in seconds. */
  nowSeconds: number;
}

export async function verifySignature(signature: Signature, message: SignedMessage): Promise<SignatureResult> {
  const { digest, unsignedBytes } = message.bodyHashes.of(signature);
  // The key need not be looked up for a body that was changed.
  if (digest !== signature.bodyHash) return { result: 'fail', reason: 'body hash did not verify' };
  const key = await message.keys(signature.domain, signature.selector);
  if ('result' in key) return key;
  const neutral = (reason: string): SignatureResult => ({ result: 'neutral', reason });
  if (key.type !== signature.type) return neutral('inappropriate key algorithm');
  if (key.isStrict && signature.identityDomain !== comparableDomain(signature.domain))
    return neutral('domain mismatch');
  if (!isAuthentic(key.key, Buffer.from(signedHeader(signature, message.fields), 'latin1'), signature))
    return { result: 'fail', reason: 'bad signature' };
  const { expiresAt = Number.POSITIVE_INFINITY } = signature;
  if (expiresAt < message.nowSeconds) return neutral('expired');
  return unsignedBytes > 0
    ? { result: 'policy', reason: `the last ${unsignedBytes} bytes of the body are not signed (l=)` }
    : { result: 'pass' };
}

/** Returns whether a key of the right type made this signature of the data (RFC 8463 §3 for Ed25519). */
export function isAuthentic(
  key: KeyObject,
  data: Buffer,
  { type, signature }: Pick<Signature, 'type' | 'signature'>,
): boolean {
  try {
    return type === 'rsa'
      ? verify('sha256', data, key, signature)
      : verify(null, hash('sha256', data, 'buffer'), key, signature);
  } catch {
    // OpenSSL refuses some keys only when they are used, such as those with a huge exponent.
    return false;
  }
}

/**
 * Returns the bytes that a signature covers, as Latin-1 (RFC 6376 §3.7): the fields in h=, of several with one name the last first, and the
 * signature itself. Names without a field are skipped: the signature asserts their absence (§5.4.2).
 */
function signedHeader({ field, header, signedFields }: Signature, fields: readonly Field[]): string {
  const canonical = header === 'relaxed' ? relaxedField : ({ text }: Field): string => text;
  const byName = Map.groupBy(fields, ({ name }) => name);
  let data = '';
  for (const name of signedFields) {
    const next = byName.get(name)?.pop();
    if (next) data += `${canonical(next)}\r\n`;
  }
  return data + canonical(withoutSignature(field));
}
