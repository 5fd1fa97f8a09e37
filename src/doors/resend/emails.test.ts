/** The last event of an email is the worst of its copies; internal bounces are failures, as in webhook events. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId } from '../../base/ids.ts';
import type { InnerAnswer } from '../../http/inner-calls.ts';
import type { EmailCopy, MessageStatus } from '../../messages/messages.ts';
import { foldEvents, listEmails } from './emails.ts';
import type { EndpointContext, ResendDoorDeps } from './endpoint.ts';

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

test('a list shows internal bounces as bounced, without a call for each email', async () => {
  const row = { header_from: 'a@x.example', subject: 's', created_at: 0, send_at: null, recipient: 'b@x.example' };
  const emails = [newId('msg', 1), newId('msg', 2)].map((id) => [{ ...row, ...copy(id, 'bounced') }]);
  const database = { execute: async () => emails } as unknown as ResendDoorDeps['database'];
  const context = {
    query: new URLSearchParams(),
    caller: { account: { id: 'acc_1' }, mode: 'live' },
    call: () => assert.fail('a list needs only one read'),
  } as unknown as EndpointContext;
  const listed = await listEmails({ database }, context);
  assert.ok(listed.ok);
  const { data } = listed.body as { data: { last_event: string }[] };
  assert.deepEqual(
    data.map(({ last_event: event }) => event),
    ['bounced', 'bounced'],
  );
});
