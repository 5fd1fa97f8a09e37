/** Messages with stored files over the API: content is streamed completely, and they can be resent. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { testAddressHash } from '../../test/kit/address-hash.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { type FeatureApp, featureApp } from '../../test/kit/feature-app.ts';
import { LARGE_PARTS, type LargeMail, largeMail } from '../../test/kit/large-mail.ts';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { messageRoutes } from '../api/messages.ts';
import type { KeyedCalls } from '../idempotency/idempotency.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { prepareDataDirectory } from '../storage/data-directory.ts';
import { createSearches } from '../storage/searches.ts';

const once: KeyedCalls = async (_, first) => (await first(null))!;
const accountId = 'acc_large';
const clock = fakeClock(Date.now());
let app: FeatureApp;
let blobs: Blobs;

before(async () => {
  app = await featureApp(({ database, folder }) => {
    blobs = openDiskBlobs(path.join(folder, 'blobs'));
    return messageRoutes({
      database,
      blobs,
      clock,
      addressHash: testAddressHash,
      searches: createSearches(),
      checkSender: async () => undefined,
      once,
      nudge: () => {},
    });
  });
});
after(() => app.close());

async function seed(mail: LargeMail): Promise<string> {
  const inBlob = mail.content.length > 64 * 1024;
  const { recipients } = await seedMail(app.temp.database, {
    accountId,
    nowMs: clock.now(),
    email: {
      headerMessageId: LARGE_PARTS.messageId,
      content: inBlob ? null : mail.content,
      blobKey: inBlob ? await blobs.put(mail.content) : null,
      sizeBytes: mail.sizeBytes,
      options: JSON.stringify({ expiresAfterSeconds: 60, files: mail.files }),
    },
  });
  return recipients[0]!.messageId;
}

function tamper<T>(sql: string, ...params: string[]): T[] {
  const connection = new DatabaseSync(prepareDataDirectory(app.temp.folder).databaseFile, { timeout: 30_000 });
  try {
    connection.exec('PRAGMA busy_timeout = 5000');
    return connection.prepare(sql).all(...params) as T[];
  } finally {
    connection.close();
  }
}

async function content(messageId: string): Promise<Buffer> {
  const answer = await app.api(accountId).get(`/messages/${messageId}/content`);
  assert.equal(answer.status, 200, answer.text.slice(0, 200));
  return Buffer.from(answer.text, 'latin1');
}

for (const text of ['short', 'long line \r\n'.repeat(20_000)]) {
  test(`content of ${text.length} characters and two files is returned in full with its exact size`, async () => {
    const mail = await largeMail(blobs, [{ bytes: randomBytes(900_001) }, { bytes: randomBytes(10) }], { text });
    const id = await seed(mail);
    const given = await content(id);
    assert.ok(given.equals(mail.whole()));
    assert.equal((await app.api(accountId).get(`/messages/${id}`)).body.sizeBytes, given.length);
    await blobs.remove(mail.files[0]!.blobKey);
    assert.equal((await app.api(accountId).get(`/messages/${id}/content`)).status, 404);
  });
}

test('a resend has another Message-ID and shares the files while either content is kept', async () => {
  const mail = await largeMail(blobs, [{ bytes: randomBytes(300_000) }, { bytes: randomBytes(20_000) }]);
  const id = await seed(mail);
  tamper(
    `INSERT INTO attachment_submission (id, account_id, mode, manifest_hash, expires_at, version, used_at, created_at)
     VALUES ('sub_1', ?, 'live', x'00', 0, 1, 1, 0)`,
    accountId,
  );
  tamper(`INSERT INTO attachment_use SELECT email_seq, 'sub_1' FROM message WHERE id = ?`, id);
  tamper("UPDATE message SET status = 'delivered' WHERE id = ?", id);
  const sent = await app.api(accountId).post(`/messages/${id}/resend`);
  assert.equal(sent.status, 200, sent.text);
  const again = sent.body.data.messageId as string;
  const [first, second] = [await content(id), await content(again)];
  const line = /^Message-ID: (.*)\r$/m;
  const newId = line.exec(second.toString('latin1'))![1]!;
  assert.notEqual(newId, LARGE_PARTS.messageId);
  assert.equal(second.toString('latin1').replace(newId, LARGE_PARTS.messageId), first.toString('latin1'));
  assert.equal((await app.api(accountId).get(`/messages/${again}`)).body.sizeBytes, second.length);
  const uses = tamper<{ id: string }>(
    'SELECT m.id FROM attachment_use u JOIN message m ON m.email_seq = u.email_seq ORDER BY m.email_seq',
  );
  assert.deepEqual(
    uses.map((one) => one.id),
    [id, again],
  );
});

test('a message whose content is being removed is not resent', async () => {
  const mail = await largeMail(blobs, [{ bytes: randomBytes(1000) }]);
  const id = await seed(mail);
  // Between reading the content and accepting it again.
  tamper('UPDATE email SET content_until = NULL WHERE seq = (SELECT email_seq FROM message WHERE id = ?)', id);
  tamper("UPDATE message SET status = 'delivered' WHERE id = ?", id);
  const messages = () => tamper('SELECT id FROM message').length;
  const before = messages();
  const sent = await app.api(accountId).post(`/messages/${id}/resend`);
  assert.deepEqual([sent.status, sent.body.error.code], [409, 'CONFLICT']);
  assert.equal(messages(), before);
});
