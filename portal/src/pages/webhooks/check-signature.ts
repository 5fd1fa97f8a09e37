/**
 * Explains why an endpoint rejects a signed request: checks the headers, the clock, the secret and the body, as far as the pasted data
 * allows. If the signature matches only the body as Postrider sent it, the endpoint probably parsed and re-serialized the JSON. Pure; the
 * data never leaves the browser.
 */

export interface GivenRequest {
  /** As lines, JSON, or in the format of a log. */
  headers: string;
  body: string;
  secret: string;
}

type State = 'right' | 'wrong' | 'unknown';

/** The result of one check; the code selects a sentence, `about` is its parameter. */
export interface PartState<Code extends string> {
  state: State;
  code: Code;
  about?: string;
}

type HeadersCode = 'headers-whole' | 'headers-missing' | 'headers-no-v1' | 'headers-cut' | 'headers-none';
type ClockCode = 'clock-fresh' | 'clock-old' | 'clock-future' | 'clock-milliseconds' | 'clock-no-number' | 'clock-none';
type SecretCode =
  | ('secret-fits' | 'secret-formed' | 'secret-other' | 'secret-api-key' | 'secret-not-base64')
  | ('secret-length' | 'secret-none');
type BodyCode =
  | ('body-fits' | 'body-trimmed' | 'body-untrimmed' | 'body-reprinted' | 'body-quoted' | 'body-encoding')
  | ('body-no-json' | 'body-other-event' | 'body-rewritten' | 'body-untouched' | 'body-none');
export type Finding = 'incomplete' | 'genuine' | 'stale' | 'headers' | 'body' | 'secret' | 'both';

export interface Check {
  finding: Finding;
  headers: PartState<HeadersCode>;
  clock: PartState<ClockCode>;
  secret: PartState<SecretCode>;
  body: PartState<BodyCode>;
  /** The signature that an endpoint must compute for the pasted data. */
  expected?: string;
}

const TOLERANCE_SECONDS = 300;
const encoder = new TextEncoder();
const SIGNATURE = /^v1,[A-Za-z0-9+/]{43}=$/;
const NAMES = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;

/** Reads `name: value`, JSON, arrays of names and values, and HTTP_WEBHOOK_ID. */
function headerIn(text: string, name: string): string | undefined {
  const spelling = name.replace('-', '[-_]');
  const found = new RegExp(`${spelling}["'\\]]*\\s*(?::|=>|=|,)\\s*[["']*([^"'\\]\\r\\n]*)`, 'i').exec(text)?.[1];
  const value = found?.replace(/[\s,}]+$/, '').trim();
  return value === '' ? undefined : value;
}

interface Headers {
  id: string | undefined;
  time: string | undefined;
  signatures: readonly string[];
}

function headersIn(text: string): Headers & PartState<HeadersCode> {
  const [id, time, signature] = NAMES.map((name) => headerIn(text, name));
  const signatures = (signature ?? '').split(/\s+/).filter((one) => one !== '');
  const read = { id, time, signatures };
  if (text.trim() === '') return { ...read, state: 'unknown', code: 'headers-none' };
  const missing = NAMES.filter((_, at) => [id, time, signature][at] === undefined);
  if (missing.length > 0) return { ...read, state: 'wrong', code: 'headers-missing', about: missing.join(', ') };
  if (!signatures.some((one) => one.startsWith('v1,'))) return { ...read, state: 'wrong', code: 'headers-no-v1' };
  if (!signatures.some((one) => SIGNATURE.test(one))) return { ...read, state: 'wrong', code: 'headers-cut' };
  return { ...read, state: 'right', code: 'headers-whole' };
}

function clockOf(time: string | undefined, nowSeconds: number): PartState<ClockCode> {
  if (time === undefined) return { state: 'unknown', code: 'clock-none' };
  if (!/^\d{1,15}$/.test(time)) return { state: 'wrong', code: 'clock-no-number' };
  if (time.length > 11) return { state: 'wrong', code: 'clock-milliseconds' };
  const ageSeconds = nowSeconds - Number(time);
  const about = String(Math.abs(Math.round(ageSeconds)));
  if (ageSeconds > TOLERANCE_SECONDS) return { state: 'wrong', code: 'clock-old', about };
  if (ageSeconds < -TOLERANCE_SECONDS) return { state: 'wrong', code: 'clock-future', about };
  return { state: 'right', code: 'clock-fresh', about };
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  } catch {
    return undefined;
  }
}

type Secret = PartState<SecretCode> & { key?: Uint8Array<ArrayBuffer> };

