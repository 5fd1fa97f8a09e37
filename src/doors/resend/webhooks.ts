/**
 * /webhooks: endpoints that receive the payload of this interface, and the events that were posted to them. Of the attempts of an event
 * the last one is kept. A webhook that our own API created is shown too, with the event names that cover its events.
 */
import { type Static, Type } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { failure, refuse } from '../../base/failure.ts';
import { idOfUuid, uuidOf } from '../../base/uuid-id.ts';
import type { EventType } from '../../events/events.ts';
import type { InnerAnswer } from '../../http/inner-calls.ts';
import { cursorOf } from '../../http/paging.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { deliveryIdOf, resendNamesOf, typesOfResend } from '../../webhooks/webhooks.ts';
import { keyOf } from './domains.ts';
import { type Asked, endpoint, fault, NOT_FOUND, open, type ResendDoorDeps, type Said, said } from './endpoint.ts';
import { list, listBody } from './lists.ts';

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

/** Our types of these names; events that never occur here are accepted alongside ones that do. */
function typesOf(names: readonly string[]) {
  const types = typesOfResend(names);
  if (types.length > 0) return { ok: true as const, value: types };
  return fault('events', `must have one of ${resendNamesOf(typesOfResend(ALL_NAMES)).join(', ')}`);
}

const ALL_NAMES = resendNamesOf([
  ...(['Send', 'Delivery', 'DeliveryDelay', 'Bounce', 'Complaint', 'Reject', 'Open', 'Click', 'Inbound'] as const),
]);

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

/** A field that our refusal names `url` is `endpoint` there. */
function worded(answer: InnerAnswer): InnerAnswer {
  if (answer.ok) return answer;
  const { details, ...rest } = answer.failure;
  const renamed = details.map((issue) => (issue.field === 'url' ? { ...issue, field: 'endpoint' } : issue));
  return refuse(failure(rest.code, { details: renamed, message: rest.message.replace(/^url /, 'endpoint ') }));
}

async function create({ body, call }: Asked<Static<typeof newWebhook>>): Promise<Said> {
  const types = typesOf(body.events);
  if (!types.ok) return types;
  const formatEvents = [...new Set(body.events)];
  const wish = { url: body.endpoint, events: types.value, format: 'resend', formatEvents };
  const made = worded(await call('POST', '/webhooks', { body: wish }));
  return made.ok
    ? said({ object: 'webhook', id: uuidOf(made.body.webhookId), signing_secret: made.body.secret })
    : made;
}

async function withId(asked: Asked, answer: (id: string) => Promise<Said>): Promise<Said> {
  const id = asked.id('whk');
  return id.ok ? answer(id.value) : id;
}

