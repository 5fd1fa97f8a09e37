/**
 * Recognizes the line before a quote that states who wrote it and when ("On 20 Nov 2026, Shop <orders@shop.example> wrote:"), in the forms
 * and languages of the usual email clients. A sentence of the reply may look like such a line, so a match needs evidence: a date, an
 * address, a verb, how it opens, and the lines around it. Without enough evidence the line is treated as the author's own.
 */
import { CONJUNCTIONS, OPENERS, OPENERS_WITHOUT_VERB, PRONOUNS, QUOTING, WROTE } from './reply-phrases.ts';

/** The lines around a possible attribution. */
export interface AttributionContext {
  /** The next nonblank line is quoted, or there is a block of header fields. */
  isQuoteNext: boolean;
  isBlankBefore: boolean;
  /** Also true at the end of the text. */
  isBlankAfter: boolean;
}

/** Maximum number of characters of a line to read; no attribution is longer. */
const LONGEST = 1_000;
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
/** The zeros of the digits used in dates: Arabic, Persian, Devanagari, Thai, and full-width. */
const ZEROS = [0x660, 0x6f0, 0x966, 0xe50, 0xff10];
const DIGIT = /[\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u0e50-\u0e59\uff10-\uff19]/g;

/** Returns a line for comparison: without text direction marks, with plain spaces and ASCII digits. */
export function plainLine(line: string): string {
  return line
    .slice(0, LONGEST)
    .replace(INVISIBLE, '')
    .replace(/&nbsp;/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(DIGIT, (digit) => {
      const code = digit.charCodeAt(0);
      return String(code - ZEROS.findLast((zero) => zero <= code)!);
    });
}

const escaped = (word: string): string => word.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
const anyOf = (words: readonly string[]): string =>
  words
    .toSorted((a, b) => b.length - a.length)
    .map(escaped)
    .join('|');
const capitalized = (word: string): string => word[0]!.toUpperCase() + word.slice(1);
/** Scripts without spaces between words. */
const UNSPACED = /[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/;
const spaced = (words: readonly string[]): string[] => words.filter((word) => !UNSPACED.test(word));
const unspaced = (words: readonly string[]): string[] => words.filter((word) => UNSPACED.test(word));
/** Matches one of these words as a whole word. */
const wordPattern = (words: readonly string[]): string => `(?<![\\p{L}\\p{M}])(?:${anyOf(words)})(?![\\p{L}\\p{M}])`;

/** The languages that clients are translated to; Node provides the names of months and days. */
const LANGUAGES = `en de fr es ca gl pt it nl sv da nb nn is fi et pl cs sk ru uk be bg sr hr sl lt lv ro hu tr el he ar fa hi th vi id ja zh ko`;

/** Returns the names of weekdays or months, long and short, as written in dates. */
function calendarNames(part: 'weekday' | 'month'): string[] {
  const names = new Set<string>();
  for (const language of LANGUAGES.split(' ')) {
    for (const style of ['long', 'short'] as const) {
      const format = new Intl.DateTimeFormat(language, {
        timeZone: 'UTC',
        ...(part === 'weekday' ? { weekday: style } : { month: style, day: 'numeric' }),
      });
      for (let index = 0; index < (part === 'weekday' ? 7 : 12); index += 1) {
        const date = part === 'weekday' ? Date.UTC(2026, 10, 2 + index) : Date.UTC(2026, index, 2);
        const name = format.formatToParts(date).find((one) => one.type === part)?.value ?? '';
        names.add(name.replace(/[.׳']+$/, '').toLowerCase());
      }
    }
  }
  return [...names].filter((name) => /\p{L}/u.test(name));
}

interface Patterns {
  wrote: RegExp;
  wroteAtEnd: RegExp;
  opener: RegExp;
  openerWithoutVerb: RegExp;
  quoting: RegExp;
  conjunctionFirst: RegExp;
  pronoun: RegExp;
  weekdayFirst: RegExp;
  monthAndDay: RegExp;
}

let patterns: Patterns | undefined;

/** Built on first use: the calendars of forty languages take some milliseconds. */
function patternsOnce(): Patterns {
  if (patterns) return patterns;
  const wrote = `(?:${wordPattern(spaced(WROTE))}|${anyOf(unspaced(WROTE))})`;
  const months = anyOf(calendarNames('month'));
  const pronoun = wordPattern(PRONOUNS);
  patterns = {
    wrote: new RegExp(wrote, 'iu'),
    wroteAtEnd: new RegExp(`${wrote}[\\s.]*$`, 'iu'),
    opener: new RegExp(`^(?:(?:${anyOf(spaced(OPENERS))})(?=[\\s,'’\\d־-])|${anyOf(unspaced(OPENERS))})`, 'u'),
    quoting: new RegExp(`^(?:${anyOf(QUOTING)}) \\S.{0,300}[:：]$`, 'iu'),
    openerWithoutVerb: new RegExp(`^(?:${anyOf(OPENERS_WITHOUT_VERB)}) `, 'u'),
    conjunctionFirst: new RegExp(`^${wordPattern([...CONJUNCTIONS, ...CONJUNCTIONS.map(capitalized)])}`, 'u'),
    // Case matters: "Han" and "Lei" are names in the middle of a line.
    pronoun: new RegExp(
      `${pronoun} ${wrote}|${wrote} ${pronoun}|^${wordPattern(PRONOUNS.map(capitalized))} ${wrote}`,
      'u',
    ),
    weekdayFirst: new RegExp(`^(?:${anyOf(calendarNames('weekday'))})(?![\\p{L}\\p{M}])[.,،׳]?`, 'iu'),
    monthAndDay: new RegExp(
      `\\d[.,]?\\s?(?:de |ב)?(?:${months})(?![\\p{L}\\p{M}])|(?<![\\p{L}\\p{M}])(?:${months})\\.? \\d`,
      'iu',
    ),
  };
  return patterns;
}

const YEAR = /(?<!\d)(?:19|20|25)\d\d(?!\d)/;
const NUMERIC_DATE = /(?<!\d)\d{1,4}(?:[./-]\s?\d{1,2}[./-]\s?\d{1,4}|年\s?\d{1,2}月|년\s?\d{1,2}월)/g;
const TIME = /(?<!\d)\d{1,2}\s?(?:[:.٫hH時时点]\s?\d{2}|시|点|時|[AaPp]\.?[Mm])/;
/** The limits of RFC 5321 §4.5.3.1; they keep long words without an address cheap. */
const ADDRESS = /[^\s<>()[\]"',;:]{1,64}@[^\s<>()[\]"',;:]{1,255}[\p{L}\p{N}]/u;
/** A name and an address in brackets, or an address alone, at the start. */
const NAME_AND_ADDRESS_FIRST =
  /^[^:<>@]{0,120}[<([]{1,3}(?:mailto:)?[^\s<>()]{1,255}@[^\s<>()]+|^[^\s<>()@]+@[^\s<>()@]+\s/u;
const ADDRESS_LAST = /[<([]\s?(?:mailto:)?[^\s<>()]{1,255}@[^\s<>()@]{1,255}\s?[>)\]]{1,3}$/u;
const DATE_FIRST = /^[("]?\d/;
const DASHES_FIRST = /^[-–—_=*]{2,}\s*/;
const DASHES_LAST = /\s*(?<![-–—_=*])[-–—_=*]{2,}$/;
const COLONS_LAST = /(?<![\s:：])[\s:：]+$/;
/** "Shop wrote", "Ann B. Smith schrieb": a name and the verb, nothing else. */
const NAME_WORDS = /^["“«„]?\p{Lu}[\p{L}\p{M}.'’-]*(?: [\p{Lu}"“«„][\p{L}\p{M}.'’-]*){0,4}["”»“]?$/u;

/** Features of a possible attribution. */
interface Evidence {
  text: string;
  isEnded: boolean;
  isBetweenDashes: boolean;
  hasVerb: boolean;
  hasDate: boolean;
  hasTime: boolean;
  hasAddress: boolean;
  opensAsDate: boolean;
  /** Opens like attributions that need no verb. */
  opensWithoutVerb: boolean;
  /** Opens with a word or a date that attributions open with. */
  opens: boolean;
  /** Or opens with a name and an address. */
  opensAsAuthor: boolean;
  opensAsSentence: boolean;
  /** "you wrote": the author's own words. */
  hasPronoun: boolean;
}

function evidenceOf(line: string): Evidence {
  const { wrote, opener, openerWithoutVerb, weekdayFirst, monthAndDay, conjunctionFirst, pronoun } = patternsOnce();
  const isBetweenDashes = DASHES_FIRST.test(line) && DASHES_LAST.test(line.replace(/[:：]$/, ''));
  const inner = line
    .replace(DASHES_FIRST, '')
    .replace(/[:：]$/, '')
    .replace(DASHES_LAST, '')
    .trim();
  const text = inner.replace(COLONS_LAST, '');
  const opensAsDate = DATE_FIRST.test(text) || weekdayFirst.test(text);
  const hasAddress = ADDRESS.test(text);
  const withoutDates = text.replace(NUMERIC_DATE, ' ');
  return {
    text,
    isEnded: /[:：]$/.test(line) || text !== inner,
    isBetweenDashes,
    hasVerb: wrote.test(text),
    hasDate: withoutDates !== text || YEAR.test(text) || monthAndDay.test(text),
    hasTime: TIME.test(withoutDates),
    hasAddress,
    opensAsDate,
    opensWithoutVerb: openerWithoutVerb.test(text) || (opensAsDate && ADDRESS_LAST.test(text)),
    opens: opensAsDate || opener.test(text),
    opensAsAuthor: hasAddress && NAME_AND_ADDRESS_FIRST.test(text),
    opensAsSentence: conjunctionFirst.test(text),
    hasPronoun: pronoun.test(text),
  };
}

/** Returns whether the line, joined if a client wrapped it, introduces a quote. */
export function isAttribution(line: string, context: AttributionContext): boolean {
  if (!/\d|@|[:：]$|[-–—=*]$/.test(line)) return false;
  const { quoting } = patternsOnce();
  if (quoting.test(line)) return context.isQuoteNext || ADDRESS.test(line);
  const seen = evidenceOf(line);
  if (seen.isBetweenDashes) return seen.hasVerb && (seen.hasAddress || seen.hasDate || context.isQuoteNext);
  if (!seen.isEnded && !endsWithoutColon(seen, context)) return false;
  return context.isQuoteNext ? introducesQuote(seen) : introducesText(seen, context);
}

/** Some clients write no colon: "On … Shop <orders@shop.example> wrote", "2026/11/26 Shop <orders@shop.example>". */
function endsWithoutColon(seen: Evidence, { isQuoteNext }: AttributionContext): boolean {
  if (!seen.hasDate || !seen.hasAddress || !(seen.opens || seen.opensAsAuthor)) return false;
  return patternsOnce().wroteAtEnd.test(seen.text) || (isQuoteNext && seen.opensAsDate && ADDRESS_LAST.test(seen.text));
}

/** A marked quote follows, so little other evidence is needed. */
function introducesQuote(seen: Evidence): boolean {
  if (!seen.hasVerb) return seen.hasDate && seen.hasAddress && seen.opensWithoutVerb;
  if (seen.opens && seen.hasDate) return true;
  if (seen.opensAsSentence || (seen.hasPronoun && !seen.hasAddress)) return false;
  if (seen.hasDate || seen.hasTime || seen.hasAddress) return seen.opensAsAuthor || !/^\p{Ll}/u.test(seen.text);
  const name = seen.text.replace(patternsOnce().wroteAtEnd, '').trim();
  return NAME_WORDS.test(name);
}

/** The text that follows may be the author's own, so the line has to contain who and when. */
function introducesText(seen: Evidence, { isBlankBefore, isBlankAfter }: AttributionContext): boolean {
  if (seen.opensAsSentence) return false;
  if (!seen.hasVerb) return seen.opensWithoutVerb && seen.hasDate && seen.hasTime && seen.hasAddress && isBlankAfter;
  if (seen.hasAddress) return (seen.opens && seen.hasDate) || (seen.opensAsAuthor && isBlankAfter);
  return !seen.hasPronoun && seen.hasDate && seen.hasTime && isBlankAfter && (seen.opens || isBlankBefore);
}

/** Returns whether a line ends like a sentence, not like a piece of an attribution that a client wrapped. */
export const endsSentence = (line: string): boolean =>
  /[!?。！？]$/.test(line) || (line.endsWith('.') && line.length < 60);

/** Returns whether a wrapped attribution can start with this line. */
export function opensAttribution(line: string): boolean {
  const { opener, weekdayFirst } = patternsOnce();
  const text = line.replace(DASHES_FIRST, '');
  return (
    (opener.test(text) || DATE_FIRST.test(text) || weekdayFirst.test(text)) && /\d/.test(text) && !endsSentence(text)
  );
}

/** Returns whether it opens with a word such as "On" or "Le", not with a number or a day, which a wrapped line may start with too. */
export const opensWithWord = (line: string): boolean => patternsOnce().opener.test(line) && opensAttribution(line);

/** "On Thu, 26 Nov 2026 10:00:00 +0100", with name and verb on the next line. */
export function isDateLine(line: string): boolean {
  const { hasDate, hasTime, hasVerb } = evidenceOf(line);
  return hasDate && (hasTime || YEAR.test(line)) && !hasVerb && opensAttribution(line);
}

/** Returns whether the line is broken within a date: "On Thu, Nov 26,". */
export const breaksDate = (line: string): boolean =>
  /[,،\d]$/.test(line) && opensAttribution(line) && !DATE_FIRST.test(line);
