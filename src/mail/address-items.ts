/**
 * Splits the text of an address field before its addresses are parsed: comments (RFC 5322 §3.2.2) and the elements of a list. Takes time
 * linear in the text.
 */

/** Stands for a removed comment. It occurs in no text, because texts with control characters are refused first. */
export const MARK = '\u0001';

export interface Uncommented {
  /** With a mark for each comment. */
  text: string;
  /** Without the parentheses around them. */
  comments: string[];
}

/** Removes the comments (RFC 5322 §3.2.2), which may be nested; returns undefined if one is not closed. */
export function withoutComments(text: string): Uncommented | undefined {
  const comments: string[] = [];
  let rest = '';
  let from = 0;
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i];
    if (c === '\\' && (quoted || depth > 0)) i += 1;
    else if (c === '"' && depth === 0) quoted = !quoted;
    else if (quoted) continue;
    else if (c === '(') {
      if (depth === 0) {
        rest += `${text.slice(from, i)}${MARK}`;
        from = i + 1;
      }
      depth += 1;
    } else if (c === ')' && depth > 0) {
      depth -= 1;
      if (depth > 0) continue;
      comments.push(
        text
          .slice(from, i)
          .replace(/\\(.)/gsu, '$1')
          .replace(/[ \t]+/g, ' ')
          .trim(),
      );
      from = i + 1;
    }
  }
  return depth > 0 ? undefined : { text: rest + text.slice(from), comments };
}

/** Returns whether every comment is closed; if one is not, parentheses are ordinary characters. */
function hasComments(text: string): boolean {
  return text.includes('(') && withoutComments(text) !== undefined;
}

/** Yields the items one by one, so that only those that are read are split off. Commas in quotes and comments do not separate. */
export function* listItems(text: string): Generator<string> {
  const mayComment = hasComments(text);
  let start = 0;
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i += 1) {
    const c = text.charCodeAt(i);
    if (c === 0x22 && depth === 0) quoted = !quoted;
    else if (c === 0x5c && (quoted || depth > 0)) i += 1;
    else if (quoted) continue;
    else if (c === 0x28 && mayComment) depth += 1;
    else if (c === 0x29 && depth > 0) depth -= 1;
    else if (c === 0x2c && depth === 0) {
      yield text.slice(start, i);
      start = i + 1;
    }
  }
  yield text.slice(start);
}

/** Returns why a text with commas outside of quotes and comments is not one mailbox. */
export function severalIssue(text: string): string | undefined {
  const items = [...listItems(text)].filter((item) => item.trim() !== '');
  if (items.length < 2) return undefined;
  const addresses = items.filter((item) => item.includes('@')).length;
  return addresses < 2
    ? 'has a comma in its display name; put the display name in double quotes'
    : `has ${addresses} addresses; use only one`;
}
