/**
 * The address of a PostgreSQL database, as libpq reads it (PostgreSQL documentation, "Connection URIs"): user, password, one or several
 * hosts, database, and the options that managed services put into their URLs. Refuses options that it does not know, so that a
 * misspelt one is not silently without effect.
 */
import { readFileSync } from 'node:fs';

/** The modes of libpq; `prefer` and `allow` fall back to the other kind of connection where the server refuses one. */
const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof SSL_MODES)[number];

/** Postrider writes: each of these means a server that takes writes. */
const SESSION_ATTRS = ['read-write', 'primary', 'any'] as const;
const CHANNEL_BINDING = ['prefer', 'require', 'disable'] as const;
/** What each of these may say; it is what Postrider does anyway. */
const AS_IT_IS: Readonly<Record<string, readonly string[] | undefined>> = {
  target_session_attrs: SESSION_ATTRS,
  gssencmode: ['disable', 'prefer'],
  sslnegotiation: ['postgres'],
  sslsni: ['1'],
  sslcompression: ['0'],
  client_encoding: ['UTF8', 'utf8', 'UTF-8', 'utf-8', 'auto'],
  load_balance_hosts: ['disable'],
  keepalives: ['1'],
  keepalives_idle: undefined,
  keepalives_interval: undefined,
  keepalives_count: undefined,
  tcp_user_timeout: undefined,
  // Supabase and others put it into their URLs for Prisma; a pooler is recognized without it.
  pgbouncer: ['true', 'false'],
};
const OWN_OPTIONS = [
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'channel_binding',
  'application_name',
  'connect_timeout',
  'options',
  'host',
  'port',
  'user',
  'password',
  'dbname',
];
const KNOWN = new Set([...OWN_OPTIONS, ...Object.keys(AS_IT_IS)]);
const ALLOWED = 'postgres://user:password@host:5432/database?sslmode=verify-full, or unset for SQLite';
const CONNECT_TIMEOUT_MS = 5_000;
const LONGEST_CONNECT_TIMEOUT_MS = 60_000;

export interface PostgresHost {
  /** Name, IP address, or a folder that holds the server's socket. */
  host: string;
  port: number;
}

export interface PostgresAddress {
  user: string;
  password: string | undefined;
  /** Tried in this order, until one of them takes writes. */
  hosts: readonly [PostgresHost, ...PostgresHost[]];
  database: string;
  sslMode: SslMode;
  /** PEM files: the authorities that the server's certificate is checked against (the system's when there are none), and our own. */
  sslRootCert: string | undefined;
  sslCert: string | undefined;
  sslKey: string | undefined;
  channelBinding: (typeof CHANNEL_BINDING)[number];
  applicationName: string;
  /** For each host. */
  connectTimeoutMs: number;
  /** Settings of the session, such as `-c search_path=mail`. */
  options: string | undefined;
}

