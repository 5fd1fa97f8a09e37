/** /operator/keys: keys of the operator API, for operators who are signed in. A key cannot list, create, or revoke keys. */
import { allowedNetworkIssues, type Caller } from '../accounts/accounts.ts';
import { failure, refuse } from '../base/failure.ts';
import { listById, pageFields } from '../http/paging.ts';
import { answer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, isoTimeMs } from '../http/validate.ts';
import { newOperatorKeyRequest, newOperatorKeySchema, operatorKeySchema } from '../operator/bodies.ts';
import { operatorKeysOperation, revokeOperatorKeyOperation } from '../operator/key-store.ts';
import { createOperatorKey, expiryIssues, operatorKeyBody } from '../operator/keys.ts';
import { type OperatorRouteDeps, operatorChanges, operatorRoute } from '../operator/operator-route.ts';

/** Unix ms of an expiry in a request; null if it has none. */
const expiryMs = (expiresAt: string | undefined): number | null =>
  expiresAt === undefined ? null : isoTimeMs(expiresAt);

export function keyRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock, operatorKeys } = deps;
  return [
    operatorRoute({
      method: 'GET',
      path: '/operator/keys',
      access: { peopleOnly: true },
      operationId: 'listOperatorKeys',
      summary: 'List operator keys that are not revoked, newest first',
      description:
        'Lists the settings of each key, not the key itself, which is returned only when it is created. Expired keys are included.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(operatorKeySchema) },
      handle: (request) =>
        listById(request, {
          prefix: 'opk_',
          read: (page) => database.execute(operatorKeysOperation, page),
          show: operatorKeyBody,
        }),
    }),
    operatorRoute({
      method: 'POST',
      path: '/operator/keys',
      access: { peopleOnly: true },
      operationId: 'createOperatorKey',
      summary: 'Create an operator key',
      description:
        'The key is returned only in this response. Programs send it as `Authorization: Bearer` to the routes below /operator, and need no other header.',
      body: {
        schema: newOperatorKeyRequest,
        furtherIssues: ({ allowedNetworks = [], expiresAt }) => [
          ...allowedNetworkIssues(allowedNetworks),
          ...expiryIssues(expiryMs(expiresAt), clock.now()),
        ],
      },
      response: { status: 201, schema: newOperatorKeySchema },
      handle: async (request) => {
        const { name, scopes, allowedNetworks, expiresAt } = request.body;
        const changes = operatorChanges(deps, request, null);
        const created = await createOperatorKey(
          { database: changes, clock },
          { name, scopes, allowedNetworks, expiresAt: expiryMs(expiresAt) },
        );
        if (!created.ok) return created;
        const { key, operatorKey } = created.value;
        return answer({ ...operatorKeyBody(key), operatorKey });
      },
    }),
    operatorRoute({
      method: 'DELETE',
      path: '/operator/keys/:id',
      access: { peopleOnly: true },
      operationId: 'revokeOperatorKey',
      summary: 'Revoke an operator key',
      description: 'Takes effect with the next request, on other nodes within a second.',
      response: { status: 200, schema: confirmationSchema },
      refusals: ['NOT_FOUND'],
      handle: async (request) => {
        const id = request.params.id ?? '';
        const changes = operatorChanges(deps, request, null);
        const isRevoked = await changes.execute(revokeOperatorKeyOperation, { id, nowMs: clock.now() });
        operatorKeys.evict(id);
        return isRevoked
          ? answer({ message: 'The operator key has been revoked.' })
          : refuse(failure('NOT_FOUND', { message: 'No active operator key has this id.' }));
      },
    }),
  ];
}
