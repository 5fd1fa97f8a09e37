/**
 * `/webhooks`: endpoints, their secrets, their deliveries, and sending again. Everything is of the caller's account and
 * mode; what is another's answers as if it did not exist. A secret is shown when it is made and never again.
 */
import { timingSafeEqual } from 'node:crypto';
import { type Static, Type } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, type Issue, invalid } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { open, seal } from '../base/seal.ts';
import { limitReached } from '../caps/caps.ts';
import { EVENT_TYPES, type EventType } from '../events/events.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { closed, confirmationSchema, isoTimeMs, named, oneOf } from '../http/validate.ts';
import { urlIssue } from '../net/check-url.ts';
import type { HttpClient } from '../net/http-client.ts';
import type { Database } from '../storage/database.ts';
import { deliveryBody, endpointBody, ROTATION_MS, sealContext } from './endpoints.ts';
import { listDeliveriesOperation, retryDeliveryOperation } from './log-store.ts';
import { createReplay } from './replay.ts';
import { newSecret, secretKeyOf } from './sign.ts';
import {
  createEndpointOperation,
  dropDeliveriesOperation,
  type EndpointKey,
  findEndpointOperation,
  findTargetOperation,
  listEndpointsOperation,
  removeEndpointOperation,
  replaceEndpointOperation,
  rotateSecretOperation,
} from './store.ts';
import { createTargets } from './targets.ts';
import { sendTestEvent } from './test-event.ts';

export interface WebhookRouteDeps {
  database: Database;
  clock: Clock;
  /** The service's key that seals secrets. */
  secretKey: Uint8Array;
  http: HttpClient;
  /** Why an address may not be saved, as the end of a sentence that starts with `url` (net/check-url.ts). */
  checkUrl(url: string): Promise<string | undefined>;
  /** Tells the worker that there is new work. */
  nudge(): void;
}

type Request<B = undefined, Q = unknown> = RouteRequest<Caller, B, Q>;

const eventName = oneOf([...EVENT_TYPES]);
const nullable = <T extends ReturnType<typeof Type.String>>(schema: T) => Type.Union([schema, Type.Null()]);

const endpointFields = named('WebhookRequest', {
  url: Type.String({ minLength: 1, maxLength: 2_048, description: 'http or https, without credentials.' }),
  events: Type.Array(eventName, { minItems: 1, maxItems: EVENT_TYPES.length, uniqueItems: true }),
  description: Type.Optional(nullable(Type.String({ maxLength: 500 }))),
  enabled: Type.Optional(Type.Boolean()),
  secret: Type.Optional(
    Type.String({ maxLength: 100, description: 'whsec_ and the Base64 of 24 to 64 bytes; made for you when omitted.' }),
  ),
});

const endpointShape = {
  webhookId: Type.String(),
  url: Type.String(),
  events: Type.Array(eventName),
  description: nullable(Type.String()),
  enabled: Type.Boolean(),
  createdAt: Type.String(),
  updatedAt: Type.String(),
  disabledReason: Type.Optional(Type.String()),
};
const endpointSchema = named('Webhook', endpointShape);
const endpointWithSecret = named('WebhookWithSecret', { ...endpointShape, secret: Type.String() });

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
      body: nullable(Type.String({ description: 'The event as it is sent.' })),
    }),
    Type.Null(),
  ]),
  responseStatus: Type.Union([Type.Integer(), Type.Null()]),
  responseStart: nullable(Type.String()),
  error: nullable(Type.String()),
  latencyMs: Type.Union([Type.Integer(), Type.Null()]),
  nextAttemptAt: nullable(Type.String()),
  createdAt: Type.String(),
});

const DROP_AT_ONCE = 5_000;

const noSuchEndpoint = refuse(failure('NOT_FOUND', { message: 'There is no webhook with this id.' }));
const isDisabled = refuse(
  failure('CONFLICT', { message: 'The webhook is disabled; enable it before deliveries are sent again.' }),
);

function ownerOf(request: Request<unknown>) {
  return { accountId: request.caller.account.id, mode: request.caller.mode };
}

