/**
 * What the functions behind the commands are given and answer. The answer is printed as one JSON object under --json and as
 * text otherwise; nothing else goes to stdout. Refusals are thrown as CommandError and end with exit code 1, wrong usage
 * as UsageError with 2. Which commands there are, with their options, stands in commands.ts.
 */
import path from 'node:path';
import type { Command } from 'commander';
import type { Clock } from '../base/clock.ts';
import type { Failure, Result } from '../base/failure.ts';
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

export interface CommandCall<Options = unknown> {
  config: Config;
  environment: Environment;
  clock: Clock;
  streams: Streams;
  /** The arguments behind the command, as many as it has declared. */
  args: string[];
  /** By their names in camel case. */
  options: Options;
  /** All commands, for one that tells of them. */
  program: Command;
  /** Whether --json was given: for a command that prints while it runs. */
  json: boolean;
}

export interface CommandOutcome {
  /** One object; undefined when the command has printed all it has to say. */
  data?: Record<string, unknown>;
  /** The same for people, without the last line end. */
  text?: string;
  /** 0 by default. */
  exitCode?: number;
}

export type CommandFunction<Options> = (call: CommandCall<Options>) => Promise<CommandOutcome>;

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

export function notFound(message: string): CommandError {
  return new CommandError('NOT_FOUND', message);
}

export function unknownAccount(id: string): CommandError {
  return notFound(`there is no account ${id}; see postrider account list`);
}

function sentence(failure: Failure): string {
  const issues = failure.details.map((one) => (one.field ? `${one.field} ${one.message}` : one.message));
  return issues.length > 0 ? issues.join('; ') : failure.message;
}

/** The value of an expected outcome; throws its refusal, or `missing` when what it is about does not exist. */
export function successOf<T>(result: Result<T>, missing?: CommandError): T {
  if (result.ok) return result.value;
  const { failure } = result;
  if (failure.code === 'NOT_FOUND' && missing) throw missing;
  throw new CommandError(failure.code, sentence(failure));
}

/** The file to write: the one that is named, else one in this folder named after the moment, which git ignores. */
export function targetFile({ args, clock }: CommandCall, ending: 'backup' | 'export'): string {
  const moment = new Date(clock.now()).toISOString().slice(0, 19).replaceAll(':', '');
  return path.resolve(args[0] ?? `postrider-${moment}.${ending}`);
}

/** Names and values in two columns. */
export function columns(values: Record<string, unknown>): string {
  return table(Object.entries(values));
}

/** The same where a name may come twice. */
export function table(rows: [string, unknown][]): string {
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value === null ? '-' : String(value)}`).join('\n');
}

export function descendantsOf(command: Command): Command[] {
  return command.commands.flatMap((one) => [one, ...descendantsOf(one)]);
}

/** Its words, without the name of the program. */
export function wordsOf(command: Command): string {
  return command.parent ? `${wordsOf(command.parent)} ${command.name()}`.trim() : '';
}
