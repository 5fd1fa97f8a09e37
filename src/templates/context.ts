/**
 * What one rendering reads and notes: the variables of a template as Liquid asks for them, within the limits and the budget of
 * the rendering, and the report of what had no value.
 *
 * Everything that works is charged to the budget, together for all parts of a rendering: work, characters written, and lists
 * and texts made on the way. A source within all of its limits prints a long value ten thousand times, or filters a list ten
 * thousand times; the mail could not be sent, and making it would hold up everybody else and fill the memory. After so much
 * work the clock is asked.
 *
 * What a template may read and print. Only own properties of plain data are visible: no prototype, no method, nothing that a
 * caller did not put into templateVariables. Absent and null are "without a value"; objects are never printed.
 */
import { Context, Drop, type Liquid, type PropertyAccessToken, TypeGuards, toValue } from 'liquidjs';

/** Characters of all parts of one rendering. A mail has at most 2,000,000 bytes. */
export const MAX_OUTPUT_LENGTH = 10_000_000;
/** Characters and items that filters and ranges may make in one rendering. */
const MAX_MADE = 10_000_000;
/** Items of a range, and of a list that a filter takes or makes. */
const MAX_ITEMS = 10_000;

/** Ends a rendering that writes more; parse.ts makes a sentence of it. */
export class TooMuchText extends Error {}

/** Ends a rendering with a sentence of its own, the end of one that starts with the name of the part. */
export class OverLimit extends Error {}

/**
 * Work of one rendering, all of its parts together; an ordinary one takes a tenth of a millisecond. The event loop waits for it, and
 * nobody may hold that for more than 100 ms: what may follow the last question (html of 256 KB made into text) takes up to 45 ms.
 */
export const RENDER_LIMIT_MS = 50;

/** What Liquid ends a rendering with; parse.ts makes a sentence of it. */
export const RENDER_LIMIT_EXCEEDED = 'template render limit exceeded';

/** Processor time of this thread in milliseconds. */
export function threadTimeMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/**
 * In the place of Liquid's own limiter, which is asked before each tag with performance.now(). Ends a rendering by the time it
 * works, not by the time that passes: on a busy machine a thread may stand still for longer than any rendering takes, and good
 * mail must not be refused for that. The wall clock is looked at first, since it costs nothing; only when it says that half
 * of the limit has passed, the thread's own processor time decides about the other half.
 */
interface TimeLimit {
  use(count: number): void;
  check(nowMs: number): void;
}

export function createTimeLimit(startedMs: number, workedMs: () => number = threadTimeMs): TimeLimit {
  const half = RENDER_LIMIT_MS / 2;
  let workedAtHalf: number | undefined;
  return {
    use: () => undefined,
    check: (nowMs) => {
      if (nowMs - startedMs <= half) return;
      workedAtHalf ??= workedMs();
      if (workedMs() - workedAtHalf > half) throw new Error(RENDER_LIMIT_EXCEEDED);
    },
  };
}

/** The clock is asked after so many units of work. A unit is a character that is looked at; see `STEP` for the rest. */
export const ASK_EVERY = 4_096;
/** A step of Liquid, or a piece of text, whatever its length: about a tenth of a microsecond. */
const STEP = 64;

/**
 * A class, and not a literal with a getter: each such literal gets a hidden class of its own in the old space, which keeps all
 * that the getter closes over until the next full collection.
 */
export class Budget {
  #startedMs = performance.now();
  #timeLimit: TimeLimit | undefined = undefined;
  #written = 0;
  #made = 0;
  #unasked = 0;

  /** Liquid asks it before each tag. */
  get timeLimit(): TimeLimit {
    this.#timeLimit ??= createTimeLimit(this.#startedMs);
    return this.#timeLimit;
  }

  /** Throws when the rendering has taken its time; to be asked before anything that takes long by itself. */
  checkTime(): void {
    this.#unasked = 0;
    this.timeLimit.check(performance.now());
  }

