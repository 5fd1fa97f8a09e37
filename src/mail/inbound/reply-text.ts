/**
 * Extracts the author's own words from a reply: without the quoted mail, the line that introduces it, and the footer of the email client.
 * Recognizes the attribution lines, separators, and header blocks of email clients in some forty languages (`attribution.ts`,
 * `quoted-header.ts`). Replies below a quote and between its lines are kept. If it is unclear whether words are the author's own, they are
 * kept: a remaining quote is a smaller error than lost words. Takes time linear in the text.
 */
import { readTags } from '../html/html-tags.ts';
import { htmlToText } from '../html/html-text.ts';
import {
  breaksDate,
  endsSentence,
  isAttribution,
  isDateLine,
  opensAttribution,
  opensWithWord,
  plainLine,
} from './attribution.ts';
import { afterHeaderFields, isIntroduction, isSeparator } from './quoted-header.ts';
import { withoutFooter, withoutSignature } from './reply-footer.ts';

/** Maximum number of lines of a wrapped attribution. */
const WRAPPED_LINES = 4;

/** Where a quoted mail starts. */
interface Mark {
  /** Its first line: the attribution, separator or header field. */
  start: number;
  /** The first line of the quoted mail itself. */
  end: number;
}

/** Returns null if there is no text, or none of it is the author's own. */
export function replyText(text: string | null): string | null {
  if (text === null) return null;
  const lines = text.replace(/\r\n?/g, '\n').replace(BROKEN_ADDRESS, '$1').split('\n');
  const written = ownLines(lines).join('\n').trim();
  return written === '' ? null : written;
}

/** Like `replyText`, for a reply that has only HTML. */
export function replyTextOfHtml(html: string): string | null {
  return replyText(htmlToText(withMarks(html)));
}

/** `<orders@shop.example` at the end of a line with its `>` at the start of the next, where it would mark a quote. */
const BROKEN_ADDRESS = /(<[^<>\s]{1,300}@[^<>\s]{1,300})[ \t]*\n(?=>)/g;
const isQuoted = (line: string): boolean => /^[\s\u200b-\u200f\u202a-\u202e\ufeff]{0,3}[>＞]/.test(line);
const isBlank = (line: string | undefined): boolean => line === undefined || plainLine(line) === '';

function ownLines(lines: readonly string[]): string[] {
  let mark = nextMark(lines, 0);
  if (!mark) return withoutFooter(withoutOuterQuotes(withoutSignature(lines)));
  const above = withoutFooter(withoutSignature(withoutLeadingQuote(lines.slice(0, mark.start))));
  const pieces = [above];
  while (mark) {
    const quote = nextFilled(lines, mark.end);
    // Without `>` on its lines, the end of the quote is unknown.
    if (quote === lines.length || !isQuoted(lines[quote]!)) break;
    mark = nextMark(lines, quote);
    pieces.push(unquoted(lines.slice(quote, mark?.start), { mayBeBroken: above.length > 0 }));
  }
  return pieces.filter((piece) => piece.length > 0).flatMap((piece, index) => (index > 0 ? ['', ...piece] : piece));
}

/** Keeps the author's replies below a quote and between its lines. */
function unquoted(lines: readonly string[], { mayBeBroken }: { mayBeBroken: boolean }): string[] {
  const own = lines.filter((line, index) => !isQuoted(line) && !(mayBeBroken && isBrokenQuote(lines, index)));
  const written = withoutFooter(withoutSignature(own));
  return written.slice(nextFilled(written, 0));
}

/**
 * Returns whether this is a piece of a quoted line that a client wrapped without marking it: lowercase, between two quoted lines, the first
 * of them full.
 */
function isBrokenQuote(lines: readonly string[], index: number): boolean {
  const [before, line, after] = [lines[index - 1] ?? '', lines[index]!, lines[index + 1] ?? ''];
  if (!isQuoted(before) || !isQuoted(after) || !/^\p{Ll}/u.test(line)) return false;
  return before.length >= 66 && before.trimEnd().length + 1 + line.split(' ')[0]!.length > 74;
}

function nextMark(lines: readonly string[], from: number): Mark | undefined {
  for (let index = from; index < lines.length; index += 1) {
    const mark = markAt(lines, index);
    if (mark) return { ...mark, start: withRulesAbove(lines, mark.start, from) };
  }
  return undefined;
}

/** Returns the mark that this line completes: as the last line of an attribution, or the first line of anything else. */
function markAt(lines: readonly string[], index: number): Mark | undefined {
  const line = lines[index]!;
  if (isBlank(line) || isQuoted(line)) return undefined;
  const attribution = attributionEndingAt(lines, index);
  if (attribution) return attribution;
  if (isSeparator(line)) {
    const fields = nextFilled(lines, index + 1);
    return { start: index, end: afterHeaderFields(lines, fields) ?? index + 1 };
  }
  const fieldsEnd = afterHeaderFields(lines, index);
  if (fieldsEnd !== undefined) return { start: index, end: fieldsEnd };
  if (!isIntroduction(line)) return undefined;
  const next = nextFilled(lines, index + 1);
  if (next < lines.length && isQuoted(lines[next]!)) return { start: index, end: index + 1 };
  const end = afterHeaderFields(lines, next);
  return end === undefined ? undefined : { start: index, end };
}

function nextFilled(lines: readonly string[], from: number): number {
  let index = from;
  while (index < lines.length && isBlank(lines[index])) index += 1;
  return index;
}

