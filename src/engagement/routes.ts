/**
 * Public pages behind the links in an email (not in the API's document, because recipients call them).
 *
 * `/t/{token}`: responds immediately with a redirect to the encrypted address, or with a transparent pixel. The event is written afterwards
 * and dropped (and counted) if the storage does not keep up, because a reader of an email must not wait for it.
 *
 * `/unsubscribe/{token}`: GET changes nothing, no matter how often bots call it; POST unsubscribes, from the page's button or an email
 * client (RFC 8058), without a login. Repeating it is harmless. Pages are small, without scripts, images, or remote content; external texts
 * are escaped in `pageAnswer` only.
 */

import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import {
  type ContentAnswer,
  defineRoute,
  type RouteAnswer,
  type RouteDefinition,
  type RouteRequest,
} from '../http/route.ts';
import { sameAddressKey } from '../mail/address.ts';
import { escapeAttribute } from '../mail/html/html-tags.ts';
import type { Database } from '../storage/database.ts';
import type { AddressHash } from '../suppressions/suppressions.ts';
import { TRACKING_PATH, type TrackingLinks, UNSUBSCRIBE_PATH, type UnsubscribeLinks } from './engagement.ts';
import {
  senderOfOperation,
  type Tracked,
  trackOperation,
  type Unsubscribing,
  unsubscribeOperation,
} from './engagement-store.ts';

interface RouteDeps {
  database: Database;
  clock: Clock;
  nudge(): void;
}

type TrackingRouteDeps = RouteDeps & { trackingLinks: TrackingLinks };
type UnsubscribeRouteDeps = RouteDeps & { unsubscribeLinks: UnsubscribeLinks; addressHash: AddressHash };

/** Maximum events waiting for the storage; more are dropped. */
const MAX_WRITING = 1_000;
const WARN_EVERY_MS = 60_000;

const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');
const HEADERS = {
  'Cache-Control': 'no-store, no-cache, must-revalidate, private, max-age=0',
  'Referrer-Policy': 'no-referrer',
  'X-Robots-Tag': 'noindex, nofollow',
};

export function trackingRoutes(deps: TrackingRouteDeps): RouteDefinition<Caller>[] {
  const record = createRecorder(deps);
  return [
    defineRoute({
      method: 'GET',
      path: `${TRACKING_PATH}:token`,
      tag: 'pages',
      auth: 'none',
      hidden: true,
      ownQuery: true,
      summary: 'Follow a tracked link, or load the tracking pixel',
      response: { status: 302 },
      handle(request: RouteRequest) {
        const action = deps.trackingLinks.open(request.params.token ?? '');
        if (action === undefined) return unknownLink();
        const { kind, accountId, mode, messageId } = action;
        const nowMs = deps.clock.now();
        const tracked: Tracked = {
          kind,
          accountId,
          mode,
          messageId,
          nowMs,
          eventId: newId('evt', nowMs),
          url: action.kind === 'click' ? action.url : null,
          isBot: isBot(request),
          userAgent: shownAgent(request.headers),
        };
        record(tracked, request.log);
        if (action.kind === 'open') {
          const headers = { ...HEADERS, 'Cross-Origin-Resource-Policy': 'cross-origin' };
          return { ok: true, status: 200, contentType: 'image/gif', headers, content: PIXEL };
        }
        // Serialized again, so that it contains no characters that are invalid in a header.
        const headers = { ...HEADERS, Location: new URL(action.url).href };
        return { ok: true, status: 302, contentType: 'text/plain; charset=utf-8', headers, content: '' };
      },
    }),
  ];
}

