/**
 * `/sandbox/inbox`: captured messages, their outcomes, and waiting for new ones. A live key is refused: live mail is never captured, and an
 * empty list would hide that the wrong key is used.
 */
import type { Static } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import type { Followers } from '../events/events.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, isoTimeMs } from '../http/validate.ts';
import type { ConcurrencyLimiter } from '../limits/limits.ts';
import { createSandboxClock } from '../sandbox/clock.ts';
import { itemBody, itemSchema, noSuchItem, sandboxOnly, wholeItem, wholeItemSchema } from '../sandbox/item.ts';
import { clearInboxOperation, type InboxRow, listInboxOperation } from '../sandbox/store.ts';
import { createWaitForMail, type InboxFilter } from '../sandbox/waiting.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';

export interface SandboxRouteDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
  followers: Followers;
  /** Limits an account's concurrent waits for the inbox. */
  waits: ConcurrencyLimiter;
  /** Whether the service is stopping; waiting calls then end. */
  isStopping(): boolean;
}

type Request<B = undefined, Q = unknown> = RouteRequest<Caller, B, Q>;

const filters = {
  to: Type.Optional(
    Type.String({ minLength: 1, maxLength: 320, description: 'The complete address, in any spelling.' }),
  ),
  subject: Type.Optional(
    Type.String({ minLength: 1, maxLength: 998, description: 'Part of the subject (case-insensitive).' }),
  ),
  tag: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'The exact tag.' })),
  since: Type.Optional(
    Type.String({
      format: 'date-time',
      maxLength: 40,
      description: 'Accepted at or after this time, by the clock of the sandbox.',
    }),
  ),
};
const query = closed({ ...filters, ...pageFields });

const MOST_SECONDS = 300;
const DEFAULT_SECONDS = 30;
const waitQuery = closed({
  ...filters,
  timeoutSeconds: Type.Optional(
    Type.Integer({ minimum: 0, maximum: MOST_SECONDS, description: `${DEFAULT_SECONDS} by default.` }),
  ),
});

const cameNone = refuse(failure('NOT_FOUND', { message: 'No matching message arrived before the timeout.' }));
/** Different from no message: the time has not passed. */
const cannotWait = refuse(
  failure('OVERLOADED', { message: 'The service is shutting down. Retry the call.', retryAfterSeconds: 1 }),
);

export function sandboxRoutes(deps: SandboxRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const sandboxClock = createSandboxClock(deps);
  return [
    defineRoute({
      method: 'GET',
      path: '/sandbox/inbox',
      tag: 'sandbox',
      access: { auth: 'key' },
      operationId: 'listSandboxInbox',
      summary: 'List captured messages, newest first',
      description: 'The last 1,000 messages of the last 7 days.',
      query,
      refusals: ['FORBIDDEN'],
      response: { status: 200, schema: Type.Array(itemSchema) },
      async handle(request: Request<undefined, Static<typeof query>>) {
        const { caller } = request;
        if (caller.mode !== 'sandbox') return sandboxOnly;
        const page = readPage(request.query, ['msg_']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        const nowMs = await sandboxClock.now(caller.account.id);
        const rows = await database.execute(listInboxOperation, {
          accountId: caller.account.id,
          nowMs,
          limit: limit + 1,
          ...filterOf(request.query),
          before: after === undefined ? null : String(after[0]),
        });
        const show = (row: InboxRow) => itemBody(row, nowMs);
        return pageAnswer(request, { page: page.value, rows, keyOf: (row) => [row.message_id], show });
      },
    }),
    waitRoute(deps),
    defineRoute({
      method: 'GET',
      path: '/sandbox/inbox/:id',
      tag: 'sandbox',
      access: { auth: 'key' },
      operationId: 'getSandboxMessage',
      summary: 'Get a captured message with its content',
      description: 'With html, text, headers, the links in it, and probable one-time codes.',
      refusals: ['FORBIDDEN'],
      response: { status: 200, schema: wholeItemSchema },
      async handle(request: Request) {
        const { caller } = request;
        if (caller.mode !== 'sandbox') return sandboxOnly;
        const accountId = caller.account.id;
        const nowMs = await sandboxClock.now(accountId);
        const item = await wholeItem(deps, { accountId, messageId: request.params.id ?? '', nowMs });
        return item ? answer(item) : noSuchItem;
      },
    }),
    defineRoute({
      method: 'DELETE',
      path: '/sandbox/inbox',
      tag: 'sandbox',
      access: { auth: 'key' },
      operationId: 'emptySandboxInbox',
      summary: 'Empty the inbox',
      description: 'Removes the messages from the inbox only; GET /messages still lists them.',
      refusals: ['FORBIDDEN'],
      response: { status: 200, schema: confirmationSchema },
      async handle(request: Request) {
        if (request.caller.mode !== 'sandbox') return sandboxOnly;
        await requestedChanges(database, request, clock.now()).execute(clearInboxOperation, request.caller.account.id);
        return answer({ message: 'Inbox emptied.' });
      },
    }),
  ];
}

interface Filters {
  to?: string;
  subject?: string;
  tag?: string;
  since?: string;
}

function filterOf({ to, subject, tag, since }: Filters): InboxFilter {
  return {
    to: to ?? null,
    subject: subject ?? null,
    tag: tag ?? null,
    sinceMs: since === undefined ? null : isoTimeMs(since),
  };
}

function waitRoute(deps: SandboxRouteDeps): RouteDefinition<Caller> {
  const { database } = deps;
  const sandboxClock = createSandboxClock(deps);
  const waitForMail = createWaitForMail(deps);

  const wait = async (request: Request<undefined, Static<typeof waitQuery>>): Promise<RouteAnswer> => {
    const { caller, signal } = request;
    if (caller.mode !== 'sandbox') return sandboxOnly;
    const accountId = caller.account.id;
    const filter = filterOf(request.query);
    const until = performance.now() + (request.query.timeoutSeconds ?? DEFAULT_SECONDS) * 1000;
    const look = async (): Promise<string | undefined> => {
      const nowMs = await sandboxClock.now(accountId);
      const page = { accountId, nowMs, before: null, limit: 1, ...filter };
      return (await database.execute(listInboxOperation, page))[0]?.message_id;
    };
    for (;;) {
      const timeoutMs = Math.max(0, until - performance.now());
      const messageId = await waitForMail({ accountId, filter, signal, timeoutMs, look });
      if (messageId === undefined) return signal.aborted && deps.isStopping() ? cannotWait : cameNone;
      const nowMs = await sandboxClock.now(accountId);
      const item = await wholeItem(deps, { accountId, messageId, nowMs });
      // It may be undefined if the inbox was emptied at this moment.
      if (item) return answer(item);
    }
  };

  return defineRoute({
    method: 'GET',
    path: '/sandbox/inbox/wait',
    tag: 'sandbox',
    access: { auth: 'key' },
    load: { waits: true },
    operationId: 'waitForSandboxMessage',
    summary: 'Wait for a message and get it with its content',
    description:
      'Returns the newest matching message if there is one, else the next one that arrives; 404 if none arrives in time.',
    query: waitQuery,
    refusals: ['FORBIDDEN'],
    response: { status: 200, schema: wholeItemSchema },
    handle: async (request: Request<undefined, Static<typeof waitQuery>>) => {
      const permit = deps.waits.acquire(request.caller.account);
      if (!permit.ok) return permit;
      try {
        return await wait(request);
      } finally {
        permit.release();
      }
    },
  });
}
