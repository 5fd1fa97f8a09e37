/**
 * Defines the `/incidents` routes, which list ongoing failures with advice and the affected messages, and retry all messages of one
 * failure.
 */
import type { Static, TSchema } from 'typebox';
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { recordChangeOperation, requestedChanges } from '../audit/audit.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { type Page, pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import { type BouncedIncident, type DelayedIncident, INCIDENT_ID, type Incident } from '../incidents/incident.ts';
import { bouncedIdOf, createIncidents, type Incidents } from '../incidents/incidents.ts';
import { type RetryOptions, retryIncident } from '../incidents/retry.ts';
import { affectedOperation } from '../incidents/store.ts';
import { createSandboxClock } from '../sandbox/sandbox.ts';
import type { Database } from '../storage/database.ts';

export interface IncidentRouteDeps {
  database: Database;
  clock: Clock;
  /** Wakes delivery and webhooks. */
  nudge(): void;
}

type Request<Q = unknown> = RouteRequest<Caller, undefined, Q>;

const orNull = (schema: TSchema) => Type.Union([schema, Type.Null()]);
const listQuery = closed(pageFields);
const owner = oneOf(['recipient', 'sender', 'service', 'remote'], {
  description: 'The party that can fix the problem.',
});
const times = {
  since: Type.String({ format: 'date-time' }),
  lastAt: Type.String({ format: 'date-time', description: 'Time of the last failure.' }),
};
const incidentIdField = Type.String({ description: 'Id of the incident, stable while it lasts.' });

const deliveryShape = {
  incidentId: incidentIdField,
  kind: oneOf(['delivery']),
  state: oneOf(['delayed', 'bounced'], {
    description: 'delayed: retried automatically. bounced: in the last 24 hours.',
  }),
  destination: Type.String({ description: 'The domain of the recipients.' }),
  smtpCode: orNull(Type.Integer()),
  enhancedCode: orNull(Type.String()),
  reply: orNull(
    Type.String({
      description: 'Server reply to one of the messages. The replies to the others differ only in numbers and ids.',
    }),
  ),
  category: Type.String({ description: 'Failure category, as in events.' }),
  owner,
  advice: Type.String({ description: 'How to fix the problem.' }),
  messages: Type.Integer({ description: 'Number of messages.' }),
  ...times,
  nextAttemptAt: Type.Optional(
    Type.String({ format: 'date-time', description: 'Time of the first next attempt among the messages.' }),
  ),
  sampleMessageIds: Type.Array(Type.String()),
};
const affectedSchema = closed({
  messageId: Type.String(),
  to: Type.String(),
  status: Type.String({ description: 'Status of the message, as in GET /messages.' }),
  failedAt: Type.String({ format: 'date-time' }),
  nextAttemptAt: Type.Optional(Type.String({ format: 'date-time' })),
});
const webhookSchema = named('WebhookIncident', {
  incidentId: incidentIdField,
  kind: oneOf(['webhook']),
  state: oneOf(['failing', 'disabled']),
  webhookId: Type.String(),
  host: Type.String(),
  deliveries: Type.Integer({ description: 'Failed deliveries among the newest 1,000.' }),
  lastStatus: orNull(Type.Integer({ description: 'HTTP status of the last response.' })),
  lastError: orNull(Type.String()),
  disabledReason: Type.Optional(Type.String()),
  owner,
  advice: Type.String(),
  ...times,
});
const domainSchema = named('DomainIncident', {
  incidentId: incidentIdField,
  kind: oneOf(['domain']),
  state: oneOf(['failing']),
  domainId: Type.String(),
  domain: Type.String(),
  record: closed({ type: Type.String(), name: Type.String() }, { description: 'The DNS record that is missing.' }),
  owner,
  advice: Type.String(),
  ...times,
});
const reputationSchema = named('ReputationIncident', {
  incidentId: incidentIdField,
  kind: oneOf(['reputation']),
  state: oneOf(['warned', 'held'], {
    description: 'held: live mail is queued until an owner or the operator releases it.',
  }),
  rate: orNull(Type.String({ description: 'The rate that is too high: bounceRate or complaintRate.' })),
  owner,
  reason: orNull(Type.String({ description: 'The rate and its thresholds when the state changed.' })),
  advice: Type.String(),
  ...times,
});
const incidentSchema = Type.Union([
  named('DeliveryIncident', deliveryShape),
  webhookSchema,
  domainSchema,
  reputationSchema,
]);
const detailSchema = Type.Union([
  named('DeliveryIncidentDetail', { ...deliveryShape, affectedMessages: Type.Array(affectedSchema) }),
  webhookSchema,
  domainSchema,
  reputationSchema,
]);
const retriedSchema = named('IncidentRetried', { retried: Type.Integer(), message: Type.String() });

const noSuchIncident = refuse(failure('NOT_FOUND', { message: 'No incident has this id, or the incident has ended.' }));

