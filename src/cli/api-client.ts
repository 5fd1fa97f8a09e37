/**
 * Calls the HTTP API for commands, with JSON in both directions. The account and the key come together from the first source that has both:
 * the options, the environment, the profile saved by `postrider login`, or the first-run.json of a service on this machine (its sandbox
 * key, unless --live is given). Credentials from a file are only sent to the address they belong to. Error responses of the API are
 * returned. If there is no response, or it does not come from the API, CommandError is thrown.
 */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { dataDirectory } from '../storage/data-directory.ts';
import { writeDurableFile } from '../storage/durable-file.ts';
import { firstRunFile } from '../users/users.ts';
import {
  type CommandCall,
  CommandError,
  type CommandOutcome,
  type Environment,
  notFound,
  UsageError,
} from './command.ts';
import { networkError, notTheApi, sendError } from './network-error.ts';

/** Options of every command that calls the API. */
export interface ApiOptions {
  url?: string;
  id?: string;
  key?: string;
  profile?: string;
  live?: boolean;
}

type ApiCall = CommandCall<ApiOptions>;

/** Address and credentials of the API. */
export interface ApiTarget {
  /** Address without a trailing slash. */
  base: string;
  apiKey: string;
  accountId: string;
}

const DEFAULT_URL = 'http://localhost:3000';
const DEFAULT_PROFILE = 'default';

function baseOf(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) {
    throw new UsageError('--url must be an HTTP or HTTPS URL, such as https://mail.example.com');
  }
  const { username, password } = new URL(text);
  // The message does not repeat the URL, which contains the password.
  if (username !== '' || password !== '')
    throw new UsageError('--url must not contain a user name or password; use --key');
  if (/[?#]/.test(text)) throw new UsageError('--url must not contain a query or fragment (? or #)');
  return text.replace(/\/+$/, '');
}

function profileFile(environment: Environment, name: string): string {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name))
    throw new UsageError('--profile must have 1 to 64 letters, digits, hyphens, and underscores');
  const base = environment.XDG_CONFIG_HOME || path.join(environment.HOME || os.homedir(), '.config');
  return path.join(base, 'postrider', `${name}.json`);
}

/** Returns the string properties of a JSON file; undefined if the file does not exist. */
function readTexts<K extends string>(file: string, names: readonly K[], remedy: string): Record<K, string> | undefined {
  if (!existsSync(file)) return undefined;
  try {
    const found = JSON.parse(readFileSync(file, 'utf8')) as Record<K, string>;
    if (names.every((name) => typeof found[name] === 'string')) return found;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== undefined) throw new CommandError('UNREADABLE', message);
  }
  throw new CommandError('UNREADABLE', `${file} is not valid JSON, or a field is missing; ${remedy}`);
}

function fromProfile({ environment, options }: ApiCall): ApiTarget | undefined {
  const { profile: name } = options;
  const file = profileFile(environment, name ?? DEFAULT_PROFILE);
  const saved = readTexts(file, ['url', 'accountId', 'apiKey'], 'remove it and run postrider login again');
  if (saved) return { base: saved.url, accountId: saved.accountId, apiKey: saved.apiKey };
  if (name === undefined) return undefined;
  throw notFound(`there is no profile ${name}; create it with postrider login --profile ${name}`);
}

/** Returns the service that uses the data directory, with its current port. */
function fromFirstRun({ config, options }: ApiCall): ApiTarget | undefined {
  const directory = dataDirectory(config.dataDir);
  const names = ['accountId', 'apiKey', 'sandboxApiKey'] as const;
  const first = readTexts(firstRunFile(directory), names, 'use --id and --key');
  if (!first) return undefined;
  const apiKey = options.live ? first.apiKey : first.sandboxApiKey;
  return { base: localBase(directory.path, config.httpPort), accountId: first.accountId, apiKey };
}

/** Returns where the service that uses the data directory accepts HTTP; an empty object if none is running. */
export function runningService(folder: string): { httpPort?: number; httpHost?: string } {
  try {
    return JSON.parse(readFileSync(path.join(folder, 'serving.json'), 'utf8')) as object;
  } catch {
    return {};
  }
}

