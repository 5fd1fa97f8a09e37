/**
 * Verifies SPF, DKIM, DMARC, and ARC of one message. Runs in a separate thread (verifier-thread.ts), because hashing and verifying
 * signatures is synchronous. Its input is limited here: signatures, fields, and headers above these limits are not verified, and the results
 * give the reason. The network is reached only through `resolverFor`.
 *
 * Rejects only because of a bug.
 */
import { endOfHeader } from '../mail/mime/header-fields.ts';
import { readArcChain, verifyArcChain } from '../mail-authentication/arc.ts';
import { authorDomain } from '../mail-authentication/author-domain.ts';
import {
  BodyHashes,
  bodyFormOf,
  readSignature,
  type Signature,
  type SignatureResult,
  type SignedMessage,
  verifySignature,
} from '../mail-authentication/dkim.ts';
import { createKeyLookup } from '../mail-authentication/dkim-key.ts';
import { type AuthorPolicy, type CheckedDomains, checkDmarc, lookUpPolicy } from '../mail-authentication/dmarc.ts';
import { type Purpose, type Resolve, withMemory } from '../mail-authentication/dns-query.ts';
import { type Field, parseFields, textOf } from '../mail-authentication/fields.ts';
import { checkSpf } from '../mail-authentication/spf.ts';
import { parseTagList } from '../mail-authentication/tag-list.ts';
import type { AuthenticationResults, DkimResult } from './authentication-results.ts';

export interface MailToVerify {
  content: Uint8Array;
  address: string;
  helo: string;
  /** Empty for the null sender. */
  envelopeFrom: string;
}

/** Several times the size of legitimate headers. */
const MOST_HEADER_BYTES = 256 * 1024;
const MOST_HEADER_LINES = 5_000;
const MOST_SIGNATURES = 10;
/** Limit for the fields that are parsed. */
const MOST_FIELD_BYTES = 8 * 1024;
const ARC_FIELD = /^arc-(seal|message-signature|authentication-results)$/;
/**
 * A body is hashed once per combination of canonicalization and l= among its DKIM signatures, and once more for its ARC chain. Legitimate
 * mail has one or two combinations. Signatures without l= cannot have more.
 */
const LARGE_BODY_BYTES = 100_000;
const MOST_HASHES_OF_LARGE = 2;
const PIECE_BYTES = 64 * 1024;
const MOST_REASON = 300;
const MOST_DOMAIN = 255;

/** Returns the results. `resolverFor` is called once for each purpose. */
export async function verifyMail(
  mail: MailToVerify,
  resolverFor: (purpose: Purpose) => Resolve,
): Promise<AuthenticationResults> {
  const content = Buffer.from(mail.content.buffer, mail.content.byteOffset, mail.content.byteLength);
  const { headerEnd, bodyStart } = endOfHeader(content);
  const header = readHeader(content.subarray(0, headerEnd), content.length);
  const spfResult = verifySpf(mail, withMemory(resolverFor('spf')));
  if (typeof header === 'string') return unreadHeader(await spfResult, header);
  // The policy is looked up at the same time as the rest, so that it is known even if a sender makes the rest take all the time.
  const forDmarc = withMemory(resolverFor('dmarc'));
  const policyLookup = typeof header.author === 'string' ? lookUpPolicy(header.author, forDmarc) : undefined;
  const [spf, signatures, policy] = await Promise.all([
    spfResult,
    verifySignatures(header, content.subarray(bodyStart), resolverFor('keys')),
    policyLookup,
  ]);
  const dmarc = policy
    ? await verifyDmarc(policy, { spf, ...signatures }, forDmarc)
    : { result: 'permerror' as const, policy: null, domain: null, reason: NO_AUTHOR };
  return { spf, ...signatures, dmarc };
}

const NO_AUTHOR = 'its From field does not contain exactly one domain';

/** The parsed fields that verification needs. */
interface Header {
  fields: Field[];
  signatures: ReadSignature[];
  /** Signatures above the limit, which are not evaluated. */
  surplus: number;
  chain: ReturnType<typeof readArcChain>;
  author: string | undefined;
}

interface ReadSignature {
  domain: string;
  selector: string;
  signature: Signature | SignatureResult;
}

/** Returns why the header is not verified if it is above the limits. */
function readHeader(header: Buffer, contentBytes: number): Header | string {
  if (header.length > MOST_HEADER_BYTES)
    return `its header is ${header.length} bytes; the limit for verification is ${MOST_HEADER_BYTES} bytes`;
  const text = header.toString('latin1');
  if (text.split('\n').length > MOST_HEADER_LINES) return `its header has more than ${MOST_HEADER_LINES} lines`;
  const fields = parseFields(text);
  const signed = fields.filter(({ name }) => name === 'dkim-signature');
  const signatures = signed.slice(0, MOST_SIGNATURES).map(readOne);
  const longSet = fields.find((field) => ARC_FIELD.test(field.name) && isLong(field));
  return {
    fields,
    signatures: contentBytes > LARGE_BODY_BYTES ? withFewHashes(signatures) : signatures,
    surplus: signed.length - signatures.length,
    chain: longSet ? longField(longSet) : readArcChain(fields),
    author: fields.some((field) => field.name === 'from' && isLong(field)) ? undefined : authorDomain(fields),
  };
}

