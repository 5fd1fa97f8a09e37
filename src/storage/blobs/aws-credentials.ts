/**
 * Temporary credentials for S3, from the sources that AWS gives to programs: web identity (IAM roles for service accounts), the container's
 * endpoint (ECS, EKS Pod Identity), or the role of the EC2 instance (IMDSv2). They are renewed before they expire; if that fails, the
 * present ones are used until their end.
 */
import { readFile } from 'node:fs/promises';
import { request } from 'undici';
import { Unavailable } from '../../base/failure.ts';
import { xmlText } from './s3-client.ts';
import type { S3Credentials } from './s3-location.ts';

/** The variables that AWS sets, or an operator as for other programs. */
export interface CredentialSources {
  webIdentity?: { tokenFile: string; roleArn: string; sessionName: string; stsEndpoint: string } | undefined;
  container?: { url: string; token?: string | undefined; tokenFile?: string | undefined } | undefined;
  /** Base URL of the metadata service. */
  instance?: { endpoint: string } | undefined;
}

interface Temporary {
  credentials: S3Credentials;
  /** Unix ms. */
  expiresMs: number;
}

const TIMEOUT_MS = 5_000;
/** Credentials are renewed this long before they expire. AWS issues new ones at least five minutes before that. */
const RENEW_BEFORE_MS = 300_000;
const RETRY_MS = 30_000;
const METADATA_TOKEN_SECONDS = '21600';
/** Time after which credentials without a stated end are read again. */
const UNSTATED_MS = 3_600_000;

interface Call {
  url: string;
  method?: 'GET' | 'PUT' | 'POST';
  headers?: Record<string, string>;
  body?: string;
}

async function textOf({ url, method = 'GET', headers = {}, body }: Call): Promise<string> {
  const answer = await request(url, {
    method,
    headers,
    body: body ?? null,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const text = await answer.body.text();
  if (answer.statusCode >= 200 && answer.statusCode < 300) return text;
  const code = xmlText(text, 'Code');
  const reason = code === undefined ? '' : `: ${code} ${xmlText(text, 'Message') ?? ''}`;
  throw new Error(`${new URL(url).host} answered ${answer.statusCode}${reason.trimEnd()}`);
}

function temporaryOf(fields: Record<'id' | 'secret' | 'token' | 'expiration', unknown>, source: string): Temporary {
  const { id, secret, token, expiration } = fields;
  if (typeof id !== 'string' || typeof secret !== 'string' || id === '' || secret === '')
    throw new Error(`${source} returned no credentials`);
  const expiresMs = typeof expiration === 'string' ? Date.parse(expiration) : Number.NaN;
  return {
    credentials: {
      accessKeyId: id,
      secretAccessKey: secret,
      ...(typeof token === 'string' && { sessionToken: token }),
    },
    expiresMs: Number.isNaN(expiresMs) ? Date.now() + UNSTATED_MS : expiresMs,
  };
}

function readJson(text: string, source: string): Temporary {
  let read: Record<string, unknown>;
  try {
    read = JSON.parse(text) as Record<string, unknown>;
  } catch {
    throw new Error(`${source} returned no JSON`);
  }
  const { AccessKeyId: id, SecretAccessKey: secret, Token: token, Expiration: expiration } = read ?? {};
  return temporaryOf({ id, secret, token, expiration }, source);
}

/** AWS STS AssumeRoleWithWebIdentity. Kubernetes replaces the token file, so it is read each time. */
async function byWebIdentity(source: NonNullable<CredentialSources['webIdentity']>): Promise<Temporary> {
  const token = (await readFile(source.tokenFile, 'utf8')).trim();
  const body = new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: source.roleArn,
    RoleSessionName: source.sessionName,
    WebIdentityToken: token,
  });
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const xml = await textOf({ url: source.stsEndpoint, method: 'POST', headers, body: body.toString() });
  const [id, secret, sessionToken, expiration] = ['AccessKeyId', 'SecretAccessKey', 'SessionToken', 'Expiration'].map(
    (name) => xmlText(xml, name),
  );
  return temporaryOf({ id, secret, token: sessionToken, expiration }, new URL(source.stsEndpoint).host);
}

async function byContainer({ url, token, tokenFile }: NonNullable<CredentialSources['container']>): Promise<Temporary> {
  const authorization = tokenFile === undefined ? token : (await readFile(tokenFile, 'utf8')).trim();
  const text = await textOf({ url, headers: authorization === undefined ? {} : { authorization } });
  return readJson(text, new URL(url).host);
}

/** IMDSv2: a token first, which a server that forwards requests cannot get. */
async function byInstance({ endpoint }: NonNullable<CredentialSources['instance']>): Promise<Temporary> {
  const ttl = { 'x-aws-ec2-metadata-token-ttl-seconds': METADATA_TOKEN_SECONDS };
  const token = await textOf({ url: `${endpoint}/latest/api/token`, method: 'PUT', headers: ttl });
  const headers = { 'x-aws-ec2-metadata-token': token };
  const folder = `${endpoint}/latest/meta-data/iam/security-credentials/`;
  const role = (await textOf({ url: folder, headers })).split('\n')[0]!.trim();
  if (role === '') throw new Error('the instance has no role');
  return readJson(await textOf({ url: folder + encodeURIComponent(role), headers }), new URL(endpoint).host);
}

function load({ webIdentity, container, instance }: CredentialSources): Promise<Temporary> {
  if (webIdentity) return byWebIdentity(webIdentity);
  if (container) return byContainer(container);
  if (instance) return byInstance(instance);
  throw new Error('no source of credentials is set');
}

/** Returns a function that returns valid credentials; it rejects with Unavailable if there are none. */
export function createAwsCredentials(
  sources: CredentialSources,
  now: () => number = Date.now,
): () => Promise<S3Credentials> {
  let present: Temporary | undefined;
  let loading: Promise<void> | undefined;
  let nextLoadMs = 0;

  const renew = async (): Promise<void> => {
    try {
      present = await load(sources);
      // Credentials with a short life are renewed halfway.
      const left = present.expiresMs - now();
      nextLoadMs = now() + Math.max(left - RENEW_BEFORE_MS, left / 2);
    } catch (error) {
      if (present !== undefined && now() < present.expiresMs) {
        nextLoadMs = Math.min(now() + RETRY_MS, present.expiresMs);
        return;
      }
      present = undefined;
      nextLoadMs = 0;
      throw new Unavailable(`blob storage: credentials cannot be loaded: ${(error as Error).message}`);
    }
  };

  return async () => {
    if (now() >= nextLoadMs) {
      loading ??= renew().finally(() => {
        loading = undefined;
      });
      // While the present credentials are valid, calls do not wait for the next ones.
      if (present !== undefined && now() < present.expiresMs) loading.catch(() => undefined);
      else await loading;
    }
    return present!.credentials;
  };
}
