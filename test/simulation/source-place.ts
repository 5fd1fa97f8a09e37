/** Finds a piece of source text by its tokens, so formatting does not matter. */

function escaped(token: string): string {
  return token.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/** Matches the tokens of `text` with any white space between them. */
export function placePattern(text: string): RegExp {
  const tokens = text.trim().match(/[\w$]+|\s+|[^\w$\s]/g) ?? [];
  const pattern = tokens.map((token, index) => {
    if (!/^\s/.test(token)) return `${index === 0 || /^\s/.test(tokens[index - 1]!) ? '' : '\\s*'}${escaped(token)}`;
    const isBetweenWords = /[\w$]$/.test(tokens[index - 1]!) && /^[\w$]/.test(tokens[index + 1]!);
    return isBetweenWords ? '\\s+' : '\\s*';
  });
  return new RegExp(pattern.join(''), 'g');
}

/** Returns how often the tokens of `text` occur in `source`. */
export function placesOf(source: string, text: string): number {
  return [...source.matchAll(placePattern(text))].length;
}