async function change(asked: Asked<Static<typeof changedWebhook>>, id: string): Promise<Said> {
  const found = await asked.call('GET', `/webhooks/${id}`);
  if (!found.ok) return found;
  const present = found.body as WebhookBody;
  const { endpoint: url = present.url, events: names, status } = asked.body;
  const types = names === undefined ? { ok: true as const, value: present.events } : typesOf(names);
  if (!types.ok) return types;
  const { description, enabled, format } = present;
  const formatted = format !== undefined && { format, formatEvents: [...new Set(names ?? namesOf(present))] };
  const replaced = worded(
    await asked.call('PUT', `/webhooks/${id}`, {
      body: {
        ...{ url, events: types.value, ...(description !== null && { description }) },
        ...{ enabled: status === undefined ? enabled : status === 'enabled', ...formatted },
      },
    }),
  );
  return replaced.ok ? said({ object: 'webhook', id: uuidOf(id) }) : replaced;
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

/** The delivery of the event in the path. */
async function findDelivery(asked: Asked) {
  const [webhookId, eventId] = [asked.id('whk'), asked.id('evt', 'event')];
  if (!webhookId.ok) return webhookId;
  if (!eventId.ok) return eventId;
  const deliveryId = deliveryIdOf(webhookId.value, eventId.value);
  // The list goes on below a key; the id with another character is the nearest one above it.
  const cursor = cursorOf([`${deliveryId}0`]);
  const page = await asked.call('GET', `/webhooks/${webhookId.value}/deliveries`, { query: { cursor, limit: 1 } });
  if (!page.ok) return page;
  const [delivery] = page.body as DeliveryBody[];
  if (delivery?.deliveryId !== deliveryId) return NOT_FOUND('Webhook event');
  return { ok: true as const, value: { delivery, webhookId: webhookId.value } };
}

async function showEvent(asked: Asked): Promise<Said> {
  const found = await findDelivery(asked);
  if (!found.ok) return found;
  const { delivery } = found.value;
  return said({
    object: 'webhook_event',
    ...eventSummary(delivery),
    next_attempt_at: delivery.nextAttemptAt,
    payload: payloadOf(delivery),
  });
}

async function listAttempts(asked: Asked): Promise<Said> {
  const found = await findDelivery(asked);
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

async function replay(asked: Asked): Promise<Said> {
  const found = await findDelivery(asked);
  if (!found.ok) return found;
  const { delivery, webhookId } = found.value;
  const path = `/webhooks/${webhookId}/deliveries/${delivery.deliveryId}/retry`;
  const retried = await asked.call('POST', path, { body: {} });
  return retried.ok ? said({ object: 'webhook_event', id: uuidOf(delivery.eventId) }) : retried;
}

function listEvents(asked: Asked): Promise<Said> {
  return withId(asked, (webhookId) =>
    list<DeliveryBody>(asked, {
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
      ...{ method: 'GET', path, summary: 'List events that were posted to a webhook, newest first' },
      handle: listEvents,
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: `${path}/:event`, summary: 'Show an event with its payload' },
      handle: showEvent,
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: `${path}/:event/attempts`, summary: 'Show the last attempt to post an event' },
      handle: listAttempts,
    }),
    endpoint(deps, {
      ...{ method: 'POST', path: `${path}/:event/replay`, summary: 'Post an event again' },
      handle: replay,
    }),
  ];
}

export function webhookEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      ...{ method: 'POST', path: '/webhooks', summary: 'Create a webhook', status: 201 },
      body: newWebhook,
      handle: create,
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/webhooks', summary: 'List webhooks, newest first' },
      handle: (asked) =>
        list<WebhookBody>(asked, {
          path: '/webhooks',
          keyOf: (id) => keyOf(idOfUuid('whk', id)),
          idOf: ({ webhookId }) => uuidOf(webhookId),
          show: summary,
        }),
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/webhooks/:id', summary: 'Show a webhook' },
      handle: (asked) =>
        withId(asked, async (id) => {
          const found = await asked.call('GET', `/webhooks/${id}`);
          // The secret is returned when it is created and rotated, and never again.
          return found.ok ? said({ object: 'webhook', ...summary(found.body), signing_secret: null }) : found;
        }),
    }),
    endpoint(deps, {
      ...{ method: 'PATCH', path: '/webhooks/:id', summary: 'Change a webhook' },
      body: changedWebhook,
      handle: (asked) => withId(asked, (id) => change(asked, id)),
    }),
    endpoint(deps, {
      ...{ method: 'DELETE', path: '/webhooks/:id', summary: 'Delete a webhook' },
      handle: (asked) =>
        withId(asked, async (id) => {
          const removed = await asked.call('DELETE', `/webhooks/${id}`);
          return removed.ok ? said({ object: 'webhook', id: uuidOf(id), deleted: true }) : removed;
        }),
    }),
    endpoint(deps, {
      ...{ method: 'POST', path: '/webhooks/:id/signing-secret/rotate', summary: 'Rotate the secret of a webhook' },
      handle: (asked) =>
        withId(asked, async (id) => {
          const rotated = await asked.call('POST', `/webhooks/${id}/rotate-secret`, { body: {} });
          if (!rotated.ok) return rotated;
          return said({ object: 'webhook', id: uuidOf(id), signing_secret: rotated.body.secret });
        }),
    }),
    ...eventEndpoints(deps),
  ];
}
