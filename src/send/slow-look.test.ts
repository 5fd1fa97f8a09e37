/** Files whose verification takes longer than a lease: the message is dispatched with a valid lease. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { manifestEntry, someBytes } from '../../test/kit/upload.ts';
import { LARGE, uploadApp } from '../../test/kit/upload-app.ts';

const LEASE_MS = 60_000;

for (const mode of ['live', 'sandbox'] as const) {
  test(`the lease of a large message starts when it is accepted (${mode})`, async (t) => {
    let slow = false;
    const app = await uploadApp({
      around: (blobs) => ({
        ...blobs,
        sizeOf: (key) => {
          if (slow) app.clock.advance(10 * LEASE_MS);
          return blobs.sizeOf(key);
        },
      }),
    });
    t.after(() => app.close());
    const bytes = someBytes(3_000);
    const { body } = await app.register('acc_1', [manifestEntry(bytes)], undefined, mode);
    const [{ uploadUrl: url, requiredHeaders: headers }] = body.attachmentUploads;
    assert.equal((await app.put({ url, headers, body: bytes })).status, 200);
    slow = true;
    const sent = await app
      .api('acc_1', mode)
      .post('/send', { ...LARGE, attachmentSubmissionId: body.attachmentSubmissionId });
    assert.equal(sent.status, 202, sent.text);
    const untilMs = app.clock.now() + LEASE_MS;
    assert.deepEqual(app.leases, [untilMs]);
    const direct = new DatabaseSync(path.join(app.temp.folder, 'postrider.db'), { readOnly: true, timeout: 5_000 });
    const rows = direct.prepare('SELECT due FROM work').all();
    direct.close();
    assert.deepEqual(
      rows.map((row) => row.due),
      [untilMs],
      'the database has the same lease',
    );
  });
}
