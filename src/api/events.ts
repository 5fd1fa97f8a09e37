/**
 * `GET /events`: the events of the caller's messages. Newest first by default; with `order=asc` it is a log to follow in commit order:
 * every page with a position has an X-Next-Cursor, including the last and an empty one, and a request with it returns exactly the events
 * since then. Before the first event there is no cursor; retry without one. `GET /events/stream` sends events as they happen and accepts
 * the same cursors. Both also accept the id of an event as a cursor.
 */
import type { Static } from 'typebox';
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { invalid, refuse } from '../base/failure.ts';
import type { Owner } from '../base/mode.ts';
import { EVENT_TYPES, type EventRow, eventBody } from '../events/event.ts';
import { eventSchema } from '../events/event-schema.ts';
import { placeOfEventOperation } from '../events/place-store.ts';
import {
  type EventPage,
  type EventPlace,
  isAfterEndOperation,
  latestPlacesOperation,
  PAGE_BYTES,
  readEventPageOperation,
  searchEventsOperation,
} from '../events/read-store.ts';
import { eventCatalogue } from '../events/samples.ts';
import { createEventCursors, type EventCursors, eventStream, type Followers } from '../events/stream.ts';
import type { Access, IdentifiedRequest } from '../http/identify.ts';
import { type PageKey, pageAnswer, pageFields, pageOfWhole, readPage } from '../http/paging.ts';
import { defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, isoTimeMs, named, oneOf } from '../http/validate.ts';
import type { ConcurrencyLimiter } from '../limits/limits.ts';
import type { Database } from '../storage/database.ts';
import type { Found, Searches } from '../storage/searches.ts';

const NOT_OURS = 'is not a cursor of this log; start without one';
const BEHIND_END = 'is after the end of the log, because a backup was restored; start without one';

const query = closed({
  messageId: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'Events of one message.' })),
  recipient: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 320,
      description: 'The complete address, in any spelling. For inbound messages, the address they were sent to.',
    }),
  ),
  eventType: Type.Optional(
    Type.Array(oneOf([...EVENT_TYPES]), {
      maxItems: EVENT_TYPES.length,
      description: 'Events of one type. Can be repeated to match any of the types.',
    }),
  ),
  tag: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      maxItems: 10,
      description: 'Events of messages with exactly this tag. Can be repeated to require all tags.',
    }),
  ),
  since: Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description: 'Inclusive.' })),
  until: Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description: 'Inclusive.' })),
  order: Type.Optional(oneOf(['asc', 'desc'], { description: 'Use asc with a cursor to follow the log.' })),
  ...pageFields,
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1_000,
      description: 'The X-Next-Cursor of the previous page, or an eventId. Returns the events after it.',
    }),
  ),
});

export interface EventRouteDeps {
  database: Database;
  /** The service's secret key; cursors are encrypted with a key derived from it. */
  secretKey: Uint8Array;
  followers: Followers;
  searches: Searches;
  streams: ConcurrencyLimiter;
  /** Returns whether a request still has a valid key or session for its address; called while a stream is open. */
  isAllowed(request: IdentifiedRequest & { remoteAddress: string }, access: Access): Promise<boolean>;
}

const STREAM_ACCESS = { auth: 'key', accountInQuery: true } as const;

const streamQuery = closed({
  messageId: query.properties.messageId,
  eventType: query.properties.eventType,
  tag: query.properties.tag,
  cursor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1_000,
      description: 'Start after this cursor or eventId. Last-Event-ID takes precedence.',
    }),
  ),
  account: Type.Optional(
    Type.String({
      maxLength: 64,
      description: "With a session, instead of the X-Id header, which the browser's EventSource cannot set.",
    }),
  ),
  mode: Type.Optional(oneOf(['live', 'sandbox'], { description: 'With a session, instead of the X-Mode header.' })),
});

const eventTypeSchema = named('EventType', {
  eventType: oneOf([...EVENT_TYPES]),
  description: Type.String(),
  sample: eventSchema,
});

