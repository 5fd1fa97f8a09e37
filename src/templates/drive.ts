/**
 * Runs what Liquid renders with. Tags, expressions, operators and all filters that look into the items of a list are generators
 * that yield at each piece of their work, nested in each other; whoever runs them decides how far. Liquid's own runner goes to
 * the end. This one charges each step to the budget of the rendering, which asks the clock, so that no loop of a template or of
 * a filter goes on behind its back.
 */
import type { Budget } from './budget.ts';

type Steps = Generator<unknown, unknown, unknown>;

function isSteps(value: unknown): value is Steps {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as Steps).next === 'function' &&
    typeof (value as Steps).throw === 'function'
  );
}

/** The value that the steps come to; anything else is its own value. Throws what they throw, and what the budget does. */
export function drive(value: unknown, budget: Budget): unknown {
  if (!isSteps(value)) return value;
  let given: unknown;
  let failed = false;
  for (;;) {
    budget.step();
    const state: IteratorResult<unknown> = failed ? value.throw(given) : value.next(given);
    failed = false;
    given = state.value;
    if (!isSteps(given)) {
      if (state.done) return given;
      continue;
    }
    if (state.done) return drive(given, budget);
    try {
      given = drive(given, budget);
    } catch (error) {
      // Whoever waits for it may have something to say about it: where in the source it happened.
      given = error;
      failed = true;
    }
  }
}
