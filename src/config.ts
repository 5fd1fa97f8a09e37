/**
 * One table of settings: name, default, meaning, and how its text is read; the only reader of the environment. A wrong
 * value stops the start with one line that names the variable, the value and what is allowed. docs/reference/settings.md is
 * generated from this table and checked against it.
 */

import { assertTogether, notValid } from './config-together.ts';
import {
  acmeDirectory,
  type BlobStoreAddress,
  blobStoreAddress,
  byteSize,
  cidrs,
  contactEmail,
  DEFAULT_ROLES,
  DEFAULT_WORDS,
  type Door,
  dnsServers,
  domainName,
  domainNames,
  doors,
  emailAddress,
  emptyList,
  foreign,
  givenText,
  hostName,
  httpAddress,
  integer,
  ipAddresses,
  listenHost,
  none,
  oidcIssuer,
  port,
  type RelayRoute,
  type Role,
  type Route,
  relay,
  remotePort,
  roles,
  route,
  SECRET_SETTINGS,
  type Setting,
  secretKey,
  senderDomain,
  setting,
  token,
  type WarmUpStart,
  warmUp,
  withSecretFiles,
  words,
} from './config-values.ts';
import { type PostgresAddress, parsePostgresUrl } from './storage/postgres/url.ts';

export {
  ConfigError,
  PortInUse,
  type RelayRoute,
  ROLES,
  type Route,
  SECRET_SETTINGS,
  type WarmUpStart,
} from './config-values.ts';

/** As --version and the API's description say it. */
export const VERSION = '0.1.0';