const SHAPE =
  /^postgres(?:ql)?:\/\/(?:(?<userinfo>[^/?#]*)@)?(?<hosts>[^/?#@]*)(?:\/(?<database>[^?#]*))?(?:\?(?<query>[^#]*))?$/;

function refuse(why: string): never {
  throw new Error(`${ALLOWED}; ${why}`);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return refuse('a % that stands for itself is written %25');
  }
}

function oneOf<T extends string>(options: URLSearchParams, name: string, allowed: readonly T[], otherwise: T): T {
  const asked = options.get(name) ?? otherwise;
  return allowed.find((one) => one === asked) ?? refuse(`${name} is one of ${allowed.join(', ')}`);
}

function checkOptions(options: URLSearchParams): void {
  for (const [name, value] of options) {
    if (!KNOWN.has(name)) {
      refuse(
        `the option ${name} is not known here; leave it out, or use ${OWN_OPTIONS.join(', ')}, target_session_attrs`,
      );
    }
    const allowed = AS_IT_IS[name];
    if (allowed && !allowed.includes(value)) refuse(`${name} is one of ${allowed.join(', ')}`);
  }
}

function portOf(text: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535) refuse('a port from 1 to 65535');
  return port;
}

/** Of `h1:5432,h2,[::1]:6432`; `ports` is one for all, or one for each. */
function hostsOf(text: string, ports: string | null): PostgresAddress['hosts'] {
  const given = ports?.split(',') ?? [];
  const parts = text.split(',');
  if (given.length > 1 && given.length !== parts.length) refuse('one port for all hosts, or one for each');
  const hosts = parts.map((part, at): PostgresHost => {
    const [, host = '', port] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/.exec(part) ?? [];
    const own = port || (given[at] ?? given[0]) || '5432';
    return { host: decode(host).replace(/^\[|\]$/g, ''), port: portOf(own) };
  });
  if (hosts.some(({ host }) => host === '')) refuse('user, host and database');
  return hosts as unknown as PostgresAddress['hosts'];
}

/** A PEM file that an option names, which must be there now: a missing one would look like a server that is away. */
function fileOf(options: URLSearchParams, name: string): string | undefined {
  const file = options.get(name) ?? undefined;
  if (file === undefined || file === 'system') return file;
  try {
    readFileSync(file);
    return file;
  } catch (error) {
    return refuse(`the file ${file} of ${name} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function timeoutOf(text: string | null): number {
  if (text === null) return CONNECT_TIMEOUT_MS;
  if (!/^\d{1,6}$/.test(text)) refuse('connect_timeout is a number of seconds');
  // libpq: 0 waits indefinitely, which nothing here does.
  const ms = Number(text) * 1_000;
  return ms === 0 ? LONGEST_CONNECT_TIMEOUT_MS : Math.min(Math.max(ms, 2_000), LONGEST_CONNECT_TIMEOUT_MS);
}

/** Reads an address; throws a sentence part that says what is allowed. */
export function parsePostgresUrl(text: string): PostgresAddress {
  const parts = SHAPE.exec(text)?.groups;
  if (!parts) {
    if (/^postgres(ql)?:\/\//.test(text)) refuse('special characters as %XX');
    throw new Error(ALLOWED);
  }
  const { userinfo = '', hosts = '', database: path = '', query = '' } = parts;
  const options = new URLSearchParams(query.replaceAll('+', '%2B'));
  checkOptions(options);
  const colon = userinfo.indexOf(':');
  const name = colon === -1 ? userinfo : userinfo.slice(0, colon);
  const secret = colon === -1 ? '' : userinfo.slice(colon + 1);
  const user = options.get('user') ?? decode(name);
  const database = options.get('dbname') ?? decode(path);
  const host = options.get('host');
  if (!user || !database || database.includes('/') || !(host ?? hosts)) refuse('user, host and database');
  const sslMode = oneOf(options, 'sslmode', SSL_MODES, 'disable');
  const [sslRootCert, sslCert, sslKey] = ['sslrootcert', 'sslcert', 'sslkey'].map((one) => fileOf(options, one));
  if (sslMode === 'disable' && (sslRootCert ?? sslCert) !== undefined)
    refuse('sslrootcert and sslcert need an sslmode');
  if ((sslCert === undefined) !== (sslKey === undefined)) refuse('sslcert and sslkey go together');
  if (sslRootCert === 'system' && sslMode !== 'verify-full') refuse('sslrootcert=system needs sslmode=verify-full');
  const channelBinding = oneOf(options, 'channel_binding', CHANNEL_BINDING, 'prefer');
  if (channelBinding === 'require' && sslMode === 'disable') refuse('channel_binding=require needs an sslmode');
  return {
    user,
    password: options.get('password') ?? (secret ? decode(secret) : undefined),
    hosts: hostsOf(host === null ? hosts : host.replaceAll(':', '%3A'), options.get('port')),
    database,
    sslMode,
    sslRootCert,
    sslCert,
    sslKey,
    channelBinding,
    applicationName: options.get('application_name') ?? 'postrider',
    connectTimeoutMs: timeoutOf(options.get('connect_timeout')),
    options: options.get('options') ?? undefined,
  };
}

export interface TlsOptions {
  ca?: string;
  cert?: string;
  key?: string;
  rejectUnauthorized: boolean;
  checkServerIdentity?: () => undefined;
}

/** The kinds of connection that are tried one after the other at a host. */
export function connectionKinds({ sslMode }: Pick<PostgresAddress, 'sslMode'>): readonly ('plain' | 'tls')[] {
  if (sslMode === 'disable') return ['plain'];
  if (sslMode === 'allow') return ['plain', 'tls'];
  return sslMode === 'prefer' ? ['tls', 'plain'] : ['tls'];
}

/** How TLS checks the server. `require` and weaker modes encrypt to any server that answers, as libpq does, unless they name authorities. */
export function tlsOptions(address: PostgresAddress): TlsOptions {
  const { sslMode, sslRootCert, sslCert, sslKey } = address;
  const isChecked =
    sslMode === 'verify-ca' || sslMode === 'verify-full' || (sslMode === 'require' && sslRootCert !== undefined);
  const options: TlsOptions = { rejectUnauthorized: isChecked };
  if (sslRootCert !== undefined && sslRootCert !== 'system') options.ca = readFileSync(sslRootCert, 'utf8');
  if (sslCert !== undefined && sslKey !== undefined) {
    options.cert = readFileSync(sslCert, 'utf8');
    options.key = readFileSync(sslKey, 'utf8');
  }
  if (sslMode !== 'verify-full') options.checkServerIdentity = () => undefined;
  return options;
}

/** The address as a log or a line for the operator may show it. */
export function shownAddress({ user, hosts, database }: Pick<PostgresAddress, 'user' | 'hosts' | 'database'>): string {
  const shown = hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`);
  return `postgres://${user}@${shown.join(',')}/${database}`;
}
