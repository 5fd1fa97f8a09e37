/**
 * Redacts the text of a refusal but keeps the problem, its place, and the accepted form. Request values that the text quotes are removed
 * (template sources, quoted texts, and anything that looks like a key, a password, or a token), and the rest is limited in length. Control
 * characters, which databases do not store in texts, are replaced.
 */
import type { Detail } from '../base/failure.ts';

const MESSAGE_BYTES = 1_000;
const DETAIL_BYTES = 300;
const FIELD_BYTES = 100;
/** Limit of all details together, as JSON. */
const DETAILS_BYTES = 2_500;
export const USER_AGENT_BYTES = 200;
const CUT = '…';

/** API keys, webhook secrets, and other long texts without a break. A prefix alone, as in `pr_test_…`, is not confidential. */
const SECRETS = /\bpr_(?:live|test|operator)_[0-9A-Za-z_]+|\bwhsec_[0-9A-Za-z+/=]+|[0-9A-Za-z_+/=-]{20,}/g;
/** Passwords, session ids, signatures, and hashes: names of variables and headers have no digits, or are shorter. */
const RANDOM = /^(?:pr_|whsec_)|^(?=.*\d)(?=.*[A-Za-z])/;
/** Postrider's own ids are long too, but they are what the refusal is about. */
const OUR_ID = /^(?:msg|sub|tpl|whk|del|evt|dom|key|smtp|apr|agr|usr|req|acc|inb|inr|ers|shr|flt)_[0-9A-Za-z]{21}$/;
/** Messages about a template quote its source. */
const TEMPLATE_SOURCE = /(is not a valid template|has an invalid tag)\b.*?(?= \(line \d+, column \d+\)|$)/gs;
const QUOTED = /"[^"]*"|“[^”]*”/g;
/** Some user agents contain an email address to contact. */
const ADDRESS = /[^\s()<>;,]*@[^\s()<>;,]*/g;
const PARAMETER = /:[^/]+/g;
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
  // Limits the input of the patterns below.
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

export function redactUserAgent(userAgent: string): string {
  return redact(userAgent.slice(0, USER_AGENT_BYTES).replace(ADDRESS, CUT), USER_AGENT_BYTES);
}

/**
 * Returns the path of a route (`/messages/:id`) with the ids of Postrider in the place of their parameters; undefined if there are none.
 * Other values, such as email addresses, are not inserted.
 */
export function redactPath(route: string, params: Readonly<Record<string, string>>): string | undefined {
  const path = route.replace(PARAMETER, (parameter) => {
    const value = params[parameter.slice(1)];
    return value !== undefined && OUR_ID.test(value) ? value : parameter;
  });
  return path === route ? undefined : path;
}

export function redactMessage(message: string): string {
  return redact(message, MESSAGE_BYTES);
}

/** Returns the first details as JSON, as many as fit. */
export function redactDetails(details: readonly Detail[]): string {
  const kept: string[] = [];
  let bytes = 2;
  for (const { field, code, message, line, column } of details) {
    const one = JSON.stringify({
      field: redact(field.replace(ADDRESS, CUT), FIELD_BYTES),
      code,
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
