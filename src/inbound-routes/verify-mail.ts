/**
 * Verifies SPF, DKIM, DMARC, and ARC of one message with mailauth in strict mode. Runs in a separate thread (verifier-thread.ts), because
 * verification is synchronous and parts of mailauth take quadratic time. Its input is limited here: a header above these limits is not
 * verified, and the results say so. mailauth has no network access: every query goes through `resolve`.
 *
 * Rejects only because of a bug.
 */
import { Readable } from 'node:stream';
import { arc } from 'mailauth/lib/arc/index.js';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { dmarc } from 'mailauth/lib/dmarc/index.js';
import { spf } from 'mailauth/lib/spf/index.js';
import { endOfHeader, fieldValue, headerFields } from '../mail/mime/header-fields.ts';
import {
  ARC_RESULTS,
  type AuthenticationResults,
  DKIM_RESULTS,
  type DkimResult,
  DMARC_POLICIES,
  DMARC_RESULTS,
  SPF_RESULTS,
} from './authentication-results.ts';

export interface MailToVerify {
  content: Uint8Array;
  address: string;
  helo: string;
  /** Empty for the null sender. */
  envelopeFrom: string;
  hostname: string;
}

/** As `resolve` of node:dns/promises: rejects with an Error that has a `code`. */
export type Resolve = (name: string, type: string) => Promise<unknown[]>;

/** Several times the size of legitimate headers. */
const MOST_HEADER_BYTES = 256 * 1024;
const MOST_HEADER_LINES = 5_000;
const MOST_SIGNATURES = 10;
/** Fields that are parsed in quadratic time: 30 ms for 8 KB. */
const MOST_FIELD_BYTES = 8 * 1024;
const PARSED_FIELDS = /^(dkim-signature|arc-.*|from|content-type|return-path)$/;
/**
 * A body is hashed once per combination of hash, canonicalization, and l= among its signatures, each in up to 0.13 s per megabyte of tabs.
 * Legitimate mail has one or two combinations.
 */
const LARGE_BODY_BYTES = 100_000;
const MOST_HASHES_OF_LARGE = 2;
const PIECE_BYTES = 64 * 1024;
const MOST_REASON = 300;
const MOST_DOMAIN = 255;

export async function verifyMail(mail: MailToVerify, resolve: Resolve): Promise<AuthenticationResults> {
  const beyond = beyondLimits(mail.content);
  const [spfResult, signatures] = await Promise.all([
    verifySpf(mail, resolve),
    beyond === undefined ? verifySignatures(mail, resolve) : undefined,
  ]);
  if (signatures === undefined) return unreadHeader(spfResult, beyond!);
  const { dkim, arcResult } = signatures;
  return {
    spf: spfResult,
    dkim: dkim.results.flatMap((one) => (one.status.result === 'none' ? [] : [shownSignature(one)])),
    dmarc: await verifyDmarc({ spfResult, dkim, resolve }),
    arc: { result: oneOf(ARC_RESULTS, arcResult.status.result, 'fail'), reason: shortened(arcResult.status.comment) },
  };
}

/** Returns why the header must not be passed to mailauth. */
function beyondLimits(bytes: Uint8Array): string | undefined {
  const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { headerEnd } = endOfHeader(content);
  if (headerEnd > MOST_HEADER_BYTES)
    return `its header is ${headerEnd} bytes; the limit for verification is ${MOST_HEADER_BYTES} bytes`;
  const text = content.toString('latin1', 0, headerEnd);
  if (text.split('\n').length > MOST_HEADER_LINES) return `its header has more than ${MOST_HEADER_LINES} lines`;
  const fields = headerFields(text).filter(({ name }) => PARSED_FIELDS.test(name));
  const long = fields.find(({ start, end }) => end - start > MOST_FIELD_BYTES);
  if (long) return `its field ${long.name} has more than ${MOST_FIELD_BYTES} bytes`;
  const signatures = fields.filter(({ name }) => name === 'dkim-signature');
  if (signatures.length > MOST_SIGNATURES)
    return `it has ${signatures.length} DKIM signatures; the limit for verification is ${MOST_SIGNATURES}`;
  const hashes = new Set(signatures.map((field) => hashedAs(fieldValue(text, field))));
  return content.length > LARGE_BODY_BYTES && hashes.size > MOST_HASHES_OF_LARGE
    ? `it is large, and its DKIM signatures require ${hashes.size} different hashes of its body`
    : undefined;
}

