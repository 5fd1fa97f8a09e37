/**
 * Re-encodes a complete message for a remote server that cannot accept it unchanged: without 8BITMIME (RFC 6152 §3) bodies become
 * quoted-printable or Base64, without SMTPUTF8 (RFC 6531) headers lose their raw UTF-8. The structure, the delimiters, and every part and
 * field that needs no change keep their bytes; a reader sees the same mail. DKIM signing comes afterwards.
 *
 * Refused instead of damaged: content under multipart/signed, whose signature would break (RFC 1847 §2.1); parts that must not be encoded;
 * addresses and ids that require SMTPUTF8. The first two are 5.6.3, the last 5.6.7 (RFC 6531 §4.3).
 *
 * With `eightBit` the result has no byte above 0x7F, no line over 998, no bare CR or LF, and no NUL, for any input.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { encodeBase64, encodeTextBytes, isSevenBit } from '../compose/transfer-encoding.ts';
import { fieldValue, headerFields, writtenName } from './header-fields.ts';
import { type Entity, isIdentity, walkThrough } from './mime-walk.ts';
import { downgradeField } from './seven-bit-header.ts';

export interface SevenBitNeeds {
  /** The server lacks 8BITMIME: no byte above 0x7F is allowed, not even in headers. */
  eightBit: boolean;
  /** The server lacks SMTPUTF8: headers must not have raw UTF-8. */
  utf8Headers: boolean;
}

export type SevenBitResult = { ok: true; content: Buffer } | { ok: false; code: '5.6.3' | '5.6.7'; text: string };

/** Submission allows 100 and 1,000; mail composed by Postrider has less. */
const LIMITS = { depth: 200, parts: 10_000 };

type Refusal = Extract<SevenBitResult, { ok: false }>;

function refused(code: Refusal['code'], text: string): Refusal {
  return { ok: false, code, text };
}

function isSealed(entity: Entity): boolean {
  for (let parent = entity.parent; parent; parent = parent.parent) {
    if (parent.type === 'multipart/signed') return true;
  }
  return false;
}

/** Masks text in preambles, epilogues, and lines that are not fields, which no reader displays. */
function masked(bytes: Buffer): Buffer {
  return isAscii(bytes) ? bytes : Buffer.from(bytes.toString('latin1').replace(/[^\x00-\x7f]/g, '?'), 'latin1');
}

interface HeaderChanges {
  encoding: string | undefined;
  /** Fields to append after the others. */
  added: string;
}

/** Returns the header of an entity (with its empty line, if any) in ASCII, with a new transfer encoding if there is one. */
function convertHeader(header: Buffer, changes: HeaderChanges): Buffer | Refusal {
  const ascii = isAscii(header);
  if (ascii && changes.encoding === undefined && changes.added === '') return header;
  const text = header.toString('latin1');
  const hasEmptyLine = text === '\r\n' || text.endsWith('\r\n\r\n');
  const block = hasEmptyLine ? text.slice(0, -2) : text;
  let out = '';
  let named = changes.encoding === undefined;
  for (const field of headerFields(block)) {
    const raw = block.slice(field.start, field.end);
    const line = raw.endsWith('\r\n') ? raw : `${raw}\r\n`;
    if (changes.encoding !== undefined && field.name === 'content-transfer-encoding') {
      if (!named) out += `Content-Transfer-Encoding: ${changes.encoding}\r\n`;
      named = true;
    } else if (!/[^\x00-\x7f]/.test(raw)) out += line;
    else if (field.colon < 0) out += line.replace(/[^\x00-\x7f]/g, '?');
    else {
      const downgraded = downgradeField(writtenName(block, field), fieldValue(block, field));
      if (!downgraded.ok) return refused('5.6.7', downgraded.text);
      out += downgraded.line;
    }
  }
  if (!named) out += `Content-Transfer-Encoding: ${changes.encoding}\r\n`;
  return Buffer.from(`${out}${changes.added}${hasEmptyLine ? '\r\n' : ''}`, 'latin1');
}

/** Returns the MIME fields that a message lacks, so that readers decode its transfer encoding (RFC 2045 §4, RFC 1428 §3). */
function mimeFields(entity: Entity, header: Buffer, body: Buffer): string {
  if (entity.parent?.kind === 'multipart') return '';
  const text = header.toString('latin1');
  const version = /(?:^|\r\n)mime-version[ \t]*:/i.test(text) ? '' : 'MIME-Version: 1.0\r\n';
  if (entity.typed) return version;
  return `${version}Content-Type: text/plain; charset=${isUtf8(body) ? 'utf-8' : 'unknown-8bit'}\r\n`;
}

interface ConvertedBody {
  body: Buffer;
  /** The encoding to write into the header; undefined leaves the header unchanged. */
  encoding: string | undefined;
}

const MAX_QP_COLUMNS = 75;

/**
 * Types of `message` other than rfc822 must not be encoded (RFC 2045 §6.4), except those of internationalized mail (RFC 6532 §3.7, RFC 6533
 * §4).
 */
function mayBeEncoded(type: string): boolean {
  return !type.startsWith('message/') || type.startsWith('message/global');
}

function isText(type: string): boolean {
  return type.startsWith('text/') || type === 'message/global-headers' || type === 'message/global-delivery-status';
}

function hasBareLineEnds(body: Buffer): boolean {
  return /\r(?!\n)|(?<!\r)\n/.test(body.toString('latin1'));
}

