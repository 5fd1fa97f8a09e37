/**
 * The command line: runs one command and prints what came of it. stdout gets the answer and nothing else: under --json exactly
 * one object, also for a refusal. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
 */
import { CommanderError } from 'commander';
import { systemClock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { ConfigError, readConfig } from '../config.ts';
import { CommandError, type CommandOutcome, type Environment, type Streams, UsageError } from './command.ts';
import { buildProgram, type Launch } from './program.ts';

interface Refusal {
  code: string;
  message: string;
  exitCode: number;
}

function refusalOf(error: unknown): Refusal {
  const { message, name } = error as Error;
  if (error instanceof UsageError) return { code: 'USAGE', message, exitCode: 2 };
  if (error instanceof CommandError) return { code: error.code, message, exitCode: 1 };
  if (error instanceof ConfigError) return { code: 'CONFIGURATION', message, exitCode: 1 };
  if (error instanceof Unavailable) return { code: 'UNAVAILABLE', message, exitCode: 1 };
  return { code: name === 'Error' ? 'FAILED' : name, message, exitCode: 1 };
}

/** Runs one command and answers its exit code. `argv` is without the program's own names. */
export async function runCommandLine(argv: string[], environment: Environment, streams: Streams): Promise<number> {
  // Also where it stands behind what cannot be parsed.
  const json = argv.slice(0, argv.includes('--') ? argv.indexOf('--') : argv.length).includes('--json');
  let outcome: CommandOutcome = {};
  /** Help and version, which under --json are objects too. */
  let shown = '';
  const launch: Launch = async (load, given) => {
    const config = readConfig(environment);
    const run = await load();
    outcome = await run({ config, environment, clock: systemClock, streams, ...given, json });
  };
  const program = buildProgram(launch, (text) => {
    shown += text;
  });
  try {
    await program.parseAsync(argv, { from: 'user' }).catch((error: unknown) => {
      if (!(error instanceof CommanderError) || error.exitCode !== 0) throw error;
      const text = shown.trimEnd();
      outcome = { data: error.code === 'commander.version' ? { version: text } : { help: text }, text };
    });
    print(outcome, streams, json);
    return outcome.exitCode ?? 0;
  } catch (error) {
    const { code, message, exitCode } = refusalOf(error);
    streams.err(`postrider: ${message}\n`);
    if (json) streams.out(`${JSON.stringify({ success: false, error: { code, message } })}\n`);
    return exitCode;
  }
}

function print({ data, text, exitCode }: CommandOutcome, streams: Streams, isJson: boolean): void {
  if (isJson && data) streams.out(`${JSON.stringify(data)}\n`);
  if (isJson || text === undefined) return;
  // A refusal of a remote service is no answer: it belongs on stderr like our own.
  if (exitCode === 1 && data?.success === false) streams.err(`postrider: ${text}\n`);
  else streams.out(`${text}\n`);
}
