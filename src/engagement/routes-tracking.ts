/**
 * `/t/{token}`: where tracked links and pictures of a mail lead. A link is answered with a redirect to the address that stands
 * sealed in it, a picture with one transparent pixel, both at once: the event is written behind the answer, and what
 * cannot be written is lost and counted, since no reader of a mail may wait for our storage.
 */
import type { Caller } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import { defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import type { Database } from '../storage/database.ts';
import { isBot, shownAgent } from './bot-detection.ts';
import { type Tracked, trackOperation } from './engagement-store.ts';
import { TRACKING_PATH, type TrackingLinks } from './tracking.ts';
import { unknownLink } from './unsubscribe-page.ts';

export interface TrackingRouteDeps {
  database: Database;
  clock: Clock;
  trackingLinks: TrackingLinks;
  /** Tells the webhooks that there is an event. */
  nudge(): void;
}

/** Events on their way to the storage; more are dropped while it does not keep up. */
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
      ...{ method: 'GET', path: `${TRACKING_PATH}:token`, tag: 'pages', auth: 'none', hidden: true, ownQuery: true },
      summary: 'A tracked link or picture',
      response: { status: 302 },
      handle(request: RouteRequest) {
        const action = deps.trackingLinks.open(request.params.token ?? '');
        if (action === undefined) return unknownLink();
        const { kind, accountId, mode, messageId } = action;
        const nowMs = deps.clock.now();
        const tracked: Tracked = {
          ...{ kind, accountId, mode, messageId, nowMs, eventId: newId('evt', nowMs) },
          url: action.kind === 'click' ? action.url : null,
          isBot: isBot(request),
          userAgent: shownAgent(request.headers),
        };
        record(tracked, request.log);
        if (action.kind === 'open') {
          const headers = { ...HEADERS, 'Cross-Origin-Resource-Policy': 'cross-origin' };
          return { ok: true, status: 200, contentType: 'image/gif', headers, content: PIXEL };
        }
        // Serialised again, which leaves nothing that a header may not hold.
        const headers = { ...HEADERS, Location: new URL(action.url).href };
        return { ok: true, status: 302, contentType: 'text/plain; charset=utf-8', headers, content: '' };
      },
    }),
  ];
}

/** Hands events to the storage without waiting for it; never throws. */
function createRecorder({ database, nudge }: TrackingRouteDeps): (tracked: Tracked, log: Log) => void {
  let writing = 0;
  let lost = 0;
  let warnedAtMs = Number.NEGATIVE_INFINITY;

  const lose = (log: Log, error?: unknown): void => {
    lost += 1;
    const nowMs = performance.now();
    if (nowMs - warnedAtMs < WARN_EVERY_MS) return;
    warnedAtMs = nowMs;
    log.warn({ lost, ...(error !== undefined && { err: error }) }, 'opens and clicks could not be recorded');
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
