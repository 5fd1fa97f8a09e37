/** Erasing a recipient over HTTP, for the account and the mode of the key. */
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { type Clock, iso, isoOrNull } from '../base/clock.ts';
import { failure, type Issue, invalid, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { seal } from '../base/seal.ts';
import {
  type Erasure,
  findErasureOperation,
  listErasuresOperation,
  type Progress,
  sealContext,
  startErasureOperation,
} from '../erasure/erasure.ts';
import { listById, pageFields } from '../http/paging.ts';
import { answer, defineRoute, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import { parseAddress, sameAddressKey } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import type { AddressHash } from '../suppressions/suppressions.ts';

interface ErasureRouteDeps {
  database: Database;
  clock: Clock;
  /** The service's secret key (32 bytes). */
  secretKey: Uint8Array;
  addressHash: AddressHash;
  /** Wakes the worker in this process, if there is one. */
  nudge(): void;
}

const erasureSchema = named('Erasure', {
  erasureId: Type.String({ description: 'ID of the erasure, for `GET /recipients/erasures/{id}`.' }),
  status: oneOf(['running', 'completed']),
  createdAt: Type.String({ format: 'date-time' }),
  completedAt: Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' }),
  removed: closed(
    { messages: Type.Integer(), events: Type.Integer(), inboundMessages: Type.Integer() },
    { description: 'Number of deleted records so far.' },
  ),
});
const erasureRequest = named('ErasureRequest', { email: Type.String({ minLength: 1, maxLength: 320 }) });

function body({ id, createdAt, completedAt, progress }: Erasure): Record<string, unknown> {
  return {
    erasureId: id,
    status: completedAt === null ? 'running' : 'completed',
    createdAt: iso(createdAt),
    completedAt: isoOrNull(completedAt),
    removed: (JSON.parse(progress) as Progress).removed,
  };
}

function issuesOf({ email }: { email?: string }): Issue[] {
  if (email === undefined) return [];
  const address = parseAddress(email);
  if (!address.ok) return [{ field: 'email', message: address.reason }];
  return address.value.name === ''
    ? []
    : [{ field: 'email', message: 'must be a bare address without a display name' }];
}

const unknownErasure = refuse(failure('NOT_FOUND', { message: 'No erasure has this id.' }));

/** /recipients/erase and /recipients/erasures. */
export function erasureRoutes(deps: ErasureRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const shared = { tag: 'recipients', access: { auth: 'key' } } as const;
  return [
    defineRoute({
      ...shared,
      method: 'POST',
      path: '/recipients/erase',
      operationId: 'eraseRecipient',
      summary: 'Erase all data of a recipient',
      description:
        'Deletes the messages to this address with their events, attempts, and content, mail received from it, and everything else that names it, in the mode of the key. Queued messages are canceled without events. The address stays suppressed by a keyed hash. The work continues in the background: read its status with GET /recipients/erasures/{id}. An erasure of this address that is running is returned instead of a new one.',
      body: { schema: erasureRequest, furtherIssues: issuesOf },
      response: { status: 201, schema: erasureSchema },
      handle: async (request) => {
        const issues = issuesOf(request.body);
        if (issues.length > 0) return refuse(invalid(issues));
        const { caller } = request;
        const address = request.body.email.trim();
        const email = sameAddressKey(address);
        const nowMs = clock.now();
        const id = newId('ers', nowMs);
        const erasure = await requestedChanges(database, request, nowMs).execute(startErasureOperation, {
          id,
          accountId: caller.account.id,
          mode: caller.mode,
          email,
          addressHash: deps.addressHash(caller.account.id, email),
          addressSealed: seal(deps.secretKey, address, sealContext(id)),
          nowMs,
        });
        deps.nudge();
        return answer(body(erasure));
      },
    }),
    defineRoute({
      ...shared,
      method: 'GET',
      path: '/recipients/erasures',
      operationId: 'listErasures',
      summary: 'List erasures, newest first',
      description:
        'Lists the erasures in the mode of the key. Addresses are not included, because they are erased too.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(erasureSchema) },
      handle: (request) =>
        listById(request, {
          prefix: 'ers_',
          read: (page) => database.execute(listErasuresOperation, { ...ownerOf(request), ...page }),
          show: body,
        }),
    }),
    defineRoute({
      ...shared,
      method: 'GET',
      path: '/recipients/erasures/:id',
      operationId: 'getErasure',
      summary: 'Get the status of an erasure',
      description: 'Completed erasures remain available as a receipt.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: erasureSchema },
      handle: async ({ caller, params }) => {
        const key = { ...ownerOf({ caller }), id: params.id ?? '' };
        const found = await database.execute(findErasureOperation, key);
        return found ? answer(body(found)) : unknownErasure;
      },
    }),
  ] as RouteDefinition<Caller>[];
}