function secretIn(text: string): Secret {
  const given = text.trim().replace(/^(["'])(.*)\1$/, '$2');
  if (given === '') return { state: 'unknown', code: 'secret-none' };
  if (/^(?:pr_|smtp_)/.test(given)) return { state: 'wrong', code: 'secret-api-key' };
  const key = bytesOf(given.replace(/^whsec_/, ''));
  if (key === undefined) return { state: 'wrong', code: 'secret-not-base64' };
  if (key.length < 24 || key.length > 64) return { state: 'wrong', code: 'secret-length', about: String(key.length) };
  return { state: 'unknown', code: 'secret-formed', key };
}

/** Repairs UTF-8 text that was decoded as Latin-1. */
function asReadAgain(body: string): string | undefined {
  if (/[^\0-\xff]/.test(body)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(body, (one) => one.charCodeAt(0)));
  } catch {
    return undefined;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Returns possible original bodies, with the name of the change to each. */
function originals(body: string): (readonly [BodyCode, string | undefined])[] {
  const value = parsed(body);
  const inner = typeof value === 'string' ? value : undefined;
  return [
    ['body-fits', body],
    ['body-trimmed', body.trim()],
    ['body-untrimmed', `${body}\n`],
    ['body-quoted', inner],
    ['body-reprinted', value === undefined ? undefined : JSON.stringify(value)],
    ['body-encoding', asReadAgain(body)],
  ];
}

/** If no signature matches, checks the text of the body itself: Postrider sends JSON without spaces, about the event of the headers. */
function checkBody(body: string, id: string | undefined): PartState<BodyCode> {
  if (body.trim() === '') return { state: 'unknown', code: 'body-none' };
  const value = parsed(body);
  if (typeof value !== 'object' || value === null) return { state: 'wrong', code: 'body-no-json' };
  const { eventId } = value as { eventId?: unknown };
  if (typeof eventId === 'string' && id !== undefined && eventId !== id)
    return { state: 'wrong', code: 'body-other-event', about: eventId };
  if (JSON.stringify(value) !== body) return { state: 'wrong', code: 'body-rewritten' };
  return { state: 'unknown', code: 'body-untouched' };
}

type Sign = (body: string) => Promise<string>;

async function signer({ id, time }: Headers, bytes: Uint8Array<ArrayBuffer>): Promise<Sign> {
  const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  return async (body) => {
    const signature = await crypto.subtle.sign('HMAC', key, encoder.encode(`${id}.${time}.${body}`));
    return `v1,${btoa(String.fromCharCode(...new Uint8Array(signature)))}`;
  };
}

async function fitting(sign: Sign, body: string, signatures: readonly string[]): Promise<BodyCode | undefined> {
  for (const [code, text] of originals(body))
    if (text !== undefined && signatures.includes(await sign(text))) return code;
  return undefined;
}

const NO_TIMES: readonly ClockCode[] = ['clock-no-number', 'clock-milliseconds'];

/** `nowSeconds` is the time of this browser. */
export async function checkSignature(given: GivenRequest, nowSeconds: number): Promise<Check> {
  const { id, time, signatures, ...headers } = headersIn(given.headers);
  const clock = clockOf(time, nowSeconds);
  const { key, ...secret } = secretIn(given.secret);
  const checked = { headers, clock, secret, body: checkBody(given.body, id) };
  if (secret.state === 'wrong') return { ...checked, finding: 'secret' };
  if (headers.state === 'wrong' || NO_TIMES.includes(clock.code)) return { ...checked, finding: 'headers' };
  if (key === undefined || headers.state === 'unknown' || checked.body.code === 'body-none')
    return { ...checked, finding: 'incomplete' };
  const sign = await signer({ id, time, signatures }, key);
  const expected = await sign(given.body);
  const code = await fitting(sign, given.body, signatures);
  if (code === undefined) return { ...checked, expected, ...causeOf(checked) };
  const fits = { ...checked, expected, secret: { state: 'right', code: 'secret-fits' } as const };
  if (code !== 'body-fits') return { ...fits, finding: 'body', body: { state: 'wrong', code } };
  return { ...fits, finding: clock.state === 'right' ? 'genuine' : 'stale', body: { state: 'right', code } };
}

/** Neither the body nor a possible original matches a signature. */
function causeOf({ body }: Pick<Check, 'body'>): Pick<Check, 'finding'> & Partial<Check> {
  if (body.code === 'body-untouched') return { finding: 'secret', secret: { state: 'wrong', code: 'secret-other' } };
  return { finding: body.code === 'body-rewritten' ? 'both' : 'body' };
}
