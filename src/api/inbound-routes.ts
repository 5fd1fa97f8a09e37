/**
 * HTTP routes of `/inbound-routes`: the addresses of an account that receive mail. The Inbound events of a route are sent to its own
 * webhook, to the webhooks that subscribe to Inbound, or to both. A live route requires that the account has verified the domain or a
 * parent domain. The MX record of the domain is checked and reported but not required: mail that arrives is accepted.
 */
import type { Static } from 'typebox';
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { type Clock, iso, isoOrNull } from '../base/clock.ts';
import { type Failure, failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { listById, type PageQuery, pageFields } from '../http/paging.ts';
import { changeOf, merge, whileOutdated } from '../http/patch.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, named, oneOf } from '../http/validate.ts';
import { requiredDomainsOf } from '../inbound-routes/find-route.ts';
import { MAX_INBOUND_BYTES } from '../inbound-routes/inbound-routes.ts';
import { type Match, matchText, parseMatch } from '../inbound-routes/match.ts';
import { lookUpMx, MX_PREFERENCE, type MxSettings, mxNote } from '../inbound-routes/mx.ts';
import {
  createRouteOperation,
  findRouteOperation,
  type InboundRoute,
  listRoutesOperation,
  type MxCheck,
  type RouteFields,
  type RouteKey,
  type RouteRefusal,
  recordMxOperation,
  removeRouteOperation,
  replaceRouteOperation,
  type WriteResult,
} from '../inbound-routes/store.ts';
import { limitReached } from '../limits/limits.ts';
import type { Dns } from '../net/dns.ts';
import { urlIssue } from '../net/guarded-connector.ts';
import type { Database } from '../storage/database.ts';
import { dropDeliveriesOperation, newSealedSecret } from '../webhooks/webhooks.ts';

export interface InboundRouteDeps {
  database: Database;
  clock: Clock;
  /** The service's secret key, which seals the secrets of webhooks. */
  secretKey: Uint8Array;
  mx: MxSettings;
  /** Returns a resolver with an empty cache; the caller closes it. */
  freshDns(): Dns;
  /** Returns why a URL is refused, as the end of a sentence that starts with `url`. */
  checkUrl(url: string): Promise<string | undefined>;
}

type Request<B = undefined, Q = unknown> = RouteRequest<Caller, B, Q>;

/** Maximum number of webhook deliveries deleted per transaction. */
const DROP_BATCH = 5_000;
const nullableText = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength: 2_048, description });

const routeRequest = named('InboundRouteRequest', {
  match: Type.String({
    minLength: 3,
    maxLength: 320,
    description: 'support@in.shop.example, reply+*@in.shop.example, or *@in.shop.example.',
  }),
  url: Type.Optional(nullableText('URL that receives the events of this route: http or https, without credentials.')),
  events: Type.Optional(
    Type.Boolean({
      description:
        'Whether webhooks that subscribe to Inbound receive its events. Defaults to true if there is no url.',
    }),
  ),
  maxBytes: Type.Optional(
    Type.Integer({ minimum: 1_000, maximum: MAX_INBOUND_BYTES, description: 'Larger messages are rejected.' }),
  ),
});
type Fields = Static<typeof routeRequest>;
const routeChange = changeOf('InboundRouteChange', routeRequest);

const time = Type.String({ format: 'date-time' });
const routeShape = {
  inboundRouteId: Type.String(),
  match: Type.String(),
  url: nullableText('URL that receives the events of this route.'),
  webhookId: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'Id of the webhook that sends to url. Use it to list deliveries, rotate the secret, and resend.',
  }),
  events: Type.Boolean(),
  maxBytes: Type.Integer(),
  mode: oneOf(['live', 'sandbox']),
  status: oneOf(['pending', 'active'], {
    description:
      'active: the MX record of the domain points to this service. Messages that arrive are accepted in both states.',
  }),
  dnsRecord: named('InboundDnsRecord', {
    type: oneOf(['MX']),
    name: Type.String(),
    value: Type.String(),
    priority: Type.Integer(),
    status: oneOf(['verified', 'missing', 'different', 'unknown', 'pending']),
    found: Type.Unsafe<string[] | null>({ type: ['array', 'null'], items: { type: 'string' } }),
    note: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'One sentence that explains what to do.',
    }),
  }),
  checkedAt: Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' }),
  createdAt: time,
  updatedAt: time,
};
const routeSchema = named('InboundRoute', routeShape);
const writtenSchema = named('InboundRouteWritten', {
  ...routeShape,
  secret: Type.Optional(
    Type.String({ description: 'Secret that signs requests to url. Returned only when the webhook is created.' }),
  ),
});

