/**
 * The tags of an html text with the places of their attributes, read as a browser reads them (WHATWG HTML §13.2.5). Builds
 * nothing and changes nothing; text, comments, doctypes and the insides of script, style and the like are passed over.
 */

export interface HtmlAttribute {
  /** Lower case. */
  name: string;
  /** Where its value stands, without quotes; start and end are equal when it has none. */
  start: number;
  end: number;
  isQuoted: boolean;
}

export interface HtmlTag {
  /** Lower case. */
  name: string;
  isEnd: boolean;
  /** Where its `<` stands. */
  start: number;
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

/** Every tag in its order, with those of its attributes that are wanted. A tag that the text ends within is none. */
export function* readTags(html: string, wanted: ReadonlySet<string>): Generator<HtmlTag, void, undefined> {
  for (let at = html.indexOf('<'); at !== -1 && at < html.length; at = html.indexOf('<', at)) {
    const next = html[at + 1] ?? '';
    const isEnd = next === '/';
    const nameStart = isEnd ? at + 2 : at + 1;
    if (/[a-z]/i.test(html[nameStart] ?? '')) {
      const nameEnd = match(TAG_NAME, html, nameStart);
      const name = html.slice(nameStart, nameEnd).toLowerCase();
      const attributes: HtmlAttribute[] = [];
      const behind = readAttributes(html, nameEnd, { wanted, found: attributes });
      if (behind === -1) return;
      yield { name, isEnd, start: at, attributes };
      at = behind;
      if (!isEnd && name === 'plaintext') return;
      const rawEnd = isEnd ? undefined : RAW_TEXT.get(name);
      if (rawEnd !== undefined) at = indexOfEnd(html, rawEnd, at);
    } else if (html.startsWith('<!--', at)) at = behindComment(html, at);
    else if (next === '!' || next === '?' || (isEnd && nameStart < html.length)) {
      // `</>` is nothing at all; `<!…>`, `<?…>` and `</ …>` are comments up to the next `>`.
      const end = html.indexOf('>', at + 2);
      at = end === -1 ? html.length : end + 1;
    } else at += 1;
  }
}

const KNOWN: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00a0' };

/** Names that stand for a character without a semicolon too (WHATWG HTML §13.5), beside those we know. */
const LEGACY = new Set(
  `AElig AMP Aacute Acirc Agrave Aring Atilde Auml COPY Ccedil ETH Eacute Ecirc Egrave Euml GT Iacute Icirc Igrave Iuml LT
  Ntilde Oacute Ocirc Ograve Oslash Otilde Ouml QUOT REG THORN Uacute Ucirc Ugrave Uuml Yacute aacute acirc acute aelig
  agrave aring atilde auml brvbar ccedil cedil cent copy curren deg divide eacute ecirc egrave eth euml frac12 frac14
  frac34 iacute icirc iexcl igrave iquest iuml laquo macr micro middot not ntilde oacute ocirc ograve ordf ordm oslash
  otilde ouml para plusmn pound raquo reg sect shy sup1 sup2 sup3 szlig thorn times uacute ucirc ugrave uml uuml yacute
  yen yuml`.split(/\s+/),
);

/**
 * The value that a browser gives an attribute written like this; undefined when it holds a character reference that is not
 * among those we know.
 */
export function decodeAttribute(written: string): string | undefined {
  if (!written.includes('&')) return written;
  let isKnown = true;
  const value = written.replace(
    /&(?:#(?:[xX]([0-9a-fA-F]+)|(\d+));?|([A-Za-z][A-Za-z0-9]*)(;|=)?)/g,
    (
      whole,
      hex: string | undefined,
      decimal: string | undefined,
      name: string | undefined,
      after: string | undefined,
    ) => {
      if (name === undefined) {
        const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
        // Zero, controls of Windows-1252, surrogates and what is beyond Unicode follow rules of their own.
        if (
          code < 0x20 ||
          (code >= 0x7f && code <= 0x9f) ||
          (code >= 0xd800 && code <= 0xdfff) ||
          !(code <= 0x10ffff)
        ) {
          isKnown = false;
          return whole;
        }
        return String.fromCodePoint(code);
      }
      // In an attribute, a name without a semicolon that is followed by `=` stands for itself.
      if (after === '=') return whole;
      const known = Object.hasOwn(KNOWN, name) ? KNOWN[name] : undefined;
      if (known !== undefined) return known;
      if (after === ';' || LEGACY.has(name)) isKnown = false;
      return whole;
    },
  );
  return isKnown ? value : undefined;
}

/** Text for the inside of a quoted attribute. */
export function escapeAttribute(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
