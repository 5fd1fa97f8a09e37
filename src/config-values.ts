/**
 * Parses the values of settings. A parser throws an Error whose message names the accepted values; config.ts adds the variable and the
 * value.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import os from 'node:os';
import { BYTES_ALLOWED, parseBytes } from './base/bytes.ts';
import { parseAddress } from './mail/address.ts';
import { parseCidrs } from './net/address-guard.ts';
import { parseS3Url, type S3Location } from './storage/blobs/s3-location.ts';

/** An environment variable and its parser. */
export interface Setting<T> {
  name: string;
  /** The default as shown in the documentation. */
  shown: string;
  meaning: string;
  fallback(): T;
  /** Parses the text; throws an Error whose message names the accepted values. */
  read(text: string): T;
}

export function setting<T>(
  name: string,
  shown: string,
  meaning: string,
  read: (text: string) => T,
  fallback: () => T,
): Setting<T> {
  return { name: `POSTRIDER_${name}`, shown, meaning, read, fallback };
}

export const none = (): undefined => undefined;

/** Returns a setting whose variable has no POSTRIDER_ prefix, such as PGPASSWORD. */
export function foreign(
  name: string,
  meaning: string,
  read: (text: string) => string = String,
): Setting<string | undefined> {
  return { name, shown: 'none', meaning, read, fallback: none };
}

export const emptyList = (): string[] => [];

export type Role = 'api' | 'smtp' | 'delivery' | 'webhooks' | 'inbound';
export const ROLES: readonly Role[] = ['api', 'smtp', 'delivery', 'webhooks', 'inbound'];
/** The roles that run if none are configured. config.ts adds `inbound` to all four if its port is set. */
export const DEFAULT_ROLES: readonly Role[] = ['api', 'smtp', 'delivery', 'webhooks'];

export interface RelayRoute {
  host: string;
  port: number;
  /** True for TLS from the first byte (smtps); false for STARTTLS if the relay offers it. */
  implicitTls: boolean;
  auth?: { user: string; pass: string };
  /** OAuth 2.0 instead of a password: the mailbox, and the client that gets its access tokens. */
  oauth?: { user: string; tokenUrl: string; clientId: string; clientSecret: string; scope?: string };
  limits?: RelayLimitSettings;
}

/** Messages through a relay at most, by all nodes together. */
export interface RelayLimitSettings {
  perMinute?: number;
  perDay?: number;
}

export type Route = { kind: 'mx' } | { kind: 'relay'; relay: RelayRoute };
export type BlobStoreAddress = { kind: 'disk'; folder: string | undefined } | { kind: 's3'; location: S3Location };

/** Parses a port to listen on. */
export const port = (text: string): number => portFrom(0, text, 'a port from 0 to 65535 (0: any free one)');

/** Parses a port to connect to. */
export const remotePort = (text: string): number => portFrom(1, text, 'a port from 1 to 65535');

function portFrom(min: number, text: string, allowed: string): number {
  const value = Number(text);
  if (!/^\d{1,5}$/.test(text) || value < min || value > 65535) throw new Error(allowed);
  return value;
}

export const integer =
  (min: number, max: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) throw new Error(`a whole number from ${min} to ${max}`);
    return value;
  };

/** Parses a number of bytes, with or without a unit. */
export function byteSize(text: string): number {
  const bytes = parseBytes(text);
  if (bytes === undefined) throw new Error(BYTES_ALLOWED);
  return bytes;
}

export const words =
  <T extends string>(allowed: readonly T[]) =>
  (text: string): T => {
    const found = allowed.find((one) => one === text);
    if (!found) throw new Error(allowed.length === 1 ? allowed[0] : `one of ${allowed.join(', ')}`);
    return found;
  };

/** Parses a list of CIDR ranges; an address without a prefix length becomes a range of one address. */
export const cidrs = (text: string): string[] => {
  const list = parseCidrs(text);
  if (!list.ok) throw new Error('a comma-separated list of CIDRs or addresses such as 10.0.0.0/8, ::1');
  return list.cidrs.map((one) => (one.text.includes('/') ? one.text : `${one.text}/${one.bits}`));
};

export function httpAddress(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash) {
    throw new Error('a URL such as https://mail.example.com, without credentials, query, or fragment');
  }
  return text.replace(/\/+$/, '');
}