/** Passes events to the storage without waiting; never throws. */
function createRecorder({ database, nudge }: TrackingRouteDeps): (tracked: Tracked, log: Log) => void {
  let writing = 0;
  let lost = 0;
  let warnedAtMs = Number.NEGATIVE_INFINITY;

  const lose = (log: Log, error?: unknown): void => {
    lost += 1;
    const nowMs = performance.now();
    if (nowMs - warnedAtMs < WARN_EVERY_MS) return;
    warnedAtMs = nowMs;
    log.warn({ lost, ...(error !== undefined && { err: error }) }, 'opens and clicks lost');
    lost = 0;
  };

  return (tracked, log) => {
    if (writing >= MAX_WRITING) {
      lose(log);
      return;
    }
    writing += 1;
    database
      .execute(trackOperation, tracked)
      .then(
        (isNew) => {
          if (isNew) nudge();
        },
        (error: unknown) => lose(log, error),
      )
      .finally(() => {
        writing -= 1;
      });
  };
}

const MAX_AGENT_LENGTH = 200;

const BOTS =
  /GoogleImageProxy|YahooMailProxy|\bbot\b|bot[/;]|crawl|spider|slurp|scan|preview|proxy|monitor|fetch|headless|proofpoint|barracuda|mimecast|symantec|trendmicro|trend micro|cisco|ironport|forcepoint|sophos|fortinet|safelinks|facebookexternalhit|whatsapp|telegram|slack-|curl\/|wget\/|python|go-http-client|java\/|okhttp|libwww|apache-httpclient/i;

/** Apple Mail's privacy proxy shows itself as this and nothing more. */
const BARE = /^Mozilla\/\d(?:\.\d)?$/;

const PURPOSES = ['purpose', 'sec-purpose', 'x-purpose', 'x-moz'];

/**
 * Returns whether a request comes from a bot: image proxies, scanners, previews, prefetching browsers. This is a guess from the request
 * headers; scanners that imitate browsers are recognized by their timing (engagement-store.ts). Events of bots are marked, never dropped.
 * Scanners use HEAD, and email clients of people send a User-Agent.
 */
function isBot(request: { method: string; headers: IncomingHttpHeaders }): boolean {
  const agent = request.headers['user-agent'] ?? '';
  if (request.method === 'HEAD' || agent === '' || BARE.test(agent) || BOTS.test(agent)) return true;
  return PURPOSES.some((name) => /prefetch|preview|prerender/i.test(String(request.headers[name] ?? '')));
}

/** User-Agent as stored in events: bounded and printable. */
function shownAgent(headers: IncomingHttpHeaders): string {
  return (headers['user-agent'] ?? '').slice(0, MAX_AGENT_LENGTH).replace(/[^\x20-\x7e]/g, '?');
}

/** Form fields are few and short; only the one-click field is read. */
const MAX_BODY_BYTES = 10_000;

const tryLater = (): ContentAnswer =>
  pageAnswer({
    status: 503,
    title: 'Please try again in a moment',
    paragraphs: ['Your wish could not be recorded right now. Nothing was changed.'],
    button: 'Try again',
    headers: { 'Retry-After': '5' },
  });

export function unsubscribeRoutes(deps: UnsubscribeRouteDeps): RouteDefinition<Caller>[] {
  const { unsubscribeLinks } = deps;
  const path = `${UNSUBSCRIBE_PATH}:token`;
  const shared = { path, tag: 'pages', auth: 'none', hidden: true, ownQuery: true } as const;
  return [
    defineRoute({
      ...shared,
      method: 'GET',
      summary: 'Open the unsubscribe page',
      response: { status: 200, contentType: 'text/html; charset=utf-8' },
      async handle({ params }: RouteRequest): Promise<RouteAnswer> {
        const claim = unsubscribeLinks.open(params.token ?? '');
        if (claim === undefined) return unknownLink();
        const from = await senderOf(deps.database, claim);
        return pageAnswer({
          status: 200,
          title: 'Unsubscribe?',
          paragraphs: [`Please confirm that ${claim.recipient} should get no more email${from && ` from ${from}`}.`],
          button: 'Unsubscribe',
        });
      },
    }),
    defineRoute({
      ...shared,
      method: 'POST',
      bodyType: 'raw',
      maxBodyBytes: MAX_BODY_BYTES,
      summary: 'Unsubscribe',
      response: { status: 200, contentType: 'text/html; charset=utf-8' },
      handle: (request: RouteRequest) => unsubscribe(deps, request),
    }),
  ];
}

