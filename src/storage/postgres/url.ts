/**
 * Parses the address of a PostgreSQL database: a URI with one or more hosts and the libpq options that managed services put into their
 * URLs. Options for the pools of other clients are accepted without effect. Every other option is refused, so a misspelled one is never
 * silently ignored. Files that an option names are read when the address is parsed, so a wrong path is a configuration error.
 */
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureVersion } from 'node:tls';

const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof SSL_MODES)[number];
const CHANNEL_BINDING = ['disable', 'prefer', 'require'] as const;
type ChannelBinding = (typeof CHANNEL_BINDING)[number];

/** Options with a fixed set of values, and the values that Postrider supports. */
const VALUES: Record<string, readonly string[]> = {
  sslmode: SSL_MODES,
  channel_binding: CHANNEL_BINDING,
  // Postrider always needs the primary: `any` and `primary` find the same server.
  target_session_attrs: ['read-write', 'primary', 'any'],
  gssencmode: ['disable', 'prefer'],
  sslnegotiation: ['postgres'],
  sslsni: ['1'],
  sslcompression: ['0'],
  keepalives: ['1'],
  load_balance_hosts: ['disable', 'random'],
  ssl_min_protocol_version: ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'],
  ssl: ['true', 'false'],
  schema: ['public'],
};
const WHOLE_NUMBERS = new Set([
  'connect_timeout',
  'keepalives_idle',
  'keepalives_interval',
  'keepalives_count',
  'tcp_user_timeout',
]);
const TEXTS = new Set([
  'host',
  'port',
  'user',
  'password',
  'dbname',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'application_name',
  'options',
]);
/** Options for the pools and statement caches of other clients (Prisma, asyncpg, JDBC, Supabase), which do not affect the result. */
const IGNORED = new Set([
  'pgbouncer',
  'connection_limit',
  'pool_timeout',
  'socket_timeout',
  'statement_cache_size',
  'prepared_statements',
  'prepareThreshold',
  'uselibpqcompat',
  'supa',
]);
const KNOWN = [...Object.keys(VALUES), ...WHOLE_NUMBERS, ...TEXTS].toSorted();
const ALLOWED = 'postgres://user:password@host:5432/database?sslmode=verify-full, or unset for SQLite';

export interface PostgresHost {
  /** A name, an IP address, or the folder of the server's Unix socket. */
  host: string;
  port: number;
}

export interface PostgresAddress {
  user: string;
  password: string | undefined;
  /** At least one; the first that accepts writes is used. */
  hosts: readonly PostgresHost[];
  database: string;
  sslMode: SslMode;
  /** PEM file of the authorities that sign the server's certificate, or `system`; undefined for Node's own. */
  sslRootCert: string | undefined;
  /** PEM files of the client certificate and its private key. */
  sslCert: { cert: string; key: string } | undefined;
  minTlsVersion: SecureVersion | undefined;
  channelBinding: ChannelBinding;
  applicationName: string;
  /** Timeout for each host; undefined for the default. */
  connectTimeoutMs: number | undefined;
  keepAliveIdleMs: number | undefined;
  /** Command-line options for the server, such as `-c search_path=mail`. */
  options: string | undefined;
}

function refuse(reason: string, cause?: unknown): never {
  throw new Error(`${ALLOWED}; ${reason}`, { cause });
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return refuse('the percent-encoding is not valid; write a literal % as %25');
  }
}

function parseOptions(query: string): Map<string, string> {
  const options = new Map<string, string>();
  for (const pair of query.split('&').filter((one) => one !== '')) {
    const at = pair.indexOf('=');
    if (at === -1) refuse('every option must have the form name=value; write & in a value as %26');
    const name = decode(pair.slice(0, at));
    const value = decode(pair.slice(at + 1));
    if (IGNORED.has(name)) continue;
    assertOption(name, value);
    // As in libpq, an empty value is the default.
    if (value !== '') options.set(name, value);
  }
  return options;
}

