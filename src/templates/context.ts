/**
 * What one rendering reads and notes: the variables of a template as Liquid asks for them, within the limits and the budget of the
 * rendering, and the report of what had no value.
 */
import { Context, Drop, type Liquid, type PropertyAccessToken, TypeGuards, toValue } from 'liquidjs';
import { type Budget, checkItems } from './budget.ts';

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
