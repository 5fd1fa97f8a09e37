/** A repeated POST /attachments at the moment at which another node removes its submission. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { type Registered, type Registration, registerOperation } from '../../src/attachments/register-store.ts';
import { batchOperation, removeOverdueOperation } from '../../src/attachments/store.ts';

import { newId } from '../../src/base/ids.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Transaction } from '../../src/storage/operation.ts';
import { openPostgresDatabase } from '../../src/storage/postgres/database.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { tempDatabase } from '../kit/temp-database.ts';

const NOW = Date.UTC(2026, 10, 20);
const HOUR = 3_600_000;
const file = {
  contentType: 'text/plain',
  sizeBytes: 5,
  sha256: Buffer.alloc(32, 7),
  direct: false,
  blobKey: null,
  blobStamp: null,
};

function registration(changes: Partial<Registration> = {}): Registration {
  return {
    id: newId('sub', NOW),
    accountId: 'acc_1',
    mode: 'live',
    idempotencyKey: 'key',
    keysFromMs: 0,
    fits: true,
    manifestHash: Buffer.from('manifest'),
    nowMs: NOW,
    expiresAtMs: NOW + HOUR,
    countedBytes: 5,
    maximumUnsentBytes: 5,
    keepUnsentMs: 24 * HOUR,
    files: [{ ...file, number: 0, name: 'a.txt' }],
    ...changes,
  };
}

test('re-creates a registration that another node removes before its expiry is extended', async (t) => {
  const temp = await tempDatabase('postgres');
  t.after(() => temp.close());
  const other = await openPostgresDatabase({ address: parsePostgresUrl(temp.url!), log: silentLog });
  t.after(() => other.close());
  const first = registration();
  await temp.database.execute(registerOperation, first);

  let removals = 0;
  const removing = (tx: Transaction): Transaction => ({
    dialect: tx.dialect,
    all: (sql, ...params) => tx.all(sql, ...params),
    get: (sql, ...params) => tx.get(sql, ...params),
    run: async (sql, ...params) => {
      if (/SET expires_at/.test(sql)) {
        const args = { ids: [first.id], expiredBeforeMs: first.expiresAtMs };
        removals += (await other.execute(removeOverdueOperation, args)).count;
      }
      return tx.run(sql, ...params);
    },
  });
  const late = registration({ nowMs: NOW + 25 * HOUR, expiresAtMs: NOW + 26 * HOUR });
  const registered = await temp.database.execute(
    {
      name: 'test.registerBesideRemoval',
      mode: 'write',
      run: (tx: Transaction, calls: readonly Registration[]): Promise<Registered[]> | Registered[] =>
        registerOperation.run(removing(tx), calls),
    },
    late,
  );
  assert.equal(removals, 1);
  assert.ok('submission' in registered && registered.outcome === 'made', registered.outcome);
  assert.equal(registered.submission.id, late.id);
  const place = { accountId: 'acc_1', mode: 'live' } as const;
  const there = await temp.database.execute(batchOperation, { ...place, id: registered.submission.id });
  assert.equal(there?.files.length, 1);
  assert.equal(await temp.database.execute(batchOperation, { ...place, id: first.id }), null);
});
