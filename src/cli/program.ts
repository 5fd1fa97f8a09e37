/**
 * The tree of commands as commander parses it, made of the table in commands.ts. Help has the commands under headings, and
 * examples for each; a mistyped word gets the nearest one.
 */
import { Command, type CommanderError, Help } from 'commander';
import { VERSION } from '../config.ts';
import { type CommandFunction, UsageError } from './command.ts';
import { type Definition, SECTIONS } from './commands.ts';
import { descendantsOf, wordsOf } from './tree.ts';

/** Runs what `load` answers with what the command was given. */
export type Launch = (
  load: () => Promise<CommandFunction<never>>,
  given: { args: string[]; options: never; program: Command },
) => Promise<void>;

/** The program, which hands commands to `launch`, and help and version to `show`; everything else is thrown. */
export function buildProgram(launch: Launch, show: (text: string) => void): Command {
  const program = new Command('postrider')
    .usage('<command> [options]')
    .description('A transactional email service that anyone can run.')
    .option('--json', 'print one JSON object on stdout, and nothing else')
    .version(VERSION, '--version', 'print the version')
    .configureOutput({ writeOut: show, writeErr: show, outputError: () => undefined })
    .configureHelp({ formatHelp: withoutCommands });
  const definitions = SECTIONS.flatMap((section) => section.commands);
  for (const one of definitions) addCommand(program, one, launch);
  for (const group of groupsOf(program)) {
    const own = definitions.filter(({ usage }) => usage.startsWith(`${group.name()} `));
    group.usage('<command> [options]').addHelpText('after', list('Commands', own));
  }
  program.addHelpText('after', SECTIONS.map(({ heading, commands }) => list(heading, commands)).join('\n'));
  program.addHelpText('after', '\npostrider <command> --help explains a command, with examples.');
  for (const command of [program, ...descendantsOf(program)]) {
    command.exitOverride((error) => {
      throw error.exitCode === 0 ? error : usageError(command, error);
    });
  }
  return program;
}

/** The commands stand behind it, with their arguments and under headings. */
function withoutCommands(command: Command, help: Help): string {
  const others: Help = Object.assign(Object.create(help), { visibleCommands: () => [] });
  return Help.prototype.formatHelp.call(others, command, others);
}

function addCommand(program: Command, definition: Definition, launch: Launch): void {
  const { usage, summary, required = [], options = [], notes, examples, load } = definition;
  const [first = '', ...rest] = usage.split(' ');
  const isGrouped = /^[a-z]/.test(rest[0] ?? '');
  const parent = isGrouped ? (program.commands.find((one) => one.name() === first) ?? program.command(first)) : program;
  const command = parent
    .command(isGrouped ? rest.join(' ') : usage)
    .description(summary)
    .allowExcessArguments(false);
  for (const option of [...required, ...options]) command.addOption(option);
  command.usage(behindWords(definition));
  const lines = examples.map((one) => `  postrider ${one}`);
  command.addHelpText('after', `${notes === undefined ? '' : `\n${notes}\n`}\nExamples:\n${lines.join('\n')}`);
  command.action(() => {
    const given: Record<string, unknown> = command.opts();
    // Left to us, since commander would say so before it says which option was mistyped.
    const missing = required.find((one) => given[one.attributeName()] === undefined);
    if (missing) throw new UsageError(`${missing.long} is required; ${seeHelp(command)}`);
    return launch(load, { args: command.args, options: given as never, program });
  });
}

function groupsOf(program: Command): Command[] {
  return program.commands.filter((one) => one.commands.length > 0);
}

/** What follows its words: arguments, the options that have to be given, and whether there are others. */
function behindWords({ usage, required = [], options = [] }: Definition): string {
  const args = usage.split(' ').filter((one) => /^[<[]/.test(one));
  const others = options.length > 0 ? ['[options]'] : [];
  return [...args, ...required.map((one) => one.flags), ...others].join(' ');
}

function list(heading: string, definitions: readonly Definition[]): string {
  const lines = definitions.map((one) => {
    const words = one.usage.replace(/ [<[].*/, '');
    return `  ${`postrider ${words} ${behindWords(one)}`.trim()}\n      ${one.summary}`;
  });
  return `\n${heading}:\n${lines.join('\n')}`;
}

function seeHelp(command: Command): string {
  return `see ${`postrider ${wordsOf(command)}`.trim()} --help`;
}

/** One line for a wrong call of the command, where the library says it in two. */
function usageError(command: Command, error: CommanderError): UsageError {
  if (error.code !== 'commander.help') {
    return new UsageError(`${error.message.replace(/^error: |\.$/g, '').replaceAll('\n', ' ')}; ${seeHelp(command)}`);
  }
  if (command.parent === null) return new UsageError(`no command given; ${seeHelp(command)}`);
  const words = command.commands.map(wordsOf);
  return new UsageError(`postrider ${wordsOf(command)} is one of: ${words.join(', ')}`);
}
