/**
 * The table of settings: name, default, meaning, and parser. This is the only code that reads the environment. An invalid
 * value stops the start with one line that names the variable, the value, and the accepted values.
 * docs/reference/settings.md is generated from this table.
 */

import { conflicts, notValid } from './config-together.ts';
import {
  acmeDirectory,
  type BlobStoreAddress,
  blobStoreAddress,
  byteSize,
  ConfigError,
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
  headerList,
  hostName,
  httpAddress,
  integer,
  ipAddresses,
  listenHost,
  MCP_ACCESS,
  type McpAccess,
  none,
  oidcIssuer,
  port,
  type RelayRoute,
  type Role,
  type Route,
  ratio,
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
  type RelayLimitSettings,
  type RelayRoute,
  ROLES,
  type Route,
  SECRET_SETTINGS,
  secretKey as parseSecretKey,
  type WarmUpStart,
} from './config-values.ts';

/** The version that `--version` prints and the API description contains. */
export const VERSION = '1.0.0';
/** The User-Agent of requests to webhooks. */
export const WEBHOOK_USER_AGENT = `Postrider-Webhooks/${VERSION}`;

export const settings = {
  dataDir: setting(
    'DATA_DIR',
    './data',
    'directory for the embedded database, the stored files, and the generated keys',
    String,
    () => './data',
  ),
  databaseUrl: setting<PostgresAddress | undefined>(
    'DATABASE_URL',
    'embedded SQLite',
    'PostgreSQL database (`postgres://…`) to use instead of embedded SQLite; write special characters of the password as `%XX`',
    parsePostgresUrl,
    none,
  ),
  databasePassword: foreign(
    'PGPASSWORD',
    'database password, unescaped; used if `POSTRIDER_DATABASE_URL` contains no password',
  ),
  blobs: setting<BlobStoreAddress>(
    'BLOB_URL',
    'files in the data directory',
    'where message content and attachments are stored: `file:///path` (a shared directory) or `s3://bucket/prefix?endpoint=…&region=…` (with the AWS variables)',
    blobStoreAddress,
    () => ({ kind: 'disk', folder: undefined }),
  ),
  backupUrl: setting<BlobStoreAddress | undefined>(
    'BACKUP_URL',
    'off',
    'where scheduled backups of the embedded database are stored: `file:///path`, or `s3://…` as in `POSTRIDER_BLOB_URL`',
    blobStoreAddress,
    none,
  ),
  backupBeforeUpgrade: setting(
    'BACKUP_BEFORE_UPGRADE',
    'off',
    '`on` backs up the embedded database and content into the data directory before a new version migrates them; if the backup fails, nothing is migrated',
    words(['on', 'off'] as const),
    () => 'off' as const,
  ),
  backupHours: setting('BACKUP_HOURS', '24', 'hours between scheduled backups', integer(1, 168), () => 24),
  backupKeep: setting(
    'BACKUP_KEEP',
    '7',
    'number of scheduled backups to keep; older ones are deleted',
    integer(1, 1_000),
    () => 7,
  ),
  awsAccessKeyId: foreign(
    'AWS_ACCESS_KEY_ID',
    'access key ID for the S3-compatible store; read only if `POSTRIDER_BLOB_URL` or `POSTRIDER_BACKUP_URL` is `s3://…`',
  ),
  awsSecretAccessKey: foreign('AWS_SECRET_ACCESS_KEY', 'secret access key that belongs to `AWS_ACCESS_KEY_ID`'),
  awsSessionToken: foreign('AWS_SESSION_TOKEN', 'session token, if the keys above are temporary'),
  awsWebIdentityTokenFile: foreign(
    'AWS_WEB_IDENTITY_TOKEN_FILE',
    'file with a token for which AWS STS issues credentials of `AWS_ROLE_ARN`; Amazon EKS sets both',
  ),
  awsRoleArn: foreign('AWS_ROLE_ARN', 'role to assume with `AWS_WEB_IDENTITY_TOKEN_FILE`'),
  awsRoleSessionName: foreign('AWS_ROLE_SESSION_NAME', 'name of that session; default `postrider`'),
  awsStsEndpoint: foreign('AWS_ENDPOINT_URL_STS', 'URL of AWS STS; default: STS of the region of the store'),
  awsContainerRelativeUri: foreign(
    'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI',
    'path of the credentials of the task; Amazon ECS sets it',
  ),
  awsContainerFullUri: foreign(
    'AWS_CONTAINER_CREDENTIALS_FULL_URI',
    'URL of the credentials of the container, with `https`, on this machine, or at an address of Amazon ECS or EKS; EKS Pod Identity sets it',
  ),
  awsContainerToken: foreign('AWS_CONTAINER_AUTHORIZATION_TOKEN', 'token for that URL'),
  awsContainerTokenFile: foreign('AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE', 'file with the token for that URL'),
  awsMetadataEndpoint: foreign(
    'AWS_EC2_METADATA_SERVICE_ENDPOINT',
    'metadata service for `credentials=instance` in the URL of the store; default `http://169.254.169.254`',
  ),
  httpPort: setting('HTTP_PORT', '3000', 'port of the API, uploads, and the portal', port, () => 3000),
  httpHost: setting('HTTP_HOST', '0.0.0.0', 'address that the HTTP port is bound to', listenHost, () => '0.0.0.0'),
  httpsPort: setting<number | undefined>(
    'HTTPS_PORT',
    'off',
    'HTTPS port (443 in production) of the API, uploads, and the portal, on the address of the HTTP port',
    port,
    none,
  ),
  baseUrl: setting<string | undefined>(
    'BASE_URL',
    'http://localhost:PORT',
    'public URL, used in upload URLs and links; can include a path if your reverse proxy strips it',
    httpAddress,
    none,
  ),
  smtpPort: setting<number | undefined>(
    'SMTP_PORT',
    "587, or 2587 if the process can't bind 587 and no port is configured",
    'port of SMTP submission with STARTTLS',
    port,
    none,
  ),
  smtpHost: setting('SMTP_HOST', '0.0.0.0', 'address that SMTP submission is bound to', listenHost, () => '0.0.0.0'),
  smtpsPort: setting<number | undefined>(
    'SMTPS_PORT',
    'off',
    'port of SMTP submission with implicit TLS (465 in production)',
    port,
    none,
  ),
  smtpHostname: setting(
    'SMTP_HOSTNAME',
    "the host's name",
    'host name in the SMTP banner, HELO, and `Received` header fields',
    domainName,
    hostName,
  ),
  smtpTlsCert: setting<string | undefined>(
    'SMTP_TLS_CERT',
    'self-signed, generated',
    'PEM file with the TLS certificate chain for SMTP and HTTPS; reloaded when it changes',
    String,
    none,
  ),
  smtpTlsKey: setting<string | undefined>(
    'SMTP_TLS_KEY',
    'self-signed, generated',
    'PEM file with the private key of the TLS certificate; reloaded when it changes',
    String,
    none,
  ),
  acmeEmail: setting<string | undefined>(
    'ACME_EMAIL',
    'off',
    'contact address for the certificate authority. If it is set and no PEM files are configured, Postrider obtains TLS certificates with ACME. By setting it, you accept the terms of the authority',
    contactEmail,
    none,
  ),
  acmeDirectory: setting(
    'ACME_DIRECTORY',
    "Let's Encrypt's",
    'ACME directory URL of the certificate authority',
    acmeDirectory,
    () => 'https://acme-v02.api.letsencrypt.org/directory',
  ),
  smtpMaxConnectionsPerAddress: setting(
    'SMTP_MAX_CONNECTIONS_PER_ADDRESS',
    '50',
    'maximum simultaneous submission connections from one address',
    integer(1, 100_000),
    () => 50,
  ),
  inboundPort: setting<number | undefined>(
    'INBOUND_PORT',
    'off',
    'port that receives bounces, feedback reports, and mail for inbound routes (25 in production), on the address of SMTP submission',
    port,
    none,
  ),
  inboundMaxConnectionsPerAddress: setting(
    'INBOUND_MAX_CONNECTIONS_PER_ADDRESS',
    '10',
    'maximum simultaneous connections to the inbound port from one address',
    integer(1, 100_000),
    () => 10,
  ),
  bounceDomain: setting<string | undefined>(
    'BOUNCE_DOMAIN',
    'none',
    'domain of the return path that receives bounces; its MX record must point to the inbound port. Without it, MAIL FROM is the sender',
    senderDomain,
    none,
  ),
  postmaster: setting<string | undefined>(
    'POSTMASTER',
    'none',
    'address to forward mail for `postmaster@` and `abuse@` of the bounce domain to. Without it, operators only see that mail in a list',
    emailAddress,
    none,
  ),
  reportDomain: setting<string | undefined>(
    'REPORT_DOMAIN',
    'none',
    'verified sending domain that sends and signs TLS reports (TLS-RPT) to recipient domains. Without it, Postrider sends no reports',
    senderDomain,
    none,
  ),
  route: setting<Route>(
    'ROUTE',
    'mx',
    'route of live mail: `mx` (direct delivery to MX hosts) or a relay that receives all of it (`smtp://[user:pass@]host:port` or `smtps://…`). `?perMinute=60&perDay=10000` limits the messages through it, and `user` and `tokenUrl` sign in with OAuth 2.0 ([guide](../guides/relay.md))',
    route,
    () => ({ kind: 'mx' }),
  ),
  fallbackRoute: setting<RelayRoute | undefined>(
    'FALLBACK_ROUTE',
    'none',
    'relay (`smtp://[user:pass@]host:port` or `smtps://…`) for mail to destinations that block this host, with the same parameters',
    relay,
    none,
  ),
  mxPort: setting('MX_PORT', '25', 'port of MX hosts; change it for tests only', remotePort, () => 25),
  mxAllow: setting(
    'MX_ALLOW',
    'none',
    'private addresses and ranges (CIDR) that MX delivery may connect to; Postrider refuses private addresses by default',
    cidrs,
    emptyList,
  ),
  sourceAddresses: setting(
    'SOURCE_ADDRESSES',
    "the system's choice",
    'comma-separated local addresses to send mail from, used in round-robin order within each address family (IPv4, IPv6)',
    ipAddresses,
    emptyList,
  ),
  warmUp: setting<WarmUpStart[]>(
    'WARMUP',
    'none',
    'day on which your source addresses started to send, for example `2026-11-23`, or one day per address (`192.0.2.10=2026-11-23, …`). For six weeks, Postrider limits the messages per day from each address to each large provider and queues the others',
    warmUp,
    () => [],
  ),
  providers: setting<string | undefined>(
    'PROVIDERS',
    'none',
    'JSON file with limits per destination, merged over `src/delivery/destinations/providers.json`',
    String,
    none,
  ),
  dnsServers: setting(
    'DNS_SERVERS',
    "the system's",
    'comma-separated DNS servers, each `address` or `address:port`',
    dnsServers,
    emptyList,
  ),
  dnssec: setting<'off' | 'trust'>(
    'DNSSEC',
    'off',
    'which resolvers are trusted to validate DNSSEC (AD bit): `off` trusts only those on this host (127.0.0.1, ::1); `trust` also trusts those in `POSTRIDER_DNS_SERVERS` or in the system configuration. Use `trust` only if they validate and the network path to them is secure',
    words(['trust']),
    () => 'off',
  ),
  secretKey: setting<Buffer | undefined>(
    'SECRET_KEY',
    'generated in the data directory',
    'key that encrypts webhook secrets and private keys at rest (32 bytes in Base64)',
    secretKey,
    none,
  ),
  webhookAllow: setting(
    'WEBHOOK_ALLOW',
    'none',
    'private addresses and ranges (CIDR) that webhooks may connect to',
    cidrs,
    emptyList,
  ),
  metricsToken: setting<string | undefined>(
    'METRICS_TOKEN',
    'none',
    'bearer token that `/metrics` requires from clients outside loopback',
    token,
    none,
  ),
  otlpEndpoint: setting<string | undefined>(
    'OTLP_ENDPOINT',
    'none',
    'base URL of an OpenTelemetry collector (OTLP/HTTP), such as `http://collector:4318`: Postrider sends traces of messages to it ([guide](../guides/monitoring.md#traces))',
    httpAddress,
    none,
  ),
  otlpHeaders: setting<Record<string, string>>(
    'OTLP_HEADERS',
    'none',
    'headers for the collector, such as `authorization=Bearer%20TOKEN,x-tenant=1`, with values encoded as in a URL',
    headerList,
    () => ({}),
  ),
  otlpRatio: setting(
    'OTLP_RATIO',
    '1',
    'share of messages, from 0 to 1, whose traces are sent; a `traceparent` in the request overrides it',
    ratio,
    () => 1,
  ),
  oidcIssuer: setting<string | undefined>(
    'OIDC_ISSUER',
    'none',
    'URL of an OpenID Connect provider that users can log in with (`https`, or `http` on this machine)',
    oidcIssuer,
    none,
  ),
  oidcClientId: setting<string | undefined>(
    'OIDC_CLIENT_ID',
    'none',
    'client ID of Postrider at the OpenID Connect provider',
    String,
    none,
  ),
  oidcClientSecret: setting<string | undefined>(
    'OIDC_CLIENT_SECRET',
    'none',
    'client secret, if the provider issued one',
    String,
    none,
  ),
  doctorNetwork: setting(
    'DOCTOR_NETWORK',
    'on',
    '`off` skips all doctor checks that need the network',
    words(['on', 'off'] as const),
    () => 'on' as const,
  ),
  doctorDomains: setting(
    'DOCTOR_DOMAINS',
    'gmail.com, outlook.com, yahoo.com',
    'domains whose MX hosts the doctor connects to, to check that outbound port 25 is open',
    domainNames,
    () => ['gmail.com', 'outlook.com', 'yahoo.com'],
  ),
  doctorBlocklists: setting(
    'DOCTOR_BLOCKLISTS',
    'zen.spamhaus.org, b.barracudacentral.org, bl.spamcop.net',
    'DNS blocklists that the doctor queries for your source addresses, or `none`',
    (text) => (text === 'none' ? [] : domainNames(text)),
    () => ['zen.spamhaus.org', 'b.barracudacentral.org', 'bl.spamcop.net'],
  ),
  doctorClockUrl: setting(
    'DOCTOR_CLOCK_URL',
    'http://www.google.com/generate_204',
    'URL whose `Date` response header the doctor compares with the system clock',
    httpAddress,
    () => 'http://www.google.com/generate_204',
  ),
  trustedProxies: setting(
    'TRUSTED_PROXIES',
    'none',
    'addresses and ranges (CIDR) of your reverse proxies. Postrider trusts their `X-Forwarded-For`, `X-Forwarded-Proto`, and `X-Forwarded-Host`; on the SMTP ports they must send the PROXY protocol (v1 or v2)',
    cidrs,
    emptyList,
  ),
  rateLimit: setting<number | undefined>(
    'RATE_LIMIT',
    'off',
    'maximum API requests per second and key',
    integer(1, 1_000_000),
    none,
  ),
  minFreeBytes: setting(
    'MIN_FREE_BYTES',
    '500,000,000',
    'minimum free disk space (bytes, or with a unit such as `500MB`). Postrider stops accepting mail below this value or below 10 % of the disk, whichever is smaller',
    byteSize,
    () => 500_000_000,
  ),
  roles: setting<Role[]>(
    'ROLES',
    DEFAULT_ROLES.join(','),
    'roles that this process runs (`delivery` includes housekeeping). If `POSTRIDER_INBOUND_PORT` is set, a process with these four also runs `inbound`',
    roles,
    () => [...DEFAULT_ROLES],
  ),
  doors: setting<Door[]>(
    'DOORS',
    'none',
    'APIs of other services that Postrider also offers, comma-separated: `resend`, `ses`. Clients of that service need only another base URL',
    doors,
    () => [],
  ),
  mcp: setting<McpAccess>(
    'MCP',
    'off',
    'tools for AI agents at `POST /mcp` (Model Context Protocol): `read` offers only the tools that change nothing, `on` offers all tools. With a live key, a person must approve each change',
    words(MCP_ACCESS),
    () => 'off',
  ),
  uploadTtlSeconds: setting(
    'UPLOAD_TTL_SECONDS',
    '900',
    'how long upload URLs are valid, in seconds',
    integer(1, 86_400),
    () => 900,
  ),
  contentDays: setting(
    'CONTENT_DAYS',
    '30',
    'maximum days to keep message content; applies even if `retainContent` is longer',
    integer(1, 30),
    () => 30,
  ),
  eventDays: setting(
    'EVENT_DAYS',
    '90',
    'days to keep messages, events, and webhook logs. A bounce (valid for 14 days) or unsubscribe email (valid for 90 days) has no effect once its message has been deleted',
    integer(7, 3650),
    () => 90,
  ),
  logLevel: setting(
    'LOG_LEVEL',
    'info',
    'minimum log level: `fatal`, `error`, `warn`, `info`, `debug`, `trace`, or `silent`',
    words(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const),
    () => 'info' as const,
  ),
} as const satisfies Record<string, Setting<unknown>>;

