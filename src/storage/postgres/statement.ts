/**
 * Statements as PostgreSQL wants them: `?` becomes `$1`, `$2` …, once per text. What is used again and again is prepared
 * on the server under a name; texts that are put together for one question (the filters of a list) stay unnamed, so
 * that the memory of the server does not grow with their number.
 */

export interface Statement {
  text: string;
  /** The name to prepare it under, from its third use on. */
  name: string | undefined;
}

interface Known {
  text: string;
  uses: number;
  named: Statement | undefined;
}

const KNOWN_AT_MOST = 1_000;
const NAMED_AT_MOST = 250;
const NAME_FROM_USE = 3;

const known = new Map<string, Known>();
let names = 0;

/** Translates a statement; literals and quoted names keep their question marks. */
export function translate(sql: string): string {
  let text = '';
  let parameters = 0;
  let quote = '';
  for (const character of sql) {
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if (character === "'" || character === '"') quote = character;
    else if (character === '?') {
      parameters += 1;
      text += `$${parameters}`;
      continue;
    }
    text += character;
  }
  return text;
}

export function statementOf(sql: string): Statement {
  let found = known.get(sql);
  if (!found) {
    found = { text: translate(sql), uses: 0, named: undefined };
    if (known.size < KNOWN_AT_MOST) known.set(sql, found);
  }
  if (found.named) return found.named;
  found.uses += 1;
  if (found.uses >= NAME_FROM_USE && names < NAMED_AT_MOST) {
    names += 1;
    found.named = { text: found.text, name: `postrider_${names}` };
    return found.named;
  }
  return { text: found.text, name: undefined };
}
