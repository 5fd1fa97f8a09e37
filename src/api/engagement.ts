/**
 * Serves the public pages that links in an email point to. The API description omits them, because recipients open them, not API clients.
 *
 * `/t/{token}` responds immediately with a redirect to the URL in the encrypted token, or with a transparent pixel. The event is written
 * afterwards. If the database cannot keep up, the event is dropped and counted, because the reader of an email must not wait.
 *
 * `/unsubscribe/{token}`: GET changes nothing, no matter how often bots call it. POST unsubscribes without a login, from the button of the
 * page or from an email client (RFC 8058); repeating it is harmless. Pages are small and have no scripts, images, or remote content. Only
 * `pageAnswer` escapes external text.
 */

import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import {
  TRACKING_PATH,
  type TrackingLinks,
  UNSUBSCRIBE_PATH,
  type UnsubscribeLinks,
} from '../engagement/engagement.ts';
import {
  senderOfOperation,
  type TrackingRecord,
  trackOperation,
  type UnsubscribeRequest,
  unsubscribeOperation,
} from '../engagement/engagement-store.ts';
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

interface RouteDeps {
  database: Database;
  clock: Clock;
  nudge(): void;
}

type TrackingRouteDeps = RouteDeps & { trackingLinks: TrackingLinks };
type UnsubscribeRouteDeps = RouteDeps & { unsubscribeLinks: UnsubscribeLinks; addressHash: AddressHash };

/** The maximum number of events that are waiting for the database. More events are dropped. */
const MAX_PENDING = 1_000;
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
      access: { auth: 'none' },
      hidden: true,
      ownQuery: true,
      summary: 'Follow a tracked link, or load the tracking pixel',
      response: { status: 302 },
      handle(request: RouteRequest) {
        const action = deps.trackingLinks.open(request.params.token ?? '');
        if (action === undefined) return unknownLink();
        const { kind, accountId, mode, messageId } = action;
        const nowMs = deps.clock.now();
        const tracked: TrackingRecord = {
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
        // The URL is serialized again, so it has no characters that are invalid in a header.
        const headers = { ...HEADERS, Location: new URL(action.url).href };
        return { ok: true, status: 302, contentType: 'text/plain; charset=utf-8', headers, content: '' };
      },
    }),
  ];
}

/** Returns a function that writes events to the database without waiting; it never throws. */
function createRecorder({ database, nudge }: TrackingRouteDeps): (tracked: TrackingRecord, log: Log) => void {
  let pending = 0;
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
    if (pending >= MAX_PENDING) {
      lose(log);
      return;
    }
    pending += 1;
    database
      .execute(trackOperation, tracked)
      .then(
        (isNew) => {
          if (isNew) nudge();
        },
        (error: unknown) => lose(log, error),
      )
      .finally(() => {
        pending -= 1;
      });
  };
}

const MAX_AGENT_LENGTH = 200;

const BOTS =
  /GoogleImageProxy|YahooMailProxy|\bbot\b|bot[/;]|crawl|spider|slurp|scan|preview|proxy|monitor|fetch|headless|proofpoint|barracuda|mimecast|symantec|trendmicro|trend micro|cisco|ironport|forcepoint|sophos|fortinet|safelinks|facebookexternalhit|whatsapp|telegram|slack-|curl\/|wget\/|python|go-http-client|java\/|okhttp|libwww|apache-httpclient/i;

/** Apple Mail's privacy proxy sends only this as its User-Agent. */
const BARE_AGENT = /^Mozilla\/\d(?:\.\d)?$/;

const PURPOSES = ['purpose', 'sec-purpose', 'x-purpose', 'x-moz'];

/**
 * Returns whether a request comes from a bot: an image proxy, a scanner, a preview, or a prefetching browser. This is a guess from the
 * request headers: scanners use HEAD, and the email clients that people use send a User-Agent. Scanners that imitate browsers are
 * recognized by their timing (engagement-store.ts). Events of bots are marked, never dropped.
 */
function isBot(request: { method: string; headers: IncomingHttpHeaders }): boolean {
  const agent = request.headers['user-agent'] ?? '';
  if (request.method === 'HEAD' || agent === '' || BARE_AGENT.test(agent) || BOTS.test(agent)) return true;
  return PURPOSES.some((name) => /prefetch|preview|prerender/i.test(String(request.headers[name] ?? '')));
}

/** Returns the User-Agent as stored in events: shortened, with only printable characters. */
function shownAgent(headers: IncomingHttpHeaders): string {
  return (headers['user-agent'] ?? '').slice(0, MAX_AGENT_LENGTH).replace(/[^\x20-\x7e]/g, '?');
}

/** The largest accepted form: its fields are few and short, and only the one-click field is read. */
const MAX_BODY_BYTES = 10_000;

const tryLater = (): ContentAnswer =>
  pageAnswer({
    status: 503,
    title: 'Please try again in a moment',
    paragraphs: ['Your request could not be saved. Nothing was changed.'],
    button: 'Try again',
    headers: { 'Retry-After': '5' },
  });

export function unsubscribeRoutes(deps: UnsubscribeRouteDeps): RouteDefinition<Caller>[] {
  const { unsubscribeLinks } = deps;
  const path = `${UNSUBSCRIBE_PATH}:token`;
  const shared = { path, tag: 'pages', access: { auth: 'none' }, hidden: true, ownQuery: true } as const;
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
          paragraphs: [
            `Please confirm that ${claim.recipient} should no longer receive email${from && ` from ${from}`}.`,
          ],
          button: 'Unsubscribe',
        });
      },
    }),
    defineRoute({
      ...shared,
      method: 'POST',
      body: { type: 'raw', maxBytes: MAX_BODY_BYTES },
      summary: 'Unsubscribe',
      response: { status: 200, contentType: 'text/html; charset=utf-8' },
      handle: (request: RouteRequest) => unsubscribe(deps, request),
    }),
  ];
}

/** Returns the sender of the message, to display it; empty if it is unknown or cannot be read right now. */
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
    const unsubscribing: UnsubscribeRequest = {
      accountId,
      mode,
      messageId,
      nowMs,
      email,
      addressHash: deps.addressHash(accountId, email),
      method: isOneClick ? 'one-click' : 'page',
      eventId: newId('evt', nowMs),
    };
    const isNew = await deps.database.execute(unsubscribeOperation, unsubscribing);
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
    paragraphs: [`${recipient} will no longer receive email${from && ` from ${from}`}. You can close this page.`],
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
  /** The plain text of each paragraph. */
  paragraphs: string[];
  /** The label of a button that posts to the page's own URL; without it, the page has no button. */
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

/** Returns the page for links that this service did not create, or that were altered in transit. */
function unknownLink(): ContentAnswer {
  return pageAnswer({
    status: 404,
    title: 'This link does not work',
    paragraphs: ['The link is incomplete or was changed. Open the link in the email itself, or copy all of it.'],
  });
}