function assertOption(name: string, value: string): void {
  if (!KNOWN.includes(name)) refuse(`the option ${name} is unknown; the options are ${KNOWN.join(', ')}`);
  if (value === '') return;
  const values = VALUES[name];
  if (values && !values.includes(value)) {
    const hint = name === 'schema' ? '; for another schema use options=-c%20search_path%3DNAME' : '';
    refuse(`${name}=${value} is not supported; ${name} must be one of ${values.join(', ')}${hint}`);
  }
  if (WHOLE_NUMBERS.has(name) && !/^\d{1,9}$/.test(value)) refuse(`${name} must be a whole number, not ${value}`);
}

/** Splits `a:1,b` into hosts and ports; an IPv6 address must be in brackets. */
function splitHosts(authority: string): { host: string; port: string }[] {
  if (authority === '') return [];
  return authority.split(',').map((one) => {
    const match = /^(\[[^\]]+\]|[^:[\]]*)(?::([^:]*))?$/.exec(one);
    if (!match) return refuse('each host must be a name or an IP address, and IPv6 addresses must be in brackets');
    return { host: decode(match[1]!).replace(/^\[|\]$/g, ''), port: match[2] ?? '' };
  });
}

function parseHosts(authority: string, options: ReadonlyMap<string, string>): PostgresHost[] {
  const inAuthority = splitHosts(authority);
  const names = options.get('host')?.split(',') ?? inAuthority.map(({ host }) => host);
  const ports = options.get('port')?.split(',') ?? inAuthority.map(({ port }) => port);
  if (names.length === 0 || names.some((name) => name === '' || /[\s@\\]/.test(name)))
    refuse('the URL must contain a user, a host, and a database');
  // A single port applies to all hosts.
  if (ports.length > 1 && ports.length !== names.length)
    refuse(`the URL has ${ports.length} ports for ${names.length} hosts; set one port, or one port per host`);
  return names.map((host, index) => {
    const text = ports[ports.length === 1 ? 0 : index] || '5432';
    const port = Number(text);
    if (!/^\d+$/.test(text) || port < 1 || port > 65_535) refuse('each port must be a number from 1 to 65535');
    return { host, port };
  });
}

function chooseSslMode(options: ReadonlyMap<string, string>): SslMode {
  const rootCert = options.get('sslrootcert');
  const requested = options.get('sslmode') ?? { true: 'require', false: 'disable' }[options.get('ssl') ?? ''];
  const mode = (requested ?? (rootCert === 'system' ? 'verify-full' : 'disable')) as SslMode;
  // As in libpq, the host name must be checked too, because public authorities sign certificates for anyone.
  if (rootCert === 'system' && mode !== 'verify-full') refuse('sslrootcert=system requires sslmode=verify-full');
  const tlsOption = ['sslrootcert', 'sslcert', 'channel_binding'].find(
    (name) => options.has(name) && (name !== 'channel_binding' || options.get(name) === 'require'),
  );
  if (tlsOption !== undefined && mode === 'disable')
    refuse(`${tlsOption} requires TLS; set sslmode, such as sslmode=verify-full`);
  return mode;
}

function readPem(option: string, file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`${option}=${file} cannot be read: ${message}; set it to a readable PEM file`, { cause: error });
  }
  if (!text.includes('-----BEGIN ')) throw new Error(`${option}=${file} is not a PEM file; set it to a PEM file`);
  return text;
}

