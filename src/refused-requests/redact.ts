/**
 * What of a refusal's words is kept: what is wrong, where, and what is allowed. Values of the request that the words quote are cut
 * out (sources of templates, texts in quotes, whatever has the form of a key, a password or a token), and what is left is cut to a length.
 * Control characters, which no database takes as text, are replaced.
 */
import type { Issue } from '../base/failure.ts';

const MESSAGE_BYTES = 1_000;
const DETAIL_BYTES = 300;
const FIELD_BYTES = 100;
/** Of all details together, as JSON. */
const DETAILS_BYTES = 2_500;
const CUT = '…';

/** API keys, webhook secrets, and other texts without a break that are long. */
const SECRETS = /\b(?:pr_(?:live|test)_|whsec_)[^\s"',;]*|[0-9A-Za-z_+/=-]{20,}/g;
/** Passwords, session ids, signatures and hashes: names of variables and headers have no digits, or are shorter. */
const RANDOM = /^(?:pr_|whsec_)|^(?=.*\d)(?=.*[A-Za-z])/;
/** Our own ids are long too, and what the refusal is about. */
const OUR_ID = /^(?:msg|sub|tpl|whk|del|evt|dom|key|smtp|apr|usr|req|acc)_[0-9A-Za-z]{21}$/;
/** Messages about a template quote its source. */
const TEMPLATE_SOURCE = /(is not a valid template|has an invalid tag)\b.*?(?= \(line \d+, column \d+\)|$)/gs;
const QUOTED = /"[^"]*"|“[^”]*”/g;
const CONTROLS = /[\x00-\x1f\x7f-\x9f]+/g;

function cut(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  return `${bytes
    .subarray(0, maxBytes)
    .toString('utf8')
    .replace(/\uFFFD$/, '')}${CUT}`;
}

function redact(text: string, maxBytes: number): string {
  // Bounds what the patterns below look at.
  const known = text
    .slice(0, 4 * maxBytes)
    .toWellFormed()
    .replace(CONTROLS, ' ');
  const without = known
    .replace(TEMPLATE_SOURCE, '$1')
    .replace(QUOTED, `"${CUT}"`)
    .replace(SECRETS, (found) => (OUR_ID.test(found) || !RANDOM.test(found) ? found : CUT));
  return cut(without, maxBytes);
}

export function redactMessage(message: string): string {
  return redact(message, MESSAGE_BYTES);
}

/** The first of the details, as JSON: as many as there is room for. */
export function redactDetails(details: readonly Issue[]): string {
  const kept: string[] = [];
  let bytes = 2;
  for (const { field, message, line, column } of details) {
    const one = JSON.stringify({
      field: redact(field, FIELD_BYTES),
      message: redact(message, DETAIL_BYTES),
      ...(line === undefined ? {} : { line }),
      ...(column === undefined ? {} : { column }),
    });
    bytes += Buffer.byteLength(one) + 1;
    if (bytes > DETAILS_BYTES) break;
    kept.push(one);
  }
  return `[${kept.join(',')}]`;
}
