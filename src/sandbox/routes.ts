/**
 * `/sandbox/inbox`: what was sent with sandbox keys, and what became of it. A live key is refused here: live mail is
 * never captured, and an empty list would hide that the wrong key is in use.
 */
import { type Static, Type } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure } from '../base/failure.ts';
import { refuse } from '../base/result.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { closed, oneOf } from '../http/validate.ts';
import type { Blobs } from '../storage/blobs.ts';
import type { Database } from '../storage/database.ts';
import { previewOf } from './preview.ts';
import { clearInboxOperation, findInboxOperation, type InboxRow, listInboxOperation } from './store.ts';

export interface SandboxRouteDeps {
  database: Database;
  blobs: Blobs;
  clock: Clock;
}

type Request<B = undefined, Q = unknown> = RouteRequest<Caller, B, Q>;

const query = closed({
  to: Type.Optional(Type.String({ minLength: 1, maxLength: 320, description: 'The whole address, without case.' })),
  subject: Type.Optional(Type.String({ minLength: 1, maxLength: 998, description: 'A part of it, without case.' })),
  tag: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'One tag, exactly.' })),
  ...pageFields,
});

const nullableText = Type.Union([Type.String(), Type.Null()]);
const itemShape = {
  messageId: Type.String(),
  from: Type.String(),
  to: Type.String(),
  subject: Type.String(),
  outcome: Type.Union([oneOf(['Delivered', 'Bounced', 'Delayed', 'Complained', 'Suppressed']), Type.Null()]),
  age: Type.Integer({ description: 'Seconds since it was accepted.' }),
  createdAt: Type.String(),
};

function itemBody(row: InboxRow, nowMs: number): Record<string, unknown> {
  return {
    messageId: row.message_id,
    from: row.header_from,
    to: row.recipient,
    subject: row.subject,
    outcome: row.outcome,
    age: Math.max(0, Math.floor((nowMs - row.created_at) / 1000)),
    createdAt: iso(row.created_at),
  };
}

const sandboxOnly = refuse(
  failure('FORBIDDEN', { message: 'The sandbox is reached with a sandbox key (pr_test_…); this key is live.' }),
);
const noSuchItem = refuse(failure('NOT_FOUND', { message: 'The inbox holds no message with this id.' }));

export function sandboxRoutes({ database, blobs, clock }: SandboxRouteDeps): RouteDefinition<Caller>[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/sandbox/inbox', tag: 'sandbox', auth: 'key' },
      summary: 'List captured messages, newest first',
      description: 'The last 1,000 messages of the last 7 days.',
      query,
      refusals: ['FORBIDDEN'],
      response: { status: 200, schema: Type.Array(closed(itemShape)) },
      async handle(request: Request<undefined, Static<typeof query>>) {
        if (request.caller.mode !== 'sandbox') return sandboxOnly;
        const page = readPage(request.query, ['string']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        const nowMs = clock.now();
        const rows = await database.execute(listInboxOperation, {
          accountId: request.caller.account.id,
          nowMs,
          before: after === undefined ? null : String(after[0]),
          limit: limit + 1,
          to: request.query.to ?? null,
          subject: request.query.subject ?? null,
          tag: request.query.tag ?? null,
        });
        const show = (row: InboxRow) => itemBody(row, nowMs);
        return pageAnswer(request, { page: page.value, rows, keyOf: (row) => [row.message_id], show });
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/sandbox/inbox/:id', tag: 'sandbox', auth: 'key' },
      summary: 'Show a captured message with its content',
      refusals: ['FORBIDDEN'],
      response: {
        status: 200,
        schema: closed({
          ...itemShape,
          html: nullableText,
          text: nullableText,
          headers: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
          links: Type.Array(Type.String()),
          codes: Type.Array(Type.String()),
        }),
      },
      async handle(request: Request) {
        if (request.caller.mode !== 'sandbox') return sandboxOnly;
        const nowMs = clock.now();
        const key = { accountId: request.caller.account.id, messageId: request.params.id ?? '', nowMs };
        const row = await database.execute(findInboxOperation, key);
        if (!row) return noSuchItem;
        const content = row.blob_key === null ? row.content : await blobs.get(row.blob_key);
        // Mail that is not retained stays in the list when its content is gone.
        const preview = await previewOf(content ?? new Uint8Array());
        return answer({ ...itemBody(row, nowMs), ...preview });
      },
    }),
    defineRoute({
      ...{ method: 'DELETE', path: '/sandbox/inbox', tag: 'sandbox', auth: 'key' },
      summary: 'Empty the inbox',
      refusals: ['FORBIDDEN'],
      response: { status: 200, schema: closed({ message: Type.String() }) },
      async handle(request: Request) {
        if (request.caller.mode !== 'sandbox') return sandboxOnly;
        await database.execute(clearInboxOperation, request.caller.account.id);
        return answer({ message: 'The inbox is empty.' });
      },
    }),
  ];
}