/** Parses a URL; throws an error whose message states the accepted form or the file that cannot be used. */
export function parsePostgresUrl(text: string): PostgresAddress {
  const match = /^postgres(?:ql)?:\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(text);
  if (!match)
    return refuse(
      'the URL must start with postgres://, and special characters must be percent-encoded, such as # as %23',
    );
  const [, authority = '', path = '', query = ''] = match;
  const options = parseOptions(query);
  const at = authority.lastIndexOf('@');
  const login = authority.slice(0, Math.max(at, 0));
  const colon = login.indexOf(':');
  const password = colon === -1 ? '' : decode(login.slice(colon + 1));
  const user = options.get('user') ?? decode(colon === -1 ? login : login.slice(0, colon));
  const database = options.get('dbname') ?? decode(path);
  if (!user || !database || database.includes('/')) refuse('the URL must contain a user, a host, and a database');
  const [cert, key] = [options.get('sslcert'), options.get('sslkey')];
  if ((cert === undefined) !== (key === undefined)) refuse('sslcert and sslkey must be set together');
  const seconds = (name: string): number | undefined => {
    const value = Number(options.get(name) ?? 0);
    return value === 0 ? undefined : value * 1_000;
  };
  const address: PostgresAddress = {
    user,
    password: options.get('password') ?? (password || undefined),
    hosts: parseHosts(authority.slice(at + 1), options),
    database,
    sslMode: chooseSslMode(options),
    sslRootCert: options.get('sslrootcert'),
    sslCert: cert !== undefined && key !== undefined ? { cert, key } : undefined,
    minTlsVersion: options.get('ssl_min_protocol_version') as SecureVersion | undefined,
    channelBinding: (options.get('channel_binding') ?? 'prefer') as ChannelBinding,
    applicationName: options.get('application_name') ?? 'postrider',
    connectTimeoutMs: seconds('connect_timeout'),
    keepAliveIdleMs: seconds('keepalives_idle'),
    options: options.get('options'),
  };
  assertFiles(address);
  return address;
}

/** Throws an error that names the file that cannot be used. */
function assertFiles(address: PostgresAddress): void {
  let options: TlsOptions | false;
  try {
    options = tlsOptions(address);
  } catch (error) {
    refuse((error as Error).message, error);
  }
  const { ca, cert, key } = options || {};
  try {
    createSecureContext({ ca, cert, key });
  } catch (error) {
    const { cert: certFile, key: keyFile } = address.sslCert ?? {};
    const files = [address.sslRootCert, certFile, keyFile].filter((file) => file !== undefined).join(', ');
    const { message } = error as Error;
    refuse(
      `${files} cannot be used for TLS: ${message}; use a certificate and the private key that belongs to it`,
      error,
    );
  }
}

export interface TlsOptions {
  ca?: string | string[] | undefined;
  cert?: string | undefined;
  key?: string | undefined;
  minVersion?: SecureVersion | undefined;
  rejectUnauthorized: boolean;
  checkServerIdentity?: () => undefined;
}

/**
 * Returns the TLS options that check the server; false for sslmode=disable. As in libpq, `require` accepts any certificate, unless
 * sslrootcert is set: then the certificate's authority is checked. Throws if a file cannot be read.
 */
export function tlsOptions(address: PostgresAddress): TlsOptions | false {
  const { sslMode, sslRootCert, sslCert, minTlsVersion } = address;
  if (sslMode === 'disable') return false;
  const options: TlsOptions = {
    rejectUnauthorized: sslMode.startsWith('verify') || (sslMode === 'require' && sslRootCert !== undefined),
  };
  if (sslRootCert === 'system') options.ca = getCACertificates('system');
  else if (sslRootCert !== undefined) options.ca = readPem('sslrootcert', sslRootCert);
  if (sslCert) {
    options.cert = readPem('sslcert', sslCert.cert);
    options.key = readPem('sslkey', sslCert.key);
  }
  if (minTlsVersion) options.minVersion = minTlsVersion;
  if (sslMode !== 'verify-full') options.checkServerIdentity = () => undefined;
  return options;
}

/** Returns the ways to connect to one host, in the order to try them: TLS options, or false for an unencrypted connection. */
export function tlsAttempts(address: PostgresAddress, { host }: PostgresHost): (TlsOptions | false)[] {
  // Unix sockets have no TLS.
  const tls = host.startsWith('/') ? false : tlsOptions(address);
  if (tls === false) return [false];
  if (address.sslMode === 'allow') return [false, tls];
  if (address.sslMode === 'prefer') return [tls, false];
  return [tls];
}

/** Returns one host for the log. */
export function shownHost({ host, port }: PostgresHost): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Returns the address without the password, for the log or the operator. */
export function shownAddress({ user, hosts, database }: PostgresAddress): string {
  return `postgres://${user}@${hosts.map(shownHost).join(',')}/${database}`;
}
