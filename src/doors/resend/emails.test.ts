/** The last event of an email is the worst of its copies; internal bounces are failures, as in webhook events. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { InnerAnswer } from '../../http/inner-calls.ts';
import type { EmailCopy, MessageStatus } from '../../messages/messages.ts';
import { foldEvents } from './emails.ts';

const copy = (id: string, status: MessageStatus, engagement: number | null = null) =>
  ({ id, status, leased: null, engagement }) as EmailCopy;

/** Answers GET /events with one bounce of this category for each message. */
function contextWith(categories: Record<string, string>) {
  return {
    call: async (method: string, path: string, { query }: { query?: Record<string, unknown> } = {}) => {
      assert.deepEqual([method, path, query?.eventType], ['GET', '/events', 'Bounce']);
      const category = categories[String(query?.messageId)];
      return { ok: true, headers: {}, body: category === undefined ? [] : [{ bounce: { category } }] } as InnerAnswer;
    },
  };
}

test('an email failed if all its bounces are internal', async () => {
  const context = contextWith({ a: 'internal', b: 'internal', c: 'mailbox-not-found' });
  const fold = (...copies: EmailCopy[]) => foldEvents(context, copies);
  assert.equal(await fold(copy('a', 'bounced')), 'failed');
  assert.equal(await fold(copy('a', 'bounced'), copy('b', 'bounced'), copy('d', 'delivered')), 'failed');
  assert.equal(await fold(copy('a', 'bounced'), copy('c', 'bounced')), 'bounced');
  assert.equal(await fold(copy('d', 'bounced')), 'bounced', 'the event is no longer stored');
  assert.equal(await fold(copy('d', 'complained'), copy('e', 'delivered')), 'complained');
  assert.equal(await fold(copy('d', 'delivered', 2), copy('e', 'delivered')), 'delivered');
});
