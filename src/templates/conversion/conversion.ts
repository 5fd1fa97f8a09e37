/**
 * Converts templates of other services to Liquid: Handlebars (SendGrid, Mailgun, SES), Mustachio (Postmark), and Resend variables.
 *
 * The result renders the same text from the same values. A construct without a counterpart in Liquid stays in the result as literal text
 * and is listed in `checks`; someone must change such a template before it can be sent. Constructs that were converted but may behave
 * differently are also listed.
 *
 * Handlebars treats "", 0, and empty lists as false, and prints nothing for a variable without a value. Liquid does neither, so converted
 * conditions contain comparisons, and converted outputs have an empty default. SES and Resend reject a send that lacks a value, as
 * Postrider does, so their outputs need no default.
 */
import { dateFormat, type Expression, literalInLiquid, readExpressions, Unconvertible } from './expressions.ts';
import { literalInLiquidSource, toLiquid } from './resend.ts';
import { type Resolved, rootScope, type Scope, Scopes } from './scopes.ts';
import { type Block, ConversionError, lineCounter, type Node, parseTags, type Tag } from './tags.ts';

export { ConversionError } from './tags.ts';

export type Dialect = 'sendgrid' | 'mailgun' | 'ses' | 'postmark' | 'resend';

/** A construct that a person must check. */
export interface Check {
  line: number;
  /** The source of the construct. */
  what: string;
  /** Explains the problem or the change. It is displayed after the construct and a colon. */
  why: string;
  /** If false, the construct is literal text in the result, so the template cannot be sent. */
  isConverted: boolean;
}

export interface Conversion {
  source: string;
  checks: Check[];
}

const MAX_SHOWN = 80;
const MAX_UNCONVERTED = 100;

const UNSUBSCRIBE = '{{ unsubscribe_email_html }}';
const UNSUBSCRIBE_NAMES: Readonly<Record<Dialect, readonly string[]>> = {
  sendgrid: ['unsubscribe', 'unsubscribe_preferences'],
  mailgun: [],
  ses: ['amazonSESUnsubscribeUrl'],
  postmark: ['pm:unsubscribe', 'pm:unsubscribe_url'],
  resend: [],
};

/** These services also recognize variables outside of braces. */
const IN_TEXT: Readonly<Partial<Record<Dialect, RegExp>>> = {
  sendgrid: /<%\s?\w{1,60}\s?%>|\[unsubscribe\]/gi,
  mailgun: /%(?:tag_|mailing_list_)?unsubscribe_\w{1,20}%|%recipient\.\w{1,60}%|%recipient%/g,
};

const COMPARISONS: Readonly<Record<string, string>> = {
  equals: '==',
  equal: '==',
  eq: '==',
  notEquals: '!=',
  greaterThan: '>',
  lessThan: '<',
};
const CONDITIONS = new Set([...Object.keys(COMPARISONS), 'and', 'or']);

/** A condition consists of tags that must precede it and an expression that only uses `and`, so it can be part of another condition. */
interface Condition {
  before: string;
  expression: string;
}

/** `unescaped html` inserts values into HTML unescaped, as SES does. By default they are escaped, as everywhere in Postrider. */
export type PartKind = 'html' | 'text' | 'unescaped html';

/**
 * Converts a part of a template. Throws a ConversionError if the source cannot be parsed, for example because a block is not closed.
 */
export function convertTemplate(source: string, dialect: Dialect, kind: PartKind): Conversion {
  if (dialect === 'resend') return convertResend(source, kind === 'text' ? 'text' : 'html');
  const language = dialect === 'postmark' ? 'mustachio' : 'handlebars';
  const nodes = parseTags(source, language);
  return new Converter(source, dialect, kind).convert(nodes);
}

function convertResend(source: string, kind: 'html' | 'text'): Conversion {
  const checks: Check[] = [];
  const lineOf = lineCounter(source);
  for (const found of source.matchAll(/\{\{\{[^{}]{0,200}\}\}\}|\{\{[^{}]{0,200}\}\}/g)) {
    const [what] = found;
    if (toLiquid(what, kind).includes('{% raw %}')) {
      const why = 'Resend prints this as text, because it is not a variable; remove it, or write {{ name }}';
      checks.push({ line: lineOf(found.index), what: what.slice(0, MAX_SHOWN), why, isConverted: false });
    }
  }
  return { source: toLiquid(source, kind), checks };
}