function isThisMachine({ hostname }: URL): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

/** Parses the issuer URL; http is allowed only on this machine, for tests. */
export function oidcIssuer(text: string): string {
  const url = new URL(httpAddress(text));
  if (url.protocol === 'http:' && !isThisMachine(url)) {
    throw new Error('an https URL, such as https://login.example.com');
  }
  return text;
}

/** Parses the directory URL of a certificate authority; ACME requires https (RFC 8555 §6.1). */
export function acmeDirectory(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.username || url.hash) {
    throw new Error('an https URL, such as https://acme-v02.api.letsencrypt.org/directory');
  }
  return text;
}

/** Parses a contact that a certificate authority accepts: a single address without header fields (RFC 8555 §7.3). */
export function contactEmail(text: string): string {
  if (!/^[^\s@,?]+@[^\s@,?]+\.[^\s@,?]+$/.test(text))
    throw new Error('an email address such as postmaster@example.com');
  return text;
}

/** Parses an email address without a display name or angle brackets. */
export function emailAddress(text: string): string {
  const parsed = parseAddress(text);
  const isBare = parsed.ok && parsed.value.name === '' && !/[<>]/.test(text);
  if (!isBare) throw new Error('an email address such as postmaster@example.com');
  return parsed.value.address;
}

export function route(text: string): Route {
  return text === 'mx' ? { kind: 'mx' } : { kind: 'relay', relay: readRelay(text, `mx, or ${RELAY_ALLOWED}`) };
}

export const relay = (text: string): RelayRoute => readRelay(text, RELAY_ALLOWED);

const RELAY_ALLOWED = 'a relay such as smtp://user:pass@host:587 or smtps://host:465?perMinute=60';

function readRelay(text: string, allowed: string): RelayRoute {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^smtps?:$/.test(url.protocol) || !url.hostname) throw new Error(allowed);
  if ((url.pathname && url.pathname !== '/') || url.hash) throw new Error(allowed);
  if (url.port === '0') throw new Error(`${allowed}, with a port from 1 to 65535`);
  if (Boolean(url.username) !== Boolean(url.password))
    throw new Error(`${allowed}; set both user and password, or neither`);
  const implicitTls = url.protocol === 'smtps:';
  const read: RelayRoute = {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port ? Number(url.port) : implicitTls ? 465 : 25,
    implicitTls,
  };
  const parameters = readRelayParameters(url.searchParams);
  const limits = readRelayLimits(parameters);
  const credentials = url.username
    ? { user: decoded(url.username, allowed), pass: decoded(url.password, allowed) }
    : undefined;
  const oauth = readRelayOAuth(parameters, credentials);
  if (oauth) read.oauth = oauth;
  else if (credentials) read.auth = credentials;
  if (limits) read.limits = limits;
  return read;
}

const MOST_OF_CAP: Readonly<Record<keyof RelayLimitSettings, number>> = { perMinute: 1_000_000, perDay: 1_000_000_000 };
const CAP_NAMES = Object.keys(MOST_OF_CAP) as (keyof RelayLimitSettings)[];
const OAUTH_NAMES = ['tokenUrl', 'scope', 'user'] as const;
type RelayParameter = (typeof CAP_NAMES)[number] | (typeof OAUTH_NAMES)[number];
const PARAMETER_NAMES: readonly RelayParameter[] = [...CAP_NAMES, ...OAUTH_NAMES];

type RelayParameters = ReadonlyMap<RelayParameter, string>;

function readRelayParameters(given: URLSearchParams): RelayParameters {
  const parameters = new Map<RelayParameter, string>();
  for (const [key, value] of given) {
    const name = PARAMETER_NAMES.find((one) => one === key);
    if (!name)
      throw new Error(`the parameters ${PARAMETER_NAMES.join(', ')}; ${JSON.stringify(key)} is not one of them`);
    if (parameters.has(name)) throw new Error(`the parameter ${name} once`);
    parameters.set(name, value);
  }
  return parameters;
}

function readRelayLimits(parameters: RelayParameters): RelayLimitSettings | undefined {
  const given = CAP_NAMES.filter((name) => parameters.has(name));
  if (given.length === 0) return undefined;
  return Object.fromEntries(given.map((name) => [name, wholeNumberOf(name, parameters.get(name)!)]));
}

