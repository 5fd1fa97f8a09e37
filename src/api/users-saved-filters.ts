/**
 * Saved filters: the filters of a list in the portal, under a name, for one user or for all users of the account. Every user can save private
 * filters; shared ones require the role member. Only sessions can make these calls, because a key belongs to no user.
 */
import type { Static } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { iso } from '../base/clock.ts';
import { type Failure, failure, type Issue, invalid, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { listById, pageFields } from '../http/paging.ts';
import { answer, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, mapOf, named, oneOf } from '../http/validate.ts';
import {
  changeFilterOperation,
  type FilterUser,
  removeFilterOperation,
  type SavedFilter,
  savedFilterOperation,
  savedFiltersOperation,
  saveFilterOperation,
} from '../users/saved-filter-store.ts';
import type { UserRouteDeps } from '../users/user-route.ts';

/** The lists of the portal, and the fields of their filters, as in the URLs of their pages. */
export const FILTERED_LISTS = {
  messages: ['q', 'status', 'range', 'since', 'until', 'to', 'from', 'subject', 'template', 'tags', 'metadata'],
  inbound: ['route', 'outcome'],
  events: ['type', 'recipient', 'tag', 'message', 'since'],
  requests: ['status', 'method', 'key', 'code', 'message', 'since'],
  suppressions: ['email', 'reason'],
  audit: ['action', 'resource', 'resourceId', 'actorId', 'since', 'until'],
} as const satisfies Record<string, readonly string[]>;
type FilteredList = keyof typeof FILTERED_LISTS;
const LISTS = Object.keys(FILTERED_LISTS) as FilteredList[];

/** Limit of the private filters of a user, and of the shared filters of an account, in each mode. */
const MOST_FILTERS = 50;
const LONGEST_NAME = 60;
const LONGEST_VALUE = 1_000;
const SMALL_BODY = 50_000;

const name = Type.String({
  minLength: 1,
  maxLength: LONGEST_NAME,
  pattern: '^(?=.*\\S)[^\\u0000-\\u001f\\u007f-\\u009f]*$',
  phrase: 'must have visible characters and no control characters',
  description: `1 to ${LONGEST_NAME} characters, without control characters. Unique among your filters of the list, or among its shared ones.`,
});
const query = mapOf(Type.String({ minLength: 1, maxLength: LONGEST_VALUE }), {
  maxProperties: 20,
  description: `The fields of the filter, with the names and values that they have in the URL of the page. ${LISTS.map(
    (list) => `${list}: ${FILTERED_LISTS[list].join(', ')}`,
  ).join('; ')}.`,
});
const list = oneOf([...LISTS], { description: 'The list in the portal that the filter belongs to.' });

const filterSchema = named('SavedFilter', {
  savedFilterId: Type.String(),
  list,
  name: Type.String(),
  query: mapOf(Type.String(), { maxProperties: 20 }),
  shared: Type.Boolean({ description: 'Whether all users of the account see the filter. If false, only you do.' }),
  createdAt: Type.String({ format: 'date-time' }),
});
const saveRequest = named('SaveFilterRequest', {
  list,
  name,
  query,
  shared: Type.Optional(
    Type.Boolean({ description: 'Whether all users of the account see the filter; requires the role member.' }),
  ),
});
const changeRequest = closed(
  { name: Type.Optional(name), query: Type.Optional(query) },
  { title: 'ChangeSavedFilterRequest', minProperties: 1 },
);
const listQuery = closed({ ...pageFields, list: Type.Optional(list) });

const NO_FILTER = failure('NOT_FOUND', { message: 'You have no saved filter with this id in this account and mode.' });
const NO_MEMBER = failure('FORBIDDEN', {
  message: 'You read this account through support access. Only members of the account can save filters.',
});
const SHARED = failure('FORBIDDEN', {
  message: 'This filter is shared by all users of the account. Changing shared filters requires the role member.',
});
const tooMany = (isShared: boolean): Failure =>
  failure('LIMIT_REACHED', {
    message: `The limit of ${MOST_FILTERS} ${isShared ? 'shared' : 'private'} saved filters is reached. Delete one with DELETE /saved-filters/{id} first.`,
  });
const nameTaken = (taken: string): Failure =>
  failure('CONFLICT', { message: `The list already has a saved filter with the name ${JSON.stringify(taken)}.` });

function filterBody(filter: SavedFilter): Record<string, unknown> {
  return {
    savedFilterId: filter.id,
    list: filter.list,
    name: filter.name,
    query: JSON.parse(filter.query),
    shared: filter.userId === null,
    createdAt: iso(filter.createdAt),
  };
}

/** Returns the fields of a query that are not filters of the list. */
function queryIssues(of: FilteredList, given: Record<string, string>): Issue[] {
  const fields: readonly string[] = FILTERED_LISTS[of];
  return Object.keys(given)
    .filter((field) => !fields.includes(field))
    .map((field) => ({
      field: `query.${field}`,
      message: `is not a filter of the list ${of}; use ${fields.join(', ')}`,
    }));
}

function userOf({ account, mode, actor, role }: Caller): FilterUser {
  return { accountId: account.id, mode, userId: actor.id, mayShare: role === 'member' || role === 'owner' };
}

export function savedFilterRoutes(deps: UserRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const common = { tag: 'users', access: { auth: 'key', role: 'viewer', peopleOnly: true } } as const;
  return [
    defineRoute({
      ...common,
      method: 'GET',
      path: '/saved-filters',
      operationId: 'listSavedFilters',
      summary: 'List the saved filters that you see, newest first',
      description: 'Returns your private filters and those that the account shares, in the mode of the session.',
      query: listQuery,
      response: { status: 200, schema: Type.Array(filterSchema) },
      handle(request: RouteRequest<Caller, undefined, Static<typeof listQuery>>) {
        const { accountId, mode, userId } = userOf(request.caller);
        const { list = null } = request.query;
        return listById(request, {
          prefix: 'flt_',
          read: (page) => database.execute(savedFiltersOperation, { accountId, mode, userId, list, ...page }),
          show: filterBody,
        });
      },
    }),
    defineRoute({
      ...common,
      method: 'POST',
      path: '/saved-filters',
      body: { schema: saveRequest, maxBytes: SMALL_BODY },
      operationId: 'saveFilter',
      summary: 'Save the filter of a list',
      description: `The filter is private unless shared is true. You can have ${MOST_FILTERS} private filters in each mode of an account, and an account ${MOST_FILTERS} shared ones.`,
      refusals: ['CONFLICT', 'LIMIT_REACHED'],
      response: { status: 201, schema: filterSchema },
      async handle(request: RouteRequest<Caller, Static<typeof saveRequest>>) {
        const { body } = request;
        const issues = queryIssues(body.list, body.query);
        if (issues.length > 0) return refuse(invalid(issues));
        const { accountId, mode, userId, mayShare } = userOf(request.caller);
        const isShared = body.shared === true;
        if (isShared && !mayShare) return refuse(SHARED);
        const nowMs = clock.now();
        const filter: SavedFilter = {
          id: newId('flt', nowMs),
          accountId,
          mode,
          userId: isShared ? null : userId,
          list: body.list,
          name: body.name.trim(),
          query: JSON.stringify(body.query),
          createdAt: nowMs,
        };
        const outcome = await requestedChanges(database, request, nowMs).execute(saveFilterOperation, {
          filter,
          most: MOST_FILTERS,
        });
        if (outcome === 'saved') return answer(filterBody(filter));
        if (outcome === 'no-member') return refuse(NO_MEMBER);
        return refuse(outcome === 'limit' ? tooMany(filter.userId === null) : nameTaken(filter.name));
      },
    }),
    defineRoute({
      ...common,
      method: 'PATCH',
      path: '/saved-filters/:id',
      body: { schema: changeRequest, maxBytes: SMALL_BODY },
      operationId: 'changeSavedFilter',
      summary: 'Rename a saved filter, or replace its query',
      description: 'Changes only the fields in the request. Shared filters require the role member.',
      refusals: ['NOT_FOUND', 'CONFLICT'],
      response: { status: 200, schema: filterSchema },
      async handle(request: RouteRequest<Caller, Static<typeof changeRequest>>) {
        const { body } = request;
        const user = userOf(request.caller);
        const nowMs = clock.now();
        const id = request.params.id ?? '';
        if (body.query !== undefined) {
          const found = await database.execute(savedFilterOperation, { ...user, id });
          if (found === undefined) return refuse(NO_FILTER);
          const issues = queryIssues(found.list as FilteredList, body.query);
          if (issues.length > 0) return refuse(invalid(issues));
        }
        const changed = await requestedChanges(database, request, nowMs).execute(changeFilterOperation, {
          ...user,
          id,
          name: body.name?.trim(),
          query: body.query && JSON.stringify(body.query),
        });
        if (changed === 'name-taken') return refuse(nameTaken(body.name!.trim()));
        if (changed === 'unknown') return refuse(NO_FILTER);
        return changed === 'shared' ? refuse(SHARED) : answer(filterBody(changed));
      },
    }),
    defineRoute({
      ...common,
      method: 'DELETE',
      path: '/saved-filters/:id',
      operationId: 'deleteSavedFilter',
      summary: 'Delete a saved filter',
      description: 'Shared filters require the role member.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: confirmationSchema },
      async handle(request: RouteRequest<Caller>) {
        const key = { ...userOf(request.caller), id: request.params.id ?? '' };
        const removed = await requestedChanges(database, request, clock.now()).execute(removeFilterOperation, key);
        if (removed === 'unknown') return refuse(NO_FILTER);
        return removed === 'shared' ? refuse(SHARED) : answer({ message: 'Saved filter deleted.' });
      },
    }),
  ];
}
