/** Sentences for what went wrong while a template was parsed or filled in, with the place in its source where there is one. */
import { LiquidError } from 'liquidjs';
import type { Issue } from '../base/failure.ts';
import { MAX_OUTPUT_LENGTH, OverLimit, RENDER_LIMIT_EXCEEDED, RENDER_LIMIT_MS, TooMuchText } from './budget.ts';

const TOO_MUCH_TEXT = `makes too much text: more than ${MAX_OUTPUT_LENGTH} characters in all parts together`;

/** A template that is too much, with the place where it becomes so. */
export class LimitError extends Error {
  readonly line: number;
  readonly column: number;

  constructor(message: string, source: string, at: number) {
    super(message);
    const before = source.slice(0, at);
    this.line = before.split('\n').length;
    this.column = at - before.lastIndexOf('\n');
  }
}

/** What went wrong while parsing or rendering, as the end of a sentence that starts with the field. */
export function parseIssue(error: unknown): Omit<Issue, 'field'> {
  if (error instanceof LimitError) return placed(error.message, error.line, error.column);
  if (error instanceof OverLimit) return { message: error.message };
  if (error instanceof TooMuchText) return { message: TOO_MUCH_TEXT };
  const limit = error instanceof Error ? limitSentence(error.message) : undefined;
  if (limit !== undefined && !LiquidError.is(error)) return { message: limit };
  // Nesting that got past the limits ends in an overflow of the stack, endless text in an invalid length.
  if (error instanceof RangeError) return { message: 'is nested too deeply or makes too much text' };
  if (!LiquidError.is(error)) throw error;
  const { originalError } = error;
  if (originalError instanceof TooMuchText) return { message: TOO_MUCH_TEXT };
  if (originalError instanceof RangeError) return { message: 'is nested too deeply or makes too much text' };
  const [line, column] = error.token.getPosition() as [number, number];
  if (originalError instanceof OverLimit) return placed(originalError.message, line, column);
  return placed(sentenceOf(error), line, column);
}

function placed(sentence: string, line: number, column: number): Omit<Issue, 'field'> {
  return { message: `${sentence} (line ${line}, column ${column})`, line, column };
}

function sentenceOf(error: LiquidError): string {
  const said = (error.originalError?.message ?? error.message).replace(/, line:\d+, col:\d+$/, '').slice(0, 200);
  return limitSentence(said) ?? `is not a valid template: ${said}`;
}

/** What the clock's refusal means; it comes from outside of any tag too, and then there is no place to name. */
function limitSentence(said: string): string | undefined {
  if (said !== RENDER_LIMIT_EXCEEDED) return undefined;
  return `takes longer than ${RENDER_LIMIT_MS} ms to fill in; loop over less, or compute values before the send`;
}