const OAUTH_ALLOWED =
  'smtp://CLIENT_ID:CLIENT_SECRET@host:587?user=mailbox@example.com&tokenUrl=https://provider.example/token, with both parameters, encoded as in a URL (write + as %2B)';

/** Reads the parameters of OAuth 2.0; the credentials of the URL are then those of the client. */
function readRelayOAuth(
  parameters: RelayParameters,
  credentials: { user: string; pass: string } | undefined,
): RelayRoute['oauth'] {
  if (!OAUTH_NAMES.some((name) => parameters.has(name))) return undefined;
  const user = parameters.get('user');
  const tokenUrl = parameters.get('tokenUrl');
  const scope = parameters.get('scope');
  if (!user || /[\x00-\x20\x7f]/.test(user) || !tokenUrl || !credentials) throw new Error(OAUTH_ALLOWED);
  const url = URL.canParse(tokenUrl) ? new URL(tokenUrl) : undefined;
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isThisMachine(url)))
    throw new Error('a tokenUrl with https, or with http on this machine');
  const client = { user, tokenUrl, clientId: credentials.user, clientSecret: credentials.pass };
  return scope ? { ...client, scope } : client;
}

function wholeNumberOf(name: keyof RelayLimitSettings, text: string): number {
  try {
    return integer(1, MOST_OF_CAP[name])(text);
  } catch (error) {
    throw new Error(`${name} as ${(error as Error).message}, such as ?perMinute=60&perDay=10000`);
  }
}

function decoded(text: string, allowed: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error(`${allowed}; write a literal % as %25`);
  }
}

export function dnsServers(text: string): string[] {
  const list = text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  if (list.length === 0 || !list.every(isDnsServer)) {
    throw new Error(
      'a comma-separated list of addresses such as 10.0.0.53, 127.0.0.1:5353 or [::1]:53, with ports from 1 to 65535',
    );
  }
  return list;
}

/** Parses IP addresses. Whether they belong to this machine becomes known when they are bound. */
export function ipAddresses(text: string): string[] {
  const list = text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  if (list.length === 0 || !list.every((one) => isIP(one) !== 0)) {
    throw new Error('a comma-separated list of addresses of this machine such as 192.0.2.10, 2001:db8::10');
  }
  return [...new Set(list)];
}

/** The day on which a source address started to send. */
export interface WarmUpStart {
  /** Null if the day applies to all addresses that are not listed. */
  address: string | null;
  /** Days since 1970. */
  firstDay: number;
}

const DAY_MS = 86_400_000;

function firstDayOf(text: string): number | undefined {
  const atMs = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN;
  // Date.parse() turns 31 February into a day in March.
  const isDay = !Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(text);
  return isDay ? atMs / DAY_MS : undefined;
}

export function warmUp(text: string): WarmUpStart[] {
  const starts = text.split(',').map((one) => {
    const [day = '', address = null] = one
      .split('=', 2)
      .map((part) => part.trim())
      .reverse();
    const firstDay = firstDayOf(day);
    return firstDay !== undefined && (address === null || isIP(address) !== 0) ? { address, firstDay } : undefined;
  });
  const isEachListedOnce = new Set(starts.map((start) => start?.address)).size === starts.length;
  if (!isEachListedOnce || starts.some((start) => !start)) {
    throw new Error(
      'the day on which the addresses started to send, such as 2026-11-23, or one day per address, such as 192.0.2.10=2026-11-23, 192.0.2.11=2026-12-01',
    );
  }
  return starts as WarmUpStart[];
}

function isDnsServer(text: string): boolean {
  const bracketed = /^\[(.+)\](?::(\d{1,5}))?$/.exec(text);
  const plain = /^([^:]+)(?::(\d{1,5}))?$/.exec(text);
  const [, host = text, portText = '53'] = bracketed ?? plain ?? [];
  const family = isIP(host);
  return (bracketed ? family === 6 : family !== 0) && Number(portText) >= 1 && Number(portText) <= 65535;
}

export function secretKey(text: string): Buffer {
  const key = Buffer.from(text, 'base64');
  if (key.length !== 32 || key.toString('base64').replace(/=+$/, '') !== text.replace(/=+$/, '')) {
    throw new Error('32 bytes in Base64 (44 characters)');
  }
  return key;
}

