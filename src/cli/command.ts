/**
 * Types for the functions that implement commands. The result is printed as one JSON object with --json and as text otherwise; nothing else
 * goes to stdout. Errors are thrown as CommandError (exit code 1), wrong usage as UsageError (2). commands.ts defines all commands and
 * their options.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import type { Clock } from '../base/clock.ts';
import type { Failure, Result } from '../base/failure.ts';
import type { Config, ExaminedConfig } from '../config.ts';

/** EX_CONFIG of sysexits.h: a restart cannot help. The systemd unit does not restart after it (RestartPreventExitStatus). */
export const EX_CONFIG = 78;

export interface Streams {
  /** Writes to stdout and stderr unchanged; callers add line ends. */
  out(text: string): void;
  err(text: string): void;
  /** Whether stdout is a terminal, whose output is not stored. */
  outIsTerminal?: boolean;
  /** Whether stderr is a terminal, where a line can be overwritten. */
  errIsTerminal?: boolean;
}

export type Environment = Record<string, string | undefined>;

export interface CommandCall<Options = unknown> {
  config: Config;
  /** The settings with their problems; there are none unless the command accepts invalid settings. */
  examined: ExaminedConfig;
  environment: Environment;
  clock: Clock;
  streams: Streams;
  /** The arguments after the command, as declared. */
  args: string[];
  /** The options by their names in camel case. */
  options: Options;
  /** The program with all commands, for completion. */
  program: Command;
  /** Whether --json was given: for a command that prints while it runs. */
  json: boolean;
}

export interface CommandOutcome {
  /** The result as an object; undefined if the command has printed everything itself. */
  data?: Record<string, unknown>;
  /** The result as text, without the last line end. */
  text?: string;
  /** 0 by default. */
  exitCode?: number;
}

export type CommandFunction<Options> = (call: CommandCall<Options>) => Promise<CommandOutcome>;

/** An error with a message for the operator. */
export class CommandError extends Error {
  override name = 'CommandError';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

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

/** Returns the value of a Result; throws its failure, or `missing` if the resource does not exist. */
export function successOf<T>(result: Result<T>, missing?: CommandError): T {
  if (result.ok) return result.value;
  const { failure } = result;
  if (failure.code === 'NOT_FOUND' && missing) throw missing;
  throw new CommandError(failure.code, sentence(failure));
}

/** Returns the name of an input for a message; `-` is stdin. */
export const inputName = (file: string): string => (file === '-' ? 'stdin' : file);

/** Reads a file, or stdin for `-`. Throws an error for the operator if it cannot be read. */
export function readInput(file: string, errorCode: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new CommandError(errorCode, `the file ${file} does not exist`);
    if (code === 'EISDIR') throw new CommandError(errorCode, `${file} is a folder; name a file in it`);
    throw new CommandError(errorCode, `${inputName(file)} cannot be read (${code}); check its path and permissions`);
  }
}

/** Returns the value of a Result of a credential; a restriction that is not valid is wrong usage of its option. */
export function credentialOf<T>(result: Result<T>, missing?: CommandError): T {
  const [issue] = result.ok ? [] : result.failure.details;
  const [, field] = /^(allowedSenders|allowedNetworks)\b/.exec(issue?.field ?? '') ?? [];
  if (issue === undefined || field === undefined) return successOf(result, missing);
  throw new UsageError(`${field === 'allowedSenders' ? '--allowed-sender' : '--network'} ${issue.message}`);
}

/** Returns the file to write: the given one, or one in the current folder with the time in its name, which git ignores. */
export function targetFile({ args, clock }: CommandCall, ending: 'backup' | 'export'): string {
  const moment = new Date(clock.now()).toISOString().slice(0, 19).replaceAll(':', '');
  return path.resolve(args[0] ?? `postrider-${moment}.${ending}`);
}

/** Formats names and values as two columns. */
export function columns(values: Record<string, unknown>): string {
  return table(Object.entries(values));
}

/** Formats rows as columns; names may be repeated. */
export function table(rows: [string, unknown][]): string {
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value === null ? '-' : String(value)}`).join('\n');
}

export function descendantsOf(command: Command): Command[] {
  return command.commands.flatMap((one) => [one, ...descendantsOf(one)]);
}

/** Returns the words of a command, without the name of the program. */
export function wordsOf(command: Command): string {
  return command.parent ? `${wordsOf(command.parent)} ${command.name()}`.trim() : '';
}