export function incidentRoutes({ database, clock, nudge }: IncidentRouteDeps): RouteDefinition<Caller>[] {
  const { clockOffsetMs } = createSandboxClock({ database, clock });
  const incidents = createIncidents({ database, clockOffsetMs, nowMs: () => clock.now() });
  const find = (request: Request): Promise<Incident | undefined> => {
    const id = request.params.id ?? '';
    return INCIDENT_ID.test(id) ? incidents.find(ownerOf(request), id) : Promise.resolve(undefined);
  };
  return [
    defineRoute({
      method: 'GET',
      path: '/incidents',
      tag: 'incidents',
      access: { auth: 'key' },
      operationId: 'listIncidents',
      summary: 'List current incidents, most severe first',
      description:
        'Delayed and bounced messages by destination and reply, failing webhooks and domains, and live mail held by sending protection; each with advice on what to do.',
      query: listQuery,
      response: { status: 200, schema: Type.Array(incidentSchema) },
      async handle(request: Request<Static<typeof listQuery>>) {
        const page = readPage(request.query, ['number', 'string']);
        if (!page.ok) return page;
        const rows = pageOf(await incidents.list(ownerOf(request)), page.value);
        const bodies = await incidents.show(ownerOf(request), rows.slice(0, page.value.limit));
        const shown = new Map(bodies.map((body) => [body.incidentId, body]));
        // An incident that has ended since is omitted from the response, but still counts for the page.
        const listed = pageAnswer(request, {
          page: page.value,
          rows,
          keyOf: ({ weight, incidentId }) => [weight, incidentId],
          show: ({ incidentId }) => shown.get(incidentId),
        });
        return { ...listed, body: (listed.body as unknown[]).filter((one) => one !== undefined) };
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/incidents/:id',
      tag: 'incidents',
      access: { auth: 'key' },
      operationId: 'getIncident',
      summary: 'Get an incident with its messages',
      description: 'Includes a page of the affected messages, newest first. Returns 404 after the incident has ended.',
      query: listQuery,
      response: { status: 200, schema: detailSchema },
      async handle(request: Request<Static<typeof listQuery>>) {
        const found = await find(request);
        const [body] = found ? await incidents.show(ownerOf(request), [found]) : [];
        if (!found || !body) return noSuchIncident;
        if (found.kind === 'delayed') return delayedDetail(database, request, { found, body });
        if (found.kind === 'bounced') return bouncedDetail(incidents, request, { found, body });
        return answer(body);
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/incidents/:id/retry',
      tag: 'incidents',
      access: { auth: 'key' },
      operationId: 'retryIncident',
      summary: 'Retry all messages of an incident now',
      description:
        'Makes the messages due immediately. Pauses and limits of the destination still apply. For a webhook, sends the failed deliveries again. One call retries up to 50,000 messages.',
      body: { schema: closed({}), optional: true },
      refusals: ['CONFLICT'],
      response: { status: 200, schema: retriedSchema },
      async handle(request: RouteRequest<Caller, object>) {
        const found = await find(request as unknown as Request);
        if (!found) return noSuchIncident;
        const owner = ownerOf(request as unknown as Request);
        const offsetMs = owner.mode === 'live' ? 0 : await clockOffsetMs(owner.accountId);
        const nowMs = clock.now();
        const onChange: RetryOptions['onChange'] = (requested) =>
          requestedChanges(database, request, nowMs).execute(recordChangeOperation, {
            action: 'incident.retry',
            resourceId: found.incidentId,
            requested,
          });
        const retried = await retryIncident({ database, owner, nowMs, clockOffsetMs: offsetMs, onChange }, found);
        if (!retried.ok) return retried;
        nudge();
        return answer(retried.value);
      },
    }),
  ];
}

/** Returns one incident more than the page holds, which shows whether there is a next page. */
function pageOf(all: readonly Incident[], { after, limit }: Page): Incident[] {
  if (after === undefined) return all.slice(0, limit + 1);
  const [weight, id] = [Number(after[0]), String(after[1])];
  return all.filter((one) => one.weight < weight || (one.weight === weight && one.incidentId < id)).slice(0, limit + 1);
}

interface Found<I> {
  found: I;
  body: Record<string, unknown>;
}

async function delayedDetail(
  database: Database,
  request: Request<Static<typeof listQuery>>,
  { found, body }: Found<DelayedIncident>,
) {
  const page = readPage(request.query, ['number']);
  if (!page.ok) return page;
  const { after, limit } = page.value;
  const rows = await database.execute(affectedOperation, {
    ...ownerOf(request),
    cause: found.cause,
    before: after === undefined ? null : Number(after[0]),
    limit: limit + 1,
  });
  const listed = pageAnswer(request, {
    page: page.value,
    rows,
    keyOf: ({ seq }) => [seq],
    show: ({ messageId, recipient: to, status, leased, failedAtMs, nextAttemptAtMs }) => ({
      messageId,
      to,
      status: leased > 0 ? 'sending' : status,
      failedAt: iso(failedAtMs),
      ...(nextAttemptAtMs !== null && { nextAttemptAt: iso(nextAttemptAtMs) }),
    }),
  });
  return { ...listed, body: { ...body, affectedMessages: listed.body } };
}

async function bouncedDetail(
  incidents: Incidents,
  request: Request<Static<typeof listQuery>>,
  { found, body }: Found<BouncedIncident>,
) {
  const page = readPage(request.query, ['number', 'number']);
  if (!page.ok) return page;
  const { after, limit } = page.value;
  const from = after === undefined ? null : { position: Number(after[0]), seq: Number(after[1]) };
  const rows: { position: number; seq: number; messageId: string; recipient: string; at: number }[] = [];
  await incidents.bounces(ownerOf(request), from, (row, bounce) => {
    if (bouncedIdOf(row, bounce) === found.incidentId) rows.push(row);
    return rows.length <= limit;
  });
  const listed = pageAnswer(request, {
    page: page.value,
    rows,
    keyOf: ({ position, seq }) => [position, seq],
    show: ({ messageId, recipient: to, at }) => ({ messageId, to, status: 'bounced', failedAt: iso(at) }),
  });
  return { ...listed, body: { ...body, affectedMessages: listed.body } };
}