/** If no service is running, the call will report that the connection was refused. */
function localBase(folder: string, configured: number): string {
  const { httpHost = '0.0.0.0', httpPort = configured } = runningService(folder);
  const name = ['0.0.0.0', '::'].includes(httpHost) ? 'localhost' : httpHost;
  return `http://${name.includes(':') ? `[${name}]` : name}:${httpPort}`;
}

function isLoopback(base: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(base).hostname);
}

interface ExplicitValues {
  url: string | undefined;
  accountId: string | undefined;
  apiKey: string | undefined;
}

/** Returns the values from the options and the environment; with --profile, only those from the options. */
function explicitValues({ options, environment }: ApiCall): ExplicitValues {
  const pick = (name: 'url' | 'id' | 'key', variable: string): string | undefined =>
    options[name] ?? (options.profile === undefined ? environment[variable] || undefined : undefined);
  const url = pick('url', 'POSTRIDER_URL');
  return {
    url: url === undefined ? undefined : baseOf(url),
    accountId: pick('id', 'POSTRIDER_ID'),
    apiKey: pick('key', 'POSTRIDER_KEY'),
  };
}

/** Returns the API that the command calls. Throws UsageError if the account or the key is missing, or contradicts --live. */
export function apiTarget(call: ApiCall): ApiTarget {
  const target = selectedTarget(call);
  if (call.options.live && isSandboxKey(target.apiKey)) {
    throw new UsageError(
      'the selected key is a sandbox key; omit --live, or select a live key with --key, POSTRIDER_KEY, or --profile',
    );
  }
  return target;
}

const isSandboxKey = (apiKey: string): boolean => apiKey.startsWith('pr_test_');

/** Returns the API that the command calls, with a key of any mode. Throws UsageError if the account or the key is missing. */
export function selectedTarget(call: ApiCall): ApiTarget {
  const { url, accountId, apiKey } = explicitValues(call);
  if (accountId !== undefined && apiKey !== undefined) return { base: url ?? DEFAULT_URL, accountId, apiKey };
  if (accountId !== undefined) throw new UsageError('--key or POSTRIDER_KEY is required with --id');
  if (apiKey !== undefined) throw new UsageError('--id or POSTRIDER_ID is required with --key');
  const profile = fromProfile(call);
  const saved = profile ?? fromFirstRun(call);
  if (!saved) {
    const folder = dataDirectory(call.config.dataDir).path;
    throw new UsageError(
      `no account selected: use --id and --key, run postrider login, or run this command in the folder of a service (${folder} has no first-run.json)`,
    );
  }
  if (url === undefined || url === saved.base) return saved;
  if (profile === undefined && isLoopback(url)) return { ...saved, base: url };
  throw new UsageError(`the saved key is for ${saved.base}, not for ${url}; add --id and --key`);
}

function targetToSave(call: ApiCall): ApiTarget {
  const { profile: _, ...options } = call.options;
  const { url, accountId, apiKey } = explicitValues({ ...call, options });
  if (accountId === undefined) throw new UsageError('--id or POSTRIDER_ID is required');
  if (apiKey === undefined) throw new UsageError('--key or POSTRIDER_KEY is required');
  return { base: url ?? DEFAULT_URL, accountId, apiKey };
}

/** Saves the target in a file that only its owner can read (mode 0600). Returns the path of the file. */
function saveTarget({ environment, options }: ApiCall, { base, accountId, apiKey }: ApiTarget): string {
  const file = profileFile(environment, options.profile ?? DEFAULT_PROFILE);
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  writeDurableFile(file, `${JSON.stringify({ url: base, accountId, apiKey }, null, 2)}\n`);
  return file;
}

const TIMEOUT_MS = 60_000;

export interface ApiAnswer {
  status: number;
  body: Record<string, unknown>;
  /** Set if the list has another page. */
  nextCursor?: string | undefined;
  /** Whether the service returned the stored response of an earlier request with the same idempotency key. */
  isReplayed?: boolean | undefined;
}

interface HttpCall {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  body?: string;
  /** The type of the body; JSON by default. */
  contentType?: string | undefined;
  idempotencyKey?: string | undefined;
}

