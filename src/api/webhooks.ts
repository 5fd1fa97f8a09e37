/**
 * Defines the routes below `/webhooks`: endpoints, their secrets, their deliveries, and retries. All data belongs to the caller's account
 * and mode. An endpoint of another account is treated as missing. A secret is returned only once, when it is created.
 */
import { timingSafeEqual } from 'node:crypto';
import type { Static } from 'typebox';
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { iso } from '../base/clock.ts';
import { type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { open, seal } from '../base/seal.ts';
import { EVENT_TYPES, type EventType } from '../events/events.ts';
import { listById, type PageQuery, pageFields } from '../http/paging.ts';
import { changeOf, merge, whileOutdated } from '../http/patch.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, named, oneOf } from '../http/validate.ts';
import { limitReached } from '../limits/limits.ts';
import { urlIssue } from '../net/guarded-connector.ts';
import {
  type EndpointRow,
  endpointBody,
  headerNamesOf,
  MOST_BATCHED,
  ROTATION_MS,
  sealContext,
} from '../webhooks/endpoints.ts';
import {
  type OwnHeaders,
  ownHeaderIssues,
  ownHeadersRequest,
  ownHeadersShape,
  sealOwnHeaders,
} from '../webhooks/own-headers.ts';
import { resendNamesOf } from '../webhooks/resend-payload.ts';
import { createTargets, newSecret, secretKeyOf } from '../webhooks/sign.ts';
import {
  createEndpointOperation,
  dropDeliveriesOperation,
  type EndpointFormat,
  type EndpointKey,
  findEndpointOperation,
  findTargetOperation,
  listEndpointsOperation,
  removeEndpointOperation,
  replaceEndpointOperation,
  rotateSecretOperation,
  showEndpointOperation,
} from '../webhooks/store.ts';
import { sendTestEvent, testEventBody } from '../webhooks/test-event.ts';
import {
  eventName,
  isOfRoute,
  keyOf,
  noSuchEndpoint,
  nullable,
  type Request,
  type WebhookRouteDeps,
} from '../webhooks/webhook-request.ts';
import { webhookDeliveryRoutes } from './webhooks-deliveries.ts';

const endpointFields = named('WebhookRequest', {
  url: Type.String({ minLength: 1, maxLength: 2_048, description: 'An http or https URL without credentials.' }),
  events: Type.Array(eventName, { minItems: 1, maxItems: EVENT_TYPES.length, uniqueItems: true }),
  description: Type.Optional(nullable(Type.String({ maxLength: 500 }))),
  enabled: Type.Optional(Type.Boolean()),
  ordered: Type.Optional(
    Type.Boolean({
      description:
        'true: sends the events of a recipient one after the other; a failed one delays only later events of that recipient. Default false.',
    }),
  ),
  maxBatch: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MOST_BATCHED,
      description:
        'With more than 1, the body of each request is an array of up to this many events. Events are not delayed to fill it. Default 1.',
    }),
  ),
  format: Type.Optional(
    oneOf(['resend'], {
      description:
        "Posts events in the payload format of this service, for handlers that were written for it. Postrider's own format if omitted.",
    }),
  ),
  formatEvents: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description: 'Event names of that service to post. If omitted, all names that `events` covers.',
    }),
  ),
  headers: Type.Optional(ownHeadersRequest),
  secret: Type.Optional(
    Type.String({
      maxLength: 100,
      description: 'whsec_ followed by the Base64 of 24 to 64 bytes. Generated if omitted.',
    }),
  ),
});

type EndpointRequest = Static<typeof endpointFields>;

/** The fields to write. Omitted ones leave the stored value. */
type WrittenFields = Omit<EndpointRequest, 'format'> & {
  /** It is null for the payload format of Postrider. */
  format?: EndpointRequest['format'] | null;
};

const endpointChange = changeOf('WebhookChange', endpointFields);
type EndpointChange = Static<typeof endpointChange>;

