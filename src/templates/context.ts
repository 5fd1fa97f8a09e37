/**
 * The state of one rendering: the variables that Liquid reads, within the limits and the budget of the rendering, and the report of those
 * without a value.
 *
 * All work is charged to one budget for all parts of a rendering: work, characters written, and intermediate lists and texts. A source
 * within its limits can print a long value ten thousand times, or filter a list ten thousand times; such mail could not be sent, and
 * rendering it would block other requests and fill the memory. The clock is checked after a certain amount of work.
 *
 * Also defines what a template may read and print. Only own properties of plain data are visible: no prototype, no method, and nothing that
 * the caller did not put into templateVariables. Absent and null are "without a value"; objects are never printed.
 */
import { Context, Drop, type Liquid, type PropertyAccessToken, TypeGuards, toValue } from 'liquidjs';

/** Characters of all parts of one rendering. A mail has at most 2,000,000 bytes. */
export const MAX_OUTPUT_LENGTH = 10_000_000;
/** Maximum number of characters and items that filters and ranges may create in one rendering. */
const MAX_MADE = 10_000_000;
/** Maximum number of items of a range, and of a list that a filter reads or creates. */
const MAX_ITEMS = 10_000;

/** Ends a rendering that writes too much; parse.ts turns it into a message. */
export class TooMuchText extends Error {}

/** Ends a rendering with its own message, the rest of a sentence that starts with the name of the part. */
export class OverLimit extends Error {}

/**
 * Time limit of one rendering, for all parts; a normal one takes a tenth of a millisecond. It blocks the event loop, which must not be
 * blocked for more than 100 ms: what may follow the last check (converting 256 KB of html to text) takes up to 45 ms.
 */
export const RENDER_LIMIT_MS = 50;

/** Liquid's error for the time limit; parse.ts turns it into a message. */
export const RENDER_LIMIT_EXCEEDED = 'template render limit exceeded';

/** Returns the processor time of this thread in milliseconds. */
export function threadTimeMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/**
 * Replaces Liquid's limiter, which is read before each tag with performance.now(). Limits the processor time of a rendering, not the
 * elapsed time: on a busy machine a thread may be suspended for longer than any rendering takes, and that must not refuse mail. The wall
 * clock is checked first because it is cheap; only once half of the limit has elapsed, the thread's processor time decides about the other
 * half.
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

/** The clock is checked after this many units of work. A unit is one character processed; `STEP` covers the rest. */
export const ASK_EVERY = 4_096;
/** Units of a Liquid step, or of a piece of text of any length: about a tenth of a microsecond. */
const STEP = 64;

/**
 * A class, not a literal with a getter: each such literal gets its own hidden class in the old space, which keeps everything in the
 * getter's closure until the next full collection.
 */
export class Budget {
  #startedMs = performance.now();
  #timeLimit: TimeLimit | undefined = undefined;
  #written = 0;
  #made = 0;
  #unasked = 0;

  /** Liquid reads it before each tag. */
  get timeLimit(): TimeLimit {
    this.#timeLimit ??= createTimeLimit(this.#startedMs);
    return this.#timeLimit;
  }

  /** Throws if the rendering exceeds its time; call it before anything that takes long on its own. */
  checkTime(): void {
    this.#unasked = 0;
    this.timeLimit.check(performance.now());
  }

