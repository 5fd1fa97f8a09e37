/** The program: hands its arguments to the command line and ends with the exit code that comes back. */
import { runCommandLine } from './cli/command-line.ts';

// Whatever is made holds mail, keys and hashes of passwords, the database's own files among it.
process.umask(0o077);
// A reader that went away (head, a closed terminal) must not end a running service.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
const code = await runCommandLine(process.argv.slice(2), process.env, {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  outIsTerminal: process.stdout.isTTY === true,
  errIsTerminal: process.stderr.isTTY === true,
});
// Output to a pipe may be in transit, and exit() would discard it.
await Promise.all(
  [process.stdout, process.stderr].map(
    (stream) => new Promise((resolve) => stream.write('', () => resolve(undefined))),
  ),
);
process.exit(code);
