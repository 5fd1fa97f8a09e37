/**
 * Verifies webhooks by the Standard Webhooks scheme (standardwebhooks.com): HMAC-SHA256 over id, time and the raw body. During a rotation
 * of the secret a request has several signatures; one valid signature is enough.
 */
import { PostriderError } from './error.ts';
import type { Event } from './schema.ts';

export interface VerifyOptions {
  /** Maximum difference between the clocks of sender and receiver; 300 by default. */
  toleranceSeconds?: number;
}

type HeadersLike = Headers | Record<string, string | readonly string[] | undefined>;

const encoder = new TextEncoder();

function invalid(reason: string): PostriderError {
  return new PostriderError(`The webhook cannot be trusted: ${reason}.`, { code: 'WEBHOOK_INVALID' });
}

function misdirected(advice: string): PostriderError {
  return new PostriderError(advice, { code: 'WEBHOOK_INVALID' });
}

/** Returns one value of a header, in the formats of common frameworks; a list must have one element. */
function headerOf(headers: HeadersLike, name: string): string {
  const found =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([one]) => one.toLowerCase() === name)?.[1];
  const value = Array.isArray(found) && found.length === 1 ? found[0] : found;
  if (typeof value !== 'string' || value === '') throw invalid(`it has no ${name}`);
  return value;
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function joined(...parts: (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  const all = parts.map((one) => (typeof one === 'string' ? encoder.encode(one) : one));
  const whole = new Uint8Array(all.reduce((sum, one) => sum + one.length, 0));
  let at = 0;
  for (const one of all) {
    whole.set(one, at);
    at += one.length;
  }
  return whole;
}

/** Verifies a request of a webhook with `maxBatch` above 1 like `verifyWebhook`, and returns its events. */
export async function verifyWebhookBatch(...request: WebhookRequest): Promise<Event[]> {
  const events = await verified(...request);
  if (Array.isArray(events)) return events as Event[];
  throw misdirected('This request has a single event: use verifyWebhook, or set maxBatch above 1.');
}

/**
 * Returns the event, or throws PostriderError `WEBHOOK_INVALID`. `payload` is the raw body, not parsed and serialized again; `secret` is
 * the endpoint's secret, or several of which one must match.
 */
export async function verifyWebhook(...request: WebhookRequest): Promise<Event> {
  const body = await verified(...request);
  if (!Array.isArray(body)) return body as Event;
  if (body.length === 1) return body[0] as Event;
  throw misdirected(`This request has ${body.length} events: use verifyWebhookBatch, or set maxBatch to 1.`);
}

type WebhookRequest = [
  payload: string | Uint8Array,
  headers: HeadersLike,
  secret: string | readonly string[],
  options?: VerifyOptions,
];

/** Verifies a request, and returns its parsed body. */
async function verified(...[payload, headers, secret, options = {}]: WebhookRequest): Promise<unknown> {
  const [id, time, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    headerOf(headers, name),
  ) as [string, string, string];
  if (!/^\d{1,12}$/.test(time)) throw invalid('webhook-timestamp is not a time');
  const { toleranceSeconds = 300 } = options;
  const distanceSeconds = Math.abs(Date.now() / 1000 - Number(time));
  if (distanceSeconds > toleranceSeconds) throw invalid('it is too old, or from the future');
  const signed = joined(`${id}.${time}.`, payload);
  const given = signatures.split(' ').flatMap((one) => (one.startsWith('v1,') ? (bytesOf(one.slice(3)) ?? []) : []));
  for (const one of typeof secret === 'string' ? [secret] : secret) {
    const bytes = bytesOf(one.replace(/^whsec_/, ''));
    if (bytes === undefined || bytes.length === 0) throw new TypeError('A webhook secret looks like whsec_…');
    const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
    for (const signature of given) {
      if (!(await crypto.subtle.verify('HMAC', key, signature, signed))) continue;
      return JSON.parse(typeof payload === 'string' ? payload : new TextDecoder().decode(payload));
    }
  }
  throw invalid('no signature fits the secret');
}