const endpointShape = {
  webhookId: Type.String(),
  url: Type.String(),
  events: Type.Array(eventName),
  description: nullable(Type.String()),
  headers: ownHeadersShape,
  enabled: Type.Boolean(),
  ordered: Type.Boolean(),
  maxBatch: Type.Integer(),
  createdAt: Type.String({ format: 'date-time' }),
  updatedAt: Type.String({ format: 'date-time' }),
  failingSince: Type.Optional(
    Type.String({
      format: 'date-time',
      description: 'Set while deliveries fail: the first failure since the last success.',
    }),
  ),
  nextAttemptAt: Type.Optional(
    Type.String({
      format: 'date-time',
      description:
        'Set while deliveries of an enabled webhook fail: the soonest retry of any of them, in the past while it is being sent.',
    }),
  ),
  disabledReason: Type.Optional(Type.String()),
  inboundRouteId: Type.Optional(
    Type.String({ description: 'Set if the webhook receives only the mail of one inbound route.' }),
  ),
  format: Type.Optional(oneOf(['resend'], { description: 'The service whose payload format is posted.' })),
  formatEvents: Type.Optional(
    Type.Array(Type.String(), { description: 'Event names of that service that are posted.' }),
  ),
};
const endpointSchema = named('Webhook', endpointShape);
const endpointWithSecret = named('WebhookWithSecret', { ...endpointShape, secret: Type.String() });

const testFields = named('WebhookTestRequest', {
  eventType: Type.Optional(oneOf([...EVENT_TYPES], { description: 'The type of the event. Default Delivery.' })),
});
const NOT_IN_FORMAT = 'has no counterpart in the payload format of this webhook; choose another type';

/** Number of deliveries to delete in one transaction. */
const DROP_LIMIT = 5_000;

/** Checks what the schema cannot express, such as the target of the URL and the form of the secret. */
async function validateFields(
  deps: WebhookRouteDeps,
  fields: WrittenFields,
  present?: EndpointRow,
): Promise<Result<undefined>> {
  const issues: Issue[] = [];
  // An unchanged URL is not looked up again: an endpoint can be disabled while its name does not resolve.
  const refused = fields.url === present?.url ? undefined : await deps.checkUrl(fields.url);
  if (refused !== undefined) issues.push({ field: 'url', message: refused });
  issues.push(...ownIssues(fields, present));
  return issues.length === 0 ? ok(undefined) : refuse(invalid(issues));
}

function ownIssues(fields: Partial<WrittenFields>, present?: EndpointRow): Issue[] {
  const { events, secret, format, formatEvents, headers, maxBatch } = fields;
  const issues = ownHeaderIssues(headers, present && headerNamesOf(present));
  if (secret !== undefined && !secretKeyOf(secret))
    issues.push({ field: 'secret', message: 'must be whsec_ followed by the Base64 of 24 to 64 bytes' });
  if (formatEvents !== undefined && (format ?? null) === null)
    issues.push({ field: 'formatEvents', message: 'requires `format`, the service to which these event names belong' });
  // Elements that do not match the schema are undefined.
  else if (events?.every((type) => type !== undefined)) issues.push(...formatIssues({ ...fields, events }, present));
  const written = format === undefined ? (present?.format ?? null) : format;
  if (written !== null && (maxBatch ?? present?.max_batch ?? 1) > 1)
    issues.push({ field: 'maxBatch', message: 'must be 1 for a webhook with `format`: its payload holds one event' });
  return issues;
}

/** Returns the issue of a format in which no event would be posted, if the request changes the format or the events. */
function formatIssues(
  fields: Pick<WrittenFields, 'events' | 'format' | 'formatEvents'>,
  present?: EndpointRow,
): Issue[] {
  const isKept = present !== undefined && !fields.format && JSON.stringify(fields.events) === present.events;
  if (isKept) return [];
  const format = fields.format ? formatOf(fields.format, fields) : present && keptFormat(present, fields).format;
  if (!format) return [];
  const covered = resendNamesOf(fields.events);
  if ((JSON.parse(format.events) as string[]).some((name) => covered.includes(name))) return [];
  if (covered.length === 0)
    return [{ field: 'events', message: 'must have a type that the payload format of this webhook has a name for' }];
  return [{ field: 'formatEvents', message: `must have a name that \`events\` covers: ${covered.join(', ')}` }];
}

