/**
 * Implements `postrider serve`: starts the service, displays the credentials of a first run once on a terminal, and runs until SIGTERM or
 * SIGINT (exit code 0) or until its storage fails (exit code 1). SIGHUP reloads certificates and the provider file. With `--processes`,
 * a supervisor (processes.ts) runs this command once in each process.
 */

import { flushCompileCache } from 'node:module';
import type { Running } from '../base/lifecycle.ts';
import type { Parts } from '../roles/parts.ts';
import { serve as startService } from '../roles/serve.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { assertNotRestoring } from '../storage/sqlite/backup.ts';
import { type FirstRun, firstRunFile } from '../users/users.ts';
import type { CommandCall, CommandOutcome } from './command.ts';
import { type Ports, serveProcesses, supervisor } from './processes.ts';
import { startScheduledBackups } from './scheduled-backups.ts';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const SAME_REQUEST_MS = 1_000;
const PARENT_CHECK_MS = 500;
/** Time from the start to the writing of compiled code, which then does not delay the first requests. */
const FLUSH_AFTER_MS = 1_000;

/** Detects that npm has ended. npm forwards SIGTERM and SIGINT, but if it is killed or its terminal closes, its child gets no signal. */
function watchNpm(environment: Record<string, string | undefined>, onEnd: () => void): void {
  // Applies to `npm start` only: other scripts may leave the service running on purpose.
  if (environment.npm_lifecycle_event !== 'start') return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onEnd();
  }, PARENT_CHECK_MS);
  timer.unref();
}

/**
 * Resolves with the first stop request: SIGTERM, SIGINT, or the end of the npm process that started the service. One request often arrives
 * as two signals, because Ctrl-C reaches the entire process group and npm also forwards its own. Signals within a second count as one
 * request; only a later signal ends the process immediately.
 */
function stopRequest(environment: Record<string, string | undefined>): Promise<'stop'> {
  const { promise, resolve } = Promise.withResolvers<'stop'>();
  let firstMs: number | undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    const nowMs = performance.now();
    firstMs ??= nowMs;
    resolve('stop');
    if (nowMs - firstMs < SAME_REQUEST_MS) return;
    for (const name of SIGNALS) process.off(name, onSignal);
    process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  watchNpm(environment, () => resolve('stop'));
  return promise;
}

const NOTHING: Running = { stop: () => Promise.resolve() };
const BOX_WIDTH = 76;

/** Draws a frame around lines. A line that does not fit has no sides, so that it can be selected and copied. */
function boxed(title: string, lines: readonly string[]): string {
  const top = `┌─ ${title} ${'─'.repeat(BOX_WIDTH - title.length - 1)}┐`;
  const inside = lines.map((line) => (line.length > BOX_WIDTH ? line : `│ ${line.padEnd(BOX_WIDTH)} │`));
  return [top, ...inside, `└${'─'.repeat(BOX_WIDTH + 2)}┘`].join('\n');
}

/** Returns the welcome text for a first start. Without a terminal it only names the file of the credentials. */
export function welcome(
  first: FirstRun,
  { httpPort, smtpPort }: Ports,
  file: string,
  showCredentials: boolean,
): string {
  if (!showCredentials) return `\nFirst start: the credentials are in ${file}\n\n`;
  const api = httpPort === undefined ? 'API' : `API at http://localhost:${httpPort}, documentation at /docs`;
  const smtp = smtpPort === undefined ? 'SMTP' : `SMTP at localhost:${smtpPort} with STARTTLS: user, password`;
  const lines = [
    '',
    `Open this link to sign in to the portal as ${first.operatorEmail} (works once):`,
    '',
    first.signInUrl,
    '',
    api,
    `  account  ${first.accountId}`,
    `  live     ${first.apiKey}`,
    `  sandbox  ${first.sandboxApiKey}`,
    '',
    smtp,
    `  live     ${first.smtpUsername}  ${first.smtpPassword}`,
    `  sandbox  ${first.sandboxSmtpUsername}  ${first.sandboxSmtpPassword}`,
    '',
    'These credentials are displayed once. They are stored in',
    file,
    '',
  ];
  return `\n${boxed('Postrider: first start', lines)}\n\n`;
}

interface ServeOptions {
  processes?: number;
}

export async function serve(call: CommandCall<ServeOptions>): Promise<CommandOutcome> {
  const { config, environment, streams, json, options } = call;
  const supervised = supervisor();
  const showFirstRun = (shown: FirstRun, ports: Ports): void => {
    const file = firstRunFile(dataDirectory(config.dataDir));
    // Output to a file, a pipe, or a journal is stored and read by others.
    const showCredentials = streams.outIsTerminal === true;
    const data = showCredentials ? { firstRunFile: file, ...shown } : { firstRunFile: file };
    streams.out(json ? `${JSON.stringify(data)}\n` : welcome(shown, ports, file, showCredentials));
  };
  const stopRequested = stopRequest(environment);
  if (!supervised) {
    for (const name of config.unknownSettings) {
      streams.err(`postrider: ${name} is not a setting of this version; it is ignored\n`);
    }
    if (config.databaseUrl === undefined) assertNotRestoring(dataDirectory(config.dataDir));
    const count = options.processes ?? 1;
    if (count > 1) return serveProcesses({ config, count, streams, onFirstRun: showFirstRun, stopRequested });
  }
  let first: FirstRun | undefined;
  const greet = (ports: Ports): void => {
    if (first) (supervised?.sayFirstRun ?? showFirstRun)(first, ports);
  };
  const onFirstRun = (firstRun: FirstRun): void => {
    first = firstRun;
  };
  // Installed now, so that a SIGHUP during the start does not end the process.
  let reload: () => void = () => undefined;
  process.on('SIGHUP', () => reload());
  const startAlongside = (parts: Parts): Running => {
    supervised?.share(parts.metrics);
    return config.backupUrl === undefined
      ? NOTHING
      : startScheduledBackups({ ...parts, everyHours: config.backupHours });
  };
  const link = supervised && { supervisorPid: supervised.pid };
  const serving = await startService(config, onFirstRun, { ...link, startAlongside }).catch((error: unknown) => {
    // The welcome text is displayed even if the start fails.
    greet({ httpPort: undefined, smtpPort: undefined });
    throw error;
  });
  reload = serving.reload;
  greet({ ...serving, httpPort: config.roles.includes('api') ? serving.httpPort : undefined });
  supervised?.sayReady();
  // Node writes its compile cache when a process ends by itself; one that is killed would leave none.
  setTimeout(flushCompileCache, FLUSH_AFTER_MS).unref();
  const ended = await Promise.race([stopRequested, serving.broken]);
  // The log contains the reason why the storage failed.
  if (ended !== 'stop') return { exitCode: 1 };
  await serving.stop();
  return { exitCode: 0 };
}
