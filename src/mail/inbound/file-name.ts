/**
 * Reads the names of attached files as senders write them: quoted or not, in RFC 2231 pieces, as encoded-words (RFC 2047) where those are
 * not allowed, and with percent signs. The result is valid in every file system: without folders, control characters, and text direction
 * marks.
 */
import { decoderOf } from '../mime/charset.ts';
import { decodeWords, headerText } from '../mime/header-fields.ts';
import type { FieldParameter } from '../mime/mime-walk.ts';

const MOST_CHARACTERS = 200;

/** Names for parts without one, by type. */
const USUAL_NAMES = new Map([
  ['text/calendar', 'invite.ics'],
  ['application/ics', 'invite.ics'],
  ['text/vcard', 'contact.vcf'],
  ['text/x-vcard', 'contact.vcf'],
  ['text/directory', 'contact.vcf'],
  ['application/pgp-signature', 'signature.asc'],
  ['application/pkcs7-signature', 'smime.p7s'],
  ['application/x-pkcs7-signature', 'smime.p7s'],
  ['message/delivery-status', 'delivery-status.txt'],
]);

/** Returns the name in this parameter; undefined if there is none. The extended form takes precedence over the plain one. */
export function writtenName(parameters: readonly FieldParameter[], parameter: string): string | undefined {
  const extended = parameters.find(({ name }) => name === `${parameter}*`);
  if (extended) return fromExtended(extended.value);
  const whole = parameters.find(({ name }) => name === parameter);
  const value = whole ? unquotedValue(whole) : joinedPieces(parameters, parameter);
  if (value === undefined) return undefined;
  // The asterisk is missing.
  if (/^[\w-]{3,20}'[\w-]{0,10}'.*%[0-9A-Fa-f]{2}/.test(value)) return fromExtended(value);
  const text = decodeWords(closedWord(headerText(value)));
  return /%[89A-Fa-f][0-9A-Fa-f]/.test(text) ? percentText(text) : text;
}

/** Some clients never quote: the value ends at the next semicolon, or at the next parameter if that is missing. */
function unquotedValue({ raw, value, rest }: FieldParameter): string {
  if (raw.startsWith('"')) return value;
  const text = rest.replace(/\s[\w*-]+=.*$/s, '').trim();
  return /^'.*'$/s.test(text) ? text.slice(1, -1) : text;
}

/** `filename*0*=…; filename*1=…`; some clients count from one. */
function joinedPieces(parameters: readonly FieldParameter[], parameter: string): string | undefined {
  const byName = new Map(parameters.map((one) => [one.name, one.value]));
  const hasPiece = (index: number): boolean =>
    byName.has(`${parameter}*${index}`) || byName.has(`${parameter}*${index}*`);
  const first = hasPiece(0) ? 0 : 1;
  if (!hasPiece(first)) return undefined;
  const isCoded = byName.has(`${parameter}*${first}*`);
  let value = '';
  for (let index = first; hasPiece(index); index += 1) {
    const plain = byName.get(`${parameter}*${index}`);
    // A percent sign in an unencoded piece is literal.
    value +=
      plain === undefined ? byName.get(`${parameter}*${index}*`)! : isCoded ? plain.replaceAll('%', '%25') : plain;
  }
  return isCoded ? `${value.includes("'") ? '' : "''"}${value}` : value;
}

/** `charset'language'percent-encoded` (RFC 2231 §4). */
function fromExtended(value: string): string {
  const match = /^([^']*)'[^']*'(.*)$/s.exec(value);
  const [charset, coded] = match ? [match[1]!, match[2]!] : ['', value];
  const bytes = Buffer.from(
    coded.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
  try {
    const decoder = decoderOf(charset, { fatal: true });
    if (decoder) return decodeWords(decoder.decode(bytes));
  } catch {
    // The bytes are not valid in the charset.
  }
  return decodeWords(headerText(bytes.toString('latin1')));
}

/** Closes an encoded-word whose end is missing. */
const closedWord = (text: string): string =>
  /=\?[^?\s]+\?[BbQq]\?[^?]*$/.test(text) ? `${text.replace(/\?$/, '')}?=` : text;

function percentText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns a name without characters that file systems forbid; empty if nothing is left. */
export function safeName(written: string): string {
  const name = written.replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '');
  return shortened((name.split(/[\\/]/).at(-1) ?? '').trim());
}

/** Returns a file name made from another text, such as a subject. */
export function nameOfText(text: string, extension: string): string {
  const name = text
    .replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '')
    .replace(/[\\/:*?"<>|]/g, '_')
    .trim();
  return name === '' ? '' : `${shortened(name, MOST_CHARACTERS - extension.length)}${extension}`;
}

/** Returns the name that clients give such a part; empty if there is none. */
export const usualName = (type: string): string => USUAL_NAMES.get(type) ?? '';

/** Shortens a name but keeps its extension. */
function shortened(name: string, most = MOST_CHARACTERS): string {
  if (name.length <= most) return name.toWellFormed();
  const extension = /\.[^.]{1,20}$/.exec(name)?.[0] ?? '';
  return (name.slice(0, most - extension.length) + extension).toWellFormed();
}
