/**
 * The command line: parses the commands of commands.ts with commander and runs one of them. Help lists the commands under headings, with
 * examples for each; a mistyped command gets a suggestion. stdout contains only the result: with --json exactly one object, even for an
 * error. Exit codes: 0 success, 1 error, 2 wrong usage, 78 invalid settings.
 */
import { Command, CommanderError, Help } from 'commander';
import { systemClock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { ConfigError, examineConfig, PortInUse, VERSION } from '../config.ts';
import {
  CommandError,
  type CommandOutcome,
  descendantsOf,
  type Environment,
  EX_CONFIG,
  type Streams,
  UsageError,
  wordsOf,
} from './command.ts';
import { type Definition, SECTIONS } from './commands.ts';

/** Runs a command with its arguments. */
type Launch = (definition: Definition, given: { args: string[]; options: never; program: Command }) => Promise<void>;

/** Creates the program, which passes commands to `launch`, and help and version to `show`; everything else is thrown. */
function buildProgram(launch: Launch, show: (text: string) => void): Command {
  const program = new Command('postrider')
    .usage('<command> [options]')
    .description('A self-hosted transactional email server.')
    .helpOption('-h, --help', 'Show help')
    .option('--json', 'Print one JSON object on stdout and nothing else')
    .version(VERSION, '--version', 'Print the version')
    .configureOutput({ writeOut: show, writeErr: show, outputError: () => undefined })
    .configureHelp({ formatHelp: withoutCommands });
  const definitions = SECTIONS.flatMap((section) => section.commands);
  for (const one of definitions) addCommand(program, one, launch);
  for (const group of groupsOf(program)) {
    const own = definitions.filter(({ usage }) => usage.startsWith(`${group.name()} `));
    group.usage('<command> [options]').addHelpText('after', list('Commands', own));
  }
  program.addHelpText('after', SECTIONS.map(({ heading, commands }) => list(heading, commands)).join('\n'));
  program.addHelpText('after', '\nRun postrider <command> --help for the options and examples of a command.');
  for (const command of [program, ...descendantsOf(program)]) {
    command.exitOverride((error) => {
      throw error.exitCode === 0 ? error : usageError(command, error);
    });
  }
  return program;
}

/** Formats the help without its commands, which follow at the end, with their arguments and under headings. */
function withoutCommands(command: Command, help: Help): string {
  const others: Help = Object.assign(Object.create(help), { visibleCommands: () => [] });
  return Help.prototype.formatHelp.call(others, command, others);
}

function addCommand(program: Command, definition: Definition, launch: Launch): void {
  const { usage, summary, required = [], options = [], notes, examples } = definition;
  const [first = '', ...rest] = usage.split(' ');
  const isGrouped = /^[a-z]/.test(rest[0] ?? '');
  const parent = isGrouped ? (program.commands.find((one) => one.name() === first) ?? program.command(first)) : program;
  const command = parent
    .command(isGrouped ? rest.join(' ') : usage)
    .description(summary)
    .allowExcessArguments(false);
  for (const option of [...required, ...options]) command.addOption(option);
  command.usage(argumentsOf(definition));
  const lines = examples.map((one) => `  postrider ${one}`);
  command.addHelpText('after', `${notes === undefined ? '' : `\n${notes}\n`}\nExamples:\n${lines.join('\n')}`);
  command.action(() => {
    const given: Record<string, unknown> = command.opts();
    // Required options are checked here, because commander would report them before a mistyped option.
    const missing = required.find((one) => given[one.attributeName()] === undefined);
    if (missing) throw new UsageError(`${missing.long} is required; ${seeHelp(command)}`);
    return launch(definition, { args: command.args, options: given as never, program });
  });
}

function groupsOf(program: Command): Command[] {
  return program.commands.filter((one) => one.commands.length > 0);
}

/** Returns the usage of a command after its words: arguments, required options, and `[options]` if there are others. */
function argumentsOf({ usage, required = [], options = [] }: Definition): string {
  const args = usage.split(' ').filter((one) => /^[<[]/.test(one));
  const others = options.length > 0 ? ['[options]'] : [];
  return [...args, ...required.map((one) => one.flags), ...others].join(' ');
}

function list(heading: string, definitions: readonly Definition[]): string {
  const lines = definitions.map((one) => {
    const words = one.usage.replace(/ [<[].*/, '');
    return `  ${`postrider ${words} ${argumentsOf(one)}`.trim()}\n      ${one.summary}`;
  });
  return `\n${heading}:\n${lines.join('\n')}`;
}

function seeHelp(command: Command): string {
  return `see ${`postrider ${wordsOf(command)}`.trim()} --help`;
}

/** Returns a usage error of one line; commander writes two. */
function usageError(command: Command, error: CommanderError): UsageError {
  if (error.code !== 'commander.help') {
    return new UsageError(`${error.message.replace(/^error: |\.$/g, '').replaceAll('\n', ' ')}; ${seeHelp(command)}`);
  }
  if (command.parent === null) return new UsageError(`no command given; ${seeHelp(command)}`);
  const words = command.commands.map(wordsOf);
  return new UsageError(`postrider ${wordsOf(command)} needs a subcommand, one of: ${words.join(', ')}`);
}

interface Refusal {
  code: string;
  message: string;
  exitCode: number;
}

function refusalOf(error: unknown): Refusal {
  const { message, name } = error as Error;
  if (error instanceof UsageError) return { code: 'USAGE', message, exitCode: 2 };
  if (error instanceof CommandError) return { code: error.code, message, exitCode: 1 };
  if (error instanceof PortInUse) return { code: 'CONFIGURATION', message, exitCode: 1 };
  if (error instanceof ConfigError) return { code: 'CONFIGURATION', message, exitCode: EX_CONFIG };
  if (error instanceof Unavailable) return { code: 'UNAVAILABLE', message, exitCode: 1 };
  return { code: name === 'Error' ? 'FAILED' : name, message, exitCode: 1 };
}

/** Runs one command and returns its exit code. `argv` does not contain the name of the program. */
export async function runCommandLine(argv: string[], environment: Environment, streams: Streams): Promise<number> {
  // Detected here, so that it also applies if an earlier argument cannot be parsed.
  const json = argv.slice(0, argv.includes('--') ? argv.indexOf('--') : argv.length).includes('--json');
  let outcome: CommandOutcome = {};
  /** The text of --help or --version, which --json prints as an object. */
  let shown = '';
  const launch: Launch = async ({ load, acceptsInvalidSettings }, given) => {
    const examined = examineConfig(environment);
    const [problem] = examined.problems;
    if (problem && acceptsInvalidSettings !== true) throw problem;
    const run = await load();
    const { config } = examined;
    outcome = await run({ config, examined, environment, clock: systemClock, streams, ...given, json });
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
  // An error response of a remote service is not a result: it goes to stderr like other errors.
  if (exitCode === 1 && data?.success === false) streams.err(`postrider: ${text}\n`);
  else streams.out(`${text}\n`);
}
