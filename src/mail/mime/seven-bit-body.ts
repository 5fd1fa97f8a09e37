/**
 * The body of one MIME leaf in ASCII, and the Content-Transfer-Encoding that then belongs to it (RFC 2045 §6): text in
 * quoted-printable where that can be read, everything else in Base64. A body that is clean already stays as it is.
 */
import { isAscii } from 'node:buffer';
import { encodeBase64, encodeTextBytes, isSevenBit } from '../compose/transfer-encoding.ts';
import { type Entity, isIdentity } from './mime-walk.ts';

export interface ConvertedBody {
  body: Buffer;
  /** The encoding to be named in the header; undefined leaves the header as it is. */
  encoding: string | undefined;
}

const MAX_QP_COLUMNS = 75;

/**
 * Types of `message` other than rfc822 may not be encoded (RFC 2045 §6.4), but those of internationalised mail may (RFC 6532
 * §3.7, RFC 6533 §4).
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

/** Escapes the raw bytes in what says it is quoted-printable; they stood for themselves. Lines that had none stay. */
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

/** Bytes outside of its alphabet are no part of Base64 (RFC 2045 §6.8). */
function repairBase64(body: Buffer): Buffer {
  return Buffer.from(body.toString('latin1').replace(/[^\x00-\x7f]+/g, ''), 'latin1');
}

/** The body of a leaf in seven bits, or why it has no such form. */
export function convertBody(entity: Entity, body: Buffer): ConvertedBody | { text: string } {
  const { encoding, type } = entity;
  if (isIdentity(encoding)) {
    if (isSevenBit(body)) return { body, encoding: encoding === '8bit' || encoding === 'binary' ? '7bit' : undefined };
    if (!mayBeEncoded(type)) return { text: `a part of type ${type} holds 8-bit bytes and may not be encoded` };
    const encoded = isText(type) && !hasBareLineEnds(body) ? encodeTextBytes(body) : encodeBase64(body);
    return { body: encoded.data, encoding: encoded.encoding };
  }
  if (isAscii(body)) return { body, encoding: undefined };
  if (encoding === 'quoted-printable') return { body: repairQuotedPrintable(body), encoding: undefined };
  if (encoding === 'base64') return { body: repairBase64(body), encoding: undefined };
  return { text: `a part is encoded as ${encoding.slice(0, 40)} and holds 8-bit bytes` };
}
