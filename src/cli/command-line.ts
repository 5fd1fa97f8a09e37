/**
 * The command line: finds the command, reads its options, runs it, and prints what came of it. stdout gets the answer
 * and nothing else: under --json exactly one object, also for a refusal. Exit codes: 0 done, 1 refused or failed, 2 wrong
 * usage.
 */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { ConfigError, readConfig } from '../config.ts';
import { ABOUT } from '../roles/about.ts';
import { accountCommands } from './account.ts';
import { approvalCommands } from './approval.ts';
import { backupCommand, restoreCommand } from './backup.ts';
import {
  type Command,
  CommandError,
  type CommandOutcome,
  type Environment,
  type Streams,
  UsageError,
} from './command.ts';
import { doctorCommand } from './doctor.ts';
import { domainCommands } from './domain.ts';
import { keyCommands } from './key.ts';
import { listenCommand } from './listen.ts';
import { loginCommand } from './login.ts';
import { migrateCommand } from './migrate.ts';
import { queueCommands } from './queue.ts';
import { sendCommand } from './send.ts';
import { serveCommand } from './serve.ts';
import { smtpCredentialCommands } from './smtp-credential.ts';
import { exportCommand, importCommand } from './transfer.ts';
import { userCommands } from './user.ts';

const COMMANDS: Command[] = [
  serveCommand,
  ...accountCommands,
  ...keyCommands,
  ...smtpCredentialCommands,
  ...domainCommands,
  ...approvalCommands,
  ...userCommands,
  ...queueCommands,
  loginCommand,
  sendCommand,
  listenCommand,
  migrateCommand,
  backupCommand,
  restoreCommand,
  exportCommand,
  importCommand,
  doctorCommand,
];

const EVERYWHERE: NonNullable<ParseArgsConfig['options']> = {
  help: { type: 'boolean', short: 'h' },
};

function overview(commands: readonly Command[]): string {
  const lines = commands.map((one) => `  postrider ${`${one.words} ${one.usage}`.trim()}\n      ${one.summary}`);
  return `${lines.join('\n')}\n\n--json prints one JSON object, --help explains a command, --version tells the version.\n`;
}

function commandHelp(command: Command): string {
  return `postrider ${`${command.words} ${command.usage}`.trim()}\n  ${command.summary}\n`;
}

/** The command that the first words name, and the arguments behind them. */
function findCommand(argv: string[]): { command: Command; rest: string[] } | undefined {
  for (const count of [2, 1]) {
    const words = argv.slice(0, count).join(' ');
    const command = COMMANDS.find((one) => one.words === words);
    if (command) return { command, rest: argv.slice(count) };
  }
  return undefined;
}

function unknownCommand(argv: string[]): UsageError {
  const related = COMMANDS.filter((one) => one.words.split(' ')[0] === argv[0]);
  if (related.length === 0) return new UsageError(`there is no command ${argv[0]}; see postrider --help`);
  return new UsageError(`postrider ${argv[0]} is one of: ${related.map((one) => one.words).join(', ')}`);
}

interface Failed {
  code: string;
  message: string;
  exitCode: number;
}

function judge(error: unknown): Failed {
  const { message, name } = error as Error;
  if (error instanceof UsageError) return { code: 'USAGE', message, exitCode: 2 };
  if (error instanceof CommandError) return { code: error.code, message, exitCode: 1 };
  if (error instanceof ConfigError) return { code: 'CONFIGURATION', message, exitCode: 1 };
  if (error instanceof Unavailable) return { code: 'UNAVAILABLE', message, exitCode: 1 };
  return { code: name === 'Error' ? 'FAILED' : name, message, exitCode: 1 };
}

/** Takes --json out, wherever before a `--` it stands; the rest in order. */
function takeJson(argv: string[]): { json: boolean; words: string[] } {
  const end = argv.indexOf('--');
  const options = end === -1 ? argv : argv.slice(0, end);
  const words = options.filter((one) => one !== '--json');
  return { json: words.length < options.length, words: end === -1 ? words : [...words, ...argv.slice(end)] };
}

/** Help, which under --json is an object too. */
function help(text: string): CommandOutcome {
  return { data: { help: text.trimEnd() }, text: text.trimEnd() };
}

/** Runs one command and answers its exit code. `argv` is without the program's own names. */
export async function runCommandLine(argv: string[], environment: Environment, streams: Streams): Promise<number> {
  const { json, words } = takeJson(argv);
  try {
    const outcome = await dispatch(words, { json, environment, streams });
    if (json && outcome.data) streams.out(`${JSON.stringify(outcome.data)}\n`);
    else if (!json && outcome.text !== undefined) {
      // A refusal of a remote service is no answer: it belongs on stderr like our own.
      if (outcome.exitCode === 1 && outcome.data?.success === false) streams.err(`postrider: ${outcome.text}\n`);
      else streams.out(`${outcome.text}\n`);
    }
    return outcome.exitCode ?? 0;
  } catch (error) {
    const { code, message, exitCode } = judge(error);
    streams.err(`postrider: ${message}\n`);
    if (json) streams.out(`${JSON.stringify({ success: false, error: { code, message } })}\n`);
    return exitCode;
  }
}

async function dispatch(
  argv: string[],
  { json, environment, streams }: { json: boolean; environment: Environment; streams: Streams },
): Promise<CommandOutcome> {
  const found = findCommand(argv);
  if (!found) {
    if (argv.length === 1 && ['version', '--version'].includes(argv[0]!)) {
      return { data: { version: ABOUT.version }, text: ABOUT.version };
    }
    if (argv.length === 0) throw new UsageError('no command given; see postrider --help');
    if (argv.includes('--help') || argv.includes('-h') || argv[0] === 'help') {
      const related = COMMANDS.filter((one) => one.words.startsWith(`${argv[0]} `));
      return help(overview(related.length > 0 ? related : COMMANDS));
    }
    throw unknownCommand(argv);
  }
  const { command, rest } = found;
  const { values, positionals } = readArguments(command, rest);
  if (values.help) return help(commandHelp(command));
  const missing = command.positionals[positionals.length];
  if (missing !== undefined) throw new UsageError(`${missing} is missing: postrider ${command.words} ${command.usage}`);
  if (positionals.length > command.positionals.length && !command.morePositionals) {
    throw new UsageError(`unexpected argument ${positionals[command.positionals.length]}`);
  }
  return command.run({
    config: readConfig(environment),
    environment,
    clock: systemClock,
    streams,
    positionals,
    options: values,
    json,
  });
}

function readArguments(command: Command, args: string[]) {
  try {
    return parseArgs({ args, options: { ...EVERYWHERE, ...command.options }, allowPositionals: true, strict: true });
  } catch (error) {
    const [sentence] = (error as Error).message.split('. ');
    throw new UsageError(`${sentence}; see postrider ${command.words} --help`);
  }
}
