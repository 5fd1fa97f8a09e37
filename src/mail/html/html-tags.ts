/**
 * Yields the tags of an html text with the positions of their attributes, parsed like a browser (WHATWG HTML §13.2.5). Builds and changes
 * nothing. What is between two tags is text; the content of script, style, and the like is never parsed as tags.
 */
import { decodeHTMLAttribute } from 'entities';

export interface HtmlAttribute {
  /** Lower case. */
  name: string;
  /** Position of its value, without quotes; start and end are equal if it has none. */
  start: number;
  end: number;
  isQuoted: boolean;
}

export interface HtmlTag {
  /** Lower case; empty for comments, doctypes, and a tag that is incomplete at the end of the text. */
  name: string;
  isEnd: boolean;
  /** From its `<` to after its `>`. */
  start: number;
  end: number;
  /** The requested attributes. */
  attributes: HtmlAttribute[];
}

/** Elements whose content is raw text up to their end tag, with a pattern of that tag. */
const RAW_TEXT = new Map(
  ['script', 'style', 'textarea', 'title', 'xmp', 'iframe', 'noembed', 'noframes'].map((name): [string, RegExp] => [
    name,
    new RegExp(`</${name}(?=[\\t\\n\\f\\r />])`, 'gi'),
  ]),
);

const TAG_NAME = /[^\t\n\f\r />]*/y;
const BETWEEN_ATTRIBUTES = /[\t\n\f\r /]*/y;
const ATTRIBUTE_NAME = /=?[^\t\n\f\r />=]*/y;
const SPACES = /[\t\n\f\r ]*/y;
const UNQUOTED = /[^\t\n\f\r >]*/y;

function match(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  pattern.test(text);
  return pattern.lastIndex;
}

/** Returns the index after the comment whose `<!--` is at `at`; the end of the text if it is not closed. */
function endOfComment(html: string, at: number): number {
  // `<!-->` and `<!--->` are empty comments.
  if (html.startsWith('>', at + 4)) return at + 5;
  if (html.startsWith('->', at + 4)) return at + 6;
  const found = /--!?>/g;
  found.lastIndex = at + 4;
  return found.test(html) ? found.lastIndex : html.length;
}

function indexOfEnd(html: string, end: RegExp, at: number): number {
  end.lastIndex = at;
  return end.exec(html)?.index ?? html.length;
}

/** Reads the attributes after the name; returns the index after `>`, or -1 if the text ends within the tag. */
function readAttributes(
  html: string,
  from: number,
  { wanted, found }: { wanted: ReadonlySet<string>; found: HtmlAttribute[] },
): number {
  // If two attributes have the same name, the first applies.
  const note = (attribute: HtmlAttribute): void => {
    if (wanted.has(attribute.name) && !found.some((one) => one.name === attribute.name)) found.push(attribute);
  };
  let at = from;
  for (;;) {
    at = match(BETWEEN_ATTRIBUTES, html, at);
    if (at >= html.length) return -1;
    if (html[at] === '>') return at + 1;
    const nameStart = at;
    // A name may start with `=`, and ends before the next one.
    at = match(ATTRIBUTE_NAME, html, at);
    const name = html.slice(nameStart, at).toLowerCase();
    const equals = match(SPACES, html, at);
    if (html[equals] !== '=') {
      note({ name, start: at, end: at, isQuoted: true });
      continue;
    }
    const start = match(SPACES, html, equals + 1);
    const quote = html[start];
    if (quote === '"' || quote === "'") {
      const end = html.indexOf(quote, start + 1);
      if (end === -1) return -1;
      note({ name, start: start + 1, end, isQuoted: true });
      at = end + 1;
    } else {
      at = match(UNQUOTED, html, start);
      note({ name, start, end: at, isQuoted: false });
    }
  }
}

function unseen(start: number, end: number): HtmlTag {
  return { name: '', isEnd: false, start, end, attributes: [] };
}

/** Yields every tag in order, with the requested attributes. */
export function* readTags(html: string, wanted: ReadonlySet<string>): Generator<HtmlTag, void, undefined> {
  for (let at = html.indexOf('<'); at !== -1 && at < html.length; at = html.indexOf('<', at)) {
    const next = html[at + 1] ?? '';
    const isEnd = next === '/';
    const nameStart = isEnd ? at + 2 : at + 1;
    if (/[a-z]/i.test(html[nameStart] ?? '')) {
      const nameEnd = match(TAG_NAME, html, nameStart);
      const name = html.slice(nameStart, nameEnd).toLowerCase();
      const attributes: HtmlAttribute[] = [];
      const end = readAttributes(html, nameEnd, { wanted, found: attributes });
      if (end === -1) {
        yield unseen(at, html.length);
        return;
      }
      yield { name, isEnd, start: at, end, attributes };
      at = end;
      if (!isEnd && name === 'plaintext') return;
      const rawEnd = isEnd ? undefined : RAW_TEXT.get(name);
      if (rawEnd !== undefined) at = indexOfEnd(html, rawEnd, at);
    } else if (next === '!' || next === '?' || (isEnd && nameStart < html.length)) {
      // `</>` is ignored; `<!…>`, `<?…>`, and `</ …>` are comments up to the next `>`.
      const close = html.indexOf('>', at + 2);
      const other = close === -1 ? html.length : close + 1;
      const end = html.startsWith('<!--', at) ? endOfComment(html, at) : other;
      yield unseen(at, end);
      at = end;
    } else at += 1;
  }
}

/** Returns the value of an attribute as a browser decodes it; undefined if the tag has none, or it was not requested. */
export function attributeOf(html: string, tag: HtmlTag, name: string): string | undefined {
  for (const one of tag.attributes) if (one.name === name) return decodeAttribute(html.slice(one.start, one.end));
  return undefined;
}

/** Returns the value that a browser decodes from this source text. */
export function decodeAttribute(written: string): string {
  return written.includes('&') ? decodeHTMLAttribute(written) : written;
}

/** Escapes text for a quoted attribute. */
export function escapeAttribute(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