export function eventRoutes(deps: EventRouteDeps): RouteDefinition<Caller>[] {
  const cursors = createEventCursors(deps.secretKey);
  return [
    defineRoute({
      method: 'GET',
      path: '/event-types',
      tag: 'events',
      access: { auth: 'key' },
      operationId: 'listEventTypes',
      summary: 'List the types of events, with a sample of each',
      description:
        'Returns every type in the order of the life of a message. POST /webhooks/{id}/test sends these samples with "test": true.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(eventTypeSchema) },
      handle: (request) =>
        pageOfWhole(request, {
          rows: eventCatalogue(),
          order: 'ascending',
          shape: ['number'],
          keyOf: ({ eventType }) => [EVENT_TYPES.indexOf(eventType)],
          show: (described) => described,
        }),
    }),
    defineRoute({
      method: 'GET',
      path: '/events',
      tag: 'events',
      access: { auth: 'key' },
      operationId: 'listEvents',
      summary: 'List or follow events',
      description:
        'Returns the newest events first. With order=asc, X-Next-Cursor is returned even at the end of the log: use it in a later request to get all events since then. A page of large events (inbound messages) can be shorter than limit, and a page filtered by recipient or tag can be short or empty. There are more events as long as there is a Link to the next page.',
      query,
      response: { status: 200, schema: Type.Array(eventSchema) },
      async handle(request: RouteRequest<Caller, undefined, Static<typeof query>>) {
        const requested = request.query;
        const page = readPage(requested.limit === undefined ? {} : { limit: requested.limit }, []);
        if (!page.ok) return page;
        const { limit } = page.value;
        const order = requested.order ?? 'desc';
        const owner = ownerOf(request);
        const after =
          requested.cursor === undefined ? null : await readPlace(deps, cursors, { ...owner, order }, requested.cursor);
        if (after === undefined) return refuse(invalid([{ field: 'cursor', message: NOT_OURS }]));
        const { rows, stoppedAt } = await readPageOf(deps, request.signal, {
          ...owner,
          order,
          after,
          limit: limit + 1,
          messageId: requested.messageId ?? null,
          recipient: requested.recipient ?? null,
          eventTypes: requested.eventType ?? [],
          tags: requested.tag ?? [],
          sinceMs: requested.since === undefined ? null : isoTimeMs(requested.since),
          untilMs: requested.until === undefined ? null : isoTimeMs(requested.until),
        });
        const follow = order === 'asc';
        if (follow && after !== null && rows.length === 0 && (await deps.database.execute(isAfterEndOperation, after)))
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
      method: 'GET',
      path: '/events/stream',
      tag: 'events',
      access: STREAM_ACCESS,
      load: { waits: true },
      operationId: 'streamEvents',
      summary: 'Follow events as they happen (server-sent events)',
      description:
        'Each message contains one event as JSON and its position as id. The stream starts with new events. With Last-Event-ID it resumes after that event on any node, without duplicates or gaps. A message without data only advances the id past events that do not match the filter.',
      query: streamQuery,
      response: { status: 200, contentType: 'text/event-stream' },
      handle: (request: RouteRequest<Caller, undefined, Static<typeof streamQuery>>) => follow(deps, cursors, request),
    }),
  ];
}

/** A filter by recipient or tag may have to skip all events of the account. */
async function readPageOf(
  { database, searches }: EventRouteDeps,
  signal: AbortSignal,
  page: EventPage,
): Promise<Found<EventRow, EventPlace>> {
  const isSearch = page.messageId === null && (page.recipient || page.tags?.length);
  if (!isSearch) return database.execute(readEventPageOperation, page);
  let length = 0;
  return searches.run({
    accountId: page.accountId,
    limit: page.limit,
    from: page.after,
    signal,
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

/** Returns the place of a cursor, or of an event of the owner by its id; undefined if the text is neither. */
async function readPlace(
  { database }: Pick<EventRouteDeps, 'database'>,
  cursors: EventCursors,
  requested: Owner & Pick<EventPage, 'order'>,
  text: string,
): Promise<EventPlace | undefined> {
  const place = cursors.read(text);
  if (place !== undefined || !text.startsWith('evt_')) return place;
  return (await database.execute(placeOfEventOperation, { ...requested, id: text })) ?? undefined;
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
  if (given !== undefined && (await database.execute(isAfterEndOperation, given)))
    return refuse(invalid([{ field, message: BEHIND_END }]));
  const after = given ?? (await database.execute(latestPlacesOperation, [owner]))[0]!;
  const permit = streams.acquire(request.caller.account);
  if (!permit.ok) return permit;
  const { method, url, headers, remoteAddress, signal } = request;
  const content = eventStream({
    database,
    followers,
    cursors,
    after,
    signal,
    page: { ...owner, messageId, eventTypes, tags },
    read: (page) => readPageOf(deps, signal, page),
    isAllowed: () => isAllowed({ method, url, headers, remoteAddress }, { method: 'GET', ...STREAM_ACCESS }),
  });
  content.once('close', permit.release);
  // Tells proxies not to buffer the response, which would delay events.
  return { ok: true, contentType: 'text/event-stream; charset=utf-8', content, headers: { 'X-Accel-Buffering': 'no' } };
}
