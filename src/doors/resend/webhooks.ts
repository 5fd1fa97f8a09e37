/**
 * The /webhooks endpoints: webhooks with Resend's payload, and the events that were posted to them. Only the last attempt to post an event
 * is kept, so its list of attempts has at most one entry. Webhooks that were created with Postrider's API are also listed, with the event
 * names that cover their events.
 */
import type { Static } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { failure, refuse } from '../../base/failure.ts';
import { idOfUuid, uuidOf } from '../../base/uuid-id.ts';
import { EVENT_TYPES, type EventType } from '../../events/events.ts';
import type { InnerAnswer } from '../../http/inner-calls.ts';
import { cursorOf } from '../../http/paging.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import { deliveryIdOf, resendNamesOf, typesOfResend } from '../../webhooks/webhooks.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  invalidField,
  NOT_FOUND,
  open,
  type ResendDoorDeps,
  removal,
  success,
  withId,
} from './endpoint.ts';
import { list, listBody, listing } from './lists.ts';

interface WebhookBody {
  webhookId: string;
  url: string;
  events: EventType[];
  description: string | null;
  enabled: boolean;
  createdAt: string;
  format?: 'resend';
  formatEvents?: string[];
}

interface DeliveryBody {
  deliveryId: string;
  eventId: string;
  eventType: EventType;
  status: 'pending' | 'succeeded' | 'failed';
  attempts: number;
  request: { body: string | null } | null;
  responseStatus: number | null;
  responseStart: string | null;
  nextAttemptAt: string | null;
  createdAt: string;
}

const eventNames = Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { minItems: 1, maxItems: 100 });
const newWebhook = open({ endpoint: Type.String({ minLength: 1, maxLength: 2_048 }), events: eventNames });
const changedWebhook = open({
  endpoint: Type.Optional(Type.String({ minLength: 1, maxLength: 2_048 })),
  events: Type.Optional(eventNames),
  status: Type.Optional(Type.Union([Type.Literal('enabled'), Type.Literal('disabled')])),
});

/**
 * Returns Postrider's event types for Resend's event names. Names of events that never occur are accepted if the list also has another
 * name.
 */
function typesOf(names: readonly string[]) {
  const types = typesOfResend(names);
  if (types.length > 0) return { ok: true as const, value: types };
  return invalidField('events', `must have one of ${resendNamesOf(typesOfResend(ALL_NAMES)).join(', ')}`);
}

const ALL_NAMES = resendNamesOf(EVENT_TYPES);

function namesOf({ events, formatEvents }: WebhookBody): string[] {
  return formatEvents ?? resendNamesOf(events);
}

function summary(webhook: WebhookBody): Record<string, unknown> {
  return {
    id: uuidOf(webhook.webhookId),
    created_at: webhook.createdAt,
    status: webhook.enabled ? 'enabled' : 'disabled',
    endpoint: webhook.url,
    events: namesOf(webhook),
  };
}

/** Renames the field `url` of a failure to `endpoint`. */
function withEndpointField(answer: InnerAnswer): InnerAnswer {
  if (answer.ok) return answer;
  const { details, ...rest } = answer.failure;
  const renamed = details.map((issue) => (issue.field === 'url' ? { ...issue, field: 'endpoint' } : issue));
  return refuse(failure(rest.code, { details: renamed, message: rest.message.replace(/^url /, 'endpoint ') }));
}

async function create({ body, call }: EndpointContext<Static<typeof newWebhook>>): Promise<EndpointAnswer> {
  const types = typesOf(body.events);
  if (!types.ok) return types;
  const formatEvents = [...new Set(body.events)];
  const newFields = { url: body.endpoint, events: types.value, format: 'resend', formatEvents };
  const created = withEndpointField(await call('POST', '/webhooks', { body: newFields }));
  return created.ok
    ? success({ object: 'webhook', id: uuidOf(created.body.webhookId), signing_secret: created.body.secret })
    : created;
}

async function change(context: EndpointContext<Static<typeof changedWebhook>>, id: string): Promise<EndpointAnswer> {
  const found = await context.call('GET', `/webhooks/${id}`);
  if (!found.ok) return found;
  const { endpoint: url, events: names, status } = context.body;
  const types = names === undefined ? { ok: true as const, value: undefined } : typesOf(names);
  if (!types.ok) return types;
  const isFormatted = (found.body as WebhookBody).format !== undefined;
  const changed = withEndpointField(
    await context.call('PATCH', `/webhooks/${id}`, {
      body: {
        ...(url !== undefined && { url }),
        ...(types.value !== undefined && { events: types.value }),
        ...(names !== undefined && isFormatted && { formatEvents: [...new Set(names)] }),
        ...(status !== undefined && { enabled: status === 'enabled' }),
      },
    }),
  );
  return changed.ok ? success({ object: 'webhook', id: uuidOf(id) }) : changed;
}

const STATUS: Readonly<Record<string, string>> = { pending: 'pending', succeeded: 'success', failed: 'failed' };

function payloadOf({ request }: DeliveryBody): Record<string, unknown> | null {
  return request?.body ? (JSON.parse(request.body) as Record<string, unknown>) : null;
}