function keyOf(request: Request<unknown>): EndpointKey {
  return { ...ownerOf(request), id: request.params.id ?? '' };
}

/** Validates what a schema cannot: where the address leads, and whether the secret is one. */
async function validateFields(
  deps: WebhookRouteDeps,
  fields: Static<typeof endpointFields>,
): Promise<Result<undefined>> {
  const issues: Issue[] = [];
  const refused = await deps.checkUrl(fields.url);
  if (refused !== undefined) issues.push({ field: 'url', message: refused });
  issues.push(...secretIssues(fields));
  return issues.length === 0 ? ok(undefined) : refuse(invalid(issues));
}

function secretIssues({ secret }: { secret?: string }): Issue[] {
  if (secret === undefined || secretKeyOf(secret)) return [];
  return [{ field: 'secret', message: 'must be whsec_ followed by the Base64 of 24 to 64 bytes' }];
}

/** Issues of fields that fit the schema where others do not; where the address leads is not looked up then. */
function furtherIssues(fields: Partial<Static<typeof endpointFields>>): Issue[] {
  const url = fields.url === undefined ? undefined : urlIssue(fields.url);
  return [...(url === undefined ? [] : [{ field: 'url', message: url }]), ...secretIssues(fields)];
}

/** Whether the endpoint has this secret already: giving it again rotates nothing. */
async function isPresentSecret(deps: WebhookRouteDeps, key: EndpointKey, secret: string): Promise<boolean> {
  const target = await deps.database.execute(findTargetOperation, key);
  if (!target) return false;
  const present = secretKeyOf(open(deps.secretKey, target.secret_sealed, sealContext(key.id)).toString('utf8'));
  const given = secretKeyOf(secret);
  if (!present || !given || present.length !== given.length) return false;
  return timingSafeEqual(present, given);
}

function storedFields(fields: Static<typeof endpointFields>) {
  return {
    url: fields.url,
    events: JSON.stringify(fields.events),
    description: fields.description ?? null,
    enabled: fields.enabled ?? null,
  };
}

/** All calls below /webhooks. */
export function webhookRoutes(deps: WebhookRouteDeps): RouteDefinition<Caller>[] {
  return [...endpointRoutes(deps), ...secretRoutes(deps), ...deliveryRoutes(deps)];
}