class Converter {
  readonly #source: string;
  readonly #dialect: Dialect;
  readonly #kind: PartKind;
  readonly #isMustachio: boolean;
  readonly #scopes: Scopes;
  readonly #checks: Check[] = [];
  /** The line of the tag that is converted. */
  #line = 1;
  #unconverted = 0;
  #firstEscapedLine: number | undefined = undefined;

  constructor(source: string, dialect: Dialect, kind: PartKind) {
    this.#source = source;
    this.#dialect = dialect;
    this.#kind = kind;
    this.#isMustachio = dialect === 'postmark';
    this.#scopes = new Scopes(source, this.#isMustachio ? 'mustachio' : 'handlebars');
  }

  convert(nodes: Node[]): Conversion {
    const source = this.#nodes(nodes, rootScope());
    if (this.#dialect === 'ses' && this.#kind === 'html' && this.#firstEscapedLine !== undefined) {
      const why = 'values are now escaped, unlike in SES; add | raw to variables that contain trusted HTML';
      this.#checks.push({ line: this.#firstEscapedLine, what: '{{…}}', why, isConverted: true });
    }
    return { source, checks: this.#checks.sort((a, b) => a.line - b.line) };
  }

  #check(line: number, what: string, why: string, isConverted: boolean): void {
    const shown = what.length > MAX_SHOWN ? `${what.slice(0, MAX_SHOWN).toWellFormed()}…` : what;
    this.#checks.push({ line, what: shown, why, isConverted });
  }

  #nodes(nodes: readonly Node[], scope: Scope): string {
    return nodes.map((node) => this.#node(node, scope)).join('');
  }

