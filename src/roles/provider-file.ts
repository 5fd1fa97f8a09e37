/**
 * The operator's file of providers (POSTRIDER_PROVIDERS). It is read before anything is opened, so an invalid file stops the start
 * with one line, and again at SIGHUP, where an invalid file changes nothing.
 */
import type { Log } from '../base/log.ts';
import { type Config, ConfigError, settings } from '../config.ts';
import { PROVIDERS, type Providers, readProviders } from '../delivery/delivery.ts';

export interface ProviderFile {
  /** The built-in providers merged with the last valid file. */
  providers: Providers;
  /** Rereads the file, if one is set. Logs an error and keeps the previous limits if it is invalid. */
  reload(log: Log): void;
}

/** Throws ConfigError if the file cannot be used. */
export function openProviderFile({ providers: file }: Pick<Config, 'providers'>): ProviderFile {
  if (file === undefined) return { providers: PROVIDERS, reload: () => undefined };
  let current = read(file);
  return {
    providers: {
      get default() {
        return current.default;
      },
      byHost: (host) => current.byHost(host),
      byName: (name) => current.byName(name),
    },
    reload: (log) => {
      try {
        current = read(file);
        log.info({ file }, 'provider file reloaded');
      } catch (error) {
        log.error({ error: (error as Error).message }, 'provider file not reloaded; the previous limits stay in use');
      }
    },
  };
}

function read(file: string): Providers {
  try {
    return readProviders(file);
  } catch (error) {
    const { message } = error as Error;
    throw new ConfigError(
      `${settings.providers.name}="${file}" is not valid (${message}); allowed: a JSON file as in docs/explanation/retries.md`,
    );
  }
}
