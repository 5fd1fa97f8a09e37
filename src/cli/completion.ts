/** `postrider completion`: prints the script that completes this program's commands in a shell. */
import type { Command, Option } from 'commander';
import { type CommandCall, type CommandOutcome, UsageError } from './command.ts';
import { type CompletionNode, completionScript, type OptionCandidate, SHELLS } from './completion-scripts.ts';
import { descendantsOf, wordsOf } from './tree.ts';

const takesFile = (text: string): boolean => /[<[]file/.test(text);

function optionCandidate({ long, flags, description, argChoices = [] }: Option): OptionCandidate {
  return {
    word: long ?? '',
    description,
    takesValue: /[<[]/.test(flags),
    takesFile: takesFile(flags),
    values: argChoices,
  };
}

function nodeOf(command: Command, inherited: readonly Option[]): CompletionNode {
  return {
    words: wordsOf(command),
    commands: command.commands.map((one) => ({ word: one.name(), description: one.description() })),
    options: [...command.createHelp().visibleOptions(command), ...inherited].map(optionCandidate),
    takesFile: takesFile(command.usage()),
  };
}

export async function completion({ args: [name = ''], program }: CommandCall): Promise<CommandOutcome> {
  const shell = SHELLS.find((one) => one === name);
  if (!shell) throw new UsageError(`there is no completion for ${name}; the shell must be one of ${SHELLS.join(', ')}`);
  const everywhere = program.options.filter((one) => one.long === '--json');
  const nodes = [nodeOf(program, []), ...descendantsOf(program).map((command) => nodeOf(command, everywhere))];
  const script = completionScript(shell, nodes);
  return { data: { script }, text: script.trimEnd() };
}
