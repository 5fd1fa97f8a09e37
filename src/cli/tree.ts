/** Walks over the tree of commands: what stands below one, and the words that lead to it. */
import type { Command } from 'commander';

export function descendantsOf(command: Command): Command[] {
  return command.commands.flatMap((one) => [one, ...descendantsOf(one)]);
}

/** Its words, without the name of the program. */
export function wordsOf(command: Command): string {
  return command.parent ? `${wordsOf(command.parent)} ${command.name()}`.trim() : '';
}