/** Returns the issues of valid fields when other fields violate the schema. Does not look up the host of the URL. */
function furtherIssues(fields: Partial<Static<typeof endpointFields>>): Issue[] {
  const url = fields.url === undefined ? undefined : urlIssue(fields.url);
  return [...(url === undefined ? [] : [{ field: 'url', message: url }]), ...ownIssues(fields)];
}

/** Returns whether the endpoint already has this secret. Setting the same secret again is not a rotation. */
async function isPresentSecret(deps: WebhookRouteDeps, key: EndpointKey, secret: string): Promise<boolean> {
  const target = await deps.database.execute(findTargetOperation, key);
  if (!target) return false;
  const present = secretKeyOf(open(deps.secretKey, target.secret_sealed, sealContext(key.id)).toString('utf8'));
  const given = secretKeyOf(secret);
  if (!present || !given || present.length !== given.length) return false;
  return timingSafeEqual(present, given);
}

/** Returns the headers to store, or an empty object if the request leaves them unchanged. */
async function givenHeaders(
  { database, secretKey }: WebhookRouteDeps,
  key: EndpointKey,
  given: Readonly<Record<string, string>> | undefined,
): Promise<{ headers?: OwnHeaders }> {
  if (given === undefined) return {};
  const target = await database.execute(findTargetOperation, key);
  return { headers: sealOwnHeaders(secretKey, key.id, { given, stored: target?.headers_sealed ?? null }) };
}

function storedFields(fields: WrittenFields) {
  return {
    url: fields.url,
    events: JSON.stringify(fields.events),
    description: fields.description ?? null,
    enabled: fields.enabled ?? null,
    ...(fields.ordered !== undefined && { ordered: fields.ordered }),
    ...(fields.maxBatch !== undefined && { maxBatch: fields.maxBatch }),
    ...(fields.format !== undefined && { format: fields.format === null ? null : formatOf(fields.format, fields) }),
  };
}

/**
 * Returns the current format if a change omits it. Its event names are the current ones, without those of removed events, plus all names of
 * added events.
 */
function keptFormat(
  { format, format_events, events }: EndpointRow,
  fields: Pick<WrittenFields, 'events' | 'format'>,
): { format?: EndpointFormat } {
  if (format === null || fields.format !== undefined) return {};
  const before = JSON.parse(events) as EventType[];
  const dropped = resendNamesOf(before.filter((one) => !fields.events.includes(one)));
  const added = resendNamesOf(fields.events.filter((one) => !before.includes(one)));
  const names = (JSON.parse(format_events ?? '[]') as string[]).filter((one) => !dropped.includes(one));
  return { format: { name: format, events: JSON.stringify([...new Set([...names, ...added])]) } };
}

function formatOf(
  name: 'resend',
  { events, formatEvents }: Pick<WrittenFields, 'events' | 'formatEvents'>,
): EndpointFormat {
  return { name, events: JSON.stringify(formatEvents ?? resendNamesOf(events)) };
}

/** Returns the fields that a PUT writes: those that it omits get the values of a new webhook, except the secret and `enabled`. */
function replacedFields(given: EndpointRequest): WrittenFields {
  return { ordered: false, maxBatch: 1, format: null, headers: {}, ...given };
}

/** Returns the fields that a PATCH writes. */
function mergedFields(present: EndpointRow, given: EndpointChange): WrittenFields {
  const { description } = present;
  const stored: EndpointRequest = { url: present.url, events: JSON.parse(present.events) as EventType[], description };
  const { format = present.format ?? undefined, formatEvents, ...fields } = given;
  // A format is replaced together with its events, so it is written only if one of the two changes.
  const isFormatChanged = formatEvents !== undefined || format !== (present.format ?? undefined);
  return merge(stored, isFormatChanged ? { ...fields, format, formatEvents } : fields);
}