/** Returns an attribution that ends with this line. Clients wrap it, also within an address, so up to four lines are joined. */
function attributionEndingAt(lines: readonly string[], index: number): Mark | undefined {
  const lastLine = plainLine(lines[index]!);
  if (!/[:：]$|[-–—=*]$|>$|@|\d/.test(lastLine) && lastLine.length > 60) return undefined;
  const next = nextFilled(lines, index + 1);
  const isQuoteNext = next < lines.length && (isQuoted(lines[next]!) || afterHeaderFields(lines, next) !== undefined);
  const context = { isQuoteNext, isBlankAfter: isBlank(lines[index + 1]) };
  const first = Math.max(0, index - WRAPPED_LINES + 1);
  let joined = '';
  let found: number | undefined;
  for (let start = index; start >= first; start -= 1) {
    const line = plainLine(lines[start]!);
    if (line === '' || (start < index && (isQuoted(lines[start]!) || endsSentence(line)))) break;
    joined = joined === '' ? line : `${line} ${joined}`;
    const isComplete = isAttribution(withClosedBrackets(joined), {
      ...context,
      isBlankBefore: isBlank(lines[start - 1]),
    });
    // The shortest match is used, since the lines above are the author's; but a date above the name belongs to it.
    if (isComplete && (found === undefined || isDateLine(line) || breaksDate(line))) found = start;
    const isOpening = found === undefined ? opensWithWord(line) : opensAttribution(line);
    if (isOpening && !breaksDate(plainLine(lines[start - 1] ?? ''))) break;
  }
  if (found === undefined) return undefined;
  if (isNameAbove(plainLine(lines[found - 1] ?? ''), plainLine(lines[found]!))) found -= 1;
  return { start: found, end: index + 1 };
}

/** Returns whether the line above is the name of the address that this line opens with: a name, and too long for one line. */
function isNameAbove(above: string, line: string): boolean {
  const [address] = /^[<(]\S+/.exec(line) ?? [];
  return address !== undefined && /^["“«„]?\p{Lu}[^,;:!?]*$/u.test(above) && above.length + 1 + address.length > 65;
}

/** Joins an address that was broken after its opening bracket. */
const withClosedBrackets = (line: string): string => line.replace(/([<(]) (?=\S*@)/g, '$1');

const RULE = /^[-_=*—–~]{3,}$/;

/** Includes the rules and blank lines above a mark. */
function withRulesAbove(lines: readonly string[], start: number, from: number): number {
  let above = start;
  for (let index = start - 1; index >= from; index -= 1) {
    const line = plainLine(lines[index]!);
    if (RULE.test(line) || isIntroduction(line)) above = index;
    else if (line !== '') break;
  }
  return above;
}

/** Removes quotes at the start or at the end without an introduction; quotes between the author's lines are kept. */
function withoutOuterQuotes(lines: readonly string[]): readonly string[] {
  const rest = withoutLeadingQuote(lines);
  if (rest.length < lines.length) return rest;
  const first = lines.findIndex(isQuoted);
  if (first === -1) return lines;
  return lines.slice(first).every((line) => isBlank(line) || isQuoted(line)) ? lines.slice(0, first) : lines;
}

function withoutLeadingQuote(lines: readonly string[]): readonly string[] {
  const first = nextFilled(lines, 0);
  if (first === lines.length || !isQuoted(lines[first]!)) return lines;
  const end = lines.findIndex((line, index) => index > first && !isQuoted(line) && !isBlank(line));
  if (end === -1) return [];
  return lines.slice(end).some(isQuoted) ? lines : lines.slice(end);
}

/** Names of the element that contains the quoted mail, or that precedes it. */
const QUOTE_ELEMENT = new RegExp(
  [
    'divRplyFwdMsg|appendonsend|OLK_SRC_BODY_SECTION|mail-editor-reference-message-container|ms-outlook-mobile-reference-message',
    'yahoo_quoted|ydp[0-9a-f]+yahoo_quoted|aol-quoted|aolReplacedBody|protonmail_quote|tutanota_quote|zmail_extra|zmail_extra_hr',
    'messageReplySection|isReplyContent|ntes-mailmaster-quote|mailmaster-quote|replySplit|reply-intro|gmx_quote|quote_container',
    'skiff_quote|front_reply|hs_reply|cafEmailQuote|WM_QUOTE|x_divRplyFwdMsg|x_appendonsend',
  ].join('|'),
);
const MARKING = new Set(['id', 'class', 'name', 'data-marker', 'style', 'type']);
const WHOLE_NAME = new RegExp(`(?:^|\\s)(?:${QUOTE_ELEMENT.source}|__DIVIDER__)(?:$|\\s)`);
const SEPARATOR_ELEMENT = '<div>-----Original Message-----</div>';

/** Inserts a separator before the element that a client quotes in, and removes quote marks from indented text. */
function withMarks(html: string): string {
  const pieces: string[] = [];
  let from = 0;
  for (const tag of readTags(html, MARKING)) {
    if (tag.isEnd) continue;
    const attributeValue = (name: string): string => {
      const attribute = tag.attributes.find((one) => one.name === name);
      return attribute ? html.slice(attribute.start, attribute.end) : '';
    };
    if (['id', 'class', 'name', 'data-marker'].some((name) => WHOLE_NAME.test(attributeValue(name)))) {
      return `${pieces.join('')}${html.slice(from, tag.start)}${SEPARATOR_ELEMENT}${html.slice(tag.start)}`;
    }
    // Gmail indents the author's paragraphs with a borderless blockquote.
    const isIndent =
      tag.name === 'blockquote' &&
      /border:\s*(?:none|0)/.test(attributeValue('style')) &&
      !/cite|quote/.test(attributeValue('type') + attributeValue('class'));
    if (!isIndent) continue;
    pieces.push(html.slice(from, tag.start), '<div>');
    from = tag.end;
  }
  return pieces.join('') + html.slice(from);
}
