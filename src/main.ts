/**
 * The entry point: runs the command line and exits with its exit code. If the output of a command cannot be written, the exit code says so;
 * only a running service ignores that.
 */
import { runCommandLine } from './cli/command-line.ts';

/** 128 plus SIGPIPE, as for other programs whose output pipe was closed. */
const CLOSED_PIPE = 141;

// New files contain mail, keys, and password hashes, so only the owner may read them.
process.umask(0o077);
const argv = process.argv.slice(2);
// The options before a command have no values.
const isService = argv.find((one) => !one.startsWith('-')) === 'serve';
let isStderrLost = false;
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  // A closed pipe or terminal must not stop a running service.
  if (isService) return;
  if (code === 'EPIPE') process.exit(CLOSED_PIPE);
  process.stderr.write(
    `postrider: stdout cannot be written (${code}), so the result is lost; the command may have succeeded\n`,
  );
  process.exit(1);
});
process.stderr.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code !== 'EPIPE') isStderrLost = true;
});
const code = await runCommandLine(argv, process.env, {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  outIsTerminal: process.stdout.isTTY === true,
  errIsTerminal: process.stderr.isTTY === true,
});
// exit() would discard output that is not yet written to a pipe.
await Promise.all(
  [process.stdout, process.stderr]
    // Even an empty write fails on a full disk.
    .filter((stream) => stream.writableLength > 0)
    .map((stream) => new Promise((resolve) => stream.write('', () => resolve(undefined)))),
);
// The events of failed writes come first.
await new Promise((resolve) => setImmediate(resolve));
process.exit(isStderrLost && !isService ? code || 1 : code);
