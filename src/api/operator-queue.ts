/** /operator/queue and /operator/destinations: queued mail and its destinations, and ending a pause. */
import type { Caller } from '../accounts/accounts.ts';
import { failure, refuse } from '../base/failure.ts';
import { resumeDestinationOperation } from '../delivery/delivery.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed } from '../http/validate.ts';
import { queueBody, queueSchema } from '../operator/bodies.ts';
import {
  compareKeys,
  type DestinationKey,
  type DestinationView,
  destinationBody,
  destinationSchema,
  keyOf,
  lastRepliesOf,
  ROWS_AT_MOST,
  readDestinations,
} from '../operator/destinations.ts';
import { type OperatorRouteDeps, operatorChanges, operatorRoute } from '../operator/operator-route.ts';
import { queueByAccountOperation } from '../operator/store.ts';

const UNKNOWN = 'No messages are queued for this destination, and it is not paused.';

export function queueRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock, nodes, isRelayed, queueDepth } = deps;
  const destinations = async (): Promise<DestinationView[]> =>
    readDestinations(database, await nodes.list(), { isRelayed });
  /** Finds it by its id, or by a domain of its recipients. */
  const find = async (id = ''): Promise<DestinationView | undefined> => {
    const all = await destinations();
    return all.find(({ key }) => key === id) ?? all.find(({ domains }) => domains.includes(id));
  };
  const show = async (view: DestinationView) => destinationBody(view, await lastRepliesOf(database, [view]));
  return [
    operatorRoute({
      method: 'GET',
      path: '/operator/queue',
      operationId: 'getQueue',
      summary: 'Get queue depth, in total and by account',
      description: 'Counts up to 50,000 messages, those that are due first; depth covers the complete queue.',
      response: { status: 200, schema: queueSchema },
      handle: async () => {
        const look = { nowMs: clock.now(), rows: ROWS_AT_MOST };
        const accounts = await database.execute(queueByAccountOperation, look);
        return answer(queueBody(accounts, { depth: queueDepth(), rows: ROWS_AT_MOST }));
      },
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/destinations',
      operationId: 'listDestinations',
      summary: 'List destinations, paused ones first, then by queue depth',
      description:
        'Every destination with mail among the first 50,000 messages of the queue, and those that are paused. A destination that changes its position between two pages may be listed twice, or not at all.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(destinationSchema) },
      handle: async (request) => {
        const page = readPage(request.query, ['number', 'number', 'string']);
        if (!page.ok) return page;
        const after = page.value.after as DestinationKey | undefined;
        const rows = (await destinations()).filter((one) => after === undefined || compareKeys(after, keyOf(one)) < 0);
        const replies = await lastRepliesOf(database, rows.slice(0, page.value.limit));
        return pageAnswer(request, { page: page.value, rows, keyOf, show: (one) => destinationBody(one, replies) });
      },
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/destinations/:id',
      operationId: 'getDestination',
      summary: 'Explain the sending rate of a destination',
      description: 'The fields of the list; `explanation` states what the limits allow, and which rule sets them.',
      response: { status: 200, schema: destinationSchema },
      refusals: ['NOT_FOUND'],
      handle: async (request) => {
        const known = await find(request.params.id);
        return known ? answer(await show(known)) : refuse(failure('NOT_FOUND', { message: UNKNOWN }));
      },
    }),
    operatorRoute({
      method: 'POST',
      path: '/operator/destinations/:id/resume',
      operationId: 'resumeDestination',
      summary: 'End the pause of a destination',
      description:
        'Applies on all nodes within two seconds: one session then probes the destination, and queued mail follows if it accepts. If it rejects again, it is paused again. The response shows the state before.',
      response: { status: 200, schema: destinationSchema },
      refusals: ['NOT_FOUND'],
      handle: async (request) => {
        const known = await find(request.params.id);
        if (known === undefined) return refuse(failure('NOT_FOUND', { message: UNKNOWN }));
        const changes = operatorChanges(deps, request, null);
        await changes.execute(resumeDestinationOperation, { destination: known.key, nowMs: clock.now() });
        return answer(await show(known));
      },
    }),
  ];
}
