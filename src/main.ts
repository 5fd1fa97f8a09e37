/** The entry point: runs the command line and exits with its exit code. */
import { runCommandLine } from './cli/command-line.ts';

// New files contain mail, keys, and password hashes, so only the owner may read them.
process.umask(0o077);
// A closed pipe or terminal must not stop a running service.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
const code = await runCommandLine(process.argv.slice(2), process.env, {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  outIsTerminal: process.stdout.isTTY === true,
  errIsTerminal: process.stderr.isTTY === true,
});
// exit() would discard output that is not yet written to a pipe.
await Promise.all(
  [process.stdout, process.stderr].map(
    (stream) => new Promise((resolve) => stream.write('', () => resolve(undefined))),
  ),
);
process.exit(code);
