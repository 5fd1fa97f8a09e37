/**
 * The operator's HTTP surface: every route is for signed-in operators alone, and everything they change leaves a row in the audit
 * log in their name.
 */
import { Type } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import type { RouteDefinition } from '../http/route.ts';
import { diagnosisSchema, nodeBody, nodeSchema } from './bodies.ts';
import { type OperatorRouteDeps, operatorRoute } from './operator-route.ts';
import { accountRoutes } from './routes-accounts.ts';
import { approvalRoutes } from './routes-approvals.ts';
import { postmasterRoutes } from './routes-postmaster.ts';
import { queueRoutes } from './routes-queue.ts';

export function operatorRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  return [
    ...accountRoutes(deps),
    ...approvalRoutes(deps),
    ...queueRoutes(deps),
    ...postmasterRoutes(deps),
    ...serviceRoutes(deps),
  ];
}

function serviceRoutes({ nodes, doctor }: OperatorRouteDeps): RouteDefinition<Caller>[] {
  return [
    operatorRoute({
      ...{ method: 'GET', path: '/operator/nodes' },
      operationId: 'listNodes',
      summary: 'List the nodes that share the database',
      description:
        'Each that gave a sign of life in the last ten seconds: its version, its roles, what it has in its hands.',
      response: { status: 200, schema: Type.Array(nodeSchema) },
      handle: async () => ({ ok: true, body: (await nodes.list()).map(nodeBody) }),
    }),
    operatorRoute({
      ...{ method: 'GET', path: '/operator/doctor' },
      operationId: 'examineService',
      summary: 'Run the doctor checks',
      description:
        'What `postrider doctor` says of the node that answers: settings, disks, certificates, backup, database, content store, DNS, the way out, the addresses that mail leaves from, the clock, sender domains. At most 30 seconds old; what strangers were asked and was well, ten minutes.',
      response: { status: 200, schema: diagnosisSchema },
      handle: async () => ({ ok: true, body: await doctor() }),
    }),
  ];
}
