/**
 * `GET /events`: what became of the caller's messages. Newest first by default; with `order=asc` it is a log to follow,
 * in order of commit: X-Next-Cursor is on every page that has a position, the last and the empty one included, and
 * asking again with it shows exactly what came since. Before the first event there is no cursor; ask again without one.
 */
import { type Static, Type } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { closed, oneOf } from '../http/validate.ts';
import type { Database } from '../storage/database.ts';
import { EVENT_TYPES, eventBody } from './event.ts';
import { readEventsOperation } from './read-store.ts';

const query = closed({
  messageId: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  eventType: Type.Optional(oneOf([...EVENT_TYPES])),
  since: Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description: 'Inclusive.' })),
  until: Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description: 'Inclusive.' })),
  order: Type.Optional(oneOf(['asc', 'desc'], { description: 'asc with cursor follows the log.' })),
  ...pageFields,
});

/** An event as it is shown, with the fields that its type adds. */
const eventSchema = Type.Object({
  eventId: Type.String(),
  eventType: oneOf([...EVENT_TYPES]),
  messageId: Type.String(),
  timestamp: Type.String(),
  mode: oneOf(['live', 'sandbox']),
  recipient: Type.String(),
  from: Type.String(),
  subject: Type.String(),
  tags: Type.Array(Type.String()),
  metadata: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
});

export function eventRoutes(deps: { database: Database }): RouteDefinition<Caller>[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/events', tag: 'events', auth: 'key' },
      summary: 'List events, or follow them',
      description:
        'Newest first. With order=asc, X-Next-Cursor is given even at the end: ask again with it later, and nothing is skipped.',
      query,
      response: { status: 200, schema: Type.Array(eventSchema) },
      async handle(request: RouteRequest<Caller, undefined, Static<typeof query>>) {
        const asked = request.query;
        const page = readPage(asked, ['number']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        const order = asked.order ?? 'desc';
        const rows = await deps.database.execute(readEventsOperation, {
          accountId: request.caller.account.id,
          mode: request.caller.mode,
          order,
          after: after === undefined ? null : Number(after[0]),
          limit: limit + 1,
          messageId: asked.messageId ?? null,
          eventType: asked.eventType ?? null,
          sinceMs: asked.since === undefined ? null : Date.parse(asked.since),
          untilMs: asked.until === undefined ? null : Date.parse(asked.until),
        });
        const follow = order === 'asc';
        return pageAnswer(request, { page: page.value, rows, keyOf: (row) => [row.seq], show: eventBody, follow });
      },
    }),
  ];
}