function eventSummary(delivery: DeliveryBody): Record<string, unknown> {
  const payload = payloadOf(delivery);
  return {
    id: uuidOf(delivery.eventId),
    type: typeof payload?.type === 'string' ? payload.type : (resendNamesOf([delivery.eventType])[0] ?? ''),
    created_at: delivery.createdAt,
    status: STATUS[delivery.status],
  };
}

/** Finds the delivery of the event in the path. */
async function findDelivery(context: EndpointContext) {
  const [webhookId, eventId] = [context.id('whk'), context.id('evt', 'event')];
  if (!webhookId.ok) return webhookId;
  if (!eventId.ok) return eventId;
  const deliveryId = deliveryIdOf(webhookId.value, eventId.value);
  // A page starts below its cursor. The id with one more character sorts directly above the delivery, so the page starts with the delivery.
  const cursor = cursorOf([`${deliveryId}0`]);
  const page = await context.call('GET', `/webhooks/${webhookId.value}/deliveries`, { query: { cursor, limit: 1 } });
  if (!page.ok) return page;
  const [delivery] = page.body as DeliveryBody[];
  if (delivery?.deliveryId !== deliveryId) return NOT_FOUND('Webhook event');
  return { ok: true as const, value: { delivery, webhookId: webhookId.value } };
}

async function showEvent(context: EndpointContext): Promise<EndpointAnswer> {
  const found = await findDelivery(context);
  if (!found.ok) return found;
  const { delivery } = found.value;
  return success({
    object: 'webhook_event',
    ...eventSummary(delivery),
    next_attempt_at: delivery.nextAttemptAt,
    payload: payloadOf(delivery),
  });
}

async function listAttempts(context: EndpointContext): Promise<EndpointAnswer> {
  const found = await findDelivery(context);
  if (!found.ok) return found;
  const { delivery } = found.value;
  if (delivery.attempts === 0) return listBody([], false);
  const attempt = {
    id: uuidOf(delivery.deliveryId),
    http_status_code: delivery.responseStatus ?? 0,
    response: delivery.responseStart ?? '',
    sent_at: delivery.createdAt,
  };
  return listBody([attempt], false);
}

async function replay(context: EndpointContext): Promise<EndpointAnswer> {
  const found = await findDelivery(context);
  if (!found.ok) return found;
  const { delivery, webhookId } = found.value;
  const path = `/webhooks/${webhookId}/deliveries/${delivery.deliveryId}/retry`;
  const retried = await context.call('POST', path, { body: {} });
  return retried.ok ? success({ object: 'webhook_event', id: uuidOf(delivery.eventId) }) : retried;
}

function listEvents(context: EndpointContext): Promise<EndpointAnswer> {
  return withId(context, 'whk', (webhookId) =>
    list<DeliveryBody>(context, {
      path: `/webhooks/${webhookId}/deliveries`,
      keyOf: (id) => {
        const eventId = idOfUuid('evt', id);
        return eventId === undefined ? undefined : [deliveryIdOf(webhookId, eventId)];
      },
      idOf: ({ eventId }) => uuidOf(eventId),
      show: eventSummary,
    }),
  );
}

function eventEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  const path = '/webhooks/:id/events';
  return [
    endpoint(deps, {
      method: 'GET',
      path,
      summary: 'List events that were posted to a webhook, newest first',
      handle: listEvents,
    }),
    endpoint(deps, {
      method: 'GET',
      path: `${path}/:event`,
      summary: 'Show an event with its payload',
      handle: showEvent,
    }),
    endpoint(deps, {
      method: 'GET',
      path: `${path}/:event/attempts`,
      summary: 'Show the last attempt to post an event',
      handle: listAttempts,
    }),
    endpoint(deps, {
      method: 'POST',
      path: `${path}/:event/replay`,
      summary: 'Post an event again',
      handle: replay,
    }),
  ];
}

export function webhookEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      method: 'POST',
      path: '/webhooks',
      summary: 'Create a webhook',
      status: 201,
      body: newWebhook,
      handle: create,
    }),
    listing<WebhookBody>(deps, {
      path: '/webhooks',
      prefix: 'whk',
      summary: 'List webhooks, newest first',
      idOf: ({ webhookId }) => webhookId,
      show: summary,
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/webhooks/:id',
      summary: 'Show a webhook',
      handle: (context) =>
        withId(context, 'whk', async (id) => {
          const found = await context.call('GET', `/webhooks/${id}`);
          // The API returns the secret only when it is created or rotated.
          return found.ok ? success({ object: 'webhook', ...summary(found.body), signing_secret: null }) : found;
        }),
    }),
    endpoint(deps, {
      method: 'PATCH',
      path: '/webhooks/:id',
      summary: 'Change a webhook',
      body: changedWebhook,
      handle: (context) => withId(context, 'whk', (id) => change(context, id)),
    }),
    removal(deps, { path: '/webhooks', prefix: 'whk', object: 'webhook', summary: 'Delete a webhook' }),
    endpoint(deps, {
      method: 'POST',
      path: '/webhooks/:id/signing-secret/rotate',
      summary: 'Rotate the secret of a webhook',
      handle: (context) =>
        withId(context, 'whk', async (id) => {
          const rotated = await context.call('POST', `/webhooks/${id}/rotate-secret`, { body: {} });
          if (!rotated.ok) return rotated;
          return success({ object: 'webhook', id: uuidOf(id), signing_secret: rotated.body.secret });
        }),
    }),
    ...eventEndpoints(deps),
  ];
}