  /** Charges work; throws when the rendering has taken its time. */
  work(units: number): void {
    this.#unasked += units;
    if (this.#unasked > ASK_EVERY) this.checkTime();
  }

  step(): void {
    this.work(STEP);
  }

  /** Throws when so many more characters are too many, or when the rendering has taken its time. */
  check(length: number): void {
    if (this.#written + length > MAX_OUTPUT_LENGTH) throw new TooMuchText();
    this.work(STEP + length);
  }

  /** Counts characters that are written; throws as `check` does. */
  write(length: number): void {
    this.check(length);
    this.#written += length;
  }

  /** Counts characters or items that are made on the way; throws when they are too many. */
  make(count: number): void {
    if (!(count > 0)) return;
    this.#made += count;
    if (this.#made > MAX_MADE) throw new OverLimit('produces too much text or too long lists; reduce them');
    this.work(count);
  }
}

/** Throws when a list would be too long; `what` begins the reason. */
export function checkItems(count: number, what: string): void {
  if (count > MAX_ITEMS) {
    throw new OverLimit(`${what} more than ${MAX_ITEMS} items; use a shorter list`);
  }
}

/** The value at `key` of a value that came from JSON, or undefined; knows Liquid's size, first and last. */
export function readProperty(of: unknown, key: string | number): unknown {
  if (of === null || of === undefined) return undefined;
  if (typeof of === 'string') return key === 'size' ? of.length : undefined;
  if (typeof of !== 'object') return undefined;
  if (Array.isArray(of)) {
    if (typeof key === 'number') return of[key < 0 ? of.length + key : key];
    if (key === 'size') return of.length;
    if (key === 'first') return of[0];
    return key === 'last' ? of[of.length - 1] : undefined;
  }
  if (Object.hasOwn(of, key)) return (of as Record<string, unknown>)[key];
  return key === 'size' ? Object.keys(of).length : undefined;
}

/** What a piece of a list or object costs beside its characters. */
const ITEM_LENGTH = 8;

const ESCAPABLE = /[&<>"']/;
const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };

/** Text made safe for element content and for quoted attributes. */
function escapeHtml(text: string): string {
  return ESCAPABLE.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character]!) : text;
}

/** What is longer is escaped in pieces, between which the budget asks the clock. */
const PIECE_LENGTH = 16_384;

/** `escapeHtml` of a text that may be long. */
export function escapeWithin(text: string, budget: Budget): string {
  if (text.length <= PIECE_LENGTH) return escapeHtml(text);
  let escaped = '';
  for (let at = 0; at < text.length; at += PIECE_LENGTH) {
    const piece = text.slice(at, at + PIECE_LENGTH);
    budget.work(piece.length);
    escaped += escapeHtml(piece);
  }
  return escaped;
}

/**
 * The value as text, or undefined when it is (or holds) an object, which no reader of a mail should see. A list may hold itself
 * many times over and be endless work: each item is charged.
 */
export function printable(value: unknown, budget: Budget): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (!Array.isArray(value)) return undefined;
  let text = '';
  for (const item of value) {
    budget.step();
    const part = item === null || item === undefined ? '' : printable(item, budget);
    if (part === undefined) return undefined;
    text += part;
    budget.check(text.length);
  }
  return text;
}

/**
 * Characters of a value made into text, an item or member counted as `itemLength`; more than `most` when it is that long, however
 * long it is. Charges what it looks at.
 */
export function measureText(value: unknown, most: number, budget: Budget, itemLength = ITEM_LENGTH): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  const add = (item: unknown, more: number): boolean => {
    budget.work(ITEM_LENGTH);
    length += itemLength + more + measureText(item, most - length, budget, itemLength);
    return length <= most;
  };
  if (Array.isArray(value)) {
    for (const item of value) if (!add(item, 0)) break;
  } else {
    for (const name in value) if (!add((value as Record<string, unknown>)[name], name.length)) break;
  }
  return length;
}

/** What a list within a list counts: text made of nested lists costs far more for each than for a character. */
const NESTED_LENGTH = 100;
const MAX_NESTED_LENGTH = 2_000_000;

/**
 * Whether text made of a list would be too long to be made by native code, which does that in places that cannot be asked. A list
 * may hold another twice, and that one another: a few lines make what has no end.
 */
