/**
 * Resolves the names of Handlebars and Mustachio, which depend on the enclosing blocks, to paths in Liquid, which start at the variables of
 * the send or of a loop.
 */
import { Unconvertible } from './expressions.ts';
import type { Language } from './tags.ts';

interface Loop {
  variable: string;
  /** Whether the loop iterates over the keys and values of an object. */
  isKeyed: boolean;
  indexName: string;
  /** Whether the body uses the index of this loop, for example in an inner loop. */
  needsIndex: boolean;
}

export interface Scope {
  /** The path of `this`; undefined for all variables of the send. */
  expression: string | undefined;
  parent: Scope | undefined;
  loop: Loop | undefined;
  /** The names of `as |item|` and their paths. */
  params: ReadonlyMap<string, string>;
}

export interface Resolved {
  expression: string;
  /** The last name of the path. */
  last: string;
  /** Whether the expression always has a value. */
  isPresent: boolean;
}

const NO_PARAMS: ReadonlyMap<string, string> = new Map();
const NAME = /^[A-Za-z_][\w-]*$/;
/** Words that are not names in Liquid. */
const RESERVED = new Set([
  'true',
  'false',
  'nil',
  'null',
  'undefined',
  'empty',
  'blank',
  'and',
  'or',
  'not',
  'contains',
]);

/** Returns the scope of all variables of the send. */
export function rootScope(): Scope {
  return { expression: undefined, parent: undefined, loop: undefined, params: NO_PARAMS };
}