function hashedAs(signature: string): string {
  const tags = signature.split(';').map((tag) => tag.replaceAll(/[ \t]+/g, ''));
  const hash = tags.flatMap((tag) => (tag.startsWith('a=') ? tag.split('-').slice(1) : []));
  const body = tags.flatMap((tag) => (tag.startsWith('c=') ? tag.split('/').slice(1) : []));
  return [hash, body.length > 0 ? body : 'simple', tags.filter((tag) => tag.startsWith('l='))].join(' ');
}

function unreadHeader(spfResult: AuthenticationResults['spf'], reason: string): AuthenticationResults {
  return {
    spf: spfResult,
    dkim: [{ result: 'neutral', domain: null, selector: null, reason }],
    dmarc: { result: 'permerror', policy: null, domain: null, reason },
    arc: { result: 'none', reason },
  };
}

async function verifySpf(mail: MailToVerify, resolver: Resolve): Promise<AuthenticationResults['spf']> {
  const { address: ip, helo, envelopeFrom: sender, hostname: mta } = mail;
  const { status, domain } = await spf({ ip, helo, sender, mta, resolver: resolver as never, strict: true });
  const result = oneOf(SPF_RESULTS, status.result, 'temperror');
  const comment = status.comment?.startsWith(`${mta}: `) ? status.comment.slice(mta.length + 2) : status.comment;
  return { result, domain: shownDomain(domain), reason: result === 'pass' ? null : shortened(comment) };
}

type Signatures = Awaited<ReturnType<typeof dkimVerify>>;

async function verifySignatures({ content, envelopeFrom, hostname: _, ...mail }: MailToVerify, resolver: Resolve) {
  const options = { resolver: resolver as never, strict: true };
  const pieces = Readable.from(piecesOf(Buffer.from(content.buffer, content.byteOffset, content.byteLength)));
  const dkim = await dkimVerify(pieces, { ...options, sender: envelopeFrom });
  const arcResult = await arc(dkim.arc as never, { ...options, ip: mail.address } as never);
  return { dkim, arcResult };
}

/**
 * Yields between the pieces, so that other messages proceed. Pieces end with a line, because a partial line would be read again with each
 * further piece.
 */
async function* piecesOf(content: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < content.length; ) {
    const lineEnd = content.indexOf('\r\n', at + PIECE_BYTES);
    const end = lineEnd === -1 ? content.length : lineEnd + 2;
    yield content.subarray(at, end);
    at = end;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function shownSignature({ status, signingDomain, selector }: Signatures['results'][number]): DkimResult {
  const result = oneOf(DKIM_RESULTS, status.result, 'neutral');
  const { underSized, policy, comment } = status as typeof status & {
    underSized?: number;
    policy?: Record<string, string>;
  };
  const unsigned = underSized ? `the last ${underSized} bytes of the body are not signed (l=)` : undefined;
  return {
    result,
    domain: shownDomain(signingDomain),
    selector: shownDomain(selector),
    reason: shortened(unsigned ?? comment ?? policy?.['dkim-rules']),
  };
}

interface DmarcInput {
  spfResult: AuthenticationResults['spf'];
  dkim: Signatures;
  resolve: Resolve;
}

async function verifyDmarc({ spfResult, dkim, resolve }: DmarcInput): Promise<AuthenticationResults['dmarc']> {
  const found = await dmarc({
    headerFrom: dkim.headerFrom,
    fromFields: dkim.fromFields,
    resolver: resolve as never,
    strict: true,
    spfDomains: spfResult.result === 'pass' && spfResult.domain !== null ? [spfResult.domain] : [],
    dkimDomains: dkim.results
      .filter(({ status }) => status.result === 'pass')
      .map(({ id, signingDomain: domain, status: { underSized } }) => ({
        id,
        domain,
        ...(underSized !== undefined && { underSized }),
      })),
  } as Parameters<typeof dmarc>[0]);
  if (found === false)
    return {
      result: 'permerror',
      policy: null,
      domain: null,
      reason: 'its From field does not contain exactly one domain',
    };
  const { status, policy, error } = found as typeof found & { error?: string };
  return {
    result: oneOf(DMARC_RESULTS, status.result, 'temperror'),
    policy: DMARC_POLICIES.find((one) => one === policy) ?? null,
    domain: shownDomain(status.header?.from),
    reason: shortened(error),
  };
}

function oneOf<T extends string>(words: readonly T[], word: string, otherwise: T): T {
  return words.find((one) => one === word) ?? otherwise;
}

/** Removes control characters and limits the length, because the text comes from the message or from DNS records. */
function shortened(text: string | false | undefined, most = MOST_REASON): string | null {
  const line = (text || '').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, ' ').trim();
  return line === '' ? null : line.slice(0, most).toWellFormed();
}

function shownDomain(domain: unknown): string | null {
  return typeof domain === 'string' ? shortened(domain, MOST_DOMAIN) : null;
}
