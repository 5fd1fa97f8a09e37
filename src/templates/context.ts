/**
 * Holds the state of one rendering: the variables that Liquid reads, the budget that limits the rendering, and the report of variables
 * without a value.
 *
 * All parts of a rendering share one budget. It counts units of work, written characters, and intermediate lists and texts. Without it, a
 * source within its limits could print a long value or filter a list ten thousand times. Such mail would be too large to send, and
 * rendering it would block other requests and exhaust the memory. The clock is checked after a certain amount of work.
 *
 * Also defines the properties that a template can read and the values that it can print. A template can read only own properties of the
 * plain data in templateVariables: no prototypes and no methods. An absent or null variable is "without a value". Objects are not printed.
 */
import { Context, Drop, type Liquid, type PropertyAccessToken, TypeGuards, toValue } from 'liquidjs';
import { escapeHtml } from '../mail/html/escape.ts';

/** The maximum number of characters in all parts of one rendering. A message has at most 2,000,000 bytes. */
export const MAX_OUTPUT_LENGTH = 10_000_000;
/** The maximum number of characters and items that filters and ranges can create in one rendering. */
const MAX_INTERMEDIATE = 10_000_000;
/** The maximum number of items of a range, or of a list that a filter reads or creates. */
const MAX_ITEMS = 10_000;

/** Ends a rendering that writes too much; parse.ts turns it into a message. */
export class TooMuchText extends Error {}

/** Ends a rendering with its own message, which completes a sentence that starts with the name of the part. */
export class OverLimit extends Error {}

/**
 * The time limit of one rendering, for all parts. A normal rendering takes 0.1 ms. Rendering blocks the event loop, which must not be
 * blocked for more than 100 ms. The longest step after the last check, converting 256 KB of html to text, takes up to 45 ms.
 */
export const RENDER_LIMIT_MS = 50;

/** This is Liquid's error for the time limit; parse.ts turns it into a message. */
export const RENDER_LIMIT_EXCEEDED = 'template render limit exceeded';

/** Returns the processor time of this thread in milliseconds. */
export function threadTimeMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/**
 * Replaces Liquid's limiter, which Liquid calls before each tag with performance.now(). Limits the processor time of a rendering, not the
 * elapsed time: a busy machine may suspend a thread for longer than any rendering takes, and mail must not be refused because of that. The
 * wall clock is checked first because it is cheap. After half of the limit has elapsed, the thread may use the other half as processor
 * time.
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

/** The clock is checked after this many units of work. Processing one character costs one unit. */
export const CHECK_EVERY = 4_096;
/** The units that a Liquid step, or a piece of text of any length, costs in addition. A step takes about 0.1 µs. */
const STEP = 64;

/**
 * Counts the costs of one rendering, for all parts. This is a class, because each object literal with a getter gets its own hidden class
 * in V8's old space, which keeps everything in the getter's closure alive until the next full garbage collection.
 */
export class Budget {
  #startedMs = performance.now();
  #timeLimit: TimeLimit | undefined = undefined;
  #written = 0;
  #intermediate = 0;
  #unchecked = 0;

  /** Liquid reads this before each tag. */
  get timeLimit(): TimeLimit {
    this.#timeLimit ??= createTimeLimit(this.#startedMs);
    return this.#timeLimit;
  }

  /** Throws if the rendering exceeds its time. Call this before any step that takes long. */
  checkTime(): void {
    this.#unchecked = 0;
    this.timeLimit.check(performance.now());
  }

