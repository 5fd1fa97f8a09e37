/**
 * Removes what follows the author's words in a reply: the signature after `-- ` (RFC 3676 §4.3), and footers of email clients ("Sent from
 * my iPhone", "Get Outlook for iOS"). A footer has to open as those do and name a device or a client, since "Sent from my desk" is a
 * sentence.
 */
import { plainLine } from './attribution.ts';
import { CLIENTS, GET_ENDS, GET_STARTS, OFFERED_CLIENTS, SENT_FROM_ENDS, SENT_FROM_STARTS } from './reply-phrases.ts';

const SIGNATURE = /^-- $|^__$/;
/** Clients strip the space at the end of the mark; without it the line may be a rule between paragraphs. */
const BARE_SIGNATURE = /^--$/;
const BARE_SIGNATURE_LINES = 12;
const LONGEST_FOOTER = 140;
const RULE = /^[_=-]{5,}$/;

const escaped = (word: string): string => word.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
const alternatives = (words: readonly string[]): string => words.map(escaped).join('|');
const opensOrEnds = (starts: readonly string[], ends: readonly string[]): RegExp =>
  new RegExp(`^[\\[*_(]*(?:${alternatives(starts)})|(?:${alternatives(ends)})[.。)\\]*_]*$`, 'u');
const SENT = opensOrEnds(SENT_FROM_STARTS, SENT_FROM_ENDS);
const OFFERED = opensOrEnds(GET_STARTS, GET_ENDS);
/** Some languages decline names ("z iPhonu", "iPhonesta"); Asian scripts have no spaces between words. */
const CLIENT = new RegExp(
  `(?<!\\p{L})(?:${alternatives(CLIENTS)})(?!\\p{Ll}{5})|[\u3040-\u9fff](?:${alternatives(CLIENTS)})`,
  'u',
);
const OFFERED_CLIENT = new RegExp(`(?<!\\p{L})(?:${alternatives(OFFERED_CLIENTS)})(?![\\p{Ll}])`, 'u');
const PLATFORM = /iOS|Android|iPhone|iPad|Mac/;
/** "Sent from my Wiko RIDGE FAB 4G": an unlisted device, written like a name. */
const NAMED_DEVICE = /^Sent from my (?=.*[\p{Lu}\d])[\p{L}\p{N} +®™'-]{2,40}$/u;
/** A sentence continues after its comma; a list of names does not. */
const SENTENCE = /[,;:] \p{Ll}|[!?]/u;
const LINK = /\s?[<([]?\(?https?:\/\/\S+/g;

/** Returns the lines before the signature. */
export function withoutSignature(lines: readonly string[]): readonly string[] {
  const strict = lines.findIndex((line, index) => index > 0 && SIGNATURE.test(line));
  if (strict !== -1) return lines.slice(0, strict);
  const bare = lines.findLastIndex((line) => BARE_SIGNATURE.test(line));
  const below = lines.slice(bare + 1).filter((line) => line.trim() !== '');
  return bare > 0 && below.length <= BARE_SIGNATURE_LINES ? lines.slice(0, bare) : lines;
}

/** Removes client footers, rules, and blank lines at the end. */
export function withoutFooter(lines: readonly string[]): string[] {
  const rest = [...lines];
  while (rest.length > 0) {
    const line = plainLine(rest.at(-1)!);
    if (line !== '' && !RULE.test(line) && !isFooter(line)) break;
    rest.pop();
  }
  return rest;
}

function isFooter(line: string): boolean {
  if (/\bOutlook\b.*aka\.ms\//.test(line)) return true;
  const text = line.replace(LINK, '').trim();
  if (text.length > LONGEST_FOOTER || SENTENCE.test(text.replace(/^Yahoo Mail: |^Provenance ?: /, ''))) return false;
  if (NAMED_DEVICE.test(text) || (SENT.test(text) && CLIENT.test(text))) return true;
  return OFFERED.test(text) && OFFERED_CLIENT.test(text) && PLATFORM.test(text);
}
