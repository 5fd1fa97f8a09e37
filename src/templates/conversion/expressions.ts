/** Parses the expressions of Handlebars tags: paths, literals, and calls of helpers, `(helper a b name=c)`. */

export type Expression =
  | { type: 'path'; path: string }
  | { type: 'literal'; value: string | number | boolean | null }
  | { type: 'call'; name: string; args: Expression[]; named: ReadonlyMap<string, Expression> };

/** Thrown for a construct without an equivalent in Liquid. The message explains the problem and the fix. */
export class Unconvertible extends Error {}

interface Head {
  args: Expression[];
  named: Map<string, Expression>;
  /** The names in `as |item index|`. */
  params: string[];
}

const MAX_DEPTH = 20;
const LITERALS: Readonly<Record<string, boolean | null>> = { true: true, false: false, null: null, undefined: null };
const TOKEN =
  /\s*(?:([()])|as\s+\|([^|]*)\||"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s()=|"'[\]]+)=|((?:[^\s()=|"'[\]]|\[[^\]]*\])+))/y;

/** Returns the arguments of a tag. Throws Unconvertible if they cannot be read. */
export function readExpressions(source: string): Head {
  const root: Head = { args: [], named: new Map(), params: [] };
  const open: Head[] = [root];
  let name: string | undefined;
  const add = (value: Expression): void => {
    const head = open.at(-1)!;
    if (name === undefined) head.args.push(value);
    else head.named.set(name, value);
    name = undefined;
  };
  const names: (string | undefined)[] = [];
  const text = source.trim();
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const found = TOKEN.exec(text);
    if (found === null) throw new Unconvertible('the arguments cannot be parsed; check the quotes and parentheses');
    const [, parenthesis, params, double, single, named, word] = found;
    if (parenthesis === '(') {
      if (open.length > MAX_DEPTH)
        throw new Unconvertible(
          `the arguments are nested deeper than ${MAX_DEPTH} levels; compute the value before the send`,
        );
      open.push({ args: [], named: new Map(), params: [] });
      names.push(name);
      name = undefined;
    } else if (parenthesis === ')') {
      const { args, named: given } = open.pop()!;
      const [helper, ...rest] = args;
      if (open.length === 0 || helper?.type !== 'path') throw new Unconvertible('the parentheses do not match');
      name = names.pop();
      add({ type: 'call', name: helper.path, args: rest, named: given });
    } else if (params !== undefined) root.params.push(...params.trim().split(/\s+/));
    else if (named !== undefined) name = named;
    else if (word !== undefined) add(wordOf(word));
    else add({ type: 'literal', value: (double ?? single ?? '').replace(/\\(["'])/g, '$1') });
  }
  if (open.length > 1) throw new Unconvertible('the parentheses do not match');
  return root;
}

function wordOf(word: string): Expression {
  if (Object.hasOwn(LITERALS, word)) return { type: 'literal', value: LITERALS[word]! };
  if (/^-?\d+(?:\.\d+)?$/.test(word)) return { type: 'literal', value: Number(word) };
  return { type: 'path', path: word };
}

/** Returns the value as a Liquid literal. */
export function literalInLiquid(value: string | number | boolean | null): string {
  if (value === null) return 'nil';
  if (typeof value !== 'string') return String(value);
  const escaped = value.replace(/[\\"\n\r{}%]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return `"${escaped}"`;
}

/** Formats of Moment.js and their counterparts in strftime. Longer ones are first. */
const DATE_FORMATS: readonly (readonly [token: string, directive: string])[] = [
  ['YYYY', '%Y'],
  ['YY', '%y'],
  ['MMMM', '%B'],
  ['MMM', '%b'],
  ['MM', '%m'],
  ['M', '%-m'],
  ['DDDD', '%j'],
  ['DD', '%d'],
  ['Do', '%-d%q'],
  ['D', '%-d'],
  ['dddd', '%A'],
  ['ddd', '%a'],
  ['HH', '%H'],
  ['H', '%-H'],
  ['hh', '%I'],
  ['h', '%-I'],
  ['mm', '%M'],
  ['ss', '%S'],
  ['SSS', '%L'],
  ['A', '%p'],
  ['a', '%P'],
  ['ZZ', '%z'],
  ['X', '%s'],
];

/** Returns a date format of Moment.js for Liquid's filter `date`. */
export function dateFormat(format: string): string {
  let converted = '';
  for (let at = 0; at < format.length; ) {
    const literal = /^\[([^\]]*)\]/.exec(format.slice(at, at + 200));
    const token = DATE_FORMATS.find(([name]) => format.startsWith(name, at));
    if (literal) {
      converted += literal[1]!.replaceAll('%', '%%');
      at += literal[0].length;
    } else if (token) {
      converted += token[1];
      at += token[0].length;
    } else if (/[A-Za-z]/.test(format[at]!)) {
      throw new Unconvertible(
        `the date format "${format}" contains ${format[at]}, which has no equivalent in Liquid; use another format`,
      );
    } else {
      converted += format[at] === '%' ? '%%' : format[at]!;
      at += 1;
    }
  }
  return converted;
}
