/**
 * Every filter there is, as rows: how its work grows, and what it may be given. bound-filters.ts charges and refuses by them. A
 * filter of Liquid that has no row here is not registered, and a test names it, so that a new version brings none that
 * nobody has looked at.
 *
 * Measured with hostile values of each kind: a unit (a character, times the weight) takes at most 0.1 µs, so that one call of a
 * filter, which cannot be interrupted, takes at most 20 ms. Without bounds `sort: list` of 90,000 took 147 s, `replace_last`
 * of 200,000 characters 5 s, and `where_exp` over a range of 4,900,000 22 s.
 */

/**
 * - `none`: one look, whatever the size.
 * - `text`: native code goes through the characters of all that is given, of lists too.
 * - `list`: native code goes through the items of a list, or the characters of a text.
 * - `steps`: a generator, which yields at each item: drive.ts charges it. The list is bounded as that of `list` is.
 */
type Growth = 'none' | 'text' | 'list' | 'steps';

export interface FilterRow {
  growth: Growth;
  /** Units of work of a character or item. */
  weight: number;
  /** How many arguments from the first are a name, a number, an expression, or a text to search for. */
  short: number;
  /** Whether an object, or a list of objects, is something else than text to it. All others would print it. */
  takesObjects: boolean;
}

function rows(growth: Growth, names: string, more: Partial<FilterRow> = {}): [string, FilterRow][] {
  const row = { growth, weight: 1, short: 0, takesObjects: growth === 'list' || growth === 'steps', ...more };
  return names.split(/\s+/).map((name) => [name, row]);
}

export const FILTERS: ReadonlyMap<string, FilterRow> = new Map([
  ...rows('none', 'default first last size raw', { takesObjects: true }),
  ...rows('none', 'escape xml_escape newline_to_br append prepend'),

  ...rows('text', 'abs at_least at_most ceil divided_by floor minus plus modulo times to_integer'),
  ...rows('text', 'round truncate truncatewords', { short: 1 }),
  ...rows(
    'text',
    'lstrip rstrip strip downcase upcase capitalize squish strip_newlines normalize_whitespace strip_html',
  ),
  ...rows('text', 'join array_to_sentence_string unescape url_decode base64_encode base64_decode sha256 hmac_sha256'),
  ...rows('text', 'split remove remove_first replace replace_first', { short: 1 }),
  // These search backwards, for a text of up to 200 characters at each place.
  ...rows('text', 'remove_last replace_last', { short: 1, weight: 8 }),
  ...rows('text', 'escape_once url_encode cgi_escape uri_escape slugify number_of_words', { weight: 2 }),
  ...rows('text', 'json jsonify inspect', { takesObjects: true }),
  // What is not in the source as a number makes Intl look it up.
  ...rows('text', 'date date_to_xmlschema date_to_rfc822 date_to_string date_to_long_string', { short: 2, weight: 20 }),

  ...rows('list', 'reverse compact concat push unshift pop shift uniq'),
  ...rows('list', 'slice', { short: 2 }),
  ...rows('list', 'sort sort_natural sum', { short: 1 }),
  ...rows('list', 'sample', { short: 1, weight: 16 }),

  ...rows('steps', 'map group_by find find_index has where reject', { short: 1 }),
  ...rows('steps', 'where_exp reject_exp group_by_exp has_exp find_exp find_index_exp', { short: 2 }),
]);