export const settings = {
  dataDir: setting('DATA_DIR', './data', 'embedded database, files, generated keys', String, () => './data'),
  databaseUrl: setting<PostgresAddress | undefined>(
    'DATABASE_URL',
    'embedded SQLite',
    'or `postgres://…`',
    parsePostgresUrl,
    none,
  ),
  databasePassword: foreign(
    'PGPASSWORD',
    'password of the database as it is, where `POSTRIDER_DATABASE_URL` has none (there special characters are written as %XX)',
  ),
  blobs: setting<BlobStoreAddress>(
    'BLOB_URL',
    'files in the data dir',
    'or `file:///path` (a shared directory), or `s3://bucket/prefix?endpoint=…&region=…` with the AWS variables',
    blobStoreAddress,
    () => ({ kind: 'disk', folder: undefined }),
  ),
  awsAccessKeyId: foreign('AWS_ACCESS_KEY_ID', 'key of the S3-compatible store; only read with `s3://…`'),
  awsSecretAccessKey: foreign('AWS_SECRET_ACCESS_KEY', 'its secret'),
  awsSessionToken: foreign('AWS_SESSION_TOKEN', 'where the key is a temporary one'),
  httpPort: setting('HTTP_PORT', '3000', 'API, uploads, portal', port, () => 3000),
  httpHost: setting('HTTP_HOST', '0.0.0.0', 'address that the HTTP port is bound to', listenHost, () => '0.0.0.0'),
  httpsPort: setting<number | undefined>(
    'HTTPS_PORT',
    'off',
    'the same with TLS (443), on the same address',
    port,
    none,
  ),
  baseUrl: setting<string | undefined>(
    'BASE_URL',
    'http://localhost:PORT',
    'public address, used in upload URLs and links; can have a path, behind a proxy that strips it',
    httpAddress,
    none,
  ),
  smtpPort: setting<number | undefined>(
    'SMTP_PORT',
    '587, or 2587 where 587 may not be bound and none was asked for',
    'submission',
    port,
    none,
  ),
  smtpHost: setting('SMTP_HOST', '0.0.0.0', 'address that SMTP submission is bound to', listenHost, () => '0.0.0.0'),
  smtpsPort: setting<number | undefined>(
    'SMTPS_PORT',
    'off',
    'submission with TLS from the first byte (465)',
    port,
    none,
  ),
  smtpHostname: setting('SMTP_HOSTNAME', "the host's name", 'banner, HELO, Received', domainName, hostName),
  smtpTlsCert: setting<string | undefined>(
    'SMTP_TLS_CERT',
    'self-signed, generated',
    'PEM file for SMTP and HTTPS, reloaded when it changes',
    String,
    none,
  ),
  smtpTlsKey: setting<string | undefined>(
    'SMTP_TLS_KEY',
    'self-signed, generated',
    'PEM file for SMTP and HTTPS, reloaded when it changes',
    String,
    none,
  ),
  acmeEmail: setting<string | undefined>(
    'ACME_EMAIL',
    'off',
    'certificates are ordered (ACME) with this contact, where no PEM files are set; you agree to the terms of the authority',
    contactEmail,
    none,
  ),
  acmeDirectory: setting(
    'ACME_DIRECTORY',
    "Let's Encrypt's",
    'directory of the certificate authority',
    acmeDirectory,
    () => 'https://acme-v02.api.letsencrypt.org/directory',
  ),
  smtpMaxConnectionsPerAddress: setting(
    'SMTP_MAX_CONNECTIONS_PER_ADDRESS',
    '50',
    'submission connections from one address at a time',
    integer(1, 100_000),
    () => 50,
  ),
  inboundPort: setting<number | undefined>(
    'INBOUND_PORT',
    'off',
    'receives bounces, feedback reports and mail for inbound routes (25 in production), on the address of SMTP submission',
    port,
    none,
  ),
  inboundMaxConnectionsPerAddress: setting(
    'INBOUND_MAX_CONNECTIONS_PER_ADDRESS',
    '10',
    'connections to the inbound port from one address at a time',
    integer(1, 100_000),
    () => 10,
  ),
  bounceDomain: setting<string | undefined>(
    'BOUNCE_DOMAIN',
    'none',
    'domain of the return path, to which bounces come back: its MX leads to the inbound port; without it, MAIL FROM is the sender',
    senderDomain,
    none,
  ),
  postmaster: setting<string | undefined>(
    'POSTMASTER',
    'none',
    'address that receives what people, providers and blocklists write to `postmaster@` and `abuse@` of the bounce domain; without it such mail is only listed for operators',
    emailAddress,
    none,
  ),
  reportDomain: setting<string | undefined>(
    'REPORT_DOMAIN',
    'none',
    'domain that TLS reports (TLS-RPT) to recipients come from and are signed by: a sender domain that is verified here. Without it none are sent',
    senderDomain,
    none,
  ),
  route: setting<Route>(
    'ROUTE',
    'mx',
    'or `smtp://[user:pass@]host:port` / `smtps://…`: all live mail goes to that relay',
    route,
    () => ({ kind: 'mx' }),
  ),
  fallbackRoute: setting<RelayRoute | undefined>(
    'FALLBACK_ROUTE',
    'none',
    '`smtp://[user:pass@]host:port` / `smtps://…`: relay that takes mail for destinations that block our host',
    relay,
    none,
  ),
  mxPort: setting('MX_PORT', '25', 'for tests', remotePort, () => 25),
  mxAllow: setting(
    'MX_ALLOW',
    'none',
    'private addresses and ranges (CIDR) that MX delivery may connect to (refused by default)',
    cidrs,
    emptyList,
  ),
  sourceAddresses: setting(
    'SOURCE_ADDRESSES',
    "the system's choice",
    'comma-separated addresses of this machine that mail leaves from, in turn, each to peers of its family (IPv4, IPv6)',
    ipAddresses,
    emptyList,
  ),
  warmUp: setting<WarmUpStart[]>(
    'WARMUP',
    'none',
    'the day on which the addresses that mail leaves from began to send, such as `2026-11-23`, or for each its own (`192.0.2.10=2026-11-23, …`): for six weeks each sends so many mails a day to each large provider, and the rest waits',
    warmUp,
    () => [],
  ),
  providers: setting<string | undefined>(
    'PROVIDERS',
    'none',
    'JSON file with limits of destinations, merged over `src/delivery/destinations/providers.json`',
    String,
    none,
  ),
  dnsServers: setting(
    'DNS_SERVERS',
    "the system's",
    'comma-separated, `address` or `address:port`',
    dnsServers,
    emptyList,
  ),
  dnssec: setting<'off' | 'trust'>(
    'DNSSEC',
    'off',
    'whose word that an answer was validated by DNSSEC is believed: `off` that of DNS servers on this host (127.0.0.1, ::1) alone, `trust` that of every server in `POSTRIDER_DNS_SERVERS` or of the system (they validate, and nobody can change what they say on the way)',
    words(['trust']),
    () => 'off',
  ),
  secretKey: setting<Buffer | undefined>(
    'SECRET_KEY',
    'generated in the data dir',
    '32 bytes in Base64; encrypts webhook secrets and private keys at rest',
    secretKey,
    none,
  ),
  webhookAllow: setting(
    'WEBHOOK_ALLOW',
    'none',
    'private addresses and ranges (CIDR) that webhooks may go to',
    cidrs,
    emptyList,
  ),
  metricsToken: setting<string | undefined>(
    'METRICS_TOKEN',
    'none',
    'bearer token for `/metrics` from elsewhere than loopback',
    token,
    none,
  ),
  oidcIssuer: setting<string | undefined>(
    'OIDC_ISSUER',
    'none',
    'identity provider (OpenID Connect) at which users may sign in too; https, or http on this machine',
    oidcIssuer,
    none,
  ),
  oidcClientId: setting<string | undefined>(
    'OIDC_CLIENT_ID',
    'none',
    'what this service is called there',
    String,
    none,
  ),
  oidcClientSecret: setting<string | undefined>(
    'OIDC_CLIENT_SECRET',
    'none',
    'its secret there, if it has one',
    String,
    none,
  ),
  doctorNetwork: setting(
    'DOCTOR_NETWORK',
    'on',
    '`off`: the doctor asks nothing of the DNS, mail servers, block lists and the web',
    words(['on', 'off'] as const),
    () => 'on' as const,
  ),
  doctorDomains: setting(
    'DOCTOR_DOMAINS',
    'gmail.com, outlook.com, yahoo.com',
    'domains whose mail servers the doctor connects to, to see whether port 25 leads out',
    domainNames,
    () => ['gmail.com', 'outlook.com', 'yahoo.com'],
  ),
  doctorBlocklists: setting(
    'DOCTOR_BLOCKLISTS',
    'zen.spamhaus.org, b.barracudacentral.org, bl.spamcop.net',
    'DNS block lists that the doctor asks about the addresses mail leaves from; or `none`',
    (text) => (text === 'none' ? [] : domainNames(text)),
    () => ['zen.spamhaus.org', 'b.barracudacentral.org', 'bl.spamcop.net'],
  ),
  doctorClockUrl: setting(
    'DOCTOR_CLOCK_URL',
    'http://www.google.com/generate_204',
    'whose Date header the doctor compares the clock with',
    httpAddress,
    () => 'http://www.google.com/generate_204',
  ),
  trustedProxies: setting(
    'TRUSTED_PROXIES',
    'none',
    'addresses and ranges (CIDR) of reverse proxies: their `X-Forwarded-For` and `X-Forwarded-Proto` apply, and on the SMTP ports they must send the PROXY protocol (v1 or v2)',
    cidrs,
    emptyList,
  ),
  rateLimit: setting<number | undefined>(
    'RATE_LIMIT',
    'off',
    'requests per second and key',
    integer(1, 1_000_000),
    none,
  ),
  minFreeBytes: setting(
    'MIN_FREE_BYTES',
    '500,000,000',
    'intake stops when less than the smaller of this (bytes, or such as `500MB`) and 10 % of the disk is free',
    byteSize,
    () => 500_000_000,
  ),
  roles: setting<Role[]>(
    'ROLES',
    DEFAULT_ROLES.join(','),
    'which roles this process runs (housekeeping runs with delivery); `inbound` is one more, which runs by itself where POSTRIDER_INBOUND_PORT is set and no roles are named',
    roles,
    () => [...DEFAULT_ROLES],
  ),
  doors: setting<Door[]>(
    'DOORS',
    'none',
    'comma-separated interfaces of other services that this one also speaks: `resend`. Programs written for them need another base URL and nothing else',
    doors,
    () => [],
  ),
  uploadTtlSeconds: setting('UPLOAD_TTL_SECONDS', '900', 'how long upload URLs live', integer(1, 86_400), () => 900),
  contentDays: setting(
    'CONTENT_DAYS',
    '30',
    'for how many days the content of mail is kept at most, whatever `retainContent` asks for',
    integer(1, 30),
    () => 30,
  ),
  eventDays: setting(
    'EVENT_DAYS',
    '90',
    'for how many days messages, events and the log of webhooks are kept; bounces (14 days) and unsubscribe mails (90 days) that come when their message is no longer kept change nothing',
    integer(7, 3650),
    () => 90,
  ),
  logLevel: setting(
    'LOG_LEVEL',
    'info',
    'fatal, error, warn, info, debug, trace or silent',
    words(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const),
    () => 'info' as const,
  ),
} as const satisfies Record<string, Setting<unknown>>;

