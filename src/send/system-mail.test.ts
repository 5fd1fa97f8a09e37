/** Mail from the service itself, on the complete service without delivery. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inProcessApi } from '../../test/kit/in-process-api.ts';
import { silentLog } from '../base/log.ts';
import { suppressedAmongOperation, suppressOperation } from '../suppressions/suppressions.ts';
import { createSystemMail, SYSTEM_ACCOUNT } from './send.ts';

test('a notice is sent to an address that bounced earlier', async () => {
  const app = await inProcessApi();
  try {
    const { database, blobs, clock, addressHash } = app.parts;
    const { email } = await app.user('owner@example.com', 'owner');
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
    const entry = { email, reason: 'bounce', sourceMessageId: null, expiresAt: null, createdAt: clock.now() } as const;
    const address = { accountId: SYSTEM_ACCOUNT, mode: 'live', email } as const;
    const suppressed = () => database.execute(suppressedAmongOperation, { addresses: [address], nowMs: clock.now() });
    const list = { accountId: SYSTEM_ACCOUNT, mode: 'live', addressHash: addressHash(SYSTEM_ACCOUNT, email) } as const;
    await database.execute(suppressOperation, { ...list, suppression: entry });
    assert.deepEqual(await suppressed(), [email]);
    await mail.notify({ accountId: app.accountId, kind: 'quotas', key: 'one', subject: 'Quota', parts: ['Used.'] });
    assert.deepEqual(await suppressed(), []);
  } finally {
    await app.close();
  }
});