export function blobStoreAddress(text: string): BlobStoreAddress {
  if (text.startsWith('s3:')) return { kind: 's3', location: parseS3Url(text) };
  const allowed = 'file:///path (a shared directory), or s3://bucket/prefix?endpoint=https://host&region=name';
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'file:' || url.host) throw new Error(allowed);
  return { kind: 'disk', folder: decoded(url.pathname, allowed) };
}

export function roles(text: string): Role[] {
  const list = text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  if (list.length === 0) throw new Error(`a comma-separated list of ${ROLES.join(', ')}`);
  return list.map(words(ROLES));
}

/** Which tools AI agents can use: none, those that change nothing, or all. */
export const MCP_ACCESS = ['off', 'read', 'on'] as const;
export type McpAccess = (typeof MCP_ACCESS)[number];

/** Interfaces of other email services that Postrider can offer. */
export const DOORS = ['resend', 'ses'] as const;
export type Door = (typeof DOORS)[number];

export function doors(text: string): Door[] {
  const list = text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  if (list.length === 0) throw new Error(`a comma-separated list of ${DOORS.join(', ')}`);
  return [...new Set(list.map(words(DOORS)))];
}

export const domainName = (text: string): string => {
  if (!/^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(text)) {
    throw new Error('a host name such as mail.example.com');
  }
  return text.toLowerCase();
};

/** Parses a domain that can send mail: its top-level domain must contain a letter. */
export const senderDomain = (text: string): string => {
  const name = /\.[a-z0-9-]*[a-z][a-z0-9-]*$/i.test(text) ? text : '';
  try {
    return domainName(name);
  } catch {
    throw new Error('a sender domain such as example.com');
  }
};

/** Parses a list of up to ten domains. */
export const domainNames = (text: string): string[] => {
  const allowed = 'a comma-separated list of one to ten domains such as gmail.com, outlook.com';
  const list = text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  if (list.length === 0 || list.length > 10) throw new Error(allowed);
  return list.map((one) => {
    try {
      return domainName(one);
    } catch {
      throw new Error(allowed);
    }
  });
};

/** Parses an address or host name to listen on. */
export const listenHost = (text: string): string => {
  if (isIP(text) !== 0) return text;
  try {
    return domainName(text);
  } catch {
    throw new Error('an address or name of this machine, such as 127.0.0.1, 0.0.0.0 or ::');
  }
};

/** Parses an http or https URL of a service of the operator. */
export function serviceUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) throw new Error('a URL that starts with http or https');
  return text.replace(/\/+$/, '');
}

/** Addresses of the credentials endpoints of Amazon ECS and EKS. */
const CONTAINER_HOSTS = /^(?:169\.254\.170\.2|169\.254\.170\.23|\[fd00:ec2::23\])$/;

/** Parses AWS_CONTAINER_CREDENTIALS_FULL_URI by the rule of the AWS SDKs: otherwise a variable could send a token to any server. */
export function containerCredentialsUrl(text: string): string {
  const url = new URL(serviceUrl(text));
  if (url.protocol !== 'https:' && !isThisMachine(url) && !CONTAINER_HOSTS.test(url.hostname))
    throw new Error('a URL with https, on this machine, or at 169.254.170.2, 169.254.170.23 or [fd00:ec2::23]');
  return text;
}

export const token = (text: string): string => {
  if (text === '' || /\s/.test(text)) throw new Error('one or more characters without white space');
  return text;
};

export function ratio(text: string): number {
  const value = Number(text);
  if (!/^\d*\.?\d+$/.test(text) || value > 1) throw new Error('a number from 0 to 1, such as 0.1');
  return value;
}

/** Parses headers as OTEL_EXPORTER_OTLP_HEADERS has them: name=value, separated by commas, with encoded values. */
export function headerList(text: string): Record<string, string> {
  const allowed = 'a comma-separated list of name=value such as authorization=Bearer%20TOKEN, with encoded values';
  const entries = text.split(',').map((one): [string, string] => {
    const [, name, value] = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*([\x21-\x7e]+)\s*$/.exec(one) ?? [];
    if (name === undefined || value === undefined) throw new Error(allowed);
    const plain = decoded(value, allowed);
    if (!/^[\x20-\x7e]*$/.test(plain)) throw new Error(allowed);
    return [name.toLowerCase(), plain];
  });
  return Object.fromEntries(entries);
}

