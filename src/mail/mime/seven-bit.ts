/**
 * A whole message re-encoded for a remote server that does not take it as it is: without 8BITMIME (RFC 6152 §3) bodies become
 * quoted-printable or Base64, without SMTPUTF8 (RFC 6531) headers lose their raw UTF-8. The structure, the delimiters and every
 * part and field that needs no change keep their bytes; a reader sees the same mail. DKIM signatures cover the result, so signing
 * comes after.
 *
 * Refused instead of damaged: content under multipart/signed, whose signature would break (RFC 1847 §2.1); parts that may not be
 * encoded; addresses and ids that only SMTPUTF8 can carry. The first two are 5.6.3, the last 5.6.7 (RFC 6531 §4.3).
 *
 * With `eightBit` the result holds no byte above 0x7F, no line over 998, no bare CR or LF, no NUL: whatever the input was.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { encodeBase64, isSevenBit } from '../compose/transfer-encoding.ts';
import { fieldValue, headerFields, writtenName } from './header-fields.ts';
import { type Entity, isIdentity, walkThrough } from './mime-walk.ts';
import { type ConvertedBody, convertBody } from './seven-bit-body.ts';
import { downgradeField } from './seven-bit-header.ts';

export interface SevenBitNeeds {
  /** The remote lacks 8BITMIME: nothing above 0x7F may be left, in headers neither. */
  eightBit: boolean;
  /** The remote lacks SMTPUTF8: headers may hold no raw UTF-8. */
  utf8Headers: boolean;
}

export type SevenBitResult = { ok: true; content: Buffer } | { ok: false; code: '5.6.3' | '5.6.7'; text: string };

/** What submission takes has 100 and 1,000; mail of our own has less. */
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

/** Text of preambles, epilogues and lines that are no field, which no reader shows. */
function masked(bytes: Buffer): Buffer {
  return isAscii(bytes) ? bytes : Buffer.from(bytes.toString('latin1').replace(/[^\x00-\x7f]/g, '?'), 'latin1');
}

interface HeaderChanges {
  encoding: string | undefined;
  /** Fields to be put in behind the others. */
  added: string;
}

/** The header of an entity (with its empty line, if it has one) in ASCII, with another transfer encoding if there is one. */
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

/** What a mail without MIME fields needs so that readers look at its transfer encoding (RFC 2045 §4, RFC 1428 §3). */
function mimeFields(entity: Entity, header: Buffer, body: Buffer): string {
  if (entity.parent?.kind === 'multipart') return '';
  const text = header.toString('latin1');
  const version = /(?:^|\r\n)mime-version[ \t]*:/i.test(text) ? '' : 'MIME-Version: 1.0\r\n';
  if (entity.typed) return version;
  return `${version}Content-Type: text/plain; charset=${isUtf8(body) ? 'utf-8' : 'unknown-8bit'}\r\n`;
}

/** What becomes of the body of a leaf. */
function planBody(entity: Entity, body: Buffer, needs: SevenBitNeeds): ConvertedBody | { text: string } {
  if (needs.eightBit) return convertBody(entity, body);
  // An internationalised mail inside may travel without SMTPUTF8 only in an encoding (RFC 6532 §3.7).
  if (entity.type === 'message/global' && isIdentity(entity.encoding) && !isAscii(body)) {
    const encoded = encodeBase64(body);
    return { body: encoded.data, encoding: encoded.encoding };
  }
  return { body, encoding: undefined };
}

/** One entity: its header, and its body if it is a leaf. */
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

/** Re-encodes a message for a remote that lacks what `needs` says. */
export function toSevenBit(content: Buffer, needs: SevenBitNeeds): SevenBitResult {
  const walk = walkThrough(content.toString('latin1'), LIMITS);
  if (walk.exceeded !== undefined)
    return refused('5.6.3', 'the MIME parts are nested too deep or are too many to re-encode');
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
  if (needs.eightBit && !isSevenBit(result)) return refused('5.6.3', 'it has lines that no mail may have');
  return { ok: true, content: result };
}
