/** `GET /requests`: refusals of the caller's account in the last 7 days, over HTTP and over SMTP. */
import { type Static, Type } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Issue } from '../base/failure.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { closed, isoTimeMs, named, oneOf } from '../http/validate.ts';
import type { Database } from '../storage/database.ts';
import type { RefusedRequests } from './recorder.ts';
import { KEPT_MS, listRefusedOperation, type RefusedRow } from './store.ts';

export interface RefusedRequestRouteDeps {
  database: Database;
  clock: Clock;
  refusedRequests: Pick<RefusedRequests, 'flush'>;
}

const time = (description: string) => Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description }));

const query = closed({
  source: Type.Optional(oneOf(['api', 'smtp'], { description: 'The protocol of the request.' })),
  code: Type.Optional(
    Type.String({ minLength: 1, maxLength: 64, description: 'One code, such as INVALID_REQUEST or 5.7.1.' }),
  ),
  since: time('Rejected at or after this time.'),
  until: time('Rejected at or before this time.'),
  ...pageFields,
});

const issueSchema = closed({
  field: Type.String(),
  message: Type.String(),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
});

const refusedRequestSchema = named('RefusedRequest', {
  requestId: Type.String({ description: 'Id of the response (X-Request-Id); for SMTP a generated id.' }),
  source: oneOf(['api', 'smtp']),
  time: Type.String({ format: 'date-time' }),
  endpoint: Type.Optional(Type.String({ description: 'Over HTTP: method and route.' })),
  verb: Type.Optional(
    Type.String({ description: 'Over SMTP: the command; absent if there was no command or an unknown one.' }),
  ),
  status: Type.Integer({ description: 'HTTP status, or the code of the SMTP reply.' }),
  code: Type.String({ description: 'Error code, or the enhanced code of the SMTP reply.' }),
  message: Type.String({ description: 'Without values of the request.' }),
  details: Type.Array(issueSchema),
  keyId: Type.Optional(Type.String({ description: 'Id of the API key.' })),
  smtpCredentialId: Type.Optional(Type.String({ description: 'Id of the SMTP credential.' })),
  address: Type.String({ description: 'IP address of the client.' }),
});

function show(row: RefusedRow): Static<typeof refusedRequestSchema> {
  const { requestId, source, at, call, status, code, message, details, credentialId, address } = row;
  const isApi = source === 'api';
  return {
    requestId,
    source: isApi ? 'api' : 'smtp',
    time: iso(at),
    ...(typeof call === 'string' && (isApi ? { endpoint: call } : { verb: call })),
    status,
    code,
    message,
    details: JSON.parse(details) as Issue[],
    ...(typeof credentialId === 'string' && (isApi ? { keyId: credentialId } : { smtpCredentialId: credentialId })),
    address,
  };
}

export function refusedRequestRoutes(deps: RefusedRequestRouteDeps): RouteDefinition<Caller>[] {
  return [
    defineRoute({
      method: 'GET',
      path: '/requests',
      tag: 'requests',
      auth: 'key',
      operationId: 'listRefusedRequests',
      summary: 'List rejected requests of the last 7 days, newest first',
      description:
        'Lists every response of 400 and above to a call with a valid key, every refused message of a batch, and every 4xx and 5xx reply in a logged-in SMTP session. Without bodies and secrets.',
      query,
      response: { status: 200, schema: Type.Array(refusedRequestSchema) },
      async handle(request: RouteRequest<Caller, undefined, Static<typeof query>>) {
        const page = readPage(request.query, ['number', 'number', 'req_']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        const { source = null, code = null, since, until } = request.query;
        const oldestMs = deps.clock.now() - KEPT_MS;
        // A client sees a refusal immediately after its response.
        await deps.refusedRequests.flush();
        const rows = await deps.database.execute(listRefusedOperation, {
          accountId: request.caller.account.id,
          mode: request.caller.mode,
          source,
          code,
          sinceMs: since === undefined ? oldestMs : Math.max(oldestMs, isoTimeMs(since)),
          untilMs: until === undefined ? null : isoTimeMs(until),
          before: after === undefined ? null : keyOf(after),
          limit: limit + 1,
        });
        return pageAnswer(request, {
          page: page.value,
          rows,
          show,
          keyOf: ({ at, number, requestId }) => [at, number, requestId],
        });
      },
    }),
  ];
}

function keyOf([at, number, requestId]: readonly (string | number)[]): Pick<RefusedRow, 'at' | 'number' | 'requestId'> {
  return { at: Number(at), number: Number(number), requestId: String(requestId) };
}
