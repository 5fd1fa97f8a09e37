/**
 * Identifies the caller by the signature of a request (AWS Signature Version 4). The signature must cover Host and X-Amz-Date, the date must
 * be within five minutes of Postrider's clock, and the hash of the body is part of what is signed. A body is read only after its key is
 * known, and if the hash is given in a header, only after the signature was verified.
 *
 * A reverse proxy can replace the host and remove a part of the path, and the signature is that of the client's URL. So the host can also be
 * the one that a trusted proxy reports, or the one of POSTRIDER_BASE_URL, and the path can have the base URL's path or the interface's prefix.
 */
import { hash } from 'node:crypto';
import { type Authenticator, type Caller, signingSecretOf } from '../../accounts/accounts.ts';
import type { Clock } from '../../base/clock.ts';
import { type Failure, failure, ok, type Result, refuse } from '../../base/failure.ts';
import { basePathOf } from '../../http/base-path.ts';
import type { ArrivedRequest } from '../../http/door.ts';
import { AUTHENTICATION, awsFailure, PREFIX } from './errors.ts';
import {
  type Authorization,
  amzDateOf,
  canonicalRequest,
  isSignature,
  parseAuthorization,
  SERVICE,
  signingKey,
  stringToSign,
  timeOfAmzDate,
} from './signature.ts';

const SKEW_MS = 5 * 60_000;
const HASH = /^[0-9a-f]{64}$/;
const REQUIRED_HEADERS = ['host', 'x-amz-date'] as const;

export interface IdentifyDeps {
  callers: Pick<Authenticator, 'ofAccessKey'>;
  clock: Clock;
  linkBase: { readonly secretKey: Uint8Array; readonly baseUrl: string };
}

function denied(kind: keyof typeof AUTHENTICATION, message: string): { ok: false; failure: Failure } {
  return refuse(awsFailure('UNAUTHORIZED', AUTHENTICATION[kind], message));
}

/** The parts of a request that are checked before the key is known. */
interface Signed {
  authorization: Authorization;
  amzDate: string;
  /** The value of X-Amz-Content-Sha256, if there is one. */
  payloadHash: string | undefined;
}

function readHeaders(request: ArrivedRequest, nowMs: number): Result<Signed> {
  const [header, ...others] = request.headerValues('authorization');
  if (/[?&]X-Amz-(?:Signature|Algorithm)=/i.test(request.url ?? ''))
    return denied('incomplete', 'Presigned URLs are not supported. Sign the request in its Authorization header.');
  if (header === undefined) return denied('missing', 'Missing Authentication Token');
  if (others.length > 0) return denied('incomplete', 'The request has more than one Authorization header.');
  const parsed = parseAuthorization(header);
  if (!parsed.ok) return denied('incomplete', `Authorization header ${parsed.reason}.`);
  const authorization = parsed.value;
  const { date, service, signedHeaders } = authorization;
  if (service !== SERVICE)
    return denied('mismatch', `Credential should be scoped to correct service: '${SERVICE}', and not '${service}'.`);
  const unsigned = REQUIRED_HEADERS.filter((name) => !signedHeaders.includes(name));
  if (unsigned.length > 0) return denied('mismatch', `'${unsigned.join("' and '")}' must be in SignedHeaders.`);
  if (request.headerValues('x-amz-security-token').length > 0)
    return denied(
      'unknownKey',
      'Postrider has no session tokens. Use the access key of an API key of kind sigv4, without AWS_SESSION_TOKEN.',
    );
  const dates = request.headerValues('x-amz-date');
  const [amzDate = ''] = dates;
  const signedMs = dates.length === 1 ? timeOfAmzDate(amzDate) : undefined;
  if (signedMs === undefined) return denied('incomplete', 'X-Amz-Date must be a time such as 20260131T120000Z.');
  if (amzDate.slice(0, 8) !== date)
    return denied(
      'mismatch',
      `Date in Credential scope does not match YYYYMMDD from X-Amz-Date: ${date} vs ${amzDate}.`,
    );
  const now = amzDateOf(nowMs);
  if (signedMs < nowMs - SKEW_MS)
    return denied(
      'mismatch',
      `Signature expired: ${amzDate} is now earlier than ${amzDateOf(nowMs - SKEW_MS)} (${now} - 5 min.)`,
    );
  if (signedMs > nowMs + SKEW_MS)
    return denied(
      'mismatch',
      `Signature not yet current: ${amzDate} is still later than ${amzDateOf(nowMs + SKEW_MS)} (${now} + 5 min.)`,
    );
  const hashes = request.headerValues('x-amz-content-sha256');
  const [payloadHash] = hashes;
  if (hashes.length > 1 || (payloadHash !== undefined && !HASH.test(payloadHash)))
    return denied(
      'mismatch',
      'X-Amz-Content-Sha256 must be the SHA-256 of the body in hexadecimal; unsigned and streaming payloads are not supported.',
    );
  return ok({ authorization, amzDate, payloadHash });
}

