/**
 * What a command of the command line is: its words, its options, and a function that answers with data. The data is
 * printed as one JSON object under --json and as text otherwise; nothing else goes to stdout. Refusals are thrown as
 * CommandError and end with exit code 1, wrong usage as UsageError with 2.
 */
import path from 'node:path';
import type { ParseArgsConfig } from 'node:util';
import type { Clock } from '../base/clock.ts';
import type { Failure } from '../base/failure.ts';
import type { Result } from '../base/result.ts';
import type { Config } from '../config.ts';

export interface Streams {
  /** Writes to stdout and stderr as it is; line ends are the caller's. */
  out(text: string): void;
  err(text: string): void;
  /** Whether stdout is a terminal, that nobody keeps. */
  outIsTerminal?: boolean;
  /** Whether stderr is a terminal, where a line may be drawn over itself. */
  errIsTerminal?: boolean;
}

export type Environment = Record<string, string | undefined>;
export type OptionValues = Record<string, string | boolean | (string | boolean)[] | undefined>;

export interface CommandCall {
  config: Config;
  environment: Environment;
  clock: Clock;
  streams: Streams;
  positionals: string[];
  options: OptionValues;
  /** Whether --json was given: for a command that prints while it runs. */
  json: boolean;
}

export interface CommandOutcome {
  /** One object; undefined when the command has printed all it has to say. */
  data?: Record<string, unknown>;
  /** The same for people, without the last line end. */
  text?: string;
  /** 0 unless told. */
  exitCode?: number;
}

export interface Command {
  /** One or two words. */
  words: string;
  /** What follows the words, as help shows it. */
  usage: string;
  summary: string;
  options: NonNullable<ParseArgsConfig['options']>;
  /** Names of the arguments, all required. */
  positionals: string[];
  /** More arguments than named are left to the command. */
  morePositionals?: boolean;
  run(call: CommandCall): Promise<CommandOutcome>;
}

/** A refusal with a sentence for the operator. */
export class CommandError extends Error {
  override name = 'CommandError';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The command was called in a way that it does not understand. */
export class UsageError extends Error {
  override name = 'UsageError';
}

function sentence(failure: Failure): string {
  const issues = failure.details.map((one) => (one.field ? `${one.field} ${one.message}` : one.message));
  return issues.length > 0 ? issues.join('; ') : failure.message;
}

/** The value of an expected outcome; throws its refusal. `notFound` says what it is that does not exist. */
export function successOf<T>(result: Result<T>, notFound?: string): T {
  if (result.ok) return result.value;
  const { failure } = result;
  throw new CommandError(failure.code, failure.code === 'NOT_FOUND' && notFound ? notFound : sentence(failure));
}

/** A text option that must be given. */
export function required(options: OptionValues, name: string): string {
  const value = options[name];
  if (typeof value !== 'string' || value === '') throw new UsageError(`--${name} is required`);
  return value;
}

/** A text option that may be left out. */
export function optional(options: OptionValues, name: string): string | undefined {
  const value = options[name];
  if (value === '') throw new UsageError(`--${name} must not be empty`);
  return typeof value === 'string' ? value : undefined;
}

/** The file to write: the one that is named, else one in this folder named after the moment, which git ignores. */
export function targetFile({ positionals, clock }: CommandCall, ending: 'backup' | 'export'): string {
  if (positionals.length > 1) throw new UsageError(`unexpected argument ${positionals[1]}`);
  const moment = new Date(clock.now()).toISOString().slice(0, 19).replaceAll(':', '');
  return path.resolve(positionals[0] ?? `postrider-${moment}.${ending}`);
}

/** An option that may be given several times. */
export function several(options: OptionValues, name: string): string[] {
  const values = options[name];
  return Array.isArray(values) ? values.map(String) : [];
}

/** An option that is one of a few words. */
export function choice<T extends string>(options: OptionValues, name: string, allowed: readonly T[]): T | undefined {
  const value = optional(options, name);
  if (value === undefined) return undefined;
  const found = allowed.find((one) => one === value);
  if (!found) throw new UsageError(`--${name} must be one of ${allowed.join(', ')}`);
  return found;
}

/** Names and values in two columns. */
export function columns(rows: [string, unknown][]): string {
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value === null ? '-' : String(value)}`).join('\n');
}
