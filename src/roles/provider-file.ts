/** The operator's file of providers: read before anything is opened, so that what is wrong with it stops the start with one line. */
import { type Config, ConfigError, settings } from '../config.ts';
import { PROVIDERS, type Providers, readProviders } from '../delivery/delivery.ts';

/** Those built in, with the file merged over them where one is named; throws the line for the operator. */
export function checkProviders({ providers: file }: Pick<Config, 'providers'>): Providers {
  if (file === undefined) return PROVIDERS;
  try {
    return readProviders(file);
  } catch (error) {
    const { message } = error as Error;
    throw new ConfigError(
      `${settings.providers.name}="${file}" is not valid (${message}); allowed: a JSON file as in docs/operating.md`,
    );
  }
}