const noSuchRoute = refuse(failure('NOT_FOUND', { message: 'No inbound route has this id.' }));

const REFUSALS: Record<RouteRefusal, Failure> = {
  'domain-not-verified': failure('SENDER_NOT_VERIFIED', {
    message:
      'This account has not verified the domain of match or a parent domain. Add it with POST /domains and verify it.',
    details: [{ field: 'match', message: 'must be in a verified domain of this account' }],
  }),
  taken: failure('CONFLICT', { message: 'Another inbound route of this account already has this match.' }),
  'taken-elsewhere': failure('CONFLICT', {
    message: 'An inbound route of another account that has also verified the domain already has this match.',
  }),
};

export function inboundRouteRoutes(deps: InboundRouteDeps): RouteDefinition<Caller>[] {
  return [...readRoutes(deps), ...writeRoutes(deps), removeRoute(deps), verifyRoute(deps)];
}

function keyOf({ caller, params }: Request<unknown>): RouteKey {
  return { ...ownerOf({ caller }), id: params.id ?? '' };
}

function createBody({ mx }: InboundRouteDeps): (route: InboundRoute) => Record<string, unknown> {
  return (route) => {
    const found = route.mxFound === null ? null : (JSON.parse(route.mxFound) as string[] | null);
    const record = { type: 'MX', name: route.domain, value: mx.host, priority: MX_PREFERENCE, status: route.mxStatus };
    return {
      inboundRouteId: route.id,
      match: matchText(route),
      url: route.url,
      webhookId: route.webhookId,
      events: route.events === 1,
      maxBytes: route.maxBytes,
      mode: route.mode,
      status: route.mode === 'sandbox' || route.mxStatus === 'verified' ? 'active' : 'pending',
      dnsRecord: { ...record, found, note: mxNote(route.domain, { status: route.mxStatus, found }, mx.host) },
      checkedAt: isoOrNull(route.checkedAt),
      createdAt: iso(route.createdAt),
      updatedAt: iso(route.updatedAt),
    };
  };
}

function readRoutes(deps: InboundRouteDeps): RouteDefinition<Caller>[] {
  const { database } = deps;
  const body = createBody(deps);
  return [
    defineRoute({
      method: 'GET',
      path: '/inbound-routes',
      tag: 'inbound',
      access: { auth: 'key' },
      operationId: 'listInboundRoutes',
      summary: 'List inbound routes, newest first',
      description: 'Lists the routes in the mode of the key, each with its MX record and the result of the last check.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(routeSchema) },
      handle: (request: Request<undefined, PageQuery>) =>
        listById(request, {
          prefix: 'inr_',
          read: (page) => database.execute(listRoutesOperation, { ...ownerOf(request), ...page }),
          show: body,
        }),
    }),
    defineRoute({
      method: 'GET',
      path: '/inbound-routes/:id',
      tag: 'inbound',
      access: { auth: 'key' },
      operationId: 'getInboundRoute',
      summary: 'Get an inbound route',
      description: 'Includes its MX record and the result of the last check.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: routeSchema },
      async handle(request: Request) {
        const found = await database.execute(findRouteOperation, keyOf(request));
        return found ? answer(body(found)) : noSuchRoute;
      },
    }),
  ];
}

function matchIssues({ match }: { match?: string }): Issue[] {
  const parsed = match === undefined ? undefined : parseMatch(match);
  return parsed === undefined || parsed.ok ? [] : [{ field: 'match', message: parsed.reason }];
}