export function isTooNested(list: readonly unknown[], budget: Budget): boolean {
  let length = 0;
  for (const item of list) {
    if (typeof item === 'string') length += item.length;
    else if (Array.isArray(item)) length += measureText(item, MAX_NESTED_LENGTH - length, budget, NESTED_LENGTH);
    if (length > MAX_NESTED_LENGTH) return true;
  }
  budget.work(list.length);
  return false;
}

/** Subject and text are `text`. */
export type Kind = 'html' | 'text';

/** Of a variable as refusals repeat it. */
export const MAX_NAME_LENGTH = 200;

/** Where one rendering notes what it met. */
export interface Report {
  /** Notes a variable without a value. */
  addMissing(name: string): void;
  /** Notes a variable whose value is an object. */
  addObject(name: string): void;
  /** First names of variables that may be without a value: they print nothing and are not missing. */
  optional: ReadonlySet<string>;
  /** Writes the source of an output without a value back, instead of nothing. */
  keepMissing: boolean;
  budget: Budget;
  /** Turns html into text; used for values in text. */
  reduce(html: string): string;
}

/** What is known of loops, by `forloop` and `tablerowloop`. */
const OF_LOOPS: readonly unknown[] = [
  ...['index', 'index0', 'rindex', 'rindex0', 'first', 'last', 'length', 'name'],
  ...['row', 'col', 'col0', 'col_first', 'col_last'],
];

/** Liquid's other objects stand for literals (nil, empty, blank), and can be compared. */
export function isLoop(value: unknown): boolean {
  return value instanceof Drop && !('equals' in value);
}

/** What native filters read of their context. */
type OfFilters = Pick<MailContext, 'opts' | 'ownPropertyOnly' | 'memoryLimit' | 'report'>;

export class MailContext extends Context {
  readonly report: Report;
  /** In the place of this for filters whose work is no generator: what they make is text, or a list bounded elsewhere. */
  readonly ofFilters: OfFilters;

  constructor(liquid: Liquid, values: { variables: object; globals: object }, report: Report, parent?: MailContext) {
    const { budget } = report;
    const renderLimit = budget.timeLimit as unknown as Context['renderLimit'];
    const limits = { liquid, renderLimit, memoryLimit: parent?.memoryLimit ?? listLimit(budget) };
    super(values.variables, liquid.options, { sync: true, globals: values.globals }, limits);
    this.report = report;
    this.ofFilters = parent?.ofFilters ?? {
      ...{ opts: this.opts, ownPropertyOnly: this.ownPropertyOnly, report },
      memoryLimit: limiter((count) => budget.make(count)),
    };
  }

  /** For an item of a list, whose members are its variables. */
  override spawn(scope: object = {}): MailContext {
    return new MailContext(this.liquid!, { variables: scope, globals: this.globals }, this.report, this);
  }

  /** A list or object names nothing; Liquid would make text of it first. */
  override *_get(paths: unknown[]): IterableIterator<unknown> {
    if (typeof paths[0] === 'object') return undefined;
    return yield* super._get(paths as Parameters<Context['_get']>[0]);
  }

  /** Liquid reads and calls whatever an object of its own has, inherited or not; only what is meant to be read can be. */
  override readProperty(...[of, given]: Parameters<Context['readProperty']>): unknown {
    const key = toValue(given);
    if (typeof key === 'object' && key !== null) return undefined;
    // The size of an object is as much work as it has members.
    if (key === 'size') this.report.budget.checkTime();
    return of instanceof Drop && !OF_LOOPS.includes(key) ? undefined : super.readProperty(of, key);
  }
}

/** Asked in filters for the lists they are given. */
function listLimit(budget: Budget): Context['memoryLimit'] {
  return limiter((count) => {
    checkItems(count, 'makes a list of');
    budget.make(count);
  });
}

function limiter(use: (count: number) => void): Context['memoryLimit'] {
  return { use, check: () => undefined } as unknown as Context['memoryLimit'];
}

/** Notes that a variable which a tag or filter asks for has no value, unless it may be without one. */
export function noteWithoutValue(report: Report, token: PropertyAccessToken): void {
  const [first] = token.props;
  const name = first !== undefined && TypeGuards.isWordToken(first) ? first.content : undefined;
  if (name === undefined || !report.optional.has(name)) report.addMissing(token.getText().slice(0, MAX_NAME_LENGTH));
}
