/** `GET /requests`: the requests of the caller's account in the last 30 days; of those over SMTP, the rejected commands. */
import type { Static } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Issue } from '../base/failure.ts';
import { timeOfId } from '../base/ids.ts';
import { type PageKey, pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { defineRoute, type JsonAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, isoTimeMs, named, oneOf } from '../http/validate.ts';
import type { RequestLog } from '../request-log/recorder.ts';
import {
  type Key,
  listRequestsOperation,
  METHODS,
  omittedRequestsOperation,
  type RequestPage,
  type RequestRow,
  searchRequestsOperation,
} from '../request-log/store.ts';
import type { Database } from '../storage/database.ts';
import type { Found, Searches } from '../storage/searches.ts';

export interface RequestLogRouteDeps {
  database: Database;
  clock: Clock;
  searches: Searches;
  requestLog: Pick<RequestLog, 'flush'>;
  /** How long requests are kept. */
  keepDays: number;
}

const DAY_MS = 86_400_000;
const OMITTED = 'X-Omitted-Requests';
/** A message is accepted at most this long after its request arrived. */
const ACCEPTED_WITHIN_MS = 900_000;
/** The clock may have been adjusted between the arrival and the acceptance. */
const SLACK_MS = 5_000;

const time = (description: string) => Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description }));
const text = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description }));

const query = closed({
  status: Type.Optional(
    Type.String({
      pattern: '^(failed|succeeded|all|[1-5]xx|[1-5][0-9]{2})$',
      phrase: 'must be failed, succeeded, all, a class such as 4xx, or a status',
      description:
        '`failed` (400 and above; the default without messageId), `succeeded` (below 400), `all`, a class such as `4xx`, or one status.',
    }),
  ),
  method: Type.Optional(oneOf([...METHODS], { description: 'The HTTP method.' })),
  route: text(200, 'One route, such as `/messages/:id`.'),
  keyId: text(64, 'Requests of one API key or SMTP credential.'),
  messageId: text(64, 'The request that accepted this message; of a batch, only its first message is found.'),
  source: Type.Optional(oneOf(['api', 'smtp'], { description: 'The protocol of the request.' })),
  code: text(64, 'One error code, such as INVALID_REQUEST or 5.7.1.'),
  since: time('Received at or after this time.'),
  until: time('Received at or before this time.'),
  ...pageFields,
});
type RequestQuery = Static<typeof query>;

const issueSchema = closed({
  field: Type.String(),
  code: Type.Optional(Type.String({ description: 'As in the details of the response.' })),
  message: Type.String(),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
});

const loggedRequestSchema = named('LoggedRequest', {
  requestId: Type.String({ description: 'Id of the response (X-Request-Id); for SMTP a generated id.' }),
  source: oneOf(['api', 'smtp']),
  time: Type.String({ format: 'date-time', description: 'When the request arrived.' }),
  endpoint: Type.Optional(Type.String({ description: 'Over HTTP: method and route.' })),
  path: Type.Optional(
    Type.String({
      description: 'Over HTTP: the path with its ids. Other values, such as addresses, are not recorded.',
    }),
  ),
  verb: Type.Optional(
    Type.String({ description: 'Over SMTP: the command; absent if there was no command or an unknown one.' }),
  ),
  status: Type.Integer({ description: 'HTTP status, or the code of the SMTP reply.' }),
  durationMs: Type.Optional(Type.Integer({ description: 'Over HTTP: time from the arrival to the response.' })),
  code: Type.Optional(
    Type.String({ description: 'If it failed: error code, or the enhanced code of the SMTP reply.' }),
  ),
  message: Type.Optional(Type.String({ description: 'If it failed: without values of the request.' })),
  details: Type.Optional(Type.Array(issueSchema)),
  messageId: Type.Optional(Type.String({ description: 'The first message that the request accepted.' })),
  keyId: Type.Optional(Type.String({ description: 'Id of the API key.' })),
  smtpCredentialId: Type.Optional(Type.String({ description: 'Id of the SMTP credential.' })),
  address: Type.String({ description: 'IP address of the client.' }),
  userAgent: Type.Optional(Type.String({ description: 'Truncated to 200 bytes.' })),
});

function show(row: RequestRow): Static<typeof loggedRequestSchema> {
  const { requestId, source, at, call, path, status, code, message, details, durationMs, messageId, credentialId } =
    row;
  const isApi = source === 'api';
  return {
    requestId,
    source: isApi ? 'api' : 'smtp',
    time: iso(at),
    ...(typeof call === 'string' && (isApi ? { endpoint: call } : { verb: call })),
    ...(isApi && typeof call === 'string' && { path: path ?? call.slice(call.indexOf(' ') + 1) }),
    status,
    ...(typeof durationMs === 'number' && { durationMs }),
    ...(typeof code === 'string' && { code }),
    ...(typeof message === 'string' && { message }),
    ...(typeof details === 'string' && { details: JSON.parse(details) as Issue[] }),
    ...(typeof messageId === 'string' && { messageId }),
    ...(typeof credentialId === 'string' && (isApi ? { keyId: credentialId } : { smtpCredentialId: credentialId })),
    address: row.address,
    ...(typeof row.userAgent === 'string' && { userAgent: row.userAgent }),
  };
}