/** Writes the fields that `fieldsOf` returns for the stored endpoint. */
function replaceEndpoint(
  deps: WebhookRouteDeps,
  request: Request<unknown>,
  fieldsOf: (present: EndpointRow) => WrittenFields,
): Promise<RouteAnswer> {
  const { database, clock, secretKey } = deps;
  const key = keyOf(request);
  return whileOutdated(async () => {
    const present = await database.execute(findEndpointOperation, key);
    if (!present) return noSuchEndpoint;
    const body = fieldsOf(present);
    if (present.inbound_route_id !== null && body.events.join() !== 'Inbound') return isOfRoute;
    const valid = await validateFields(deps, body, present);
    if (!valid.ok) return valid;
    const { secret } = body;
    const isRotation = secret !== undefined && !(await isPresentSecret(deps, key, secret));
    const secretSealed = isRotation ? seal(secretKey, secret, sealContext(key.id)) : null;
    const headers = await givenHeaders(deps, key, body.headers);
    const fields = { ...storedFields(body), ...keptFormat(present, body), ...headers };
    const change = { ...key, ...fields, secretSealed, nowMs: clock.now(), basis: present };
    const row = await requestedChanges(database, request, clock.now()).execute(replaceEndpointOperation, change);
    if (row === 'outdated') return row;
    return row ? answer(endpointBody(row)) : noSuchEndpoint;
  });
}

export function webhookRoutes(deps: WebhookRouteDeps): RouteDefinition<Caller>[] {
  return [...endpointRoutes(deps), removeRoute(deps), ...secretRoutes(deps), ...webhookDeliveryRoutes(deps)];
}

function endpointRoutes(deps: WebhookRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock, secretKey } = deps;
  return [
    defineRoute({
      method: 'GET',
      path: '/webhooks',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'listWebhooks',
      summary: 'List webhooks',
      description: 'Returns the webhooks in the mode of the API key, without their secrets.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(endpointSchema) },
      handle: (request: Request<undefined, PageQuery>) =>
        listById(request, {
          prefix: 'whk_',
          read: (page) => database.execute(listEndpointsOperation, { ...ownerOf(request), ...page }),
          show: endpointBody,
        }),
    }),
    defineRoute({
      method: 'POST',
      path: '/webhooks',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'createWebhook',
      summary: 'Create a webhook',
      description: 'The response contains the secret that signs the webhook requests. It is not returned again.',
      body: { schema: endpointFields, furtherIssues },
      refusals: ['LIMIT_REACHED'],
      response: { status: 201, schema: endpointWithSecret },
      async handle(request: Request<Static<typeof endpointFields>>) {
        const valid = await validateFields(deps, request.body);
        if (!valid.ok) return valid;
        const id = newId('whk', clock.now());
        const secret = request.body.secret ?? newSecret();
        const secretSealed = seal(secretKey, secret, sealContext(id));
        const input = {
          ...ownerOf(request),
          ...storedFields(request.body),
          headers: sealOwnHeaders(secretKey, id, { given: request.body.headers ?? {}, stored: null }),
          id,
          secretSealed,
          nowMs: clock.now(),
        };
        const row = await requestedChanges(database, request, clock.now()).execute(createEndpointOperation, input);
        return 'limit' in row ? refuse(limitReached(row)) : answer({ ...endpointBody(row), secret });
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/webhooks/:id',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'getWebhook',
      summary: 'Get a webhook',
      description:
        'Returns the webhook without its secret. failingSince and nextAttemptAt are set while its deliveries fail, disabledReason if Postrider disabled it.',
      response: { status: 200, schema: endpointSchema },
      async handle(request: Request) {
        const row = await database.execute(showEndpointOperation, keyOf(request));
        return row ? answer(endpointBody(row)) : noSuchEndpoint;
      },
    }),
    defineRoute({
      method: 'PUT',
      path: '/webhooks/:id',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'replaceWebhook',
      summary: 'Replace a webhook',
      description:
        'Omitted fields get their defaults, except secret and enabled, which stay unchanged. A new secret starts a rotation: the previous secret also signs requests for 24 h.',
      body: { schema: endpointFields, furtherIssues },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: endpointSchema },
      handle: (request: Request<EndpointRequest>) => replaceEndpoint(deps, request, () => replacedFields(request.body)),
    }),
    defineRoute({
      method: 'PATCH',
      path: '/webhooks/:id',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'updateWebhook',
      summary: 'Change fields of a webhook',
      description:
        'Changes the fields in the request; omitted fields and null leave the stored value. headers replaces all headers, and "" clears description. The URL is checked only if it changes.',
      body: { schema: endpointChange, furtherIssues: ({ formatEvents: _, ...fields }) => furtherIssues(fields) },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: endpointSchema },
      handle: (request: Request<EndpointChange>) =>
        replaceEndpoint(deps, request, (present) => mergedFields(present, request.body)),
    }),
  ];
}

