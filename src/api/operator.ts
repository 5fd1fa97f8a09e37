/**
 * The operator's HTTP surface: every route requires a logged-in operator or an operator key, and every change is recorded in the audit log
 * in the name of that operator or key.
 */
import type { Caller } from '../accounts/accounts.ts';
import { pageFields, pageOfWhole } from '../http/paging.ts';
import type { RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed } from '../http/validate.ts';
import { diagnosisSchema, nodeBody, nodeSchema } from '../operator/bodies.ts';
import { type OperatorRouteDeps, operatorRoute } from '../operator/operator-route.ts';
import { accountRoutes } from './operator-accounts.ts';
import { approvalRoutes } from './operator-approvals.ts';
import { keyRoutes } from './operator-keys.ts';
import { postmasterRoutes } from './operator-postmaster.ts';
import { queueRoutes } from './operator-queue.ts';

export function operatorRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  return [
    ...accountRoutes(deps),
    ...approvalRoutes(deps),
    ...keyRoutes(deps),
    ...queueRoutes(deps),
    ...postmasterRoutes(deps),
    ...serviceRoutes(deps),
  ];
}

function serviceRoutes({ nodes, doctor }: OperatorRouteDeps): RouteDefinition<Caller>[] {
  return [
    operatorRoute({
      method: 'GET',
      path: '/operator/nodes',
      operationId: 'listNodes',
      summary: 'List the nodes that share the database',
      description: 'The nodes with a heartbeat in the last ten seconds: version, roles, and work in progress.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(nodeSchema) },
      handle: async (request) =>
        pageOfWhole(request, {
          rows: await nodes.list(),
          order: 'ascending',
          shape: ['string'],
          keyOf: ({ id }) => [id],
          show: nodeBody,
        }),
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/doctor',
      operationId: 'examineService',
      summary: 'Run the doctor checks',
      description:
        'The report of `postrider doctor` on the node that responds: settings, disks, certificates, backup, database, content store, DNS, outbound connectivity, source addresses, the clock, and sender domains. At most 30 seconds old; successful checks of remote servers, at most ten minutes.',
      response: { status: 200, schema: diagnosisSchema },
      handle: async () => ({ ok: true, body: await doctor() }),
    }),
  ];
}