/** Appends a name to a path. */
function joined(expression: string | undefined, segment: string): string {
  if (expression === undefined) {
    if (NAME.test(segment) && !RESERVED.has(segment) && segment !== 'forloop') return segment;
    throw new Unconvertible(`"${segment.slice(0, 60)}" is not a valid variable name in Liquid; rename the variable`);
  }
  if (/^\d+$/.test(segment)) return `${expression}[${segment}]`;
  if (NAME.test(segment)) return `${expression}.${segment === 'length' ? 'size' : segment}`;
  if (/["\\{}%\n]/.test(segment))
    throw new Unconvertible(`"${segment.slice(0, 60)}" is not a valid property name in Liquid; rename the property`);
  return `${expression}["${segment}"]`;
}

/** Returns the names of a path of Handlebars: `a.b`, `a/b`, `a.[b c]`. */
function segmentsOf(path: string): string[] {
  const segments: string[] = [];
  const pattern = /\[([^\]]*)\]|([^./[\]]+)|[./]/y;
  for (let at = 0; at < path.length; at = pattern.lastIndex) {
    pattern.lastIndex = at;
    const found = pattern.exec(path);
    if (found === null) throw new Unconvertible(`the path ${path.slice(0, 60)} is not valid; separate names with dots`);
    const segment = found[1] ?? found[2];
    if (segment !== undefined) segments.push(segment);
  }
  return segments;
}

export class Scopes {
  readonly #language: Language;
  /** The names that the source uses, which a loop must not hide. */
  readonly #usedNames: Set<string>;

  constructor(source: string, language: Language) {
    this.#language = language;
    const tags = source.match(/\{\{[^{}]*\}\}/g) ?? [];
    this.#usedNames = new Set(tags.flatMap((tag) => tag.match(/[A-Za-z_][\w-]*/g) ?? []));
  }

  /** Returns an unused name, based on `wish`. */
  newName(wish: string): string {
    let name = wish;
    for (let number = 2; this.#usedNames.has(name) || RESERVED.has(name); number += 1) name = `${wish}_${number}`;
    this.#usedNames.add(name);
    return name;
  }

  /** Returns the scope of a Mustachio section. Each name of its path adds a parent scope. */
  section(path: string, scope: Scope): Scope {
    let at = scope;
    let rest = path;
    while (rest.startsWith('../')) {
      at = at.parent ?? at;
      rest = rest.slice(3);
    }
    if (rest === '..') at = at.parent ?? at;
    else if (rest !== '.' && rest !== '') {
      if (!/^[\w./]+$/.test(rest) || rest.includes('/'))
        throw new Unconvertible('the path is not valid; separate names with dots');
      for (const segment of rest.split('.').filter((one) => one !== '')) {
        if (segment === 'this')
          throw new Unconvertible('Mustachio treats "this" as a variable name; write {{.}} instead');
        at = { expression: joined(at.expression, segment), parent: at, loop: at.loop, params: NO_PARAMS };
      }
    }
    return at;
  }

  resolve(path: string, scope: Scope): Resolved {
    if (this.#language === 'mustachio') {
      const { expression } = this.section(path, scope);
      if (expression === undefined)
        throw new Unconvertible('the tag prints all variables; print a single variable instead');
      return { expression, last: path.split(/[./]/).at(-1) ?? '', isPresent: false };
    }
    if (path.startsWith('@') && !path.startsWith('@root')) return this.#data(path, scope);
    let at: Scope | undefined = scope;
    let rest = path;
    const isRoot = /^@root(?:[./]|$)/.test(path);
    if (isRoot) {
      rest = path.slice('@root.'.length);
      at = rootScope();
    }
    while (rest === '..' || rest.startsWith('../')) {
      at = at.parent;
      if (at === undefined)
        throw new Unconvertible(`${path} refers to a level above the outermost block; write the name without ../`);
      rest = rest.slice(3);
    }
    const isOwn = /^(?:this|\.)(?:[./]|$)/.test(rest);
    const segments = segmentsOf(rest.replace(/^(?:this|\.)(?:[./]|$)/, ''));
    const param = isOwn || isRoot || rest !== path ? undefined : paramOf(segments[0], scope);
    let expression = param ?? at.expression;
    for (const segment of param === undefined ? segments : segments.slice(1)) expression = joined(expression, segment);
    if (expression === undefined)
      throw new Unconvertible('the tag prints all variables; print a single variable instead');
    return { expression, last: segments.at(-1) ?? '', isPresent: false };
  }

  /** Returns the value of `@index` and others in the loop that they belong to. */
  #data(path: string, scope: Scope): Resolved {
    const [, ups = '', name = ''] = /^@((?:\.\.\/)*)(\w+)$/.exec(path) ?? [];
    const levels = ups.length / 3;
    let at: Scope | undefined = scope;
    const nextLoop = (): Loop | undefined => {
      while (at !== undefined && at.loop === undefined) at = at.parent;
      return at?.loop;
    };
    let loop = nextLoop();
    for (let i = 0; i < levels && at !== undefined; i += 1) {
      at = at.parent;
      loop = nextLoop();
    }
    if (loop === undefined) throw new Unconvertible(`${path} can only be used in a loop; move it into {{#each}}`);
    const present = (expression: string): Resolved => ({ expression, last: '', isPresent: true });
    if (name === 'key') {
      if (levels > 0)
        throw new Unconvertible(
          `${path} is the key of an outer loop, which Liquid does not have; use @key in that loop`,
        );
      return present(`${loop.variable}[0]`);
    }
    if (name === 'index' && levels > 0) {
      loop.needsIndex = true;
      return present(loop.indexName);
    }
    if (levels > 0 || !['index', 'first', 'last'].includes(name))
      throw new Unconvertible(`Liquid has no equivalent of ${path}; compute the value before the send`);
    return present(`forloop.${name === 'index' ? 'index0' : name}`);
  }

  within(expression: string, parent: Scope, params: readonly string[]): Scope {
    const [name] = params;
    const named = name === undefined ? NO_PARAMS : new Map([[name, expression]]);
    return { expression, parent, loop: undefined, params: named };
  }

  loop(path: string, of: { expression: string; scope: Scope; params: readonly string[]; readsKeys: boolean }) {
    const [itemName, indexName] = of.params;
    const list = segmentsOf(path.replace(/^(?:\.\.\/)+/, '')).at(-1) ?? '';
    const variable = this.newName(itemName ?? singular(list));
    const own = this.newName(`index_of_${variable}`);
    const value = of.readsKeys ? `${variable}[1]` : variable;
    const params = new Map<string, string>();
    if (itemName !== undefined) params.set(itemName, value);
    if (indexName !== undefined) params.set(indexName, of.readsKeys ? `${variable}[0]` : own);
    const loop: Loop = { variable, isKeyed: of.readsKeys, indexName: own, needsIndex: indexName !== undefined };
    const scope: Scope = { expression: value, parent: of.scope, loop, params };
    return { variable, indexName: own, scope };
  }
}

function paramOf(name: string | undefined, scope: Scope): string | undefined {
  if (name === undefined) return undefined;
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
    const found = at.params.get(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns a name for an item of a list. */
function singular(list: string): string {
  if (!NAME.test(list)) return 'item';
  if (/[^aeiou]ies$/.test(list)) return `${list.slice(0, -3)}y`;
  return /[^su]s$/.test(list) ? list.slice(0, -1) : 'item';
}