function removeRoute({ database, clock }: WebhookRouteDeps): RouteDefinition<Caller> {
  return defineRoute({
    method: 'DELETE',
    path: '/webhooks/:id',
    tag: 'webhooks',
    access: { auth: 'key' },
    operationId: 'deleteWebhook',
    summary: 'Delete a webhook and its delivery history',
    description:
      'Postrider sends no more events to it, including retries. A webhook that belongs to an inbound route is deleted with the route.',
    refusals: ['CONFLICT'],
    response: { status: 200, schema: confirmationSchema },
    async handle(request: Request) {
      const key = keyOf(request);
      const present = await database.execute(findEndpointOperation, key);
      if (present && present.inbound_route_id !== null) return isOfRoute;
      if (!(await requestedChanges(database, request, clock.now()).execute(removeEndpointOperation, key)))
        return noSuchEndpoint;
      const drop = { webhookId: key.id, limit: DROP_LIMIT };
      while ((await database.execute(dropDeliveriesOperation, drop)) === DROP_LIMIT);
      return answer({ message: 'Webhook deleted.' });
    },
  });
}

function secretRoutes(deps: WebhookRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock, secretKey } = deps;
  const targets = createTargets(secretKey);
  return [
    defineRoute({
      method: 'POST',
      path: '/webhooks/:id/rotate-secret',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'rotateWebhookSecret',
      summary: 'Rotate the secret; the old one also signs for 24 h',
      description:
        'During that time every request has a signature for each secret. The new secret is returned only in this response.',
      body: { schema: closed({}), optional: true },
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
        const row = await requestedChanges(database, request, clock.now()).execute(rotateSecretOperation, {
          ...key,
          secretSealed,
          nowMs,
        });
        if (!row) return noSuchEndpoint;
        return answer({ ...endpointBody(row), secret, previousSecretUntil: iso(nowMs + ROTATION_MS) });
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/webhooks/:id/test',
      tag: 'webhooks',
      access: { auth: 'key' },
      operationId: 'testWebhook',
      summary: 'Send a signed test event and return the result',
      description:
        'Sends the sample event of GET /event-types with "test": true, by default a Delivery. It is sent once, even if the webhook is disabled or not subscribed to this type.',
      body: { schema: testFields, optional: true },
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
      async handle(request: Request<Static<typeof testFields> | undefined>) {
        const row = await database.execute(findTargetOperation, keyOf(request));
        if (!row) return noSuchEndpoint;
        const nowMs = clock.now();
        const id = newId('evt', nowMs);
        const { eventType = 'Delivery' } = request.body ?? {};
        const body = testEventBody(id, { eventType, format: row.format, mode: request.caller.mode, nowMs });
        if (body === undefined) return refuse(invalid([{ field: 'eventType', message: NOT_IN_FORMAT }]));
        return answer(await sendTestEvent({ http: deps.http, target: targets(row), event: { id, body }, nowMs }));
      },
    }),
  ];
}
