/**
 * The configured ports: the error for the operator if one is unavailable, and a check before a first start, in which all ports are opened
 * for a moment before anything is created. Later starts leave this to the roles, since clients that know the ports must not connect to a
 * listener that closes again.
 */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, isIPv6, type Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { createSecureContext } from 'node:tls';
import { type Config, ConfigError, PortInUse, settings } from '../config.ts';
import type { TlsFiles } from '../smtp/smtp.ts';

export const STANDARD_SMTP_PORT = 587;
const SMTP_PORT_WITHOUT_RIGHTS = 2587;

/** An address and port to listen on, and its setting. */
export interface ListenTarget {
  setting: 'httpPort' | 'httpsPort' | 'smtpPort' | 'smtpsPort' | 'inboundPort';
  port: number;
  host: string;
}

export function httpTarget({ httpPort, httpHost }: Pick<Config, 'httpPort' | 'httpHost'>): ListenTarget {
  return { setting: 'httpPort', port: httpPort, host: httpHost };
}

export function httpsTarget({ httpsPort, httpHost: host }: Pick<Config, 'httpsPort' | 'httpHost'>) {
  return httpsPort === undefined ? undefined : ({ setting: 'httpsPort', port: httpsPort, host } as const);
}

/** Returns the configured port, or else the ports to try, in order. */
export function smtpTargets({ smtpPort, smtpHost: host }: Pick<Config, 'smtpPort' | 'smtpHost'>): ListenTarget[] {
  const ports = smtpPort === undefined ? [STANDARD_SMTP_PORT, SMTP_PORT_WITHOUT_RIGHTS] : [smtpPort];
  return ports.map((port) => ({ setting: 'smtpPort', port, host }));
}

export function smtpsTarget({ smtpsPort, smtpHost: host }: Pick<Config, 'smtpsPort' | 'smtpHost'>) {
  return smtpsPort === undefined ? undefined : ({ setting: 'smtpsPort', port: smtpsPort, host } as const);
}

export function inboundTarget({ inboundPort, smtpHost: host }: Pick<Config, 'inboundPort' | 'smtpHost'>) {
  return inboundPort === undefined ? undefined : ({ setting: 'inboundPort', port: inboundPort, host } as const);
}

/**
 * Returns the result of the first available target; rejects with the error of the last. `onNext` gets the reason for trying the next one.
 */
export async function onFirst<T>(
  targets: readonly ListenTarget[],
  listen: (target: ListenTarget) => Promise<T>,
  onNext: (next: ListenTarget, error: Error) => void = () => undefined,
): Promise<T> {
  const [target, ...others] = targets;
  try {
    return await listen(target!);
  } catch (error) {
    if (others.length === 0) throw error;
    onNext(others[0]!, error as Error);
    return onFirst(others, listen, onNext);
  }
}

/** Converts an error of listen() to a line with the variable, its value, and what is allowed. Returns other errors unchanged. */
export function portError(error: unknown, { setting, port, host }: ListenTarget): unknown {
  const named = `${settings[setting].name}="${port}"`;
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EADDRINUSE':
      return new PortInUse(
        `${named} is in use by another process on ${host}; allowed: a free port from 0 to 65535 (0: any free one)`,
      );
    case 'EACCES':
    case 'EPERM':
      return new ConfigError(
        `${named} may not be bound by this user; allowed: a port from 1024 to 65535, or 0 for any free one`,
      );
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EINVAL': {
      const { name } = setting.startsWith('http') ? settings.httpHost : settings.smtpHost;
      return new ConfigError(
        `${name}=${JSON.stringify(host)} is not an address of this machine; allowed: one of its addresses or names, 0.0.0.0 or :: for all`,
      );
    }
    default:
      return error;
  }
}