  /** Charges work; throws if the rendering exceeds its time. */
  work(units: number): void {
    this.#unchecked += units;
    if (this.#unchecked > CHECK_EVERY) this.checkTime();
  }

  /** Charges a Liquid step. */
  step(): void {
    this.work(STEP);
  }

  /** Throws if writing this many more characters would exceed the limit, or if the rendering exceeds its time. */
  check(length: number): void {
    if (this.#written + length > MAX_OUTPUT_LENGTH) throw new TooMuchText();
    this.work(STEP + length);
  }

  /** Counts written characters; throws if `check` throws. */
  write(length: number): void {
    this.check(length);
    this.#written += length;
  }

  /** Counts intermediate characters or items; throws if there are too many. */
  addIntermediate(count: number): void {
    if (!(count > 0)) return;
    this.#intermediate += count;
    if (this.#intermediate > MAX_INTERMEDIATE)
      throw new OverLimit('produces too much text or lists that are too long; shorten them');
    this.work(count);
  }
}

/** Throws if a list would be too long; the message starts with `what`. */
export function checkItems(count: number, what: string): void {
  if (count > MAX_ITEMS) {
    throw new OverLimit(`${what} more than ${MAX_ITEMS} items; use a shorter list`);
  }
}

/**
 * Returns the character at an index of a text. Indexes count UTF-16 units, as `size` does. The index of the first unit of a character
 * returns the entire character, and the index of the second unit returns an empty text, so no character is divided.
 */
function characterAt(text: string, index: number): string | undefined {
  const unit = text[index];
  if (unit === undefined || unit.isWellFormed()) return unit;
  const isSecond = index > 0 && text.slice(index - 1, index + 1).isWellFormed();
  return isSecond ? '' : String.fromCodePoint(text.codePointAt(index)!);
}

function isIndex(key: unknown): boolean {
  return /^\d+$/.test(String(key));
}

/** Returns the value at `key` of a JSON value, or undefined; supports Liquid's size, first, and last, and indexes of texts. */
export function readProperty(owner: unknown, key: string | number): unknown {
  if (owner === null || owner === undefined) return undefined;
  if (typeof owner === 'string') {
    if (key === 'size') return owner.length;
    return isIndex(key) ? characterAt(owner, Number(key)) : undefined;
  }
  if (typeof owner !== 'object') return undefined;
  if (Array.isArray(owner)) {
    if (typeof key === 'number') return owner[key < 0 ? owner.length + key : key];
    if (key === 'size') return owner.length;
    if (key === 'first') return owner[0];
    return key === 'last' ? owner[owner.length - 1] : undefined;
  }
  if (Object.hasOwn(owner, key)) return (owner as Record<string, unknown>)[key];
  return key === 'size' ? Object.keys(owner).length : undefined;
}

/** The cost of a list item or object member in addition to its characters. */
const ITEM_LENGTH = 8;

/** Longer text is escaped in pieces, between which the budget checks the clock. */
const PIECE_LENGTH = 16_384;

/** Escapes a text that may be long, like `escapeHtml`. */
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
 * Returns the value as text, or undefined if it is or contains an object, which must not be displayed to readers. Nested lists may
 * contain the same list many times, which would take endless work, so each item is charged.
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
 * Returns the number of characters of a value as text, counting `itemLength` for each item or member in addition; stops above `most`. Each
 * item or member is charged as work.
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

/** The cost of an item of a nested list: converting nested lists to text costs far more per list than per character. */
const NESTED_LENGTH = 100;
const MAX_NESTED_LENGTH = 2_000_000;

/**
 * Returns whether the text of a list would be too long for native code, which cannot be interrupted. A list can contain another list twice,
 * which contains another list twice, and so on. So a few lines of a template can create endless text.
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

/** The kind of a part of a message. Both subject and text are of kind `text`. */
export type Kind = 'html' | 'text';

/** The maximum length of a variable's name in error messages. */
export const MAX_NAME_LENGTH = 200;

/** The options of one rendering, and the problems it finds. */
export interface Report {
  /** Records a variable without a value. */
  addMissing(name: string): void;
  /** Records a variable whose value is an object. */
  addObject(name: string): void;
  /** Names of optional variables. Without a value they print nothing and are not missing. */
  optional: ReadonlySet<string>;
  /** Whether an output without a value prints its own source instead of nothing. */
  keepMissing: boolean;
  budget: Budget;
  /** Converts html to text. Used for html values that are printed in a text part. */
  htmlToText(html: string): string;
}

/** The properties of Liquid's loop objects, `forloop` and `tablerowloop`. */
const LOOP_PROPERTIES: readonly unknown[] = [
  'index',
  'index0',
  'rindex',
  'rindex0',
  'first',
  'last',
  'length',
  'name',
  'row',
  'col',
  'col0',
  'col_first',
  'col_last',
];

/** Returns whether the value is a loop object. Liquid's other objects are literals (nil, empty, blank), which can be compared. */
export function isLoop(value: unknown): boolean {
  return value instanceof Drop && !('equals' in value);
}

/** The properties of a context that native filters read. */
type FilterContext = Pick<MailContext, 'opts' | 'ownPropertyOnly' | 'memoryLimit' | 'report'>;

export class MailContext extends Context {
  readonly report: Report;
  /** Filters that are not generators use this instead of the context: they return text, or a list that is limited elsewhere. */
  readonly forFilters: FilterContext;

  constructor(liquid: Liquid, values: { variables: object; globals: object }, report: Report, parent?: MailContext) {
    const { budget } = report;
    const renderLimit = budget.timeLimit as unknown as Context['renderLimit'];
    const limits = { liquid, renderLimit, memoryLimit: parent?.memoryLimit ?? listLimit(budget) };
    super(values.variables, liquid.options, { sync: true, globals: values.globals }, limits);
    this.report = report;
    this.forFilters = parent?.forFilters ?? {
      opts: this.opts,
      ownPropertyOnly: this.ownPropertyOnly,
      report,
      memoryLimit: limiter((count) => budget.addIntermediate(count)),
    };
  }

  /** Returns the context of a list item, whose variables are the members of the item. */
  override spawn(scope: object = {}): MailContext {
    return new MailContext(this.liquid!, { variables: scope, globals: this.globals }, this.report, this);
  }

  /** Returns undefined if the name is a list or object, which Liquid would otherwise convert to text first. */
  override *_get(paths: unknown[]): IterableIterator<unknown> {
    if (typeof paths[0] === 'object') return undefined;
    return yield* super._get(paths as Parameters<Context['_get']>[0]);
  }

  /** Restricts Liquid's own objects to the properties of loops. Liquid would read and call any property, inherited or not. */
  override readProperty(...[of, given]: Parameters<Context['readProperty']>): unknown {
    const key = toValue(given);
    if (typeof key === 'object' && key !== null) return undefined;
    if (key === 'size') {
      // Without a variable of this name, Liquid would return the number of variables.
      if (of === this.globals && !Object.hasOwn(of, 'size')) return undefined;
      // The time to compute the size of an object is proportional to its number of members.
      this.report.budget.checkTime();
    }
    if (typeof of === 'string' && isIndex(key)) return characterAt(of, Number(key));
    return of instanceof Drop && !LOOP_PROPERTIES.includes(key) ? undefined : super.readProperty(of, key);
  }
}

/** Returns the limiter that filters call for the lists they get. */
function listLimit(budget: Budget): Context['memoryLimit'] {
  return limiter((count) => {
    checkItems(count, 'makes a list of');
    budget.addIntermediate(count);
  });
}

function limiter(use: (count: number) => void): Context['memoryLimit'] {
  return { use, check: () => undefined } as unknown as Context['memoryLimit'];
}

/** Records that a variable in a tag or filter has no value, unless the variable is optional. Returns whether it is missing. */
export function recordMissing(report: Report, token: PropertyAccessToken): boolean {
  const [first] = token.props;
  const name = first !== undefined && TypeGuards.isWordToken(first) ? first.content : undefined;
  if (name !== undefined && report.optional.has(name)) return false;
  report.addMissing(token.getText().slice(0, MAX_NAME_LENGTH));
  return true;
}
