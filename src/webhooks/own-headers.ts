/**
 * The headers that a customer adds to the requests of a webhook, such as Authorization. Values are encrypted in the database and returned
 * as a mask. A request that gives the mask keeps the stored value, so that the body of GET is a valid body of PUT.
 */
import type { Issue } from '../base/failure.ts';
import { open, seal } from '../base/seal.ts';
import { Type } from '../http/schema-type.ts';
import { HEADER_MASK as MASK } from './endpoints.ts';

const MOST = 10;
const LONGEST_NAME = 100;
const LONGEST_VALUE = 2_000;

/** A token (RFC 9110 §5.6.2). */
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Visible ASCII characters, with spaces and tabs between them (RFC 9110 §5.5). */
const VALUE = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

/** Names that Postrider or HTTP itself sets: content, connection, and signature. */
const RESERVED =
  /^(?:host|user-agent|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|date|via|accept-encoding|http2-settings|content-.*|proxy-.*|webhook-.*|svix-.*)$/i;

export const ownHeadersRequest = Type.Unsafe<Record<string, string>>({
  type: 'object',
  additionalProperties: { type: 'string' },
  description: `Up to ${MOST} headers that are added to each request, for example Authorization. ${MASK} keeps the stored value. {} removes all.`,
});
export const ownHeadersShape = Type.Unsafe<Record<string, string>>({
  type: 'object',
  additionalProperties: { type: 'string' },
  description: `Headers that are added to each request; every value is shown as ${MASK}.`,
});

/** Returns what is wrong with the headers; the mask is valid for names in `stored` only. */
export function ownHeaderIssues(
  headers: Readonly<Record<string, string>> | undefined,
  stored: readonly string[] = [],
): Issue[] {
  if (headers === undefined) return [];
  const names = Object.keys(headers);
  const issues: Issue[] = [];
  if (names.length > MOST) issues.push({ field: 'headers', message: `must have at most ${MOST} entries` });
  const seen = new Set<string>();
  const kept = new Set(stored.map((name) => name.toLowerCase()));
  for (const name of names) {
    const field = `headers.${name}`;
    const key = name.toLowerCase();
    const value = headers[name]!;
    if (!NAME.test(name) || name.length > LONGEST_NAME) {
      issues.push({
        field,
        message: `must have a name of 1 to ${LONGEST_NAME} letters, digits, and hyphens, such as X-Api-Key`,
      });
    } else if (RESERVED.test(name)) issues.push({ field, message: 'is set by Postrider and cannot be changed' });
    if (seen.has(key)) issues.push({ field, message: 'is given twice; header names are compared without case' });
    seen.add(key);
    if (value === MASK && !kept.has(key)) {
      issues.push({ field, message: 'is masked, but the webhook has no such header; give its value' });
    } else if (!VALUE.test(value) || value.length > LONGEST_VALUE) {
      issues.push({ field, message: `must be 1 to ${LONGEST_VALUE} visible ASCII characters, without line breaks` });
    }
  }
  return issues;
}

/** The columns of an endpoint's headers; both are null without any. */
export interface OwnHeaders {
  names: string | null;
  sealed: Uint8Array | null;
}

const contextOf = (webhookId: string): string => `webhook-headers:${webhookId}`;

/** Returns the headers of an endpoint; throws if they were encrypted with another secret key. */
export function openOwnHeaders(
  secretKey: Uint8Array,
  webhookId: string,
  sealed: Uint8Array | null,
): Readonly<Record<string, string>> {
  if (sealed === null) return {};
  return JSON.parse(open(secretKey, sealed, contextOf(webhookId)).toString('utf8')) as Record<string, string>;
}

/** Returns what to store; masked values are those of `stored`. */
export function sealOwnHeaders(
  secretKey: Uint8Array,
  webhookId: string,
  { given, stored }: { given: Readonly<Record<string, string>>; stored: Uint8Array | null },
): OwnHeaders {
  const names = Object.keys(given);
  if (names.length === 0) return { names: null, sealed: null };
  const isKept = Object.values(given).includes(MASK);
  const before = Object.entries(isKept ? openOwnHeaders(secretKey, webhookId, stored) : {});
  const storedValue = (name: string): string =>
    before.find(([one]) => one.toLowerCase() === name.toLowerCase())?.[1] ?? MASK;
  const headers = Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, value === MASK ? storedValue(name) : value]),
  );
  return { names: JSON.stringify(names), sealed: seal(secretKey, JSON.stringify(headers), contextOf(webhookId)) };
}
