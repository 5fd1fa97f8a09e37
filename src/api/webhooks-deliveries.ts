/** `/webhooks/{id}/deliveries` and replays: the status of events sent to a webhook, and resending them. */
import type { Static } from 'typebox';
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { recordChangeOperation, requestedChanges } from '../audit/audit.ts';
import { failure, invalid, type Result, refuse } from '../base/failure.ts';
import { EVENT_TYPES, type EventType } from '../events/events.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, isoTimeMs, named, oneOf } from '../http/validate.ts';
import { deliveryBody } from '../webhooks/endpoints.ts';
import { listDeliveriesOperation, retryDeliveryOperation, searchDeliveriesOperation } from '../webhooks/log-store.ts';
import { countReplay, createReplay } from '../webhooks/replay.ts';
import { findEndpointOperation } from '../webhooks/store.ts';
import {
  eventName,
  isDisabled,
  keyOf,
  noSuchEndpoint,
  nullable,
  type Request,
  type WebhookRouteDeps,
} from '../webhooks/webhook-request.ts';

const deliverySchema = named('WebhookDelivery', {
  deliveryId: Type.String(),
  eventId: Type.String(),
  eventType: eventName,
  status: oneOf(['pending', 'succeeded', 'failed']),
  attempts: Type.Integer(),
  request: Type.Union([
    closed({
      method: Type.String(),
      url: Type.String(),
      headers: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
      body: nullable(
        Type.String({
          description: 'The event as sent; with `maxBatch` above 1, an element of the array that was sent.',
        }),
      ),
    }),
    Type.Null(),
  ]),
  responseStatus: Type.Union([Type.Integer(), Type.Null()]),
  responseStart: nullable(Type.String()),
  error: nullable(
    Type.String({
      description: 'Why the last attempt failed. The original error of the network is in parentheses.',
    }),
  ),
  latencyMs: Type.Union([Type.Integer(), Type.Null()]),
  attemptLog: Type.Array(
    named('WebhookAttempt', {
      time: Type.String({ format: 'date-time' }),
      responseStatus: Type.Union([Type.Integer(), Type.Null()]),
      responseStart: nullable(Type.String({ description: 'The first characters of the response body.' })),
      error: nullable(Type.String()),
      latencyMs: Type.Union([Type.Integer(), Type.Null()]),
    }),
    {
      description:
        'Every attempt with its response, oldest first; the last one is also in the fields above. After about 50 kB, further attempts are counted but not listed.',
    },
  ),
  nextAttemptAt: nullable(Type.String({ format: 'date-time' })),
  createdAt: Type.String({ format: 'date-time' }),
});

const listQuery = closed({
  eventType: Type.Optional(oneOf([...EVENT_TYPES], { description: 'Deliveries of events of this type.' })),
  status: Type.Optional(oneOf(['pending', 'succeeded', 'failed'], { description: 'Deliveries of this status.' })),
  ...pageFields,
});

const replayFields = named('ReplayRequest', {
  since: Type.String({ format: 'date-time', maxLength: 40 }),
  until: Type.String({ format: 'date-time', maxLength: 40 }),
  eventTypes: Type.Optional(Type.Array(eventName, { minItems: 1, maxItems: EVENT_TYPES.length, uniqueItems: true })),
});

const replayQuery = closed({
  dryRun: Type.Optional(Type.Boolean({ description: 'true: returns the number of events without sending them.' })),
});
type ReplayAsked = Request<Static<typeof replayFields>, Static<typeof replayQuery>>;