/** Returns what the filter by status means for the page. */
function statusOf({ status, messageId }: RequestQuery): Pick<RequestPage, 'failed' | 'statuses'> {
  if (status === 'all' || (status === undefined && messageId !== undefined)) return { failed: null, statuses: null };
  if (status === undefined) return { failed: true, statuses: null };
  if (status === 'failed' || status === 'succeeded') return { failed: status === 'failed', statuses: null };
  const lowest = status.endsWith('xx') ? Number(status[0]) * 100 : Number(status);
  return { failed: lowest >= 400, statuses: [lowest, status.endsWith('xx') ? lowest + 99 : lowest] };
}

function pageOf(
  { caller, query: asked }: RouteRequest<Caller, undefined, RequestQuery>,
  { oldestMs, before, limit }: { oldestMs: number; before: Key | null; limit: number },
): RequestPage {
  const { method = null, route, keyId = null, messageId = null, source = null, code = null, since, until } = asked;
  const status = statusOf(asked);
  // In the sandbox, ids do not follow time.
  const acceptedMs = messageId !== null && caller.mode === 'live' ? timeOfId(messageId) : undefined;
  const latestMs = [until === undefined ? [] : isoTimeMs(until), acceptedMs === undefined ? [] : acceptedMs + SLACK_MS];
  const earliestMs = acceptedMs === undefined ? oldestMs : acceptedMs - ACCEPTED_WITHIN_MS;
  const untilMs = Math.min(...latestMs.flat());
  return {
    accountId: caller.account.id,
    mode: caller.mode,
    ...status,
    // Only failed requests have a code, and of SMTP sessions only failed commands are recorded.
    failed: status.failed ?? (code !== null || source === 'smtp' ? true : null),
    method,
    // As in openapi.json.
    route: route?.replaceAll(/\{([^/{}]+)\}/g, ':$1') ?? null,
    credentialId: keyId,
    messageId,
    source,
    code,
    sinceMs: Math.max(oldestMs, earliestMs, since === undefined ? 0 : isoTimeMs(since)),
    untilMs: Number.isFinite(untilMs) ? untilMs : null,
    before,
    limit,
  };
}

/** Returns whether the filter may have to skip most rows: failed requests are few, and have their own index. */
function isSearch({ failed, statuses, source, method, route, credentialId, messageId }: RequestPage): boolean {
  if (failed === true) return false;
  return failed !== null || [statuses, source, method, route, credentialId, messageId].some((one) => one !== null);
}

async function readRows(
  { database, searches }: RequestLogRouteDeps,
  page: RequestPage,
  signal: AbortSignal,
): Promise<Found<RequestRow, Key>> {
  if (!isSearch(page)) return { rows: await database.execute(listRequestsOperation, page), stoppedAt: null };
  return searches.run<RequestRow, Key>({
    accountId: page.accountId,
    limit: page.limit,
    from: page.before,
    signal,
    read: ({ from, rows, limit }) =>
      database.execute(searchRequestsOperation, { page: { ...page, before: from, limit }, rows }),
  });
}

const placeOf = ({ at, number, requestId }: Key): PageKey => [at, number, requestId];

function keyOf([at, number, requestId]: PageKey): Key {
  return { at: Number(at), number: Number(number), requestId: String(requestId) };
}

function withOmitted(answer: JsonAnswer, omitted: number): JsonAnswer {
  return { ...answer, headers: { ...answer.headers, [OMITTED]: String(omitted) } };
}

export function requestLogRoutes(deps: RequestLogRouteDeps): RouteDefinition<Caller>[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/requests',
      tag: 'requests',
      access: { auth: 'key' },
      operationId: 'listRequests',
      summary: 'List requests of the last 30 days, newest first',
      description:
        'Lists failed calls with a valid key, rejected messages of batches, and 4xx and 5xx replies in logged-in SMTP sessions; with `status`, successful calls too. Without bodies and secrets. X-Omitted-Requests counts successful requests of the period that were not recorded, because there were too many.',
      query,
      response: { status: 200, schema: Type.Array(loggedRequestSchema), headers: [OMITTED] },
      async handle(request: RouteRequest<Caller, undefined, RequestQuery>) {
        const page = readPage(request.query, ['number', 'number', 'req_']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        // A client sees its requests immediately after their responses.
        await deps.requestLog.flush();
        const requested = pageOf(request, {
          oldestMs: deps.clock.now() - deps.keepDays * DAY_MS,
          before: after === undefined ? null : keyOf(after),
          limit: limit + 1,
        });
        const { rows, stoppedAt } = await readRows(deps, requested, request.signal);
        const omitted = await deps.database.execute(omittedRequestsOperation, requested);
        const answer = pageAnswer(request, {
          page: page.value,
          rows,
          stoppedAt: stoppedAt && placeOf(stoppedAt),
          show,
          keyOf: placeOf,
        });
        return withOmitted(answer, omitted);
      },
    }),
  ];
}
