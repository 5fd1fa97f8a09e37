/**
 * Reads encoded-words (RFC 2047) the way mail clients do: also with spaces inside, inside quotes, and with a character cut
 * in two between neighbours. A word of an unknown charset stays as it is written. Time is linear in the text.
 */

const WORD = /=\?([^?\s]{1,80})\?([BbQq])\?([^?]*)\?=/g;
const BETWEEN_WORDS = /^[ \t\r\n]*$/;
const NON_ASCII = /[\x80-\xff]/;

function wordBytes(encoding: string, text: string): Buffer {
  if (encoding === 'B' || encoding === 'b') return Buffer.from(text, 'base64');
  const spaced = text.replaceAll('_', ' ');
  const latin1 = spaced.replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(latin1, 'latin1');
}

function decoderFor(charset: string): TextDecoder | undefined {
  // RFC 2231 §5: a language may stand behind the charset.
  const label = charset.split('*', 1)[0]!;
  try {
    return new TextDecoder(label);
  } catch {
    return undefined;
  }
}

/**
 * Each word by itself, as RFC 2047 §5 has it and charsets with states need it (ISO-2022-JP); all together where a character
 * was cut in two.
 */
function decodePieces(decoder: TextDecoder, pieces: readonly Buffer[]): string {
  const texts = pieces.map((piece) => decoder.decode(piece));
  const cut = texts.length > 1 && texts.some((text) => text.includes('\ufffd'));
  return cut ? decoder.decode(Buffer.concat(pieces)) : texts.join('');
}

/** The text with every encoded-word replaced by what it says; white space between two of them is no part of the text. */
export function decodeWords(text: string): string {
  if (!text.includes('=?')) return text;
  let out = '';
  let from = 0;
  let pending: { charset: string; decoder: TextDecoder; pieces: Buffer[] } | undefined;
  const flush = () => {
    if (pending) out += decodePieces(pending.decoder, pending.pieces);
    pending = undefined;
  };
  for (const match of text.matchAll(WORD)) {
    const [whole, charset, encoding, encoded] = match;
    const between = text.slice(from, match.index);
    const decoder = decoderFor(charset!);
    if (!pending || !decoder || !BETWEEN_WORDS.test(between)) {
      const gap = pending && decoder && BETWEEN_WORDS.test(between) ? '' : between;
      flush();
      out += gap;
    } else if (pending.charset !== charset!.toLowerCase()) flush();
    if (decoder) {
      pending ??= { charset: charset!.toLowerCase(), decoder, pieces: [] };
      pending.pieces.push(wordBytes(encoding!, encoded!));
    } else out += whole;
    from = match.index + whole.length;
  }
  flush();
  return out + text.slice(from);
}

/**
 * Header bytes read as Latin-1, as text: UTF-8 (RFC 6532), and where they are not, Windows-1252, which is what clients
 * take them for.
 */
export function headerText(latin1: string): string {
  if (!NON_ASCII.test(latin1)) return latin1;
  const bytes = Buffer.from(latin1, 'latin1');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return new TextDecoder('windows-1252').decode(bytes);
  }
}
