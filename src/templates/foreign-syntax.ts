/**
 * Explains what an invalid tag probably means: syntax of Handlebars, Mustache, Jinja, Twig, Go, or JavaScript, and what rich-text editors
 * do to tags. The first row whose pattern matches the tag gives the hint. A tag without a hint keeps the message of the Liquid parser.
 */

interface Hint {
  /** Matched against the tag, delimiters included. */
  pattern: RegExp;
  /** Completes the sentence "… is not a valid template: ". */
  hint: string;
}

const QUOTED = /"[^"]*"|'[^']*'/g;

const ENTITIES: Readonly<Record<string, string>> = {
  gt: '>',
  lt: '<',
  amp: '&',
  quot: '"',
  '#34': '"',
  '#39': "'",
  nbsp: 'a space',
  '#160': 'a space',
};

/** Rich-text editors and office programs replace straight quotation marks with these. */
const TYPOGRAPHIC_QUOTES = /[“”„‟«»‘’‚‛]/;

const NO_PARTIALS =
  'a template cannot include another one; store the shared part as a layout and name it in layoutTemplateId';

/** Matched against a tag without the contents of its strings. */
const HINTS: readonly Hint[] = [
  { pattern: TYPOGRAPHIC_QUOTES, hint: 'it has typographic quotation marks; write straight ones, " or \'' },
  {
    pattern: /<\/?[a-zA-Z][^>]*>/,
    hint: 'it has an HTML element inside the tag, often made by an editor; remove the element',
  },
  { pattern: /^\{\{\{/, hint: '{{{ name }}} is Handlebars syntax; write {{ name | raw }}' },
  { pattern: /^\{\{[-~]?\s*#\s*if\b/, hint: '{{#if}} is Handlebars syntax; write {% if name %} … {% endif %}' },
  {
    pattern: /^\{\{[-~]?\s*#\s*unless\b/,
    hint: '{{#unless}} is Handlebars syntax; write {% unless name %} … {% endunless %}',
  },
  {
    pattern: /^\{\{[-~]?\s*#\s*each\b/,
    hint: '{{#each}} is Handlebars syntax; write {% for item in list %} … {% endfor %}',
  },
  {
    pattern: /^\{\{[-~]?\s*#\s*with\b/,
    hint: '{{#with}} is Handlebars syntax; write the path in each place, {{ order.id }}',
  },
  {
    pattern: /^\{\{[-~]?\s*#/,
    hint: '{{#name}} is Mustache syntax; write {% if name %} … {% endif %}, or {% for item in name %} … {% endfor %}',
  },
  {
    pattern: /^\{\{[-~]?\s*\//,
    hint: '{{/…}} is Handlebars syntax; write {% endif %}, {% endunless %} or {% endfor %}',
  },
  {
    pattern: /^\{\{[-~]?\s*\^/,
    hint: '{{^name}} is Mustache syntax; write {% unless name %} … {% endunless %}, or {% else %}',
  },
  { pattern: /^\{\{[-~]?\s*else\b/, hint: '{{else}} is Handlebars syntax; write {% else %} or {% elsif name %}' },
  { pattern: /^\{\{[-~]?\s*>/, hint: `{{> name}} is Handlebars syntax; ${NO_PARTIALS}` },
  { pattern: /^\{\{[-~]?\s*!/, hint: '{{! … }} is Handlebars syntax; write {% comment %} … {% endcomment %}' },
  { pattern: /^\{\{[-~]?\s*&(?!#?\w+;)/, hint: '{{& name}} is Mustache syntax; write {{ name | raw }}' },
  {
    pattern: /^\{\{[-~]?\s*(?:if|range|with|end|define|block|template)\b/,
    hint: 'it is syntax of Go templates; write {% if name %} … {% endif %}, or {% for item in list %} … {% endfor %}',
  },
  { pattern: /@index\b/, hint: '@index is Handlebars syntax; write forloop.index0' },
  {
    pattern: /@(?:first|last|key)\b/,
    hint: '@first and @last are Handlebars syntax; write forloop.first or forloop.last',
  },
  { pattern: /\.\.\//, hint: '../name is Handlebars syntax; every name can be read inside of a loop, write name' },
  { pattern: /\$\w/, hint: 'names have no $ in Liquid; write the name alone' },
  { pattern: /===|!==/, hint: 'write == or != instead of === or !==' },
  { pattern: /\|\|/, hint: 'write or instead of || in a condition, and | default: "…" in an output' },
  { pattern: /&&/, hint: 'write and instead of &&' },
  { pattern: /\?\?/, hint: 'write | default: "…" instead of ??' },
  { pattern: /\?[^.].*:/, hint: 'Liquid has no ? : operator; write {% if name %} … {% else %} … {% endif %}' },
  {
    pattern: /(?:^\{%-?\s*(?:if|elsif|unless)\b|\b(?:and|or)\b)\s*!/,
    hint: 'write {% unless name %}, or not name, instead of !name',
  },
  { pattern: /^\{%-?\s*(?:if|elsif|unless)\b[^=!<>]*[^=!<>]=[^=]/, hint: 'write == to compare' },
  {
    pattern: /^\{%-?\s*(?:if|elsif|unless)\b.*\bis\s+(?:not\s+)?(?:defined|none|null)\b/,
    hint: 'write {% if name %}, or name == nil',
  },
  {
    pattern: /^\{%-?\s*(?:if|elsif|unless)\b.*\b(?:not\s+)?in\b/,
    hint: 'write list contains item instead of item in list',
  },
  {
    pattern: /^\{%-?\s*(?:if|elsif|unless)\b.*\(/,
    hint: 'conditions have no parentheses in Liquid; nest {% if %} tags, or {% assign %} a part first',
  },
  { pattern: /^\{%-?\s*(?:if|elsif|unless)\b.*\s(?:eq|ne|gt|lt|gte|lte)\s/, hint: 'write ==, !=, >, <, >= or <=' },
  { pattern: /^\{%-?\s*(?:if|elsif|unless)\b.*<>/, hint: 'write != instead of <>' },
  { pattern: /^\{%-?\s*for\s+\S+\s+of\b/, hint: 'write {% for item in list %}' },
  {
    pattern: /^\{%-?\s*for\s+\w+\s*,/,
    hint: 'a loop has one variable; write {% for item in list %} and item[0], item[1] for the members of an object',
  },
  { pattern: /\|\s*\w+\s*\(/, hint: 'a filter takes its arguments after a colon; write {{ name | filter: 1, "two" }}' },
  { pattern: /\w\s*\(/, hint: 'Liquid has no functions; write a filter, {{ name | filter: 1 }}' },
  { pattern: /~/, hint: 'write | append: other instead of ~' },
  { pattern: /\s\+\s/, hint: 'write | plus: 1 for numbers, or | append: other for text, instead of +' },
  { pattern: /\s-\s/, hint: 'write | minus: 1 instead of -' },
  { pattern: /\s\*\s/, hint: 'write | times: 2 instead of *' },
  { pattern: /\s\/\s/, hint: 'write | divided_by: 2 instead of /' },
  { pattern: /\s%\s/, hint: 'write | modulo: 2 instead of %' },
  { pattern: /\s\.\s/, hint: 'write | append: other instead of a dot between texts' },
  { pattern: /;/, hint: 'remove the semicolon' },
  { pattern: /^\{\{[^|]*[^=!<>]=[^=]/, hint: 'an output cannot assign; write {% assign name = value %}' },
  { pattern: /^\{\{-?\s*-?\}\}$/, hint: 'it has no name between {{ and }}' },
  { pattern: /^\{%-?\s*-?%\}$/, hint: 'it has no tag between {% and %}' },
  {
    pattern: /^\{\{-?\s*\w+(?:\.\w+)*\s+\w/,
    hint: 'it has several names; a name has no spaces, and a filter follows |',
  },
];

/** Replacements for tags of other languages, by name. */
const TAGS: Readonly<Record<string, string>> = {
  elif: 'write {% elsif … %}',
  elseif: 'write {% elsif … %}',
  set: 'write {% assign name = value %}',
  let: 'write {% assign name = value %}',
  foreach: 'write {% for item in list %} … {% endfor %}',
  each: 'write {% for item in list %} … {% endfor %}',
  endforeach: 'write {% endfor %}',
  endeach: 'write {% endfor %}',
  switch: 'write {% case name %} {% when "value" %} … {% endcase %}',
  end: 'write {% endif %} or {% endfor %}, the end of the tag that it closes',
  include: NO_PARTIALS,
  render: NO_PARTIALS,
  extends: NO_PARTIALS,
  layout: NO_PARTIALS,
  block: NO_PARTIALS,
  endblock: NO_PARTIALS,
  import: NO_PARTIALS,
  from: NO_PARTIALS,
  macro: 'Liquid has no macros; repeat the content, or loop over a list',
  increment: 'write {% assign name = name | plus: 1 %}',
  decrement: 'write {% assign name = name | minus: 1 %}',
  autoescape: 'HTML is always escaped; remove the tag, and write {{ name | raw }} if the value is HTML',
  verbatim: 'write {% raw %} … {% endraw %}',
  trans: 'Liquid has no translations; store a template for each language',
  blocktrans: 'Liquid has no translations; store a template for each language',
  now: 'write {{ "now" | date: "%Y-%m-%d" }}',
};

const FILTERS: Readonly<Record<string, string>> = {
  upper: 'upcase',
  uppercase: 'upcase',
  lower: 'downcase',
  lowercase: 'downcase',
  title: 'capitalize',
  trim: 'strip',
  length: 'size',
  count: 'size',
  striptags: 'strip_html',
  nl2br: 'newline_to_br',
  linebreaksbr: 'newline_to_br',
  safe: 'raw',
  html_safe: 'raw',
  tojson: 'json',
  json_encode: 'json',
  url_encode_all: 'url_encode',
  urlencode: 'url_encode',
  format_date: 'date',
  formatDate: 'date',
  number_format: 'round',
  unique: 'uniq',
  default_if_none: 'default',
};

/** Filters that another language needs and Liquid does not. */
const UNNECESSARY_FILTERS = new Set(['e', 'h', 'escapejs', 'autoescape']);

const MAX_SHOWN = 60;
/** Longer tags are compared by their start: the time of some patterns grows with the square of the length. */
const MAX_COMPARED = 1_000;

/** Returns the tag as messages show it. */
export function shownTag(tag: string): string {
  return tag.length <= MAX_SHOWN ? tag : `${tag.slice(0, MAX_SHOWN).toWellFormed()}…`;
}

/** Returns a tag from its opening delimiter to its end, or to the end of the line if it is not closed. */
export function tagAt(source: string, at: number): string {
  const isOutput = source.startsWith('{{', at);
  const end = source.indexOf(isOutput ? '}}' : '%}', at + 2);
  const line = source.indexOf('\n', at);
  if (end !== -1) return source.slice(at, source[end + 2] === '}' && isOutput ? end + 3 : end + 2);
  return source.slice(at, line === -1 ? undefined : line);
}

/** Returns the text of a name that a template chose, which may be that of an inherited property, such as `constructor`. */
function ownText(texts: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(texts, name) ? texts[name] : undefined;
}

function entityHint(tag: string): string | undefined {
  const [entity, name = ''] = /&(#?\w+);/.exec(tag) ?? [];
  if (entity === undefined) return undefined;
  const meant = ownText(ENTITIES, name);
  return `it has the HTML entity ${entity} inside the tag; write ${meant ?? 'the character itself'}`;
}

/** Returns what to write instead of the tag, as the rest of a sentence; undefined if no row matches. `message` is the parser's. */
export function foreignSyntaxHint(source: string, message: string): string | undefined {
  const tag = source.slice(0, MAX_COMPARED);
  const entity = entityHint(tag);
  if (entity !== undefined) return entity;
  const filter = /^undefined filter: (\S+)/.exec(message)?.[1];
  if (filter !== undefined) {
    if (UNNECESSARY_FILTERS.has(filter)) return `there is no filter ${filter}; HTML is always escaped, remove it`;
    const known = ownText(FILTERS, filter);
    return `there is no filter ${filter}${known === undefined ? '; docs/guides/templates.md lists the filters' : `; write ${known}`}`;
  }
  const name = /^tag "([^"]*)" not found/.exec(message)?.[1];
  if (name !== undefined) return unknownTagHint(name, tag);
  if (/^unexpected "if\b/.test(message)) return 'write {% elsif … %} instead of {% else if … %}';
  const bare = tag.replaceAll(QUOTED, '""');
  return HINTS.find(({ pattern }) => pattern.test(bare))?.hint;
}

/** Returns whether a tag has typographic quotation marks that Liquid would read as part of a name. */
export function hasTypographicQuotes(tag: string): boolean {
  return TYPOGRAPHIC_QUOTES.test(tag) && TYPOGRAPHIC_QUOTES.test(tag.replaceAll(QUOTED, '""'));
}

function unknownTagHint(name: string, tag: string): string {
  if (/^\{%-?\s*else\s+if\b/.test(tag)) return 'write {% elsif … %}';
  const hint = ownText(TAGS, name);
  if (hint !== undefined) return `there is no tag ${name}; ${hint}`;
  if (name === 'else' || name === 'elsif' || name === 'when')
    return `{% ${name} %} is outside of {% if %} or {% case %}`;
  if (name.startsWith('end')) return `{% ${name} %} closes nothing here; another tag is open, or none`;
  if (name !== name.toLowerCase()) return `write tags in lower case: ${name.toLowerCase()}`;
  return `there is no tag ${name}; docs/guides/templates.md lists the tags`;
}
