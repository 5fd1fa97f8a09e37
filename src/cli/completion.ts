/**
 * Implements `postrider completion`: generates shell scripts that complete commands, options, values of options, and files. The scripts are
 * self-contained, so pressing Tab does not start the program.
 *
 * Completion uses the words before the cursor that are not options: `account create --name Acme --p` completes the options of `account
 * create`.
 */
import type { Command, Option } from 'commander';
import { type CommandCall, type CommandOutcome, descendantsOf, UsageError, wordsOf } from './command.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

interface Candidate {
  word: string;
  description: string;
}

interface OptionCandidate extends Candidate {
  /** Whether the option has a value. */
  takesValue: boolean;
  takesFile: boolean;
  /** All values that the option accepts; empty if it accepts any value. */
  values: readonly string[];
}

/** The candidates after these words. */
interface CompletionNode {
  /** `account create`; empty for the program itself. */
  words: string;
  commands: Candidate[];
  options: OptionCandidate[];
  takesFile: boolean;
}

function completionScript(shell: Shell, nodes: readonly CompletionNode[]): string {
  // Longest first: `account create` is matched before `account`.
  const longestFirst = [...nodes].sort((one, other) => other.words.length - one.words.length);
  if (shell === 'bash') return bash(longestFirst);
  return shell === 'zsh' ? zsh(longestFirst) : fish(nodes);
}

/** Returns a `case` pattern for bash and zsh: these words, followed by anything. */
const pattern = ({ words }: CompletionNode): string => (words === '' ? "''" : `'${words}'|'${words} '*`);
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns the `case` lines for the previous word: options with a value. */
function valueCases({ options }: CompletionNode, values: (list: readonly string[]) => string, files: string): string[] {
  return options.flatMap(({ word, takesValue, takesFile, values: list }) => {
    if (!takesValue) return [];
    return [`        ${word}) ${list.length > 0 ? values(list) : takesFile ? files : ':'}; return ;;`];
  });
}

/** Keeps names with spaces intact, and appends a slash to folders. */
const BASH_FILES = 'compopt -o filenames 2>/dev/null; local IFS=$\'\\n\'; COMPREPLY+=($(compgen -f -- "$word"))';

function bash(nodes: readonly CompletionNode[]): string {
  const cases = nodes.map((node) => {
    const words = [...node.commands, ...node.options].map((one) => one.word).join(' ');
    return [
      `    ${pattern(node)})`,
      '      case "$before" in',
      ...valueCases(node, (list) => `COMPREPLY=($(compgen -W "${list.join(' ')}" -- "$word"))`, BASH_FILES),
      '      esac',
      `      COMPREPLY=($(compgen -W "${words}" -- "$word"))`,
      ...(node.takesFile ? [`      ${BASH_FILES}`] : []),
      '      ;;',
    ].join('\n');
  });
  return `# bash completion of postrider
_postrider() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ "\${COMP_WORDS[i]}" == -* ]] || words="\${words:+$words }\${COMP_WORDS[i]}"
  done
  COMPREPLY=()
  case "$words" in
${cases.join('\n')}
  esac
}
complete -F _postrider postrider
`;
}

function zsh(nodes: readonly CompletionNode[]): string {
  const described = ({ word, description }: Candidate): string => quoted(`${word}:${description}`);
  const cases = nodes.map((node) =>
    [
      `    ${pattern(node)})`,
      '      case "$before" in',
      ...valueCases(node, (list) => `compadd -- ${list.join(' ')}`, '_files'),
      '      esac',
      `      candidates=(${[...node.commands, ...node.options].map(described).join(' ')})`,
      "      _describe 'postrider' candidates",
      ...(node.takesFile ? ['      _files'] : []),
      '      ;;',
    ].join('\n'),
  );
  return `#compdef postrider
# zsh completion of postrider
_postrider() {
  local before="\${words[CURRENT-1]}" path_words="" one
  local -a candidates
  for one in "\${(@)words[2,CURRENT-1]}"; do
    [[ "$one" == -* ]] || path_words="\${path_words:+$path_words }$one"
  done
  case "$path_words" in
${cases.join('\n')}
  esac
}
compdef _postrider postrider
`;
}

function ownOptions({ words, options }: CompletionNode): OptionCandidate[] {
  return words === '' ? options : options.filter(({ word }) => word !== '--help' && word !== '--json');
}

function fish(nodes: readonly CompletionNode[]): string {
  const lines = nodes.flatMap((node) => {
    const seen = node.words
      .split(' ')
      .filter(Boolean)
      .map((word) => `__fish_seen_subcommand_from ${word}`);
    const subcommands = node.commands.map((one) => one.word).join(' ');
    const notYet = subcommands === '' ? [] : [`not __fish_seen_subcommand_from ${subcommands}`];
    const condition = (parts: string[]): string => (parts.length === 0 ? '' : ` -n ${quoted(parts.join('; and '))}`);
    return [
      ...node.commands.map(
        ({ word, description }) =>
          `complete -c postrider -f${condition([...seen, ...notYet])} -a ${quoted(word)} -d ${quoted(description)}`,
      ),
      ...(node.takesFile ? [`complete -c postrider -F${condition(seen)}`] : []),
      ...ownOptions(node).map(({ word, description, takesValue, takesFile, values }) => {
        const value =
          values.length > 0 ? ` -x -a ${quoted(values.join(' '))}` : takesFile ? ' -r -F' : takesValue ? ' -x' : '';
        return `complete -c postrider${condition(seen)} -l ${word.replace(/^--/, '')}${value} -d ${quoted(description)}`;
      }),
    ];
  });
  return `# fish completion of postrider\ncomplete -c postrider -f\n${lines.join('\n')}\n`;
}

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
  if (!shell) throw new UsageError(`unknown shell ${name}: use one of ${SHELLS.join(', ')}`);
  const everywhere = program.options.filter((one) => one.long === '--json');
  const nodes = [nodeOf(program, []), ...descendantsOf(program).map((command) => nodeOf(command, everywhere))];
  const script = completionScript(shell, nodes);
  return { data: { script }, text: script.trimEnd() };
}