type Values = { [K in keyof typeof settings]: ReturnType<(typeof settings)[K]['fallback']> };
export interface Config extends Values {
  /** Unknown variables that start with `POSTRIDER_`. They are probably misspelled, so each produces a warning. */
  unknownSettings: readonly string[];
}

type Environment = Record<string, string | undefined>;

/** The settings and every problem that was found. A setting with a problem has its default value. */
export interface ExaminedConfig {
  config: Config;
  problems: ConfigError[];
  /** The keys of the settings whose value is not valid, regardless of other settings. */
  wrong: ReadonlySet<string>;
}

/** Reads all settings from an environment; throws ConfigError for the first invalid value. */
export function readConfig(variables: Environment): Config {
  const { config, problems } = examineConfig(variables);
  if (problems[0]) throw problems[0];
  return config;
}

/** Reads all settings from an environment and collects every problem: first those of secret files, then of values, then of combinations. */
export function examineConfig(variables: Environment): ExaminedConfig {
  const { environment, wrongFiles } = withSecretFiles(variables);
  const problems = [...wrongFiles.values()];
  const wrong = new Set<string>();
  const values: Record<string, unknown> = {};
  for (const [key, one] of Object.entries(settings)) {
    values[key] = one.fallback();
    try {
      if (wrongFiles.has(one.name)) wrong.add(key);
      else values[key] = readSetting(one, environment);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      wrong.add(key);
      problems.push(error);
    }
  }
  values.unknownSettings = unknownSettings(environment);
  const config = values as unknown as Config;
  if (config.databaseUrl !== undefined) config.databaseUrl.password ??= config.databasePassword;
  const hasDefaultRoles = DEFAULT_ROLES.every((role) => config.roles.includes(role));
  if (config.inboundPort !== undefined && hasDefaultRoles && !config.roles.includes('inbound')) {
    config.roles.push('inbound');
  }
  problems.push(...conflicts(config, { environment, wrong }));
  return { config, problems, wrong };
}