export function webhookDeliveryRoutes(deps: WebhookRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const replay = createReplay(deps);
  return [
    defineRoute({
      method: 'GET',
      path: '/webhooks/:id/deliveries',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'listWebhookDeliveries',
      summary: 'List the deliveries of a webhook, newest event first',
      description:
        'Returns one record per event, starting with its first attempt. Retries and replays count as more attempts, each listed with its response in attemptLog. A page of large events (inbound mail) or with a filter can be shorter than limit; follow its Link header.',
      query: listQuery,
      response: { status: 200, schema: Type.Array(deliverySchema) },
      async handle(request: Request<undefined, Static<typeof listQuery>>) {
        const page = readPage(request.query, ['del_']);
        if (!page.ok) return page;
        const before = page.value.after === undefined ? null : String(page.value.after[0]);
        const { eventType = null, status = null } = request.query;
        const requested = { ...keyOf(request), eventType, status, before, limit: page.value.limit + 1 };
        const isFiltered = eventType !== null || status !== null;
        const list = isFiltered ? searchDeliveriesOperation : listDeliveriesOperation;
        const found = await database.execute(list, requested);
        if (!found) return noSuchEndpoint;
        const { rows, stoppedAt } = found;
        return pageAnswer(request, {
          page: page.value,
          rows,
          stoppedAt: stoppedAt === null ? null : [stoppedAt],
          keyOf: (row) => [row.id],
          show: deliveryBody,
        });
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/webhooks/:id/deliveries/:deliveryId/retry',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'retryWebhookDelivery',
      summary: 'Resend an event to a webhook',
      description: 'Sends the event immediately, even if its retry schedule has ended. The webhook-id stays the same.',
      body: { schema: closed({}), optional: true },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: deliverySchema },
      async handle(request: Request<object>) {
        const deliveryId = request.params.deliveryId ?? '';
        const retry = { ...keyOf(request), deliveryId, nowMs: clock.now() };
        const done = await requestedChanges(database, request, clock.now()).execute(retryDeliveryOperation, retry);
        if (!done.found) {
          if (done.missing === 'endpoint') return noSuchEndpoint;
          return refuse(failure('NOT_FOUND', { message: 'This webhook has no delivery with this id.' }));
        }
        if (!done.enabled) return isDisabled;
        deps.nudge();
        return answer(deliveryBody(done.delivery));
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/webhooks/:id/replay',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'replayWebhookEvents',
      summary: 'Replay the events of a period to a webhook',
      description:
        'since and until are inclusive. Without eventTypes, Postrider sends the types that this webhook is registered for, whether they were sent before or not. Events of inbound routes are included only if they would have been sent to this webhook. Events that are already waiting are not queued twice.',
      query: replayQuery,
      body: { schema: replayFields },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: named('ReplayResult', { message: Type.String(), events: Type.Integer() }) },
      handle: (request: ReplayAsked) => replayRequested(deps, replay, request),
    }),
  ];
}

async function replayRequested(deps: WebhookRouteDeps, replay: ReturnType<typeof createReplay>, request: ReplayAsked) {
  const key = keyOf(request);
  const endpoint = await deps.database.execute(findEndpointOperation, key);
  if (!endpoint) return noSuchEndpoint;
  const sinceMs = isoTimeMs(request.body.since);
  const untilMs = isoTimeMs(request.body.until);
  if (sinceMs > untilMs) return refuse(invalid([{ field: 'since', message: 'must not be later than until' }]));
  if (endpoint.enabled === 0) return isDisabled;
  const eventTypes = request.body.eventTypes ?? (JSON.parse(endpoint.events) as EventType[]);
  const requested = { ...ownerOf(request), webhookId: key.id, sinceMs, untilMs, eventTypes };
  if (request.query.dryRun) return replayAnswer(await countReplay(deps, requested), ['would be', 'would be']);
  const { since, until } = request.body;
  await requestedChanges(deps.database, request, deps.clock.now()).execute(recordChangeOperation, {
    action: 'webhook.replay',
    resourceId: key.id,
    requested: { since, until, eventTypes },
  });
  const queued = await replay(requested);
  if (queued.ok) deps.nudge();
  return replayAnswer(queued, ['is queued to be', 'are queued to be']);
}

function replayAnswer(counted: Result<number>, [one, many]: readonly [one: string, many: string]) {
  if (!counted.ok) return counted;
  const events = counted.value;
  return answer({ message: `${events} event${events === 1 ? ` ${one}` : `s ${many}`} sent again.`, events });
}
