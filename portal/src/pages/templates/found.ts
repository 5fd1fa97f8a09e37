/**
 * Guesses the variables that a text uses, without parsing it as the service does: for suggestions and fields, so a rare form of Liquid only
 * costs a suggestion. The preview of the service reports which variables are definitely missing.
 */
import type { Content, VariableType } from './content.ts';

export interface Found {
  /** For example order.number. */
  path: string;
  /** The likely type of the value, from its use. */
  type: VariableType;
}

const TAG = /\{\{-?([\s\S]*?)-?\}\}|\{%-?\s*(\w+)([\s\S]*?)-?%\}/g;
const UNREAD = /\{%-?\s*(raw|comment)\s*-?%\}[\s\S]*?\{%-?\s*end\1\s*-?%\}/g;
const STRINGS = /"[^"]*"|'[^']*'/g;
const PATH = /[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[\d{1,3}\])*/g;
const WORDS = new Set([
  'and',
  'or',
  'not',
  'contains',
  'in',
  'true',
  'false',
  'nil',
  'null',
  'empty',
  'blank',
  'limit',
  'offset',
  'reversed',
  'cols',
  'forloop',
  'tablerowloop',
]);
const ASKING = new Set(['if', 'unless', 'elsif']);

/** Set by the service or by the account, or the content of a layout. */
const ALWAYS = ['company_address_html', 'report_abuse_email_html', 'unsubscribe_email_html', 'content', 'content_html'];

export const rootOf = (path: string): string => /^[^.[]+/.exec(path)?.[0] ?? path;

/** Returns the paths in an expression, without strings, filters and argument names. */
function pathsOf(expression: string): string[] {
  const read = expression.replace(STRINGS, ' ').replace(/\|\s*\w+\s*:?/g, ' ');
  const paths = read.replace(/\b\w+\s*:(?!\w)/g, ' ').match(PATH) ?? [];
  return paths.filter((path) => !WORDS.has(rootOf(path)));
}

interface Reading {
  found: Map<string, VariableType>;
  /** Names defined by loops and assignments. */
  own: Set<string>;
}

function note({ found }: Reading, path: string, type: VariableType): void {
  const known = found.get(path);
  // A loop over a value says more about its type than an output; a condition says least.
  if (known === undefined || known === 'boolean' || type === 'array') found.set(path, type);
}

function readTag(reading: Reading, name: string, rest: string): void {
  if (name === 'for' || name === 'tablerow') {
    const [, variable = '', list = ''] = /^\s*([\w-]+)\s+in\s+([\s\S]*)$/.exec(rest) ?? [];
    const isRange = list.trim().startsWith('(');
    for (const [at, path] of pathsOf(list).entries()) note(reading, path, at === 0 && !isRange ? 'array' : 'number');
    reading.own.add(variable);
  } else if (name === 'assign' || name === 'capture') {
    const [, variable = '', value = ''] = /^\s*([\w-]+)\s*=?([\s\S]*)$/.exec(rest) ?? [];
    for (const path of pathsOf(value)) note(reading, path, 'string');
    reading.own.add(variable);
  } else if (ASKING.has(name)) {
    const isBare = !/[=<>]|contains/.test(rest);
    for (const path of pathsOf(rest)) note(reading, path, isBare ? 'boolean' : 'string');
  } else if (['case', 'when', 'echo', 'cycle'].includes(name)) {
    for (const path of pathsOf(rest)) note(reading, path, 'string');
  } else if (name === 'increment' || name === 'decrement') reading.own.add(rest.trim());
}

/** Returns paths in order of appearance; `given` are names that the account sets. */
export function pathsFound(
  { subject, mjml, html, text }: Pick<Content, 'subject' | 'mjml' | 'html' | 'text'>,
  given: readonly string[] = [],
): Found[] {
  const reading: Reading = { found: new Map(), own: new Set([...ALWAYS, ...given]) };
  for (const source of [subject, mjml ?? html, text])
    for (const [, output, tag = '', rest = ''] of source.replace(UNREAD, '').matchAll(TAG))
      if (output === undefined) readTag(reading, tag, rest);
      else for (const path of pathsOf(output)) note(reading, path, 'string');
  const paths = [...reading.found].filter(([path]) => !reading.own.has(rootOf(path)));
  // For an object with properties, only the properties are requested.
  return paths
    .filter(([path]) => !paths.some(([other]) => other.startsWith(`${path}.`)))
    .map(([path, type]) => ({ path, type }));
}

/** Returns the variables themselves: those with properties are objects. */
export function rootsFound(found: readonly Found[]): Found[] {
  const roots = new Map<string, VariableType>();
  for (const { path, type } of found) {
    const root = rootOf(path);
    roots.set(root, root === path ? type : path[root.length] === '[' ? 'array' : 'object');
  }
  return [...roots].map(([path, type]) => ({ path, type }));
}