function endpointRoutes(deps: WebhookRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock, secretKey } = deps;
  return [
    defineRoute({
      ...{ method: 'GET', path: '/webhooks', tag: 'webhooks', auth: 'key' },
      operationId: 'listWebhooks',
      summary: 'List webhooks',
      description: 'Of the mode of the key, without their secrets.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(endpointSchema) },
      async handle(request: Request<undefined, { limit?: number; cursor?: string }>) {
        const page = readPage(request.query, ['whk_']);
        if (!page.ok) return page;
        const before = page.value.after === undefined ? null : String(page.value.after[0]);
        const limit = page.value.limit + 1;
        const rows = await database.execute(listEndpointsOperation, { ...ownerOf(request), before, limit });
        return pageAnswer(request, { page: page.value, rows, keyOf: (row) => [row.id], show: endpointBody });
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/webhooks', tag: 'webhooks', auth: 'key' },
      operationId: 'createWebhook',
      summary: 'Register a webhook',
      description: 'The answer holds the secret that signs its requests; it is not shown again.',
      body: endpointFields,
      furtherIssues,
      refusals: ['LIMIT_REACHED'],
      response: { status: 201, schema: endpointWithSecret },
      async handle(request: Request<Static<typeof endpointFields>>) {
        const valid = await validateFields(deps, request.body);
        if (!valid.ok) return valid;
        const id = newId('whk', clock.now());
        const secret = request.body.secret ?? newSecret();
        const secretSealed = seal(secretKey, secret, sealContext(id));
        const made = { ...ownerOf(request), ...storedFields(request.body), id, secretSealed, nowMs: clock.now() };
        const row = await database.execute(createEndpointOperation, made);
        return 'cap' in row ? refuse(limitReached(row)) : answer({ ...endpointBody(row), secret });
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/webhooks/:id', tag: 'webhooks', auth: 'key' },
      operationId: 'getWebhook',
      summary: 'Show a webhook',
      description: 'Without its secret. disabledReason says why it was disabled, where the service did it.',
      response: { status: 200, schema: endpointSchema },
      async handle(request: Request) {
        const row = await database.execute(findEndpointOperation, keyOf(request));
        return row ? answer(endpointBody(row)) : noSuchEndpoint;
      },
    }),
    defineRoute({
      ...{ method: 'PUT', path: '/webhooks/:id', tag: 'webhooks', auth: 'key' },
      operationId: 'replaceWebhook',
      summary: 'Replace a webhook',
      description:
        'secret and enabled stay as they are when omitted. Another secret is a rotation: the one before it signs too for 24 h.',
      body: endpointFields,
      furtherIssues,
      response: { status: 200, schema: endpointSchema },
      async handle(request: Request<Static<typeof endpointFields>>) {
        const key = keyOf(request);
        if (!(await database.execute(findEndpointOperation, key))) return noSuchEndpoint;
        const valid = await validateFields(deps, request.body);
        if (!valid.ok) return valid;
        const { secret } = request.body;
        const isRotation = secret !== undefined && !(await isPresentSecret(deps, key, secret));
        const secretSealed = isRotation ? seal(secretKey, secret, sealContext(key.id)) : null;
        const change = { ...key, ...storedFields(request.body), secretSealed, nowMs: clock.now() };
        const row = await database.execute(replaceEndpointOperation, change);
        return row ? answer(endpointBody(row)) : noSuchEndpoint;
      },
    }),
    defineRoute({
      ...{ method: 'DELETE', path: '/webhooks/:id', tag: 'webhooks', auth: 'key' },
      operationId: 'deleteWebhook',
      summary: 'Delete a webhook and the record of its deliveries',
      description: 'Nothing more is sent to it, retries included.',
      response: { status: 200, schema: confirmationSchema },
      async handle(request: Request) {
        const key = keyOf(request);
        if (!(await database.execute(removeEndpointOperation, key))) return noSuchEndpoint;
        const drop = { webhookId: key.id, limit: DROP_AT_ONCE };
        while ((await database.execute(dropDeliveriesOperation, drop)) === DROP_AT_ONCE);
        return answer({ message: 'The webhook is deleted.' });
      },
    }),
  ];
}

function secretRoutes(deps: WebhookRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock, secretKey } = deps;
  const targets = createTargets(secretKey);
  return [
    defineRoute({
      ...{ method: 'POST', path: '/webhooks/:id/rotate-secret', tag: 'webhooks', auth: 'key' },
      operationId: 'rotateWebhookSecret',
      summary: 'Make a new secret; the old one signs too for 24 h',
      description:
        'Until then every request carries a signature with each; the new secret is shown in this answer only.',
      ...{ body: closed({}), bodyOptional: true },
      response: {
        status: 200,
        schema: named('WebhookWithNewSecret', {
          ...endpointShape,
          secret: Type.String(),
          previousSecretUntil: Type.String(),
        }),
      },
      async handle(request: Request<object>) {
        const key = keyOf(request);
        const secret = newSecret();
        const nowMs = clock.now();
        const secretSealed = seal(secretKey, secret, sealContext(key.id));
        const row = await database.execute(rotateSecretOperation, { ...key, secretSealed, nowMs });
        if (!row) return noSuchEndpoint;
        return answer({ ...endpointBody(row), secret, previousSecretUntil: iso(nowMs + ROTATION_MS) });
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/webhooks/:id/test', tag: 'webhooks', auth: 'key' },
      operationId: 'testWebhook',
      summary: 'Send a signed test event now and answer its result',
      description: 'The event is a Delivery with "test": true. It is tried once, also when the webhook is disabled.',
      ...{ body: closed({}), bodyOptional: true },
      response: {
        status: 200,
        schema: named('WebhookTestResult', {
          success: Type.Boolean(),
          eventId: Type.String(),
          responseStatus: Type.Union([Type.Integer(), Type.Null()]),
          responseStart: nullable(Type.String()),
          error: nullable(Type.String()),
          latencyMs: Type.Integer(),
        }),
      },
      async handle(request: Request<object>) {
        const row = await database.execute(findTargetOperation, keyOf(request));
        if (!row) return noSuchEndpoint;
        const { http } = deps;
        const nowMs = clock.now();
        return answer(await sendTestEvent({ http, target: targets(row), mode: request.caller.mode, nowMs }));
      },
    }),
  ];
}

const replayFields = named('ReplayRequest', {
  since: Type.String({ format: 'date-time', maxLength: 40 }),
  until: Type.String({ format: 'date-time', maxLength: 40 }),
  eventTypes: Type.Optional(Type.Array(eventName, { minItems: 1, maxItems: EVENT_TYPES.length, uniqueItems: true })),
});

function deliveryRoutes(deps: WebhookRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const replay = createReplay(deps);
  return [
    defineRoute({
      ...{ method: 'GET', path: '/webhooks/:id/deliveries', tag: 'webhooks', auth: 'key' },
      operationId: 'listWebhookDeliveries',
      summary: 'What became of events sent to this webhook, newest event first',
      description: 'One record per event, from its first attempt on; retries and replays count as further attempts.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(deliverySchema) },
      async handle(request: Request<undefined, { limit?: number; cursor?: string }>) {
        const page = readPage(request.query, ['del_']);
        if (!page.ok) return page;
        const before = page.value.after === undefined ? null : String(page.value.after[0]);
        const asked = { ...keyOf(request), before, limit: page.value.limit + 1 };
        const rows = await database.execute(listDeliveriesOperation, asked);
        if (!rows) return noSuchEndpoint;
        return pageAnswer(request, { page: page.value, rows, keyOf: (row) => [row.id], show: deliveryBody });
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/webhooks/:id/deliveries/:deliveryId/retry', tag: 'webhooks', auth: 'key' },
      operationId: 'retryWebhookDelivery',
      summary: 'Send one event again now',
      description: 'At once, also where the schedule of its retries has ended. The webhook-id stays the same.',
      ...{ body: closed({}), bodyOptional: true },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: deliverySchema },
      async handle(request: Request<object>) {
        const deliveryId = request.params.deliveryId ?? '';
        const retry = { ...keyOf(request), deliveryId, nowMs: clock.now() };
        const done = await database.execute(retryDeliveryOperation, retry);
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
      ...{ method: 'POST', path: '/webhooks/:id/replay', tag: 'webhooks', auth: 'key' },
      operationId: 'replayWebhookEvents',
      summary: 'Send the events of a time again',
      description:
        'since and until are inclusive. Without eventTypes the types this webhook is registered for are sent, whether they were sent before or not; what waits to be sent is not queued twice.',
      body: replayFields,
      refusals: ['CONFLICT'],
      response: { status: 200, schema: named('ReplayResult', { message: Type.String(), events: Type.Integer() }) },
      handle: (request: Request<Static<typeof replayFields>>) => replayAsAsked(deps, replay, request),
    }),
  ];
}

async function replayAsAsked(
  deps: WebhookRouteDeps,
  replay: ReturnType<typeof createReplay>,
  request: Request<Static<typeof replayFields>>,
) {
  const key = keyOf(request);
  const endpoint = await deps.database.execute(findEndpointOperation, key);
  if (!endpoint) return noSuchEndpoint;
  const sinceMs = isoTimeMs(request.body.since);
  const untilMs = isoTimeMs(request.body.until);
  if (sinceMs > untilMs) return refuse(invalid([{ field: 'since', message: 'must not be later than until' }]));
  if (endpoint.enabled === 0) return isDisabled;
  const eventTypes = request.body.eventTypes ?? (JSON.parse(endpoint.events) as EventType[]);
  const queued = await replay({ ...ownerOf(request), webhookId: key.id, sinceMs, untilMs, eventTypes });
  if (!queued.ok) return queued;
  const events = queued.value;
  deps.nudge();
  return answer({ message: `${events} event${events === 1 ? ' is' : 's are'} queued to be sent again.`, events });
}
