/**
 * Verifies SPF, DKIM, DMARC, and ARC of one message. Runs in a separate thread (verifier-thread.ts), because hashing and verifying
 * signatures is synchronous. Its input is limited here: a header above these limits is not verified, and the results say so. The network is
 * reached only through `resolve`.
 *
 * Rejects only because of a bug.
 */
import { endOfHeader } from '../mail/mime/header-fields.ts';
import { readArcChain, verifyArcChain } from '../mail-authentication/arc.ts';
import { authorDomain } from '../mail-authentication/author-domain.ts';
import {
  BodyHashes,
  readSignature,
  type Signature,
  type SignatureResult,
  type SignedMessage,
  verifySignature,
} from '../mail-authentication/dkim.ts';
import { createKeyLookup } from '../mail-authentication/dkim-key.ts';
import { checkDmarc } from '../mail-authentication/dmarc.ts';
import { type Resolve, withMemory } from '../mail-authentication/dns-query.ts';
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
const PARSED_FIELDS = /^(dkim-signature|arc-seal|arc-message-signature|arc-authentication-results|from)$/;
/**
 * A body is hashed once per combination of canonicalization and l= among its DKIM signatures, and once more for its ARC chain. Legitimate
 * mail has one or two combinations.
 */
const LARGE_BODY_BYTES = 100_000;
const MOST_HASHES_OF_LARGE = 2;
const PIECE_BYTES = 64 * 1024;
const MOST_REASON = 300;
const MOST_DOMAIN = 255;

export async function verifyMail(mail: MailToVerify, resolve: Resolve): Promise<AuthenticationResults> {
  const content = Buffer.from(mail.content.buffer, mail.content.byteOffset, mail.content.byteLength);
  const { headerEnd, bodyStart } = endOfHeader(content);
  const query = withMemory(resolve);
  const header = readHeader(content.subarray(0, headerEnd), content.length);
  const [spf, signatures] = await Promise.all([
    verifySpf(mail, query),
    typeof header === 'string' ? undefined : verifySignatures(header, content.subarray(bodyStart), query),
  ]);
  if (typeof header === 'string' || signatures === undefined) return unreadHeader(spf, String(header));
  return { spf, ...signatures, dmarc: await verifyDmarc(header, { spf, ...signatures }, query) };
}

/** The parsed fields that verification needs. */
interface Header {
  fields: Field[];
  signatures: { domain: string; selector: string; signature: Signature | SignatureResult }[];
  chain: ReturnType<typeof readArcChain>;
}

/** Returns why the header is not verified if it is above the limits. */
function readHeader(header: Buffer, contentBytes: number): Header | string {
  if (header.length > MOST_HEADER_BYTES)
    return `its header is ${header.length} bytes; the limit for verification is ${MOST_HEADER_BYTES} bytes`;
  const text = header.toString('latin1');
  if (text.split('\n').length > MOST_HEADER_LINES) return `its header has more than ${MOST_HEADER_LINES} lines`;
  const fields = parseFields(text);
  const long = fields.find((field) => PARSED_FIELDS.test(field.name) && field.text.length > MOST_FIELD_BYTES);
  if (long) return `its field ${long.name} has more than ${MOST_FIELD_BYTES} bytes`;
  const signed = fields.filter(({ name }) => name === 'dkim-signature');
  if (signed.length > MOST_SIGNATURES)
    return `it has ${signed.length} DKIM signatures; the limit for verification is ${MOST_SIGNATURES}`;
  const signatures = signed.map((field) => {
    const list = parseTagList(textOf(field));
    return {
      domain: list.tags.get('d') ?? '',
      selector: list.tags.get('s') ?? '',
      signature: readSignature(field, list),
    };
  });
  const { size } = new BodyHashes(usable(signatures));
  return contentBytes > LARGE_BODY_BYTES && size > MOST_HASHES_OF_LARGE
    ? `it is large, and its DKIM signatures require ${size} different hashes of its body`
    : { fields, signatures, chain: readArcChain(fields) };
}

function usable(signatures: Header['signatures']): Signature[] {
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
  { fields, signatures, chain }: Header,
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
  const unsigned =
    one.unsignedBytes === undefined ? undefined : `the last ${one.unsignedBytes} bytes of the body are not signed (l=)`;
  return {
    result: one.result,
    domain: shortened(one.domain, MOST_DOMAIN),
    selector: shortened(one.selector, MOST_DOMAIN),
    reason: shortened(unsigned ?? one.reason),
  };
}

async function verifyDmarc(
  { fields, signatures }: Header,
  { spf, dkim }: Pick<AuthenticationResults, 'spf' | 'dkim'>,
  resolve: Resolve,
): Promise<AuthenticationResults['dmarc']> {
  const author = authorDomain(fields);
  if (author === undefined) {
    const reason = 'its From field does not contain exactly one domain';
    return { result: 'permerror', policy: null, domain: null, reason };
  }
  const dkimDomains = signatures.flatMap(({ domain }, index) => (dkim[index]!.result === 'pass' ? [domain] : []));
  const spfDomains = spf.result === 'pass' && spf.domain !== null ? [spf.domain] : [];
  const { result, policy, reason } = await checkDmarc({ author, spfDomains, dkimDomains }, resolve);
  return { result, policy: policy ?? null, domain: shortened(author, MOST_DOMAIN), reason: shortened(reason) };
}

/** Removes control characters and limits the length, because the text comes from the message or from DNS records. */
function shortened(text: string | undefined, most = MOST_REASON): string | null {
  const line = (text ?? '').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, ' ').trim();
  return line === '' ? null : line.slice(0, most).toWellFormed();
}