/** Returns the ports that the roles of this process need; of SMTP submission only the first choice. */
export function targetsOf(config: Config): ListenTarget[] {
  const has = (role: Config['roles'][number]): boolean => config.roles.includes(role);
  const targets = [
    ...(has('api') ? [httpTarget(config), httpsTarget(config)] : []),
    ...(has('smtp') ? [smtpTargets(config)[0], smtpsTarget(config)] : []),
    ...(has('inbound') ? [inboundTarget(config)] : []),
  ];
  return targets.filter((target) => target !== undefined);
}

/** Rejects with an error for the operator if a required port is unavailable. */
export async function assertPortsFree(config: Config): Promise<void> {
  const listening: Server[] = [];
  const listen = async (target: ListenTarget): Promise<void> => {
    const server = createServer((socket) => socket.destroy());
    try {
      server.listen({ port: target.port, host: target.host });
      await once(server, 'listening');
      listening.push(server);
    } catch (error) {
      throw portError(error, target);
    }
  };
  try {
    for (const target of targetsOf(config)) {
      await (target.setting === 'smtpPort' ? onFirst(smtpTargets(config), listen) : listen(target));
    }
  } finally {
    await Promise.all(listening.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

/**
 * Returns the addresses at which this service accepts mail like an MX host: those of this machine, if it listens on the MX port. Otherwise
 * another server on this machine may be the MX host.
 */
export function ownMxAddresses({
  mxPort,
  smtpPort,
  inboundPort,
}: Pick<Config, 'mxPort' | 'smtpPort' | 'inboundPort'>): string[] {
  if (smtpPort !== mxPort && inboundPort !== mxPort) return [];
  return Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map(({ address }) => address));
}

/** Returns the address at which this machine reaches its own listener bound to `host`. */
export function localAddressOf(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

/** Rejects with an error for the operator if a configured source address is not this machine's. */
export async function assertSourceAddresses({ sourceAddresses }: Pick<Config, 'sourceAddresses'>): Promise<void> {
  for (const address of sourceAddresses) {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    try {
      socket.bind({ address, port: 0 });
      await once(socket, 'listening');
    } catch (error) {
      const given = `${settings.sourceAddresses.name}=${JSON.stringify(sourceAddresses.join(','))}`;
      const code = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
      throw new ConfigError(
        `${given}: ${address} is not an address of this machine (${code}); allowed: its own addresses`,
      );
    } finally {
      socket.close();
    }
  }
}

/** Returns whether this process opens a port with TLS or STARTTLS. */
export function hasTlsPort({ roles, httpsPort }: Pick<Config, 'roles' | 'httpsPort'>): boolean {
  const isHttps = roles.includes('api') && httpsPort !== undefined;
  return isHttps || roles.includes('smtp') || roles.includes('inbound');
}

/** Returns undefined if no files are configured; throws an error for the operator if they cannot be used. */
export function checkTlsFiles({
  smtpTlsCert: certFile,
  smtpTlsKey: keyFile,
}: Pick<Config, 'smtpTlsCert' | 'smtpTlsKey'>): TlsFiles | undefined {
  if (certFile === undefined || keyFile === undefined) return undefined;
  const readPem = <T>(setting: { name: string }, file: string, read: (pem: Buffer) => T): T => {
    try {
      return read(readFileSync(file));
    } catch (error) {
      const { message } = error as Error;
      throw new ConfigError(`${setting.name}="${file}" is not valid (${message}); allowed: a readable PEM file`);
    }
  };
  const certificate = readPem(settings.smtpTlsCert, certFile, (cert) => {
    createSecureContext({ cert });
    return new X509Certificate(cert);
  });
  const key = readPem(settings.smtpTlsKey, keyFile, (pem) => createPrivateKey(pem));
  if (certificate.checkPrivateKey(key)) return { certFile, keyFile };
  throw new ConfigError(
    `${settings.smtpTlsKey.name}="${keyFile}" is not the key of the certificate in ${certFile}; allowed: the key it was made for`,
  );
}