/** Escapes raw bytes in quoted-printable, where they were literal. Lines without them are unchanged. */
function repairQuotedPrintable(body: Buffer): Buffer {
  const lines = body.toString('latin1').split('\r\n');
  const fixed = lines.map((line) => {
    if (!/[^\x00-\x7f]/.test(line)) return line;
    let out = '';
    let column = 0;
    for (const unit of line.match(/=[0-9A-Fa-f]{2}|./gs) ?? []) {
      const code = unit.charCodeAt(0);
      const text = code < 0x80 ? unit : `=${code.toString(16).toUpperCase()}`;
      const softBreakAtEnd = text === '=';
      if (column + text.length > MAX_QP_COLUMNS && !softBreakAtEnd) {
        out += '=\r\n';
        column = 0;
      }
      out += text;
      column += text.length;
    }
    return out;
  });
  return Buffer.from(fixed.join('\r\n'), 'latin1');
}

/** Removes bytes outside the Base64 alphabet, which are not part of the content (RFC 2045 §6.8). */
function repairBase64(body: Buffer): Buffer {
  return Buffer.from(body.toString('latin1').replace(/[^\x00-\x7f]+/g, ''), 'latin1');
}

/**
 * Returns the body of a leaf in ASCII and its new encoding (RFC 2045 §6), or why it has no such form: readable text in quoted-printable,
 * everything else in Base64. A body that is already ASCII is unchanged.
 */
function convertBody(entity: Entity, body: Buffer): ConvertedBody | { text: string } {
  const { encoding, type } = entity;
  if (isIdentity(encoding)) {
    if (isSevenBit(body)) return { body, encoding: encoding === '8bit' || encoding === 'binary' ? '7bit' : undefined };
    if (!mayBeEncoded(type)) return { text: `a part of type ${type} has 8-bit bytes and cannot be encoded` };
    const encoded = isText(type) && !hasBareLineEnds(body) ? encodeTextBytes(body) : encodeBase64(body);
    return { body: encoded.data, encoding: encoded.encoding };
  }
  if (isAscii(body)) return { body, encoding: undefined };
  if (encoding === 'quoted-printable') return { body: repairQuotedPrintable(body), encoding: undefined };
  if (encoding === 'base64') return { body: repairBase64(body), encoding: undefined };
  return { text: `a part is encoded as ${encoding.slice(0, 40)} and has 8-bit bytes` };
}

/** Decides how to convert the body of a leaf. */
function planBody(entity: Entity, body: Buffer, needs: SevenBitNeeds): ConvertedBody | { text: string } {
  if (needs.eightBit) return convertBody(entity, body);
  // An internationalized mail may be sent without SMTPUTF8 only if it is encoded (RFC 6532 §3.7).
  if (entity.type === 'message/global' && isIdentity(entity.encoding) && !isAscii(body)) {
    const encoded = encodeBase64(body);
    return { body: encoded.data, encoding: encoded.encoding };
  }
  return { body, encoding: undefined };
}

/** Converts one entity: its header, and its body if it is a leaf. */
function convertEntity(entity: Entity, content: Buffer, needs: SevenBitNeeds): Buffer[] | Refusal {
  const header = content.subarray(entity.headerStart, entity.bodyStart);
  const changes: HeaderChanges = { encoding: undefined, added: '' };
  const out: Buffer[] = [];
  if (entity.kind === 'leaf') {
    const body = content.subarray(entity.bodyStart, entity.bodyEnd);
    const plan = planBody(entity, body, needs);
    if ('text' in plan) return refused('5.6.3', plan.text);
    changes.encoding = plan.encoding;
    if (plan.encoding !== undefined && plan.encoding !== '7bit') changes.added = mimeFields(entity, header, body);
    out.push(plan.body);
  } else if (needs.eightBit && (entity.encoding === '8bit' || entity.encoding === 'binary')) changes.encoding = '7bit';
  const converted = convertHeader(header, changes);
  return Buffer.isBuffer(converted) ? [converted, ...out] : converted;
}

/** Re-encodes a message for a server that lacks what `needs` lists. */
export function toSevenBit(content: Buffer, needs: SevenBitNeeds): SevenBitResult {
  const walk = walkThrough(content.toString('latin1'), LIMITS);
  if (walk.exceeded !== undefined)
    return refused('5.6.3', 'it has too many MIME parts, or its parts are nested too deeply');
  const pieces: Buffer[] = [];
  const between = (from: number, to: number): void => {
    if (to > from) pieces.push(needs.eightBit ? masked(content.subarray(from, to)) : content.subarray(from, to));
  };
  let at = 0;
  for (const entity of walk.entities) {
    if (isSealed(entity)) continue;
    if (needs.eightBit && entity.boundary !== undefined && !/^[\x00-\x7f]*$/.test(entity.boundary)) {
      return refused('5.6.3', 'a boundary between parts has 8-bit characters');
    }
    if (
      needs.eightBit &&
      entity.type === 'multipart/signed' &&
      !isAscii(content.subarray(entity.bodyStart, entity.bodyEnd))
    ) {
      return refused(
        '5.6.3',
        'it holds 8-bit content that is signed (multipart/signed), and re-encoding would break the signature',
      );
    }
    const converted = convertEntity(entity, content, needs);
    if (!Array.isArray(converted)) return converted;
    between(at, entity.headerStart);
    pieces.push(...converted);
    at = entity.kind === 'leaf' ? entity.bodyEnd : entity.bodyStart;
  }
  between(at, content.length);
  const result = Buffer.concat(pieces);
  if (needs.eightBit && !isSevenBit(result)) return refused('5.6.3', 'it has lines that are not allowed in mail');
  return { ok: true, content: result };
}