function furtherIssues({ url, ...fields }: Partial<Fields>): Issue[] {
  const issue = url == null ? undefined : urlIssue(url);
  return [...matchIssues(fields), ...(issue === undefined ? [] : [{ field: 'url', message: issue }])];
}

/**
 * Checks the rules that a schema cannot express; returns the match in its stored form. The host of an unchanged URL is not looked up again.
 */
async function validate(
  deps: InboundRouteDeps,
  { match, url }: Fields,
  current?: InboundRoute,
): Promise<Result<Match>> {
  const parsed = parseMatch(match);
  const refused = url == null || url === current?.url ? undefined : await deps.checkUrl(url);
  if (parsed.ok && refused === undefined) return ok(parsed.match);
  return refuse(
    invalid([...matchIssues({ match }), ...(refused === undefined ? [] : [{ field: 'url', message: refused }])]),
  );
}

/** Returns the current DNS state; in the sandbox nothing is looked up. */
async function lookUp({ freshDns, clock, mx }: InboundRouteDeps, { mode }: RouteKey, domain: string): Promise<MxCheck> {
  if (mode === 'sandbox') return { status: 'pending', found: null, checkedAt: null };
  const dns = freshDns();
  try {
    return { ...(await lookUpMx(dns, domain, mx)), checkedAt: clock.now() };
  } finally {
    dns.close();
  }
}

/** Returns the stored fields of a route in the form of a PUT body. */
function storedFields(route: InboundRoute): Fields {
  return { match: matchText(route), url: route.url, events: route.events === 1, maxBytes: route.maxBytes };
}

function writeRoutes(deps: InboundRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock, secretKey } = deps;
  const body = createBody(deps);
  const fieldsOf = async (key: RouteKey, fields: Fields, match: Match) => {
    const { url = null, events = url === null, maxBytes = MAX_INBOUND_BYTES } = fields;
    const nowMs = clock.now();
    const requiredDomains = requiredDomainsOf(match.domain, nowMs);
    const webhookId = newId('whk', nowMs);
    const { secret, secretSealed } = newSealedSecret(secretKey, webhookId);
    const endpoint: RouteFields['endpoint'] = url === null ? null : { id: webhookId, url, secretSealed };
    return {
      secret,
      webhookId,
      toWrite: {
        ...key,
        ...match,
        events,
        maxBytes,
        endpoint,
        nowMs,
        requiredDomains,
        mx: await lookUp(deps, key, match.domain),
      },
    };
  };
  const write = async (
    request: Request<unknown>,
    { key, fields, current }: { key: RouteKey; fields: Fields; current?: InboundRoute },
  ): Promise<RouteAnswer | 'outdated'> => {
    const valid = await validate(deps, fields, current);
    if (!valid.ok) return valid;
    const { toWrite, secret, webhookId } = await fieldsOf(key, fields, valid.value);
    const changes = requestedChanges(database, request, clock.now());
    const written: WriteResult | 'outdated' | undefined = await (current === undefined
      ? changes.execute(createRouteOperation, toWrite)
      : changes.execute(replaceRouteOperation, { ...toWrite, basis: current }));
    if (written === undefined) return noSuchRoute;
    if (written === 'outdated') return written;
    if ('limit' in written) return refuse(limitReached(written));
    if ('refused' in written) return refuse(REFUSALS[written.refused]);
    return answer({ ...body(written), ...(written.webhookId === webhookId && { secret }) });
  };
  const replace = (request: Request<unknown>, fieldsFor: (current: InboundRoute) => Fields) =>
    whileOutdated(async () => {
      const key = keyOf(request);
      const current = await database.execute(findRouteOperation, key);
      return current ? write(request, { key, fields: fieldsFor(current), current }) : noSuchRoute;
    });
  const shared = { tag: 'inbound', access: { auth: 'key' } } as const;
  return [
    defineRoute({
      ...shared,
      method: 'POST',
      path: '/inbound-routes',
      body: { schema: routeRequest, furtherIssues },
      operationId: 'createInboundRoute',
      summary: 'Create an inbound route',
      description:
        'Mail that matches becomes an Inbound event, which is posted to url (signed with the secret in this response) or sent to the webhooks that subscribe to Inbound. An address takes precedence over a prefix, and a prefix over *. Publish the MX record in dnsRecord.',
      refusals: ['SENDER_NOT_VERIFIED', 'CONFLICT', 'LIMIT_REACHED'],
      response: { status: 201, schema: writtenSchema },
      handle: (request: Request<Fields>) =>
        whileOutdated(() =>
          write(request, { key: { ...keyOf(request), id: newId('inr', clock.now()) }, fields: request.body }),
        ),
    }),
    defineRoute({
      ...shared,
      method: 'PUT',
      path: '/inbound-routes/:id',
      body: { schema: routeRequest, furtherIssues },
      operationId: 'replaceInboundRoute',
      summary: 'Replace an inbound route',
      description:
        'Replaces the complete route. An existing webhook keeps its secret if the new route has a url. The secret of a new webhook is in this response.',
      refusals: ['NOT_FOUND', 'SENDER_NOT_VERIFIED', 'CONFLICT', 'LIMIT_REACHED'],
      response: { status: 200, schema: writtenSchema },
      handle: (request: Request<Fields>) => replace(request, () => request.body),
    }),
    defineRoute({
      ...shared,
      method: 'PATCH',
      path: '/inbound-routes/:id',
      body: { schema: routeChange, furtherIssues },
      operationId: 'updateInboundRoute',
      summary: 'Change fields of an inbound route',
      description:
        'Changes the fields in the request; omitted fields and null leave the stored value. To remove url, replace the route with PUT. The secret of a new webhook is in this response.',
      refusals: ['NOT_FOUND', 'SENDER_NOT_VERIFIED', 'CONFLICT', 'LIMIT_REACHED'],
      response: { status: 200, schema: writtenSchema },
      handle: (request: Request<Static<typeof routeChange>>) =>
        replace(request, (current) => merge(storedFields(current), request.body)),
    }),
  ];
}

