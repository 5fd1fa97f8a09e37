/**
 * `GET /events`: what became of the caller's messages. Newest first by default; with `order=asc` it is a log to follow,
 * in order of commit: X-Next-Cursor is on every page that has a position, the last and the empty one included, and
 * asking again with it shows exactly what came since. Before the first event there is no cursor; ask again without one.
 * `GET /events/stream` sends what comes as it comes, and takes the same cursors. In place of a cursor both take the id of an event.
 */
import { type Static, Type } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { invalid, refuse } from '../base/failure.ts';
import type { Access, IdentifiedRequest } from '../http/identify.ts';
import { type PageKey, pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { closed, isoTimeMs, oneOf } from '../http/validate.ts';
import type { ConcurrencyLimiter } from '../limits/limits.ts';
import type { Database } from '../storage/database.ts';
import type { Found, Searches } from '../storage/searches.ts';
import { EVENT_TYPES, type EventRow, eventBody } from './event.ts';
import { eventSchema } from './event-schema.ts';
import { placeOfEventOperation } from './place-store.ts';
import {
  type EventPage,
  type EventPlace,
  isBehindEndOperation,
  type LogOwner,
  latestPlacesOperation,
  PAGE_BYTES,
  readEventPageOperation,
  searchEventsOperation,
} from './read-store.ts';
import { createEventCursors, type EventCursors, eventStream, type Followers } from './stream.ts';

const NOT_OURS = 'is not one that this log gave out; start without it';
const BEHIND_END = 'lies behind the end of the log, which was restored from an earlier time; start without it';

const query = closed({
  messageId: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'Events of one message.' })),
  recipient: Type.Optional(
    Type.String({
      ...{ minLength: 1, maxLength: 320 },
      description: 'The whole address, in any of its spellings; of mail that came in, the one that it came to.',
    }),
  ),
  eventType: Type.Optional(
    Type.Array(oneOf([...EVENT_TYPES]), {
      maxItems: EVENT_TYPES.length,
      description: 'Events of one type; given several times, of any of them.',
    }),
  ),
  tag: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      maxItems: 10,
      description: 'Events of mail with this tag, exactly; given several times, all of them must be there.',
    }),
  ),
  since: Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description: 'Inclusive.' })),
  until: Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description: 'Inclusive.' })),
  order: Type.Optional(oneOf(['asc', 'desc'], { description: 'asc with cursor follows the log.' })),
  ...pageFields,
  cursor: Type.Optional(
    Type.String({
      ...{ minLength: 1, maxLength: 1_000 },
      description: 'The X-Next-Cursor of the page before, or an eventId: what comes behind it.',
    }),
  ),
});

export interface EventRouteDeps {
  database: Database;
  /** The service's key; cursors are made under one that is derived from it. */
  secretKey: Uint8Array;
  followers: Followers;
  searches: Searches;
  /** Streams that an account may hold open at once. */
  streams: ConcurrencyLimiter;
  /** Whether a request still names a good key or session; asked while a stream goes on. */
  isAllowed(request: IdentifiedRequest, access: Access): Promise<boolean>;
}

const STREAM_ACCESS = { method: 'GET', auth: 'key', accountInQuery: true } as const;

const streamQuery = closed({
  messageId: query.properties.messageId,
  eventType: query.properties.eventType,
  tag: query.properties.tag,
  cursor: Type.Optional(
    Type.String({
      ...{ minLength: 1, maxLength: 1_000 },
      description: 'Begin behind it, a cursor of the log or an eventId; Last-Event-ID comes before it.',
    }),
  ),
  account: Type.Optional(
    Type.String({
      maxLength: 64,
      description: "With a session, in place of X-Id: the browser's EventSource sets no headers.",
    }),
  ),
  mode: Type.Optional(oneOf(['live', 'sandbox'], { description: 'With a session, in place of X-Mode.' })),
});

