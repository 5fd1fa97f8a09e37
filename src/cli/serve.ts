/**
 * `postrider serve`: starts the service, prints the credentials of a first run once, and stays until a signal ends it
 * (exit code 0) or its storage breaks (exit code 1). A second signal ends the process at once.
 */
import type { FirstRun } from '../accounts/accounts.ts';
import { givenText, settings, unknownSettings } from '../config.ts';
import { type Command, columns } from './command.ts';

interface Ports {
  httpPort: number | undefined;
  smtpPort: number | undefined;
}

function welcome(first: FirstRun, { httpPort, smtpPort }: Ports): string {
  const rows: [string, unknown][] = [
    ['account id', first.accountId],
    ['live key', first.apiKey],
    ['sandbox key', first.sandboxApiKey],
    ['SMTP user', first.smtpUsername],
    ['SMTP password', first.smtpPassword],
    ['operator', first.operatorEmail],
    ['password', first.operatorPassword],
  ];
  const where =
    httpPort === undefined ? '' : ` The API is at http://localhost:${httpPort}, its documentation at /docs.`;
  const smtp = smtpPort === undefined ? '' : ` SMTP submission is on port ${smtpPort}.`;
  return `\nFirst start: these credentials are printed once, and kept in first-run.json in the data directory.${where}${smtp}\n\n${columns(rows)}\n\n`;
}

/** Settings that are read and judged, and that nothing goes by yet. */
const idle = [settings.inboundPort, settings.bounceDomain];
export const WITHOUT_EFFECT: readonly string[] = idle.map((setting) => setting.name);

function settingsWithoutEffect(environment: Record<string, string | undefined>): string[] {
  return idle.filter((setting) => givenText(setting, environment) !== undefined).map((setting) => setting.name);
}

export const serveCommand: Command = {
  words: 'serve',
  usage: '',
  summary: 'run the service',
  options: {},
  positionals: [],
  run: async ({ config, environment, streams, json }) => {
    // Loaded here alone, so that every other command starts without the weight of the service.
    const { serve } = await import('../roles/serve.ts');
    for (const name of unknownSettings(environment)) {
      streams.err(`postrider: ${name} is not a setting of this version; it is ignored\n`);
    }
    for (const name of settingsWithoutEffect(environment)) {
      streams.err(`postrider: ${name} is set and has no effect in this version\n`);
    }
    let stopRequested: (reason: 'signal') => void = () => undefined;
    const signalled = new Promise<'signal'>((resolve) => {
      stopRequested = resolve;
    });
    const onSignal = (): void => {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.off(signal, onSignal);
      stopRequested('signal');
    };
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal);
    let first: FirstRun | undefined;
    const greet = (ports: Ports): void => {
      if (first) streams.out(json ? `${JSON.stringify(first)}\n` : welcome(first, ports));
    };
    const serving = await serve(config, (made) => {
      first = made;
    }).catch((error: unknown) => {
      // The next start makes no others.
      greet({ httpPort: undefined, smtpPort: undefined });
      throw error;
    });
    greet({ ...serving, httpPort: config.roles.includes('api') ? serving.httpPort : undefined });
    const ended = await Promise.race([signalled, serving.broken]);
    if (ended === 'signal') {
      await serving.stop();
      return { exitCode: 0 };
    }
    streams.err(`postrider: the storage can no longer be trusted (${ended}); the process ends\n`);
    return { exitCode: 1 };
  },
};
