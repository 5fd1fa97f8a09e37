/** How `backup` and `export` tell that their file is not whole: on stderr, under --json, and with exit code 1. */
import type { CommandCall, CommandOutcome } from './command.ts';

const SHOWN_AT_MOST = 100;

/** The outcome as it is when nothing was lost; else the file stays, and nobody can take it for a whole one. */
export function withLost({ streams }: CommandCall, outcome: CommandOutcome, lost: readonly string[]): CommandOutcome {
  const keys = lost.slice(0, SHOWN_AT_MOST);
  const data = { ...outcome.data, complete: lost.length === 0, lost: { count: lost.length, keys } };
  if (lost.length === 0) return { ...outcome, data };
  const count = lost.length === 1 ? 'one blob' : `${lost.length} blobs`;
  const more = lost.length > keys.length ? `  and ${lost.length - keys.length} more\n` : '';
  streams.err(
    `postrider: ${count} named by the database, missing or damaged in the blob store, and not in the file:\n${keys.map((key) => `  ${key}\n`).join('')}${more}`,
  );
  return { data, text: `${outcome.text}\nThe file is INCOMPLETE: it lacks ${count}, named on stderr.`, exitCode: 1 };
}