function isLong({ text }: Field): boolean {
  return text.length > MOST_FIELD_BYTES;
}

function longField({ name }: Field): string {
  return `its field ${name} has more than ${MOST_FIELD_BYTES} bytes`;
}

function readOne(field: Field): ReadSignature {
  if (isLong(field)) return { domain: '', selector: '', signature: { result: 'neutral', reason: longField(field) } };
  const list = parseTagList(textOf(field));
  return {
    domain: list.tags.get('d') ?? '',
    selector: list.tags.get('s') ?? '',
    signature: readSignature(field, list),
  };
}

/** Replaces signatures with l= that would require more hashes of the body than a large one gets. */
function withFewHashes(signatures: ReadSignature[]): ReadSignature[] {
  const isPartial = (signature: Signature): boolean => signature.bodyLimit !== Number.POSITIVE_INFINITY;
  const hashed = new Set(usable(signatures).flatMap((one) => (isPartial(one) ? [] : [bodyFormOf(one)])));
  return signatures.map((one) => {
    const { signature } = one;
    if ('result' in signature) return one;
    if (hashed.size < MOST_HASHES_OF_LARGE) hashed.add(bodyFormOf(signature));
    if (hashed.has(bodyFormOf(signature))) return one;
    const reason = `the message is large, and its DKIM signatures require more than ${MOST_HASHES_OF_LARGE} different hashes of its body`;
    return { ...one, signature: { result: 'neutral', reason } };
  });
}

function usable(signatures: readonly ReadSignature[]): Signature[] {
  return signatures.flatMap(({ signature }) => ('result' in signature ? [] : [signature]));
}

function unreadHeader(spf: AuthenticationResults['spf'], reason: string): AuthenticationResults {
  return {
    spf,
    dkim: [{ result: 'neutral', domain: null, selector: null, reason }],
    dmarc: { result: 'permerror', policy: null, domain: null, reason },
    arc: { result: 'none', reason },
  };
}

async function verifySpf(mail: MailToVerify, resolve: Resolve): Promise<AuthenticationResults['spf']> {
  const { result, domain, reason } = await checkSpf(mail, resolve);
  return { result, domain: shortened(domain, MOST_DOMAIN), reason: shortened(reason) };
}

async function verifySignatures(
  { fields, signatures, surplus, chain }: Header,
  body: Buffer,
  resolve: Resolve,
): Promise<Pick<AuthenticationResults, 'dkim' | 'arc'>> {
  const sealed = typeof chain === 'object' ? [chain.messageSignature] : [];
  const bodyHashes = new BodyHashes([...usable(signatures), ...sealed]);
  if (bodyHashes.size > 0) await hashInPieces(body, bodyHashes);
  const message: SignedMessage = {
    fields,
    bodyHashes,
    keys: createKeyLookup(resolve),
    nowSeconds: Math.floor(Date.now() / 1000),
  };
  const arc = verifyArcChain(chain, message);
  const dkim = await Promise.all(
    signatures.map(async ({ domain, selector, signature }) => {
      const result = 'result' in signature ? signature : await verifySignature(signature, message);
      return shownSignature({ domain, selector, ...result });
    }),
  );
  if (surplus > 0) {
    const reason = `${surplus} more DKIM signatures were not evaluated; the limit is ${MOST_SIGNATURES}`;
    dkim.push({ result: 'neutral', domain: null, selector: null, reason });
  }
  const { result, reason } = await arc;
  return { dkim, arc: { result, reason: shortened(reason) } };
}

/** Yields between the pieces, so that other messages proceed. */
async function hashInPieces(body: Buffer, hashes: BodyHashes): Promise<void> {
  for (let at = 0; at < body.length; at += PIECE_BYTES) {
    hashes.update(body.subarray(at, at + PIECE_BYTES));
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function shownSignature(one: SignatureResult & { domain: string; selector: string }): DkimResult {
  return {
    result: one.result,
    domain: shortened(one.domain, MOST_DOMAIN),
    selector: shortened(one.selector, MOST_DOMAIN),
    reason: shortened(one.reason),
  };
}

async function verifyDmarc(
  author: AuthorPolicy,
  { spf, dkim }: Pick<AuthenticationResults, 'spf' | 'dkim'>,
  resolve: Resolve,
): Promise<AuthenticationResults['dmarc']> {
  const withResult = (checks: readonly CheckResult[]): CheckedDomains => ({
    passed: checks.flatMap(({ result, domain }) => (result === 'pass' && domain !== null ? [domain] : [])),
    unknown: checks.flatMap(({ result, domain }) => (result === 'temperror' && domain !== null ? [domain] : [])),
  });
  const checked = { spf: withResult([spf]), dkim: withResult(dkim) };
  const { result, policy, reason } = await checkDmarc(author, checked, resolve);
  return {
    result,
    policy: policy ?? null,
    domain: shortened(author.author, MOST_DOMAIN),
    reason: shortened(reason),
  };
}

interface CheckResult {
  result: string;
  domain: string | null;
}

/** Removes control characters and limits the length, because the text comes from the message or from DNS records. */
function shortened(text: string | undefined, most = MOST_REASON): string | null {
  const line = (text ?? '').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, ' ').trim();
  return line === '' ? null : line.slice(0, most).toWellFormed();
}