/** Sender of the message for the page; empty if it is unknown or cannot be read right now. */
async function senderOf(
  database: Database,
  { accountId, mode, messageId }: NonNullable<ReturnType<UnsubscribeLinks['open']>>,
): Promise<string> {
  try {
    return (await database.execute(senderOfOperation, { accountId, mode, messageId })) ?? '';
  } catch (error) {
    if (error instanceof Unavailable) return '';
    throw error;
  }
}

async function unsubscribe(deps: UnsubscribeRouteDeps, request: RouteRequest): Promise<RouteAnswer> {
  const claim = deps.unsubscribeLinks.open(request.params.token ?? '');
  if (claim === undefined) return unknownLink();
  const { accountId, mode, messageId, recipient } = claim;
  const nowMs = deps.clock.now();
  const email = sameAddressKey(recipient);
  const isOneClick = /List-Unsubscribe\b[\s\S]{0,20}One-Click/i.test(request.rawBody.toString('latin1'));
  try {
    const wish: Unsubscribing = {
      accountId,
      mode,
      messageId,
      nowMs,
      email,
      addressHash: deps.addressHash(accountId, email),
      method: isOneClick ? 'one-click' : 'page',
      eventId: newId('evt', nowMs),
    };
    const isNew = await deps.database.execute(unsubscribeOperation, wish);
    if (isNew) deps.nudge();
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    request.log.warn({ err: error }, 'unsubscribe not recorded');
    return tryLater();
  }
  const from = await senderOf(deps.database, claim);
  return pageAnswer({
    status: 200,
    title: 'You are unsubscribed',
    paragraphs: [`${recipient} will get no more email${from && ` from ${from}`}. You can close this page.`],
  });
}

const STYLE = `
:root { color-scheme: light dark; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: #f4f5f7; color: #1d2129;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { box-sizing: border-box; width: min(30rem, 100% - 2rem); padding: 2rem; border-radius: .75rem; background: #fff;
  box-shadow: 0 1px 4px rgb(0 0 0 / .15); }
h1 { margin: 0 0 .75rem; font-size: 1.375rem; line-height: 1.25; }
p { margin: 0 0 1rem; overflow-wrap: anywhere; }
p:last-child { margin: 0; }
button { padding: .625rem 1.25rem; border: 0; border-radius: .5rem; background: #1f5fd6; color: #fff; font: inherit;
  font-weight: 600; cursor: pointer; }
button:hover { background: #1a4fb3; }
button:focus-visible { outline: 3px solid #8db4ff; outline-offset: 2px; }
@media (prefers-color-scheme: dark) {
  body { background: #14171c; color: #e6e8eb; }
  main { background: #1f242b; box-shadow: none; }
}
`;

const PAGE_HEADERS = {
  'Content-Security-Policy':
    `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; form-action 'self'; ` +
    "base-uri 'none'; frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'X-Robots-Tag': 'noindex, nofollow',
};

interface Page {
  status: number;
  title: string;
  /** Each a paragraph of plain text. */
  paragraphs: string[];
  /** Label of a form that posts to the page's own address. */
  button?: string;
  headers?: Record<string, string>;
}

function pageAnswer({ status, title, paragraphs, button, headers }: Page): ContentAnswer {
  const text = paragraphs.map((one) => `<p>${escapeAttribute(one)}</p>`).join('\n');
  const form = button === undefined ? '' : `\n<form method="post"><button>${escapeAttribute(button)}</button></form>`;
  const content = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeAttribute(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escapeAttribute(title)}</h1>
${text}${form}
</main>
</body>
</html>
`;
  return {
    ok: true,
    status,
    contentType: 'text/html; charset=utf-8',
    headers: { ...PAGE_HEADERS, ...headers },
    content,
  };
}

/** For links that were not created here, or were altered in transit. */
function unknownLink(): ContentAnswer {
  return pageAnswer({
    status: 404,
    title: 'This link does not work',
    paragraphs: ['The link is incomplete or was changed. Open the link in the email itself, or copy all of it.'],
  });
}
