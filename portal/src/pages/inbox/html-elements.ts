/**
 * The tags, styles and text in the HTML of a message, as far as the checks need them. Read from the source, because a browser would repair
 * it. A single pass from left to right, so that malicious HTML cannot make it slow.
 */
export interface HtmlElement {
  name: string;
  attributes: ReadonlyMap<string, string>;
  /** The start of the source text. */
  source: string;
  isInBody: boolean;
}

export interface ScannedHtml {
  elements: readonly HtmlElement[];
  /** Declarations of style attributes and style elements, for example `display: flex`. */
  declarations: readonly string[];
  title: string;
  /** The visible text of the body, in one line. */
  words: string;
}

const SHOWN_CHARACTERS = 120;
const TAG_CHARACTERS = 20_000;
const ATTRIBUTE = /([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/g;
/** Elements with raw text content. */
const RAW = ['style', 'script', 'title'];

/** Returns the end of the tag that starts here; a `>` in quotes does not end it. */
function endOfTag(html: string, from: number): number {
  let quote = '';
  for (let at = from; at < html.length; at += 1) {
    const character = html[at]!;
    if (quote !== '') quote = character === quote ? '' : quote;
    else if (character === '>') return at;
    else if (character === '"' || character === "'") quote = character;
  }
  return -1;
}

function elementOf(source: string, isInBody: boolean): HtmlElement {
  const read = source.slice(0, TAG_CHARACTERS);
  const name = /^<([^\s/>]*)/.exec(read)![1]!;
  const found = read.slice(name.length + 1).matchAll(ATTRIBUTE);
  return {
    name: name.toLowerCase(),
    isInBody,
    attributes: new Map(
      [...found].map(([, key, double, single, bare]) => [key!.toLowerCase(), (double ?? single ?? bare ?? '').trim()]),
    ),
    source: source.length > SHOWN_CHARACTERS ? `${source.slice(0, SHOWN_CHARACTERS)}…` : source,
  };
}

function withoutComments(css: string): string {
  const [first = '', ...rest] = css.split('/*');
  return [first, ...rest.map((one) => one.split('*/').slice(1).join(' '))].join(' ');
}

function declarationsIn(css: readonly string[]): string[] {
  return withoutComments(css.join(';'))
    .split(/[;{}]/)
    .map((one) => one.trim())
    .filter((one) => one.includes(':') || one.startsWith('@'));
}

/** Returns the end of a comment, closing tag or doctype; -1 if it does not end. */
function endOfOther(html: string, at: number): number {
  if (html.startsWith('<!--', at)) {
    const end = html.indexOf('-->', at + 4);
    return end === -1 ? -1 : end + 2;
  }
  return html.indexOf('>', at);
}

export function scanHtml(html: string): ScannedHtml {
  const lower = html.toLowerCase();
  const [elements, words]: [HtmlElement[], string[]] = [[], []];
  const raw: Record<string, string[]> = { style: [], script: [], title: [] };
  let [at, isInBody] = [0, false];
  for (;;) {
    const next = html.indexOf('<', at);
    words.push(html.slice(at, next === -1 ? undefined : next));
    if (next === -1) break;
    const isElement = /[a-z]/.test(lower[next + 1] ?? '');
    if (!isElement && !/[/!?]/.test(lower[next + 1] ?? '')) {
      at = next + 1;
      continue;
    }
    const end = isElement ? endOfTag(html, next) : endOfOther(html, next);
    // Email clients drop an unterminated tag and everything after it.
    if (end === -1) break;
    at = end + 1;
    if (!isElement) continue;
    const element = elementOf(html.slice(next, at), isInBody);
    elements.push(element);
    isInBody ||= element.name === 'body';
    if (!RAW.includes(element.name)) continue;
    const close = lower.indexOf(`</${element.name}`, at);
    raw[element.name]!.push(html.slice(at, close === -1 ? undefined : close));
    at = close === -1 ? html.length : close;
  }
  const inline = elements.flatMap(({ attributes }) => attributes.get('style') ?? []);
  return {
    elements,
    declarations: declarationsIn([...raw.style!, ...inline]),
    title: raw.title!.join(' ').trim(),
    words: words.join(' ').split(/\s+/).join(' ').trim(),
  };
}