/** Returns the value of a setting, or its default if it is unset; throws ConfigError if the text is not valid. */
function readSetting(one: Setting<unknown>, environment: Environment): unknown {
  const text = givenText(one, environment);
  if (text === undefined) return one.fallback();
  // Docker's --env-file and systemd's Environment keep quotes that a shell would remove. Secrets may contain quotes.
  if (/^(["']).*\1$/s.test(text.trim()) && !SECRET_SETTINGS.includes(one.name)) {
    throw notValid(one.name, text, 'the value without quotes around it');
  }
  if (one.read === String && text.trim() === '') throw notValid(one.name, text, 'a value that is not blank');
  try {
    return one.read(text.trim());
  } catch (error) {
    const { message } = error as Error;
    const isListed = message.split(/[ ,]+/).includes(one.shown);
    throw notValid(one.name, text, DEFAULT_WORDS.has(one.shown) && !isListed ? `${one.shown}, or ${message}` : message);
  }
}

/** Returns the public URL according to the settings. If the HTTP port is 0, the real port is known only after the server listens. */
export function publicUrl({ baseUrl, httpPort }: Pick<Config, 'baseUrl' | 'httpPort'>): string {
  return baseUrl ?? `http://localhost:${httpPort}`;
}

/** These variables are read only by the command line: URL, account ID, and API key. */
export const CLIENT_VARIABLES = ['POSTRIDER_URL', 'POSTRIDER_ID', 'POSTRIDER_KEY'] as const;

function unknownSettings(environment: Record<string, string | undefined>): string[] {
  const known = new Set<string>([
    ...Object.values(settings).map((one) => one.name),
    ...SECRET_SETTINGS.map((name) => `${name}_FILE`),
    ...CLIENT_VARIABLES,
  ]);
  return Object.keys(environment).filter((name) => name.startsWith('POSTRIDER_') && !known.has(name));
}
