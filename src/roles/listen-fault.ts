/**
 * Why a port cannot be bound, as the one line for the operator that a wrong setting gets: the variable that is the
 * cause, its value, and what is allowed.
 */
import { type Config, ConfigError, settings } from '../config.ts';

/** The line for an error of listen(); undefined when no setting is the cause. */
export function listenFault(error: unknown, config: Pick<Config, 'httpHost' | 'httpPort'>): ConfigError | undefined {
  const { httpHost, httpPort } = config;
  const port = `${settings.httpPort.name}="${httpPort}"`;
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EADDRINUSE':
      return new ConfigError(
        `${port} is in use by another process on ${httpHost}; allowed: a free port from 0 to 65535 (0: any free one)`,
      );
    case 'EACCES':
    case 'EPERM':
      return new ConfigError(
        `${port} may not be bound by this user; allowed: a port from 1024 to 65535, or 0 for any free one`,
      );
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EINVAL':
      return noAddress(settings.httpHost.name, httpHost);
    default:
      return undefined;
  }
}

/** The same for a port of SMTP, whether it was asked for or is the standard one. */
export function smtpListenFault(
  error: unknown,
  smtpPort: number,
  smtpHost: string,
  setting: 'smtpPort' | 'smtpsPort' = 'smtpPort',
): ConfigError | undefined {
  const port = `${settings[setting].name}="${smtpPort}"`;
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EADDRINUSE':
      return new ConfigError(
        `${port} is in use by another process; allowed: a free port from 0 to 65535 (0: any free one)`,
      );
    case 'EACCES':
    case 'EPERM':
      return new ConfigError(
        `${port} may not be bound by this user; allowed: a port from 1024 to 65535, or 0 for any free one`,
      );
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EINVAL':
      return noAddress(settings.smtpHost.name, smtpHost);
    default:
      return undefined;
  }
}

function noAddress(name: string, host: string): ConfigError {
  return new ConfigError(
    `${name}=${JSON.stringify(host)} is no address of this machine; allowed: one of its addresses or names, 0.0.0.0 or :: for all`,
  );
}