export function eventRoutes(deps: EventRouteDeps): RouteDefinition<Caller>[] {
  const cursors = createEventCursors(deps.secretKey);
  return [
    defineRoute({
      ...{ method: 'GET', path: '/events', tag: 'events', auth: 'key' },
      operationId: 'listEvents',
      summary: 'List events, or follow them',
      description:
        'Newest first. With order=asc, X-Next-Cursor is given even at the end: ask again with it later, and nothing is skipped. A page of large events (mail that came in) is shorter than limit, and by recipient or tag a page may hold less or nothing: it goes on as long as there is a Link to the next one.',
      query,
      response: { status: 200, schema: Type.Array(eventSchema) },
      async handle(request: RouteRequest<Caller, undefined, Static<typeof query>>) {
        const asked = request.query;
        const page = readPage(asked.limit === undefined ? {} : { limit: asked.limit }, []);
        if (!page.ok) return page;
        const { limit } = page.value;
        const order = asked.order ?? 'desc';
        const owner = ownerOf(request);
        const after =
          asked.cursor === undefined ? null : await readPlace(deps, cursors, { ...owner, order }, asked.cursor);
        if (after === undefined) return refuse(invalid([{ field: 'cursor', message: NOT_OURS }]));
        const { rows, stoppedAt } = await readPageOf(deps, request.signal, {
          ...owner,
          order,
          after,
          limit: limit + 1,
          messageId: asked.messageId ?? null,
          recipient: asked.recipient ?? null,
          eventTypes: asked.eventType ?? [],
          tags: asked.tag ?? [],
          sinceMs: asked.since === undefined ? null : isoTimeMs(asked.since),
          untilMs: asked.until === undefined ? null : isoTimeMs(asked.until),
        });
        const follow = order === 'asc';
        if (follow && after !== null && rows.length === 0 && (await deps.database.execute(isBehindEndOperation, after)))
          return refuse(invalid([{ field: 'cursor', message: BEHIND_END }]));
        return pageAnswer(request, {
          page: { limit, after: after === null ? undefined : [after.position, after.seq] },
          rows,
          stoppedAt: stoppedAt && [stoppedAt.position, stoppedAt.seq],
          keyOf: ({ position, seq }: EventRow) => [position ?? seq, seq],
          show: eventBody,
          follow,
          textOf: (key) => cursors.textOf(placeOf(key)),
        });
      },
    }),
    defineRoute({
      ...{ ...STREAM_ACCESS, path: '/events/stream', tag: 'events', waits: true },
      operationId: 'streamEvents',
      summary: 'Follow events as they happen (server-sent events)',
      description:
        'Each message carries one event as JSON and its place as id. Begins with what comes next, or behind Last-Event-ID: then nothing is repeated and nothing left out, at whichever node. A message without data only moves the id on, past events that are filtered out.',
      query: streamQuery,
      response: { status: 200, contentType: 'text/event-stream' },
      handle: (request: RouteRequest<Caller, undefined, Static<typeof streamQuery>>) => follow(deps, cursors, request),
    }),
  ];
}

/** Who asks for one recipient or a tag may pass over all events of the account. */
async function readPageOf(
  { database, searches }: EventRouteDeps,
  signal: AbortSignal,
  page: EventPage,
): Promise<Found<EventRow, EventPlace>> {
  const isSearch = page.messageId === null && (page.recipient || page.tags?.length);
  if (!isSearch) return database.execute(readEventPageOperation, page);
  let length = 0;
  return searches.run({
    ...{ accountId: page.accountId, limit: page.limit, from: page.after, signal },
    read: async ({ from, rows, limit }) => {
      const part = await database.execute(searchEventsOperation, { page: { ...page, after: from, limit }, rows });
      for (const { detail } of part.found) length += detail.length;
      return { ...part, isFull: length > PAGE_BYTES };
    },
  });
}

function placeOf([position, seq]: PageKey): EventPlace {
  return { position: Number(position), seq: Number(seq) };
}

function ownerOf({ caller }: { readonly caller: Caller }): LogOwner {
  return { accountId: caller.account.id, mode: caller.mode };
}

/** The place that a cursor, or an event of the owner by its id, stands for; undefined where it is neither. */
async function readPlace(
  { database }: Pick<EventRouteDeps, 'database'>,
  cursors: EventCursors,
  asked: LogOwner & Pick<EventPage, 'order'>,
  text: string,
): Promise<EventPlace | undefined> {
  const place = cursors.read(text);
  if (place !== undefined || !text.startsWith('evt_')) return place;
  return (await database.execute(placeOfEventOperation, { ...asked, id: text })) ?? undefined;
}

async function follow(
  deps: EventRouteDeps,
  cursors: EventCursors,
  request: RouteRequest<Caller, undefined, Static<typeof streamQuery>>,
): Promise<RouteAnswer> {
  const { database, followers, isAllowed, streams } = deps;
  const owner = ownerOf(request);
  const { messageId = null, eventType: eventTypes = [], tag: tags = [] } = request.query;
  const lastId = request.headers['last-event-id'];
  const cursor = typeof lastId === 'string' && lastId !== '' ? lastId : request.query.cursor;
  const field = cursor === lastId ? 'Last-Event-ID' : 'cursor';
  const given = cursor === undefined ? undefined : await readPlace(deps, cursors, { ...owner, order: 'asc' }, cursor);
  if (cursor !== undefined && given === undefined) return refuse(invalid([{ field, message: NOT_OURS }]));
  if (given !== undefined && (await database.execute(isBehindEndOperation, given)))
    return refuse(invalid([{ field, message: BEHIND_END }]));
  const after = given ?? (await database.execute(latestPlacesOperation, [owner]))[0]!;
  const permit = streams.acquire(request.caller.account);
  if (!permit.ok) return permit;
  const { method, url, headers, signal } = request;
  const content = eventStream({
    ...{ database, followers, cursors, after, signal },
    page: { ...owner, messageId, eventTypes, tags },
    read: (page) => readPageOf(deps, signal, page),
    isAllowed: () => isAllowed({ method, url, headers }, STREAM_ACCESS),
  });
  content.once('close', permit.release);
  // Proxies that collect an answer before they pass it on would hold events back.
  return { ok: true, contentType: 'text/event-stream; charset=utf-8', content, headers: { 'X-Accel-Buffering': 'no' } };
}
