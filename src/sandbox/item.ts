/** A captured message in the API: in lists, and alone with its content. */
import { iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { Type } from '../http/schema-type.ts';
import { named, oneOf } from '../http/validate.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { storedContentOf } from '../storage/blobs/stored-content.ts';
import type { Database } from '../storage/database.ts';
import { previewOf } from './preview.ts';
import { findInboxOperation, type InboxRow } from './store.ts';

const nullableText = Type.Union([Type.String(), Type.Null()]);

const itemShape = {
  messageId: Type.String(),
  from: Type.String(),
  to: Type.String(),
  subject: Type.String(),
  outcome: Type.Union([oneOf(['Delivered', 'Bounced', 'Delayed', 'Complained', 'Suppressed']), Type.Null()]),
  age: Type.Integer({ description: 'Seconds since it was accepted, by the clock of this sandbox.' }),
  createdAt: Type.String({ format: 'date-time' }),
};

export const itemSchema = named('SandboxMessage', itemShape);

export const wholeItemSchema = named('SandboxMessageDetail', {
  ...itemShape,
  html: nullableText,
  text: nullableText,
  headers: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
  links: Type.Array(Type.String()),
  codes: Type.Array(Type.String({ description: 'Probable one-time codes, the likely ones first.' })),
});

/** `nowMs` is by the account's clock. */
export function itemBody(row: InboxRow, nowMs: number): Record<string, unknown> {
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

export interface ItemKey {
  accountId: string;
  messageId: string;
  nowMs: number;
}

/** Returns undefined if the inbox does not have the message. */
export async function wholeItem(
  { database, blobs }: { database: Database; blobs: Blobs },
  key: ItemKey,
): Promise<Record<string, unknown> | undefined> {
  const row = await database.execute(findInboxOperation, key);
  if (!row) return undefined;
  const content = await storedContentOf(row, blobs);
  // Mail that is not retained stays in the list after its content is deleted.
  const preview = await previewOf(content ?? new Uint8Array());
  return { ...itemBody(row, key.nowMs), ...preview };
}

export const sandboxOnly = refuse(
  failure('FORBIDDEN', { message: 'This call requires a sandbox key (pr_test_…); this key is live.' }),
);
export const noSuchItem = refuse(failure('NOT_FOUND', { message: 'No message in the inbox has this id.' }));
