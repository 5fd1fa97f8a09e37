/**
 * Decodes the text of a part. Mail without a charset, or with a wrong one, is decoded byte by byte: valid UTF-8 sequences as UTF-8, and
 * every other byte as Windows-1252, like email clients do. So one byte of Latin-1 garbles no other character.
 */

export interface DecodedText {
  text: string;
  /** An unknown charset, which was ignored. */
  unknownCharset: string | undefined;
}

interface TextSource {
  /** The charset that the part declares. */
  charset: string | undefined;
  isHtml: boolean;
  /** The bytes end at a limit, possibly within a character. */
  isCut: boolean;
}

/** Labels that mean UTF-8, its subset, or nothing. */
const UTF8_OR_NONE =
  /^(|utf-?8|unicode-1-1-utf-8|us-ascii|ascii|ansi_x3\.4-1968|unknown|unknown-8bit|x-unknown|default|_autodetect\w*)$/i;
/** Names of charsets that Windows and others use instead of the standard ones. */
const ALIASES = new Map([
  ['latin-1', 'iso-8859-1'],
  ['cp932', 'shift_jis'],
  ['ms932', 'shift_jis'],
  ['cp936', 'gbk'],
  ['ms936', 'gbk'],
  ['cp949', 'euc-kr'],
  ['ms949', 'euc-kr'],
  ['cp950', 'big5'],
  ['cp874', 'windows-874'],
  ['iso-2022-jp-ms', 'iso-2022-jp'],
  ['iso-2022-jp-1', 'iso-2022-jp'],
]);
const META_CHARSET = /<meta[^>]{0,200}charset\s?=\s?["']?([\w.:-]{3,40})/i;
const SNIFFED_BYTES = 2_048;
/** The two escape sequences that Japanese mail starts with (RFC 1468). */
const ISO_2022_JP = /\x1b\$[@B]|\x1b\(J/;

export function decodeText(bytes: Buffer, { charset, isHtml, isCut }: TextSource): DecodedText {
  const written = charset?.trim() ?? '';
  const label = UTF8_OR_NONE.test(written)
    ? sniffed(bytes, { isHtml })
    : (ALIASES.get(written.toLowerCase()) ?? written);
  if (UTF8_OR_NONE.test(label)) return { text: mixedText(bytes, isCut), unknownCharset: undefined };
  try {
    return { text: new TextDecoder(label).decode(bytes), unknownCharset: undefined };
  } catch {
    return { text: mixedText(bytes, isCut), unknownCharset: label };
  }
}

/** Returns the charset that the bytes indicate; empty if none. */
function sniffed(bytes: Buffer, { isHtml }: { isHtml: boolean }): string {
  const start = bytes.toString('latin1', 0, SNIFFED_BYTES);
  if (ISO_2022_JP.test(start)) return 'iso-2022-jp';
  const label = isHtml ? (META_CHARSET.exec(start)?.[1] ?? '') : '';
  // UTF-16 would not have been readable here (WHATWG HTML §13.2.3.2).
  return /^utf-16/i.test(label) || !isKnown(label) ? '' : label;
}

function isKnown(label: string): boolean {
  try {
    return label !== '' && new TextDecoder(label) !== undefined;
  } catch {
    return false;
  }
}

/** A multibyte character (RFC 3629 §4), or a byte that belongs to none. */
const NON_ASCII =
  /[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}|[\x80-\xff]/g;
const WINDOWS_1252 = new TextDecoder('windows-1252').decode(Uint8Array.from({ length: 256 }, (_, byte) => byte));
/** The first bytes of a truncated character. */
const CUT_CHARACTER = /(?:[\xc2-\xf4]|[\xe0-\xf4][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2})$/;

function mixedText(bytes: Buffer, isCut: boolean): string {
  const complete = isCut ? bytes.subarray(0, bytes.length - cutBytes(bytes)) : bytes;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(complete);
  } catch {
    return complete
      .toString('latin1')
      .replace(/^\xef\xbb\xbf/, '')
      .replace(NON_ASCII, (found) =>
        found.length === 1 ? WINDOWS_1252[found.charCodeAt(0)]! : Buffer.from(found, 'latin1').toString('utf8'),
      );
  }
}

const cutBytes = (bytes: Buffer): number => CUT_CHARACTER.exec(bytes.subarray(-3).toString('latin1'))?.[0].length ?? 0;
