/**
 * Macros of SPF records (RFC 7208 §7): parses macro strings and expands them. Letters that are only valid in explanations (c, r, t) are
 * accepted in unknown modifiers, whose values are only parsed, and nowhere else.
 */

/** Literal text, or a macro. */
export type MacroPart = string | Macro;

export interface Macro {
  /** In lower case. */
  letter: string;
  /** Whether the value is percent-encoded: the letter was in upper case. */
  isEscaped: boolean;
  /** How many parts to keep, from the right. */
  parts: number;
  isReversed: boolean;
  delimiters: string;
}

/** Values by letter. */
export type MacroValues = Readonly<Record<'s' | 'l' | 'o' | 'd' | 'i' | 'p' | 'v' | 'h', string>>;

const MACRO = /%(?:([%_-])|\{([a-z])([0-9]*)(r?)([-.+,/_=]*)\})/iy;
const LITERAL = /[!-$&-~]+/y;
const SPECIALS = new Map([
  ['%', '%'],
  ['_', ' '],
  ['-', '%20'],
]);
const LETTERS = 'slodiphv';
const EXPLANATION_LETTERS = 'crt';
const LABEL = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/i;
const MAX_LABEL = 63;
const MAX_NAME = 253;
/** Limit for the characters of an expanded macro string, which is far above the length of a name. */
const MAX_EXPANDED = 1024;

/** Returns the parts of a macro string; undefined if its syntax is invalid. */
export function parseMacroString(text: string, letters: string = LETTERS): MacroPart[] | undefined {
  const parts: MacroPart[] = [];
  for (let at = 0; at < text.length; ) {
    const pattern = text[at] === '%' ? MACRO : LITERAL;
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) return undefined;
    const part = pattern === LITERAL ? found[0] : macroPart(found, letters);
    if (part === undefined) return undefined;
    parts.push(part);
    at = pattern.lastIndex;
  }
  return parts;
}

function macroPart([, special, letter = '', digits, reverse, delimiters]: RegExpExecArray, letters: string) {
  if (special !== undefined) return SPECIALS.get(special)!;
  if (!letters.includes(letter.toLowerCase()) || (digits !== '' && Number(digits) === 0)) return undefined;
  return {
    letter: letter.toLowerCase(),
    isEscaped: letter !== letter.toLowerCase(),
    parts: digits === '' ? Number.POSITIVE_INFINITY : Number(digits),
    isReversed: reverse !== '',
    delimiters: delimiters || '.',
  };
}

/** Returns whether the value of an unknown modifier is valid. */
export function isMacroString(text: string): boolean {
  return parseMacroString(text, LETTERS + EXPLANATION_LETTERS) !== undefined;
}

/** Returns whether a label can be the last one of a domain (RFC 7208 §7.1, `toplabel`). */
function isTopLabel(label: string): boolean {
  return label.length <= MAX_LABEL && LABEL.test(label) && /[^0-9]/.test(label);
}

/** Returns the parts of a domain-spec, which ends in a macro or in a top label; undefined if its syntax is invalid. */
export function parseDomainSpec(text: string): MacroPart[] | undefined {
  const parts = parseMacroString(text);
  const last = parts?.at(-1);
  if (last === undefined) return undefined;
  // Only %%, %_, and %- expand to text with these characters.
  if (typeof last !== 'string' || /[% ]/.test(last)) return parts;
  const literal = last.replace(/\.$/, '');
  const dot = literal.lastIndexOf('.');
  return dot >= 0 && isTopLabel(literal.slice(dot + 1)) ? parts : undefined;
}

/** Returns whether a macro string uses one of these letters. */
export function usesLetter(parts: readonly MacroPart[], letters: string): boolean {
  return parts.some((part) => typeof part !== 'string' && letters.includes(part.letter));
}

/** Expands a macro string (§7.3). Returns undefined if the text is too long to be meant as a name. */
export function expandMacros(parts: readonly MacroPart[], values: MacroValues): string | undefined {
  let text = '';
  for (const part of parts) {
    text += typeof part === 'string' ? part : expandMacro(part, values);
    if (text.length > MAX_EXPANDED) return undefined;
  }
  return text;
}

function expandMacro({ letter, isEscaped, parts, isReversed, delimiters }: Macro, values: MacroValues): string {
  const pieces: string[] = [''];
  for (const character of values[letter as keyof MacroValues]) {
    if (delimiters.includes(character)) pieces.push('');
    else pieces[pieces.length - 1] += character;
  }
  if (isReversed) pieces.reverse();
  const text = pieces.slice(Math.max(0, pieces.length - parts)).join('.');
  return isEscaped ? percentEncoded(text) : text;
}

/** Encodes every byte that is not unreserved (RFC 3986 §2.3). */
function percentEncoded(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Returns an expanded name without its final dot, shortened from the left to 253 characters by entire labels (§7.3). */
export function queryName(expanded: string): string {
  let name = expanded.replace(/\.$/, '');
  while (name.length > MAX_NAME && name.includes('.')) name = name.slice(name.indexOf('.') + 1);
  return name;
}

/** Returns whether a name can be queried: at least two labels of 1 to 63 ASCII characters, the last one a top label. */
export function isQueryName(name: string): boolean {
  const labels = name.split('.');
  return (
    name.length <= MAX_NAME &&
    labels.length > 1 &&
    labels.every((label) => /^[ -~]{1,63}$/.test(label)) &&
    isTopLabel(labels.at(-1)!)
  );
}