  #node(node: Node, scope: Scope): string {
    if (node.type === 'text') return this.#text(node.text, node.line);
    if (node.type === 'comment') return /[{}%]/.test(node.text) ? '' : `{% comment %} ${node.text} {% endcomment %}`;
    const { tag } = node;
    this.#line = tag.line;
    if (node.type === 'unsupported') return this.#asText(tag.source, tag, node.why);
    const checked = this.#checks.length;
    try {
      return node.type === 'output' ? this.#output(tag, scope) : this.#block(node, scope);
    } catch (error) {
      if (!(error instanceof Unconvertible)) throw error;
      // The entire block becomes literal text, so checks of its content no longer apply.
      this.#checks.length = checked;
      const end = node.type === 'output' ? tag.end : node.end;
      const source = node.type === 'block' && node.isChained ? undefined : this.#source.slice(tag.begin, end);
      if (source === undefined) throw error;
      return this.#asText(source, tag, error.message);
    }
  }

  #asText(source: string, tag: Tag, why: string): string {
    this.#check(tag.line, tag.source, why, false);
    this.#unconverted += 1;
    if (this.#unconverted > MAX_UNCONVERTED)
      throw new ConversionError(`has more than ${MAX_UNCONVERTED} tags that cannot be converted`, tag.line);
    return source.includes('endraw') ? literalInLiquidSource(source) : `{% raw %}${source}{% endraw %}`;
  }

  #text(text: string, line: number): string {
    const pattern = IN_TEXT[this.#dialect];
    if (pattern === undefined) return literalInLiquidSource(text);
    let converted = '';
    let at = 0;
    const lineOf = lineCounter(text);
    for (const found of text.matchAll(pattern)) {
      const [what] = found;
      const isLink = /unsubscribe/i.test(what);
      converted += literalInLiquidSource(text.slice(at, found.index));
      converted += isLink ? UNSUBSCRIBE : literalInLiquidSource(what);
      at = found.index + what.length;
      const place = line + lineOf(found.index) - 1;
      if (isLink) this.#checkLink(place, what);
      else this.#check(place, what, 'only the other service replaces this; write a Liquid variable instead', false);
    }
    return converted + literalInLiquidSource(text.slice(at));
  }

  #checkLink(line: number, what: string): void {
    const why =
      'this is now the unsubscribe link of Postrider, a URL in href="…" and a complete link elsewhere; set listUnsubscribe in the send';
    this.#check(line, what, why, true);
  }

  #output(tag: Tag, scope: Scope): string {
    const { inner, isRaw, line } = tag;
    if (UNSUBSCRIBE_NAMES[this.#dialect].includes(inner)) {
      this.#checkLink(line, tag.source);
      return UNSUBSCRIBE;
    }
    if (this.#isMustachio && inner === '@content') return '{{ content }}';
    const expression = this.#isMustachio ? ({ type: 'path', path: inner } as const) : this.#oneExpression(inner);
    if (expression.type === 'literal')
      throw new Unconvertible('the tag prints a literal; write its text without the tag');
    const { value, last, isPresent } =
      expression.type === 'path'
        ? this.#printedPath(expression.path, scope, line)
        : this.#helper(expression, scope, line);
    if (!isRaw) this.#firstEscapedLine ??= line;
    const isStrict = isPresent || this.#dialect === 'ses';
    const filled = isStrict ? value : `${value} | default: ""`;
    const isNamedHtml = last.endsWith('_html');
    if (this.#kind === 'unescaped html') return `{{ ${filled} | raw }}`;
    if (this.#kind === 'html') return `{{ ${filled}${isRaw ? ' | raw' : isNamedHtml ? ' | escape' : ''} }}`;
    // With any filter other than default, Postrider does not convert the value from HTML to text.
    return `{{ ${filled}${isNamedHtml ? ' | append: ""' : ''} }}`;
  }

  #oneExpression(inner: string): Expression {
    const { args, named, params } = readExpressions(inner);
    const [first, ...rest] = args;
    if (first === undefined || params.length > 0)
      throw new Unconvertible('the tag contains no name; write the name of a variable');
    if (rest.length === 0 && named.size === 0) return first;
    if (first.type !== 'path')
      throw new Unconvertible('the tag contains several values; use a separate tag for each value');
    return { type: 'call', name: first.path, args: rest, named };
  }

  #resolve(path: string, scope: Scope): Resolved {
    const found = this.#scopes.resolve(path, scope);
    this.#checkSize(path, found.expression);
    return found;
  }

  /** Adds a check if Liquid would read its own property `size` because the value has no member of this name. */
  #checkSize(path: string, expression: string): void {
    if (!/(?:^|[./[])size(?![\w-])/.test(path) || !/\.size(?![\w-])/.test(expression)) return;
    const why =
      'if it has no value, Liquid uses the number of members, items, or characters instead; rename it here and in your sends';
    const last = this.#checks.at(-1);
    // A condition and its body often use the same name.
    if (last?.line !== this.#line || last.what !== path) this.#check(this.#line, path, why, true);
  }

  #printedPath(path: string, scope: Scope, line: number) {
    const found = this.#resolve(path, scope);
    if (path.endsWith('.length') || path.endsWith('/length')) {
      this.#check(
        line,
        path,
        'this is now the size of the list or text, even if the value is an object with a member named length',
        true,
      );
    }
    return { value: found.expression, last: found.last, isPresent: found.isPresent };
  }

  /** Converts the SendGrid helpers that print something. */
  #helper({ name, args, named }: Expression & { type: 'call' }, scope: Scope, line: number) {
    if (named.size > 0)
      throw new Unconvertible(
        `the helper ${name} has named arguments, which are not supported; compute the value before the send`,
      );
    const [first, second, third] = args;
    if (name === 'insert' && first?.type === 'path' && args.length <= 2) {
      const { expression, last } = this.#resolve(first.path, scope);
      const defaultText = second?.type === 'literal' ? /^default=(.*)$/s.exec(String(second.value))?.[1] : undefined;
      if (second !== undefined && defaultText === undefined)
        throw new Unconvertible('the second argument of insert must be "default=…"');
      return defaultText === undefined
        ? { value: expression, last, isPresent: false }
        : { value: `${expression} | default: ${literalInLiquid(defaultText)}`, last, isPresent: true };
    }
    if (name === 'length')
      return {
        value: `${this.#value({ type: 'call', name, args, named }, scope)} | default: 0`,
        last: '',
        isPresent: true,
      };
    if (name === 'lookup' && args.length === 2)
      return { value: this.#value({ type: 'call', name, args, named }, scope), last: '', isPresent: false };
    if (name === 'formatDate' && first?.type === 'path' && second?.type === 'literal' && args.length <= 3) {
      const { expression, last } = this.#resolve(first.path, scope);
      const offset = third === undefined ? '' : `, ${offsetOf(third)}`;
      const why = 'this is now the Liquid filter date; check a preview, because time zones can differ';
      this.#check(line, `formatDate ${first.path}`, why, true);
      const format = literalInLiquid(dateFormat(String(second.value))).replaceAll('\\u0025', '%');
      return { value: `${expression} | default: "" | date: ${format}${offset}`, last, isPresent: true };
    }
    throw new Unconvertible(`Liquid has no helper ${name}; compute the value before the send`);
  }

  /** Returns the Liquid expression of a value that is compared or used as an index. */
  #value(expression: Expression, scope: Scope): string {
    if (expression.type === 'literal') return literalInLiquid(expression.value);
    if (expression.type === 'path') return this.#resolve(expression.path, scope).expression;
    const { name, args } = expression;
    const [first, second] = args;
    if (name === 'length' && first?.type === 'path' && args.length === 1)
      return `${this.#resolve(first.path, scope).expression}.size`;
    if (name === 'lookup' && first?.type === 'path' && second !== undefined && args.length === 2) {
      if (second.type === 'literal' && second.value === 'size') this.#checkSize(`${first.path}.size`, '.size');
      return `${this.#resolve(first.path, scope).expression}[${this.#value(second, scope)}]`;
    }
    throw new Unconvertible(`the helper ${name} cannot be part of a value; compute the value before the send`);
  }

  #block(block: Block, scope: Scope): string {
    this.#line = block.tag.line;
    if (this.#isMustachio) return this.#mustachioBlock(block, scope);
    const { name, rest, isInverted } = block;
    if (isInverted || (!isBlockHelper(name) && rest === '')) {
      if (!isInverted)
        throw new Unconvertible(
          `the meaning of this block depends on the value; write {{#if ${name}}} or {{#each ${name}}}`,
        );
      if (rest !== '') throw new Unconvertible('an inverted block must have exactly one name');
      const why = 'the condition now also treats an empty string and 0 as false';
      this.#check(block.tag.line, block.tag.source, why, true);
      return this.#branches(this.#truth({ type: 'path', path: name }, scope, false), block, scope, true);
    }
    const { args, named, params } = readExpressions(rest);
    if (name === 'each' || name === 'with') {
      const [path] = args;
      if (path?.type !== 'path' || args.length > 1 || named.size > 0)
        throw new Unconvertible(`${name} needs exactly one name`);
      return name === 'each'
        ? this.#each(block, path.path, params, scope)
        : this.#with(block, path.path, params, scope);
    }
    if (params.length > 0) throw new Unconvertible(`${name} cannot have block parameters`);
    if (name === 'if' || name === 'unless') {
      const [value] = args;
      const zero = named.get('includeZero');
      const hasOther = [...named.keys()].some((key) => key !== 'includeZero');
      if (value === undefined || args.length > 1 || hasOther)
        throw new Unconvertible(`${name} needs exactly one value`);
      const includesZero = zero?.type === 'literal' && zero.value === true;
      return this.#branches(this.#truth(value, scope, includesZero), block, scope, name === 'unless');
    }
    if (!CONDITIONS.has(name)) throw new Unconvertible(`Liquid has no helper ${name}; write an {% if %}`);
    return this.#branches(this.#truth({ type: 'call', name, args, named }, scope, false), block, scope, false);
  }

  /** Returns the condition that is true if Handlebars treats the value as true. */
  #truth(value: Expression, scope: Scope, includesZero: boolean): Condition {
    if (value.type === 'literal') return { before: '', expression: value.value ? 'true' : 'false' };
    if (value.type === 'path') {
      const { expression, isPresent } = this.#resolve(value.path, scope);
      if (isPresent) return { before: '', expression: isIndex(expression) ? `${expression} != 0` : expression };
      const notZero = includesZero ? '' : ` and ${expression} != 0`;
      return { before: '', expression: `${expression} and ${expression} != empty${notZero}` };
    }
    const { name, args } = value;
    if (Object.hasOwn(COMPARISONS, name)) {
      const [left, right] = args;
      if (left === undefined || right === undefined || args.length > 2)
        throw new Unconvertible(`${name} needs exactly two values`);
      return {
        before: '',
        expression: `${this.#value(left, scope)} ${COMPARISONS[name]} ${this.#value(right, scope)}`,
      };
    }
    if (name === 'length') return { before: '', expression: `${this.#value(value, scope)} > 0` };
    if (!CONDITIONS.has(name) || args.length === 0)
      throw new Unconvertible(`Liquid has no helper ${name}; compute the value before the send`);
    const parts = args.map((one) => this.#truth(one, scope, false));
    const before = parts.map((part) => part.before).join('');
    if (name === 'and') return { before, expression: parts.map((part) => part.expression).join(' and ') };
    // Liquid has no parentheses, so tags before the condition compute the result of `or`.
    const flag = this.#scopes.newName('any');
    const tests = parts.map(({ expression }) => `{% if ${expression} %}{% assign ${flag} = true %}{% endif %}`);
    return { before: `${before}{% assign ${flag} = false %}${tests.join('')}`, expression: flag };
  }

  #branches(condition: Condition, block: Block, scope: Scope, isNegative: boolean): string {
    const { before, expression } = condition;
    const tag = isNegative ? 'unless' : 'if';
    const [only, ...more] = block.otherwise ?? [];
    let otherwise = block.otherwise === undefined ? '' : `{% else %}${this.#nodes(block.otherwise, scope)}`;
    if (only?.type === 'block' && only.isChained && more.length === 0) {
      const next = this.#block(only, scope);
      const chain = /^\{% if (.*)$/s.exec(next);
      // {% elsif %} replaces the {% if %} and its end.
      if (chain) otherwise = `{% elsif ${chain[1]!.slice(0, -'{% endif %}'.length)}`;
      else otherwise = `{% else %}${next}`;
    }
    return `${before}{% ${tag} ${expression} %}${this.#nodes(block.body, scope)}${otherwise}{% end${tag} %}`;
  }

  #each(block: Block, path: string, params: readonly string[], scope: Scope): string {
    const { expression } = this.#resolve(path, scope);
    const loop = this.#scopes.loop(path, { expression, scope, params, readsKeys: readsKeys(block.body) });
    const body = this.#nodes(block.body, loop.scope);
    if (loop.scope.loop?.isKeyed)
      this.#check(
        block.tag.line,
        block.tag.source,
        'this is now a loop over the members of an object, because it uses @key',
        true,
      );
    const prefix = loop.scope.loop?.needsIndex ? `{% assign ${loop.indexName} = forloop.index0 %}` : '';
    const list = `{% for ${loop.variable} in ${expression} %}${prefix}${body}{% endfor %}`;
    const otherwise = block.otherwise === undefined ? '' : `{% else %}${this.#nodes(block.otherwise, scope)}`;
    const isFilled = otherwise === '' ? expression : `${expression} and ${expression} != empty`;
    return `{% if ${isFilled} %}${list}${otherwise}{% endif %}`;
  }

  #with(block: Block, path: string, params: readonly string[], scope: Scope): string {
    const { expression } = this.#resolve(path, scope);
    const inner = this.#scopes.within(expression, scope, params);
    const otherwise = block.otherwise === undefined ? '' : `{% else %}${this.#nodes(block.otherwise, scope)}`;
    return `{% if ${expression} and ${expression} != empty %}${this.#nodes(block.body, inner)}${otherwise}{% endif %}`;
  }

  /** Within a section, also an inverted one, names are members of the section's value. */
  #mustachioBlock(block: Block, scope: Scope): string {
    const { name, rest, isInverted } = block;
    const isEach = name === 'each' && !isInverted;
    if (!isEach && rest !== '') throw new Unconvertible('a section must have exactly one name');
    const path = isEach ? rest : name;
    const inner = this.#scopes.section(path, scope);
    const expression = inner.expression ?? '';
    this.#checkSize(path, expression);
    if (expression === '')
      throw new Unconvertible('the section selects all values; remove its opening and closing tags');
    if (!isEach) {
      const isTrue = `${expression} and ${expression} != empty and ${expression} != 0`;
      const tag = isInverted ? 'unless' : 'if';
      return `{% ${tag} ${isTrue} %}${this.#nodes(block.body, inner)}{% end${tag} %}`;
    }
    const loop = this.#scopes.loop(rest, { expression, scope: inner, params: [], readsKeys: false });
    const body = this.#nodes(block.body, loop.scope);
    return `{% if ${expression} %}{% for ${loop.variable} in ${expression} %}${body}{% endfor %}{% endif %}`;
  }
}

const isIndex = (expression: string): boolean =>
  /(?:^|\.)index0$/.test(expression) || expression.startsWith('index_of_');

const isBlockHelper = (name: string): boolean =>
  ['if', 'unless', 'each', 'with'].includes(name) || CONDITIONS.has(name);

/** Returns whether a loop with this body prints the keys of its object. Keys in inner loops are not counted. */
function readsKeys(nodes: readonly Node[]): boolean {
  return nodes.some((node) => {
    if (node.type === 'output') return node.tag.inner.includes('@key');
    if (node.type !== 'block') return false;
    if (node.rest.includes('@key')) return true;
    const isLoop = node.name === 'each';
    return (!isLoop && readsKeys(node.body)) || readsKeys(node.otherwise ?? []);
  });
}

/** Returns the minutes of a time zone offset such as "-0800", with the sign that JavaScript uses: west of UTC is positive. */
function offsetOf(expression: Expression): number {
  const text = expression.type === 'literal' ? String(expression.value) : '';
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)$/.exec(text) ?? [];
  if (sign === undefined) throw new Unconvertible('the time zone offset must be a literal such as "-0800"');
  const total = Number(hours) * 60 + Number(minutes);
  return sign === '-' ? total : -total;
}