/** Returns the value for error messages, without secrets and without credentials in URLs. */
export function shownValue(name: string, text: string): string {
  if (/SECRET|TOKEN|HEADERS/.test(name)) return '(not shown)';
  // Masks up to the last @, because an unencoded password may contain one.
  if (/ROUTE|_UR[LI]\b|_UR[LI]_|ENDPOINT/.test(name)) {
    const masked = text.replace(/^([a-z0-9+.-]+:\/\/)?.*@/is, (_, scheme = '') => `${scheme}***:***@`);
    return JSON.stringify(masked.replace(/([?&][^=&]*(?:pass|key|secret|token)[^=&]*=)[^&]*/gi, '$1***'));
  }
  return JSON.stringify(text);
}

/** An invalid setting. The message is the line that the operator sees, and starts with the name of the variable. */
export class ConfigError extends Error {
  override name = 'ConfigError';

  /** The name of the variable. */
  get setting(): string {
    return /^\w+/.exec(this.message)?.[0] ?? '';
  }
}

/** The port is in use by another process. A restart can help once that process ends. */
export class PortInUse extends ConfigError {
  override name = 'PortInUse';
}

/** Defaults that can also be set as the value. */
export const DEFAULT_WORDS = new Set(['off', 'none']);

/** Returns the configured text of a setting; undefined if it is unset or names its default (`off`, `none`). */
export function givenText(
  { name, shown }: Pick<Setting<unknown>, 'name' | 'shown'>,
  environment: Record<string, string | undefined>,
): string | undefined {
  const text = environment[name];
  if (text === undefined || text === '') return undefined;
  return DEFAULT_WORDS.has(shown) && text.trim() === shown ? undefined : text;
}

/** Settings that contain secrets. Each can also be read from the file in NAME_FILE, for Docker and Kubernetes secrets. */
export const SECRET_SETTINGS: readonly string[] = [
  'POSTRIDER_DATABASE_URL',
  'PGPASSWORD',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'POSTRIDER_ROUTE',
  'POSTRIDER_FALLBACK_ROUTE',
  'POSTRIDER_SECRET_KEY',
  'POSTRIDER_METRICS_TOKEN',
  'POSTRIDER_OTLP_HEADERS',
  'POSTRIDER_OIDC_CLIENT_SECRET',
];

/** An environment with the contents of NAME_FILE files, and an error for each file that cannot be used. */
interface FilledEnvironment {
  environment: Record<string, string | undefined>;
  /** The errors by the name of the setting, without `_FILE`. */
  wrongFiles: ReadonlyMap<string, ConfigError>;
}

/** Adds the contents of NAME_FILE files to an environment. */
export function withSecretFiles(given: Record<string, string | undefined>): FilledEnvironment {
  const environment = { ...given };
  const wrongFiles = new Map<string, ConfigError>();
  for (const name of SECRET_SETTINGS) {
    const file = given[`${name}_FILE`]?.trim();
    if (file === undefined || file === '') continue;
    try {
      environment[name] = secretFrom(file, name, given[name]);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      wrongFiles.set(name, error);
    }
  }
  return { environment, wrongFiles };
}

/** Returns the content of a secret's file; throws ConfigError if it cannot be used. */
function secretFrom(file: string, name: string, value: string | undefined): string {
  const variable = `${name}_FILE`;
  if (value) throw new ConfigError(`${name} and ${variable} are both set; allowed: one of them`);
  const refuse = (why: string): ConfigError =>
    new ConfigError(
      `${variable}=${JSON.stringify(file)} ${why}; allowed: a readable file that contains the value of ${name}`,
    );
  let text: string;
  try {
    text = readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    throw refuse(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (text.trim() === '') throw refuse('is empty');
  return text;
}

/** Returns the host name of this machine, or `localhost` if the name is not valid in HELO. */
export function hostName(): string {
  const name = os.hostname().toLowerCase();
  return /^[a-z0-9.-]+$/.test(name) && name.length > 0 ? name : 'localhost';
}