/** Returns the hosts and paths that the client may have signed. */
function originals(request: ArrivedRequest, baseUrl: string): { hosts: string[]; paths: string[]; search: string } {
  const [path = '', ...rest] = (request.url ?? '').split('?');
  const basePath = basePathOf(baseUrl);
  // The URL has the prefix also if the request came to the root.
  const inner = path.slice(PREFIX.length) || '/';
  const paths = ['', PREFIX, basePath, `${basePath}${PREFIX}`].flatMap((start) =>
    inner === '/' ? [start, `${start}/`] : [`${start}${inner}`],
  );
  const hosts = [...request.headerValues('host').slice(0, 1), request.forwardedHost, new URL(baseUrl).host];
  return {
    hosts: [...new Set(hosts.filter((host) => host !== undefined))],
    paths: [...new Set(paths)],
    search: rest.join('?'),
  };
}

function isSigned(
  request: ArrivedRequest,
  { authorization, amzDate, payloadHash }: Signed & { payloadHash: string },
  { secret, baseUrl }: { secret: string; baseUrl: string },
): boolean {
  const key = signingKey(secret, authorization);
  const { hosts, paths, search } = originals(request, baseUrl);
  const header = (name: string): string[] | undefined => {
    const values = request.headerValues(name);
    return values.length === 0 ? undefined : values;
  };
  const absent = authorization.signedHeaders.some((name) => header(name) === undefined);
  if (absent) return false;
  return hosts.some((host) =>
    paths.some((path) => {
      const canonical = canonicalRequest(
        {
          method: request.method ?? '',
          path,
          search,
          header: (name) => (name === 'host' ? [host] : header(name)),
          payloadHash,
        },
        authorization.signedHeaders,
      );
      return isSignature(authorization.signature, key, stringToSign(canonical, amzDate, authorization));
    }),
  );
}

const MISMATCH =
  'The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.';

/** Returns the identification of callers: 403 for a request without a valid signature, or a failure of the account. */
export function createSignatureCheck(deps: IdentifyDeps): (request: ArrivedRequest) => Promise<Result<Caller>> {
  const { callers, clock, linkBase } = deps;
  return async (request) => {
    const read = readHeaders(request, clock.now());
    if (!read.ok) return read;
    const holder = await callers.ofAccessKey(read.value.authorization.accessKeyId);
    if (holder === undefined) return denied('unknownKey', 'The security token included in the request is invalid.');
    const check = { secret: signingSecretOf(holder, linkBase.secretKey), baseUrl: linkBase.baseUrl };
    const { payloadHash: given } = read.value;
    if (given !== undefined && !isSigned(request, { ...read.value, payloadHash: given }, check))
      return denied('mismatch', MISMATCH);
    const body = await request.readBody();
    if (!body.ok) return body;
    const payloadHash = hash('sha256', body.value, 'hex');
    if (given !== undefined && given !== payloadHash)
      return denied('mismatch', "The provided 'x-amz-content-sha256' header does not match what was computed.");
    if (given === undefined && !isSigned(request, { ...read.value, payloadHash }, check))
      return denied('mismatch', MISMATCH);
    return holder.caller.account.status === 'active' ? ok(holder.caller) : refuse(failure('ACCOUNT_SUSPENDED'));
  };
}