type Values = { [K in keyof typeof settings]: ReturnType<(typeof settings)[K]['fallback']> };
export interface Config extends Values {
  /** Names that look like settings and are none: most likely misspelt, and worth a warning. */
  unknownSettings: readonly string[];
}

type Environment = Record<string, string | undefined>;

/** Reads all settings from an environment; throws ConfigError for the first wrong value. */
export function readConfig(given: Environment): Config {
  const environment = withSecretFiles(given);
  const values: Record<string, unknown> = {};
  for (const [key, one] of Object.entries(settings)) {
    const text = givenText(one, environment);
    if (text === undefined) {
      values[key] = one.fallback();
      continue;
    }
    // Docker's --env-file and systemd's Environment keep quotes that a shell would remove. A secret may have them.
    if (/^(["']).*\1$/s.test(text.trim()) && !SECRET_SETTINGS.includes(one.name)) {
      throw notValid(one.name, text, 'the value without quotes around it');
    }
    if (one.read === String && text.trim() === '') throw notValid(one.name, text, 'a value that is not blank');
    try {
      values[key] = one.read(text.trim());
    } catch (error) {
      const { message } = error as Error;
      throw notValid(one.name, text, DEFAULT_WORDS.has(one.shown) ? `${one.shown}, or ${message}` : message);
    }
  }
  values.unknownSettings = unknownSettings(environment);
  const config = values as unknown as Config;
  if (config.databaseUrl !== undefined) config.databaseUrl.password ??= config.databasePassword;
  if (config.inboundPort !== undefined && givenText(settings.roles, environment) === undefined) {
    config.roles.push('inbound');
  }
  assertTogether(config, environment);
  return config;
}

/** The address of the service as far as its settings say it; one that takes a free port learns its own when it listens. */
export function publicUrl({ baseUrl, httpPort }: Pick<Config, 'baseUrl' | 'httpPort'>): string {
  return baseUrl ?? `http://localhost:${httpPort}`;
}

/** Variables of the command line's own (address, account and key of the API it talks to). */
export const CLIENT_VARIABLES = ['POSTRIDER_URL', 'POSTRIDER_ID', 'POSTRIDER_KEY'] as const;

function unknownSettings(environment: Record<string, string | undefined>): string[] {
  const known = new Set<string>([
    ...Object.values(settings).map((one) => one.name),
    ...SECRET_SETTINGS.map((name) => `${name}_FILE`),
    ...CLIENT_VARIABLES,
  ]);
  return Object.keys(environment).filter((name) => name.startsWith('POSTRIDER_') && !known.has(name));
}
