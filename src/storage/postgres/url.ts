/**
 * The address of a PostgreSQL database: user, password, host, port, database, sslmode and sslrootcert, with the meanings
 * that libpq gives them. Refuses what it does not know, so that a misspelt option is not silently without effect.
 */
import { readFileSync } from 'node:fs';

export type SslMode = 'disable' | 'require' | 'verify-ca' | 'verify-full';
const SSL_MODES: readonly SslMode[] = ['disable', 'require', 'verify-ca', 'verify-full'];
const OPTIONS = new Set(['sslmode', 'sslrootcert', 'host', 'port']);
const ALLOWED = 'postgres://user:password@host:5432/database?sslmode=verify-full, or unset for SQLite';

export interface PostgresAddress {
  user: string;
  password: string | undefined;
  /** Name, IP address, or a folder that holds the server's socket. */
  host: string;
  port: number;
  database: string;
  sslMode: SslMode;
  /** PEM file of the authorities that the server's certificate is checked against; the system's when there is none. */
  sslRootCert: string | undefined;
}

/** Reads an address; throws a sentence part that says what is allowed. */
export function parsePostgresUrl(text: string): PostgresAddress {
  if (!/^postgres(ql)?:\/\//.test(text)) throw new Error(ALLOWED);
  // A comma (several hosts) and what else no address can have are distinguished from a wrong port here.
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || url.hash || url.hostname.includes(','))
    throw new Error(`${ALLOWED}; one host, special characters as %XX`);
  const options = url.searchParams;
  for (const name of options.keys()) {
    if (!OPTIONS.has(name)) throw new Error(`${ALLOWED}; the option ${name} is not known here`);
  }
  const decode = (part: string): string => {
    try {
      return decodeURIComponent(part);
    } catch {
      throw new Error(`${ALLOWED}; a % that stands for itself is written %25`);
    }
  };
  const user = decode(url.username);
  const database = decode(url.pathname.slice(1));
  const host = options.get('host') ?? decode(url.hostname).replace(/^\[|\]$/g, '');
  if (!user || !database || database.includes('/') || !host) throw new Error(`${ALLOWED}; user, host and database`);
  const port = Number(options.get('port') ?? (url.port || '5432'));
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new Error(`${ALLOWED}; a port from 1 to 65535`);
  const asked = options.get('sslmode') ?? 'disable';
  const sslMode = SSL_MODES.find((one) => one === asked);
  if (!sslMode) throw new Error(`${ALLOWED}; sslmode is one of ${SSL_MODES.join(', ')}`);
  const sslRootCert = options.get('sslrootcert') ?? undefined;
  if (sslRootCert !== undefined && sslMode === 'disable') throw new Error(`${ALLOWED}; sslrootcert needs an sslmode`);
  return {
    user,
    password: url.password ? decode(url.password) : undefined,
    host,
    port,
    database,
    sslMode,
    sslRootCert,
  };
}

export interface TlsOptions {
  ca?: string;
  rejectUnauthorized: boolean;
  checkServerIdentity?: () => undefined;
}

/** How TLS checks the server; false for none. `require` encrypts to any server that answers, as libpq does. */
export function tlsOptions(address: PostgresAddress): TlsOptions | false {
  if (address.sslMode === 'disable') return false;
  const options: TlsOptions = {
    rejectUnauthorized: address.sslMode !== 'require' || address.sslRootCert !== undefined,
  };
  if (address.sslRootCert !== undefined) options.ca = readFileSync(address.sslRootCert, 'utf8');
  if (address.sslMode !== 'verify-full') options.checkServerIdentity = () => undefined;
  return options;
}

/** The address as a log or a line for the operator may show it. */
export function shownAddress({ user, host, port, database }: PostgresAddress): string {
  return `postgres://${user}@${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;
}
