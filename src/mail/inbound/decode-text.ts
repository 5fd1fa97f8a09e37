/**
 * Decodes the text of a part in the charset that the part declares. Text without a charset, and text that declares UTF-8 or an unknown
 * charset, is decoded by its bytes (see `guessedText`), unless they indicate ISO-2022-JP or the HTML names a charset.
 */
import { decoderOf, guessedText, isUnspecified, isUtf8Label } from '../mime/charset.ts';

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

const META_CHARSET = /<meta[^>]{0,200}charset\s?=\s?["']?([\w.:-]{3,40})/i;
const SNIFFED_BYTES = 2_048;
/** The two escape sequences that Japanese mail starts with (RFC 1468). */
const ISO_2022_JP = /\x1b\$[@B]|\x1b\(J/;

export function decodeText(bytes: Buffer, { charset, isHtml, isCut }: TextSource): DecodedText {
  const declared = charset?.trim() ?? '';
  const label = isGuessed(declared) ? sniffed(bytes, { isHtml }) : declared;
  if (isGuessed(label)) return { text: mixedText(bytes, isCut), unknownCharset: undefined };
  const decoder = decoderOf(label);
  return decoder === undefined
    ? { text: mixedText(bytes, isCut), unknownCharset: label }
    : { text: decoder.decode(bytes), unknownCharset: undefined };
}

/** Returns whether the bytes say more than the label. Text that declares UTF-8 is often in another charset. */
function isGuessed(label: string): boolean {
  return isUnspecified(label) || isUtf8Label(label);
}

/** Returns the charset that the bytes indicate; empty if none. */
function sniffed(bytes: Buffer, { isHtml }: { isHtml: boolean }): string {
  const start = bytes.toString('latin1', 0, SNIFFED_BYTES);
  if (ISO_2022_JP.test(start)) return 'iso-2022-jp';
  const label = isHtml ? (META_CHARSET.exec(start)?.[1] ?? '') : '';
  // UTF-16 would not have been readable here (WHATWG HTML §13.2.3.2).
  return /^utf-16/i.test(label) || decoderOf(label) === undefined ? '' : label;
}

/** The first bytes of a truncated character. */
const CUT_CHARACTER = /(?:[\xc2-\xf4]|[\xe0-\xf4][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2})$/;

function mixedText(bytes: Buffer, isCut: boolean): string {
  return guessedText(isCut ? bytes.subarray(0, bytes.length - cutBytes(bytes)) : bytes);
}

const cutBytes = (bytes: Buffer): number => CUT_CHARACTER.exec(bytes.subarray(-3).toString('latin1'))?.[0].length ?? 0;
