/**
 * The Liquid language as mail has it: without tags that read other templates or write to the values given, with our own output,
 * loops and filters, and with every filter, operator and piece of text within the budget of the rendering.
 */
import {
  type Context,
  CycleTag,
  type EchoTag,
  type Emitter,
  evalToken,
  ForTag,
  Liquid,
  TablerowTag,
  Tag,
  type TagToken,
  type TopLevelToken,
  TypeGuards,
  toValue,
} from 'liquidjs';
import { type Budget, checkItems } from './budget.ts';
import { type MailContext, noteWithoutValue } from './context.ts';
import { boundFilters } from './filters.ts';
import { boundOperators, boundRanges } from './operators.ts';
import { type Kind, MailOutput, type Ranged } from './output.ts';
import { registerOwnFilters } from './own-filters.ts';
import { escapeWithin, printable } from './value.ts';

/** Tags that would read other templates, or write to the values given. */
const REFUSED_TAGS = ['include', 'render', 'layout', 'block', 'increment', 'decrement'];
/** Most values of a `cycle`. */
const MAX_CYCLE = 100;

/** Where rendering writes, within the budget of the rendering. */
class BoundedEmitter implements Emitter {
  readonly #budget: Budget;
  buffer = '';

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  write(value: unknown): void {
    const text = typeof value === 'string' ? value : (printable(toValue(value), this.#budget) ?? '');
    this.#budget.write(text.length);
    this.buffer += text;
  }
}

/** Whatever is rendered, also what `capture` keeps to itself, is written within the budget. */
function boundRenderer(liquid: Liquid): void {
  const { renderer } = liquid;
  const render = renderer.renderTemplates.bind(renderer);
  renderer.renderTemplates = (templates, context, emitter) =>
    render(templates, context, emitter ?? new BoundedEmitter((context as MailContext).report.budget));
}

/** Notes a list that is looped over without being there; the loop runs zero times. An object becomes a list of its members. */
function* checkCollection(collection: ForTag['collection'], context: Context): Generator<unknown, void, unknown> {
  if (!TypeGuards.isPropertyAccessToken(collection)) return;
  const value = yield evalToken(collection, context, true);
  if (value === undefined || value === null) noteWithoutValue((context as MailContext).report, collection);
  else if (typeof value === 'object' && !Array.isArray(value)) {
    (context as MailContext).report.budget.checkTime();
    checkItems(Object.keys(value).length, 'loops over an object of');
  }
}

class MailFor extends ForTag {
  override *render(context: Context, emitter: Emitter): ReturnType<ForTag['render']> {
    yield checkCollection(this.collection, context);
    return yield* super.render(context, emitter);
  }
}

class MailTablerow extends TablerowTag {
  override *render(context: Context, emitter: Emitter): ReturnType<TablerowTag['render']> {
    yield checkCollection(this.collection, context);
    yield* super.render(context, emitter);
  }
}

boundRanges();

export function createLiquid(kind: Kind): Liquid {
  const liquid = new Liquid({
    ownPropertyOnly: true,
    strictFilters: true,
    operators: boundOperators(),
    templates: {},
    timezoneOffset: 0,
  });
  for (const name of REFUSED_TAGS) delete liquid.tags[name];
  liquid.registerTag('for', MailFor);
  liquid.registerTag('tablerow', MailTablerow);
  liquid.registerTag('echo', echoTag(kind));
  liquid.registerTag('cycle', cycleTag(kind));
  registerOwnFilters(liquid, kind);
  boundFilters(liquid);
  boundRenderer(liquid);
  return liquid;
}

/** `{% echo x %}` is `{{ x }}`. */
function echoTag(kind: Kind): typeof EchoTag {
  class MailEcho extends Tag {
    readonly #output: MailOutput;

    constructor(token: TagToken, rest: TopLevelToken[], liquid: Liquid) {
      super(token, rest, liquid);
      const ranged = token as TagToken & { contentRange: [number, number] };
      const contentRange: [number, number] = [this.tokenizer.p, ranged.contentRange[1]];
      const { input, begin, end } = token;
      const source = { input, begin, end, contentRange, getText: () => token.getText() } as unknown as Ranged;
      this.#output = new MailOutput(source, liquid, kind);
    }

    render(context: Context, emitter: Emitter): unknown {
      return this.#output.render(context, emitter);
    }
  }
  return MailEcho as unknown as typeof EchoTag;
}

function cycleTag(kind: Kind): typeof CycleTag {
  return class extends CycleTag {
    constructor(token: TagToken, rest: TopLevelToken[], liquid: Liquid) {
      // Before they are parsed: a cycle parses its values again each time it is rendered.
      if (token.args.split(',', MAX_CYCLE + 1).length > MAX_CYCLE) throw new Error(`more than ${MAX_CYCLE} values`);
      super(token, rest, liquid);
    }

    override *render(context: Context, emitter: Emitter): ReturnType<CycleTag['render']> {
      const { budget } = (context as MailContext).report;
      budget.checkTime();
      const text = printable(toValue(yield* super.render(context, emitter)), budget) ?? '';
      return kind === 'html' ? escapeWithin(text, budget) : text;
    }
  };
}
