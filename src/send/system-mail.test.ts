/** Mail from the service itself, on the complete service without delivery. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { inProcessApi } from '../../test/kit/in-process-api.ts';
import { silentLog } from '../base/log.ts';
import { type SuppressionReason, suppressedAmongOperation, suppressOperation } from '../suppressions/suppressions.ts';
import { createSystemMail, SYSTEM_ACCOUNT } from './send.ts';

async function mailRig(t: TestContext) {
  const app = await inProcessApi();
  t.after(() => app.close());
  const { database, blobs, clock, addressHash } = app.parts;
  const mail = createSystemMail({
    database,
    blobs,
    clock,
    log: silentLog,
    addressHash,
    hostnames: ['postrider.test'],
    baseUrl: undefined,
    onAccepted: () => undefined,
  });
  const suppress = (email: string, reason: SuppressionReason) =>
    database.execute(suppressOperation, {
      accountId: SYSTEM_ACCOUNT,
      mode: 'live',
      addressHash: addressHash(SYSTEM_ACCOUNT, email),
      suppression: { email, reason, sourceMessageId: null, expiresAt: null, createdAt: clock.now() },
    });
  const suppressed = (email: string) =>
    database.execute(suppressedAmongOperation, {
      addresses: [{ accountId: SYSTEM_ACCOUNT, mode: 'live', email }],
      nowMs: clock.now(),
    });
  return { app, mail, suppress, suppressed };
}

test('a notice is sent to an address that bounced earlier', async (t) => {
  const { app, mail, suppress, suppressed } = await mailRig(t);
  const { email } = await app.user('owner@example.com', 'owner');
  await suppress(email, 'bounce');
  assert.deepEqual(await suppressed(email), [email]);
  await mail.notify({ accountId: app.accountId, kind: 'quotas', key: 'one', subject: 'Quota', parts: ['Used.'] });
  assert.deepEqual(await suppressed(email), []);
});

test('a personal message is sent to an address that bounced earlier, but not after a complaint', async (t) => {
  const { mail, suppress, suppressed } = await mailRig(t);
  const sendTo = (to: string) => mail.sendTo({ to, subject: 'Invitation', text: 'Set a password.' });
  await suppress('ann@new.example', 'bounce');
  assert.deepEqual([await mail.canSendTo('Ann@New.example'), await sendTo('Ann@New.example')], [true, true]);
  assert.deepEqual(await suppressed('ann@new.example'), [], 'the message is not suppressed');
  await suppress('ben@new.example', 'complaint');
  assert.deepEqual([await mail.canSendTo('ben@new.example'), await sendTo('ben@new.example')], [false, false]);
  assert.deepEqual(await suppressed('ben@new.example'), ['ben@new.example']);
  assert.equal(await sendTo('cat@new.example'), true);
  assert.equal(await sendTo('operator@localhost'), false);
});
