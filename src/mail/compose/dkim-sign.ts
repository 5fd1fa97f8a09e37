/**
 * Creates DKIM signatures (RFC 6376) with relaxed/relaxed canonicalization, RSA-SHA256, and Ed25519-SHA256 (RFC 8463). The message is
 * read once for any number of keys. Header fields that an attacker could add to a signed message are listed in h= once more than they
 * occur, so an added field breaks the signature (§8.15). RSA runs in the thread pool, off the event loop.
 */
import { createPublicKey, generateKeyPair, hash, type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { BodyHash, relaxedValue } from '../dkim-canonicalization.ts';
import { endOfHeader, headerFields } from '../mime/header-fields.ts';

export interface DkimKey {
  algorithm: 'rsa' | 'ed25519';
  selector: string;
  privateKey: KeyObject;
}

/** The input that all signatures of one message share. It is plain data, so it can be stored or sent to a thread. */
export interface PreparedDkim {
  /** The value of the `h=` tag. */
  signedFields: string;
  /** The canonical form of the signed fields, each with its CRLF. */
  canonicalHeader: string;
  /** The SHA-256 of the canonical body, in Base64. */
  bodyHash: string;
}

/** These fields are signed even if absent, and once more than they occur: no legitimate server adds them to a message. */
const OVERSIGNED = [
  'from',
  'to',
  'cc',
  'reply-to',
  'subject',
  'date',
  'message-id',
  'mime-version',
  'content-type',
  'content-transfer-encoding',
];
/**
 * These fields are signed as often as they occur, because mailing lists add some of them. One-click unsubscribe requires that
 * List-Unsubscribe and List-Unsubscribe-Post are signed (RFC 8058 §4).
 */
const SIGNED_IF_PRESENT = [
  'sender',
  'in-reply-to',
  'references',
  'list-unsubscribe',
  'list-unsubscribe-post',
  'list-id',
  'list-help',
  'list-subscribe',
  'list-post',
  'list-owner',
  'list-archive',
  'feedback-id',
  // RFC 9477 §3.1.4 requires these two to be signed.
  'cfbl-address',
  'cfbl-feedback-id',
  'auto-submitted',
  'content-id',
  'content-description',
  'content-disposition',
  'resent-date',
  'resent-from',
  'resent-sender',
  'resent-to',
  'resent-cc',
  'resent-message-id',
];
const SIGNED = new Set([...OVERSIGNED, ...SIGNED_IF_PRESENT]);
const FOLD_COLUMN = 76;

const signInThreadPool = promisify(sign) as (algorithm: string, data: Uint8Array, key: KeyObject) => Promise<Buffer>;

/** Returns canonical fields by lower-case name, in their order of occurrence (RFC 6376 §3.4.2). */
function canonicalFields(header: string): Map<string, string[]> {
  const fields = new Map<string, string[]>();
  for (const { name, colon, end } of headerFields(header)) {
    if (!SIGNED.has(name)) continue;
    const hasLineEnd = header.charCodeAt(end - 1) === 10;
    const line = `${name}:${relaxedValue(header.slice(colon + 1, hasLineEnd ? end - 2 : end))}\r\n`;
    const lines = fields.get(name);
    if (lines === undefined) fields.set(name, [line]);
    else lines.push(line);
  }
  return fields;
}

/** Canonicalizes a header (fields with CRLF, with or without the empty line) for a body that was hashed separately. */
export function prepareDkimHeader(header: Buffer, bodyHash: string): PreparedDkim {
  const fields = canonicalFields(header.toString('latin1'));
  const names: string[] = [];
  let canonicalHeader = '';
  for (const name of SIGNED) {
    const lines = fields.get(name) ?? [];
    // Repeated fields are signed from the last one to the first (§5.4.2).
    for (let i = lines.length - 1; i >= 0; i -= 1) {
      names.push(name);
      canonicalHeader += lines[i];
    }
  }
  return { signedFields: [...names, ...OVERSIGNED].join(':'), canonicalHeader, bodyHash };
}

/** Adds fields (each with its CRLF) above the header. In h= they follow the other fields of their name (RFC 6376 §5.4.2). */
export function withFieldsOnTop(prepared: PreparedDkim, fields: string): PreparedDkim {
  let { signedFields, canonicalHeader } = prepared;
  for (const [name, lines] of canonicalFields(fields)) {
    for (const line of lines.toReversed()) {
      signedFields += `:${name}`;
      canonicalHeader += line;
    }
  }
  return { ...prepared, signedFields, canonicalHeader };
}

/** Reads a message with CRLF line ends once for all its signatures. If it is in several buffers, the first has the complete header. */
export function prepareDkim(content: Buffer | readonly Buffer[]): PreparedDkim {
  const [first, ...rest] = Buffer.isBuffer(content) ? [content] : content;
  if (first === undefined) throw new TypeError('prepareDkim needs at least one buffer');
  const { headerEnd, bodyStart } = endOfHeader(first);
  const body = new BodyHash('relaxed');
  body.update(first.subarray(bodyStart));
  for (const chunk of rest) body.update(chunk);
  return prepareDkimHeader(first.subarray(0, headerEnd), body.digest());
}

/** Folds the field at the spaces between its tags, and h= at its colons. */
function foldTags(tags: readonly string[]): string {
  let out = 'DKIM-Signature:';
  let column = out.length;
  for (const tag of tags) {
    const pieces = tag.startsWith('h=') ? tag.split(/(?<=:)/) : [tag];
    for (let i = 0; i < pieces.length; i += 1) {
      const piece = pieces[i]!;
      const fits = column + 1 + piece.length <= FOLD_COLUMN;
      if (!fits) {
        out += '\r\n';
        column = 0;
      }
      const space = i === 0 || !fits;
      out += space ? ` ${piece}` : piece;
      column += piece.length + (space ? 1 : 0);
    }
  }
  return out;
}

export interface DkimSigners {
  /** The signing domain, in A-labels. */
  domain: string;
  keys: readonly DkimKey[];
  nowMs: number;
}

/** Returns the field up to `b=`, folded, and the bytes that its signature covers. */
function unsignedField(prepared: PreparedDkim, signers: DkimSigners, key: DkimKey): { field: string; data: Buffer } {
  const field = foldTags([
    'v=1;',
    `a=${key.algorithm}-sha256;`,
    'c=relaxed/relaxed;',
    `d=${signers.domain};`,
    `s=${key.selector};`,
    `t=${Math.floor(signers.nowMs / 1000)};`,
    `h=${prepared.signedFields};`,
    `bh=${prepared.bodyHash};`,
    'b=',
  ]);
  const signatureField = `dkim-signature:${relaxedValue(field.slice('DKIM-Signature:'.length))}`;
  return { field, data: Buffer.from(prepared.canonicalHeader + signatureField, 'latin1') };
}

function signedField(field: string, signature: Buffer): string {
  const text = signature.toString('base64');
  let out = field;
  for (let i = 0; i < text.length; i += 72) out += `\r\n ${text.slice(i, i + 72)}`;
  return `${out}\r\n`;
}

function signSync(key: DkimKey, data: Buffer): Buffer {
  if (key.algorithm === 'rsa') return sign('sha256', data, key.privateKey);
  return sign(null, hash('sha256', data, 'buffer'), key.privateKey);
}

async function signOne(prepared: PreparedDkim, signers: DkimSigners, key: DkimKey): Promise<string> {
  const { field, data } = unsignedField(prepared, signers, key);
  // An Ed25519 signature takes about as long as passing it to the thread pool and back.
  const signature =
    key.algorithm === 'rsa' ? await signInThreadPool('sha256', data, key.privateKey) : signSync(key, data);
  return signedField(field, signature);
}

/** Returns one folded `DKIM-Signature` field for each key, to be placed above the message. */
export async function signPrepared(prepared: PreparedDkim, signers: DkimSigners): Promise<string> {
  if (signers.keys.length === 1) return signOne(prepared, signers, signers.keys[0]!);
  return (await Promise.all(signers.keys.map((key) => signOne(prepared, signers, key)))).join('');
}

/** Signs a message that is in memory; see `prepareDkim` and `signPrepared`. */
export function signDkim({
  content,
  ...signers
}: DkimSigners & { content: Buffer | readonly Buffer[] }): Promise<string> {
  return signPrepared(prepareDkim(content), signers);
}

/** Like `signDkim`, but blocks the calling thread for about 0.22 ms per key. It is meant for threads that do nothing else. */
export function signDkimSync({ content, ...signers }: DkimSigners & { content: Buffer | readonly Buffer[] }): string {
  const prepared = prepareDkim(content);
  let out = '';
  for (const key of signers.keys) {
    const { field, data } = unsignedField(prepared, signers, key);
    out += signedField(field, signSync(key, data));
  }
  return out;
}

export interface GeneratedDkimKey {
  algorithm: 'rsa' | 'ed25519';
  /** The private key in PKCS #8 format. */
  privateKeyPem: string;
  /** The value of the TXT record at `<selector>._domainkey.<domain>`. */
  dnsValue: string;
}

/** Returns the value of a key's TXT record: SPKI for RSA (RFC 6376 §3.6.1), the bare 32 bytes for Ed25519 (RFC 8463 §4). */
export function dkimDnsValue(key: KeyObject): string {
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' });
  if (key.asymmetricKeyType === 'rsa') return `v=DKIM1; k=rsa; p=${spki.toString('base64')}`;
  return `v=DKIM1; k=ed25519; p=${spki.subarray(-32).toString('base64')}`;
}

/** Generates an RSA-2048 and an Ed25519 key pair. */
export async function generateDkimKeys(): Promise<{ rsa: GeneratedDkimKey; ed25519: GeneratedDkimKey }> {
  const generate = promisify(generateKeyPair);
  const [rsa, ed25519] = await Promise.all([generate('rsa', { modulusLength: 2048 }), generate('ed25519')]);
  const pem = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString();
  return {
    rsa: { algorithm: 'rsa', privateKeyPem: pem(rsa.privateKey), dnsValue: dkimDnsValue(rsa.privateKey) },
    ed25519: {
      algorithm: 'ed25519',
      privateKeyPem: pem(ed25519.privateKey),
      dnsValue: dkimDnsValue(ed25519.privateKey),
    },
  };
}
