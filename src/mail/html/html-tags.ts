/**
 * The tags of an html text with the places of their attributes, read as a browser reads them (WHATWG HTML §13.2.5). Builds
 * nothing and changes nothing. What stands between two of them is text; the insides of script, style and the like are never
 * taken for tags.
 */
import { decodeHTMLAttribute } from 'entities';

export interface HtmlAttribute {
  /** Lower case. */
  name: string;
  /** Where its value stands, without quotes; start and end are equal when it has none. */
  start: number;
  end: number;
  isQuoted: boolean;
}

export interface HtmlTag {
  /** Lower case; empty for comments, doctypes and a tag that the text ends within. */
  name: string;
  isEnd: boolean;
  /** From its `<` to behind its `>`. */
  start: number;
  end: number;
  /** Those asked for. */
  attributes: HtmlAttribute[];
}

/** Elements whose inside is text up to their end tag, also where it looks like tags, with that end. */
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

/** Index behind the comment whose `<!--` stands at `at`; the end of the text when it is not closed. */
function behindComment(html: string, at: number): number {
  // `<!-->` and `<!--->` are comments that are closed at once.
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

/** Reads the attributes from behind the name; the index behind `>`, or -1 when the text ends within the tag. */
function readAttributes(
  html: string,
  from: number,
  { wanted, found }: { wanted: ReadonlySet<string>; found: HtmlAttribute[] },
): number {
  // Of two attributes with one name the first counts.
  const note = (attribute: HtmlAttribute): void => {
    if (wanted.has(attribute.name) && !found.some((one) => one.name === attribute.name)) found.push(attribute);
  };
  let at = from;
  for (;;) {
    at = match(BETWEEN_ATTRIBUTES, html, at);
    if (at >= html.length) return -1;
    if (html[at] === '>') return at + 1;
    const nameStart = at;
    // A name may begin with `=`, and ends before the next one.
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

/** Every tag in its order, with those of its attributes that are wanted. */
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
      // `</>` is nothing at all; `<!…>`, `<?…>` and `</ …>` are comments up to the next `>`.
      const close = html.indexOf('>', at + 2);
      const other = close === -1 ? html.length : close + 1;
      const end = html.startsWith('<!--', at) ? behindComment(html, at) : other;
      yield unseen(at, end);
      at = end;
    } else at += 1;
  }
}

/** The value of an attribute, as a browser understands it; undefined where the tag has none, or it was not wanted. */
export function attributeOf(html: string, tag: HtmlTag, name: string): string | undefined {
  for (const one of tag.attributes) if (one.name === name) return decodeAttribute(html.slice(one.start, one.end));
  return undefined;
}

/** The value that a browser gives an attribute written like this. */
export function decodeAttribute(written: string): string {
  return written.includes('&') ? decodeHTMLAttribute(written) : written;
}

/** Text for the inside of a quoted attribute. */
export function escapeAttribute(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