  /** Charges work; throws if the rendering exceeds its time. */
  work(units: number): void {
    this.#unasked += units;
    if (this.#unasked > ASK_EVERY) this.checkTime();
  }

  step(): void {
    this.work(STEP);
  }

  /** Throws if this many more characters are too many, or if the rendering exceeds its time. */
  check(length: number): void {
    if (this.#written + length > MAX_OUTPUT_LENGTH) throw new TooMuchText();
    this.work(STEP + length);
  }

  /** Counts written characters; throws like `check`. */
  write(length: number): void {
    this.check(length);
    this.#written += length;
  }

  /** Counts intermediate characters or items; throws if they are too many. */
  make(count: number): void {
    if (!(count > 0)) return;
    this.#made += count;
    if (this.#made > MAX_MADE) throw new OverLimit('produces too much text or too long lists; reduce them');
    this.work(count);
  }
}

/** Throws if a list would be too long; the message starts with `what`. */
export function checkItems(count: number, what: string): void {
  if (count > MAX_ITEMS) {
    throw new OverLimit(`${what} more than ${MAX_ITEMS} items; use a shorter list`);
  }
}

/** Returns the value at `key` of a JSON value, or undefined; supports Liquid's size, first, and last. */
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

/** Cost of a list item or object member besides its characters. */
const ITEM_LENGTH = 8;

const ESCAPABLE = /[&<>"']/;
const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };

/** Escapes text for element content and quoted attributes. */
function escapeHtml(text: string): string {
  return ESCAPABLE.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character]!) : text;
}

/** Longer text is escaped in pieces, between which the budget checks the clock. */
const PIECE_LENGTH = 16_384;

/** `escapeHtml` for a text that may be long. */
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
 * Returns the value as text, or undefined if it is or contains an object, which must not be shown to readers. A list may contain itself
 * many times and be endless work, so each item is charged.
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
 * Returns the number of characters of a value as text, counting an item or member as `itemLength`; stops above `most`. Charges what it
 * reads.
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

/** Cost of a list within a list: converting nested lists to text costs far more per list than per character. */
const NESTED_LENGTH = 100;
const MAX_NESTED_LENGTH = 2_000_000;

/**
 * Returns whether the text of a list would be too long for native code, which cannot be interrupted. A list may contain another twice, and
 * that one another, so a few lines can create endless text.
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

/** Maximum length of a variable's name in refusals. */
export const MAX_NAME_LENGTH = 200;

/** Collects what one rendering encounters. */
export interface Report {
  /** Records a variable without a value. */
  addMissing(name: string): void;
  /** Records a variable whose value is an object. */
  addObject(name: string): void;
  /** First names of optional variables: without a value they print nothing and are not missing. */
  optional: ReadonlySet<string>;
  /** Write the source of an output without a value, instead of nothing. */
  keepMissing: boolean;
  budget: Budget;
  /** Converts html to text; used for values in text. */
  reduce(html: string): string;
}

/** Liquid's loop objects, `forloop` and `tablerowloop`. */
const OF_LOOPS: readonly unknown[] = [
  ...['index', 'index0', 'rindex', 'rindex0', 'first', 'last', 'length', 'name'],
  ...['row', 'col', 'col0', 'col_first', 'col_last'],
];

/** Liquid's other objects are literals (nil, empty, blank) and can be compared. */
export function isLoop(value: unknown): boolean {
  return value instanceof Drop && !('equals' in value);
}

/** What native filters read from their context. */
type OfFilters = Pick<MailContext, 'opts' | 'ownPropertyOnly' | 'memoryLimit' | 'report'>;

export class MailContext extends Context {
  readonly report: Report;
  /** Used instead of this by filters that are not generators: they return text, or a list that is limited elsewhere. */
  readonly ofFilters: OfFilters;

  constructor(liquid: Liquid, values: { variables: object; globals: object }, report: Report, parent?: MailContext) {
    const { budget } = report;
    const renderLimit = budget.timeLimit as unknown as Context['renderLimit'];
    const limits = { liquid, renderLimit, memoryLimit: parent?.memoryLimit ?? listLimit(budget) };
    super(values.variables, liquid.options, { sync: true, globals: values.globals }, limits);
    this.report = report;
    this.ofFilters = parent?.ofFilters ?? {
      opts: this.opts,
      ownPropertyOnly: this.ownPropertyOnly,
      report,
      memoryLimit: limiter((count) => budget.make(count)),
    };
  }

  /** For a list item, whose members are its variables. */
  override spawn(scope: object = {}): MailContext {
    return new MailContext(this.liquid!, { variables: scope, globals: this.globals }, this.report, this);
  }

  /** A list or object is not a name; Liquid would convert it to text first. */
  override *_get(paths: unknown[]): IterableIterator<unknown> {
    if (typeof paths[0] === 'object') return undefined;
    return yield* super._get(paths as Parameters<Context['_get']>[0]);
  }

  /** Liquid reads and calls any property of its own objects, inherited or not; this allows only those meant to be read. */
  override readProperty(...[of, given]: Parameters<Context['readProperty']>): unknown {
    const key = toValue(given);
    if (typeof key === 'object' && key !== null) return undefined;
    // The size of an object takes time in proportion to its members.
    if (key === 'size') this.report.budget.checkTime();
    return of instanceof Drop && !OF_LOOPS.includes(key) ? undefined : super.readProperty(of, key);
  }
}

/** Called by filters for the lists they get. */
function listLimit(budget: Budget): Context['memoryLimit'] {
  return limiter((count) => {
    checkItems(count, 'makes a list of');
    budget.make(count);
  });
}

function limiter(use: (count: number) => void): Context['memoryLimit'] {
  return { use, check: () => undefined } as unknown as Context['memoryLimit'];
}

/** Records that a variable in a tag or filter has no value, unless it is optional. */
export function noteWithoutValue(report: Report, token: PropertyAccessToken): void {
  const [first] = token.props;
  const name = first !== undefined && TypeGuards.isWordToken(first) ? first.content : undefined;
  if (name === undefined || !report.optional.has(name)) report.addMissing(token.getText().slice(0, MAX_NAME_LENGTH));
}