export interface ApiClient {
  /** Address without a trailing slash. */
  base: string;
  accountId: string;
  /** Whether the key is a sandbox key: email sent with it does not leave the machine. */
  isSandbox: boolean;
  call(call: HttpCall): Promise<ApiAnswer>;
}

export function apiHeaders({ apiKey, accountId }: ApiTarget): Record<string, string> {
  return { 'X-Api-Key': apiKey, 'X-Id': accountId };
}

/** Returns the JSON object or list in a response; undefined for anything else. */
export function jsonBody(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

export function apiClient(target: ApiTarget): ApiClient {
  const { base, accountId } = target;
  return {
    base,
    accountId,
    isSandbox: isSandboxKey(target.apiKey),
    call: async ({ method, path, body, contentType: bodyType = 'application/json', idempotencyKey }) => {
      const headers = apiHeaders(target);
      if (body !== undefined) headers['Content-Type'] = bodyType;
      if (idempotencyKey !== undefined) headers['Idempotency-Key'] = idempotencyKey;
      let status: number;
      let contentType: string | null;
      let text: string;
      let nextCursor: string | undefined;
      let isReplayed = false;
      try {
        const signal = AbortSignal.timeout(TIMEOUT_MS);
        const response = await fetch(base + path, {
          method,
          headers,
          signal,
          // Following a redirect would turn a POST into a GET.
          redirect: 'manual',
          ...(body !== undefined && { body }),
        });
        status = response.status;
        contentType = response.headers.get('content-type');
        nextCursor = response.headers.get('x-next-cursor') ?? undefined;
        isReplayed = response.headers.get('idempotent-replayed') === 'true';
        text = await response.text();
      } catch (error) {
        const canRepeat = path === '/send' && idempotencyKey !== undefined;
        throw new CommandError('NO_ANSWER', (canRepeat ? sendError : networkError)(base, error));
      }
      const answer = jsonBody(text);
      if (answer === undefined) throw new CommandError('NO_ANSWER', notTheApi(`${base}${path}`, status, contentType));
      return { status, body: answer, nextCursor, isReplayed };
    },
  };
}

/** An error response that ends the command. */
export class RefusedCall extends Error {
  readonly answer: ApiAnswer;

  constructor(answer: ApiAnswer) {
    super(`the service returned ${answer.status}`);
    this.answer = answer;
  }
}

/** Returns an error response of the API as the outcome of the command. */
export function refusal({ status, body }: ApiAnswer): CommandOutcome {
  const { error } = body as {
    error?: { code?: string; message?: string; details?: { field: string; message: string }[] };
  };
  const details = (error?.details ?? []).map((one) => `\n  ${one.field} ${one.message}`).join('');
  const text = `the service returned ${status} ${error?.code ?? ''}: ${error?.message ?? ''}${details}`;
  return { data: body, text, exitCode: 1 };
}

/**
 * Returns the message that POST /send accepted as the outcome of the command. Mentions the sandbox, because such email is not delivered.
 */
export function sentOutcome({ isSandbox }: ApiClient, { body, isReplayed }: ApiAnswer): CommandOutcome {
  const { messageId, status } = body.data as { messageId: string; status: string };
  const data = isReplayed ? { ...body, replayed: true } : body;
  return { data, text: `${messageId} ${status}${isSandbox ? ' in the sandbox' : ''}` };
}

/**
 * Implements `postrider login`: saves the credentials after the API has accepted them, readable only by their owner. To log out, delete the
 * file.
 */
export async function login(call: CommandCall<ApiOptions>): Promise<CommandOutcome> {
  const target = targetToSave(call);
  // A key with scope send gets 403 here, but is valid.
  const answer = await apiClient(target).call({ method: 'GET', path: '/account' });
  const { error } = answer.body as { error?: { code?: string; message?: string } };
  if (answer.status !== 200 && error?.code !== 'FORBIDDEN') {
    throw new CommandError(
      error?.code ?? 'REFUSED',
      `${target.base} rejected the key: ${error?.message ?? answer.status}`,
    );
  }
  const file = saveTarget(call, target);
  const data = { url: target.base, accountId: target.accountId, file };
  return { data, text: `Saved to ${file}. The commands that call the API now use it.` };
}