function removeRoute({ database, clock }: InboundRouteDeps): RouteDefinition<Caller> {
  return defineRoute({
    method: 'DELETE',
    path: '/inbound-routes/:id',
    tag: 'inbound',
    access: { auth: 'key' },
    operationId: 'deleteInboundRoute',
    summary: 'Delete an inbound route and its webhook',
    description: 'New mail for it is rejected. Messages already received stay in GET /inbound.',
    refusals: ['NOT_FOUND'],
    response: { status: 200, schema: confirmationSchema },
    async handle(request: Request) {
      const removed = await requestedChanges(database, request, clock.now()).execute(
        removeRouteOperation,
        keyOf(request),
      );
      if (removed === null) return noSuchRoute;
      const { webhookId } = removed;
      if (webhookId !== null)
        while ((await database.execute(dropDeliveriesOperation, { webhookId, limit: DROP_BATCH })) === DROP_BATCH);
      return answer({ message: 'Inbound route deleted.' });
    },
  });
}

function verifyRoute(deps: InboundRouteDeps): RouteDefinition<Caller> {
  const { database, clock } = deps;
  const body = createBody(deps);
  return defineRoute({
    method: 'POST',
    path: '/inbound-routes/:id/verify',
    tag: 'inbound',
    access: { auth: 'key' },
    body: { schema: closed({}), optional: true },
    operationId: 'verifyInboundRoute',
    summary: 'Verify an inbound route by its MX record',
    description: 'Checks the MX record and returns the route with the result. Nothing is looked up in the sandbox.',
    refusals: ['NOT_FOUND'],
    response: { status: 200, schema: routeSchema },
    async handle(request: Request<object>) {
      const key = keyOf(request);
      const route = await database.execute(findRouteOperation, key);
      if (!route) return noSuchRoute;
      const mx = await lookUp(deps, key, route.domain);
      const checked = await requestedChanges(database, request, clock.now()).execute(recordMxOperation, { ...key, mx });
      return checked ? answer(body(checked)) : noSuchRoute;
    },
  });
}
