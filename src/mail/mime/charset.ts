/**
 * Finds the decoder of a charset that a received message declares, for bodies, encoded-words, file names, and reports. Knows the names of
 * the Encoding Standard and those that Windows and other programs use instead. Bytes whose charset is not specified, or claimed to be ASCII,
 * are decoded one by one: valid UTF-8 sequences as UTF-8, and every other byte as Windows-1252, like email clients do. So one byte of
 * Latin-1 garbles no other character.
 */

const UTF8 = /^(utf-?8|unicode-1-1-utf-8)$/i;
/** Labels that mean ASCII or nothing. */
const UNSPECIFIED = /^(|us-ascii|ascii|ansi_x3\.4-1968|unknown|unknown-8bit|x-unknown|default|_autodetect\w*)$/i;
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

export function isUtf8Label(label: string): boolean {
  return UTF8.test(label.trim());
}

/** Returns whether the label does not specify how to decode bytes above 0x7F. */
export function isUnspecified(label: string): boolean {
  return UNSPECIFIED.test(label.trim());
}

/** Returns the decoder of a charset; undefined if the charset is unknown or unspecified. */
export function decoderOf(label: string, options: { fatal?: boolean } = {}): TextDecoder | undefined {
  const name = label.trim().toLowerCase();
  if (UNSPECIFIED.test(name)) return undefined;
  try {
    return new TextDecoder(ALIASES.get(name) ?? name, options);
  } catch {
    return undefined;
  }
}

/** A multibyte character (RFC 3629 §4), or a byte that belongs to none. */
const NON_ASCII =
  /[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}|[\x80-\xff]/g;
const WINDOWS_1252 = new TextDecoder('windows-1252').decode(Uint8Array.from({ length: 256 }, (_, byte) => byte));

/** Decodes bytes whose charset is not specified. */
export function guessedText(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return bytes
      .toString('latin1')
      .replace(/^\xef\xbb\xbf/, '')
      .replace(NON_ASCII, (found) =>
        found.length === 1 ? WINDOWS_1252[found.charCodeAt(0)]! : Buffer.from(found, 'latin1').toString('utf8'),
      );
  }
}
