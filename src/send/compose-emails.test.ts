/** Copies of an email that differ per recipient: up to the maximum number, stored one by one if they are large. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { dataOf, GOOD, rowsOf, type SendRig, sendRig } from '../../test/kit/send-rig.ts';
import { Unavailable } from '../base/failure.ts';
import { createSend } from './accept.ts';

let rig: SendRig;
before(async () => {
  rig = await sendRig();
});
after(() => rig.close());

const to = Array.from({ length: 50 }, (_, i) => `r${i}@example.com`);
/** 0.9 MB, differing in one header. */
const BODY = { ...GOOD, html: '<p>x</p>\n'.repeat(100_000), to, listUnsubscribe: true };

interface StoredEmail {
  size: number;
  content: unknown;
  key: string;
}

test('an email that differs for each of fifty recipients can have the maximum size', async () => {
  assert.equal(dataOf(await rig.send(BODY)).totalRecipients, 50);
  const emails = await rowsOf<StoredEmail>(rig, 'SELECT size_bytes AS size, content, blob_key AS key FROM email');
  assert.equal(emails.length, 50);
  const own = new Set<string>();
  for (const { size, content, key } of emails) {
    assert.equal(content, null);
    const mail = await rig.dependencies.blobs.get(key);
    assert.ok(size > 900_000 && mail?.length === size, String(size));
    own.add(/^List-Unsubscribe:\s<https:.*>\r$/m.exec(mail.toString('latin1'))?.[0] ?? '');
  }
  assert.equal(own.size, 50, 'each has its own link');
  assert.ok(rig.offered.every((job) => job.content === null && job.blobKey !== null));
});

test('one large copy is in memory at a time, and the blobs of a failed send are deleted', async () => {
  const { blobs } = rig.dependencies;
  const stored = new Set<string>();
  let writing = 0;
  const failing = {
    ...blobs,
    put: async (content: Buffer) => {
      writing += 1;
      assert.equal(writing, 1, 'one at a time');
      if (stored.size === 7) throw new Unavailable('no space left');
      const key = await blobs.put(content);
      stored.add(key);
      writing -= 1;
      return key;
    },
    remove: (key: string) => {
      stored.delete(key);
      return blobs.remove(key);
    },
  };
  const { send } = createSend({ ...rig.dependencies, blobs: failing });
  const before = await rowsOf(rig, 'SELECT seq FROM email');
  const caller = { account: rig.account, mode: 'live' as const, allowedSenders: [] };
  await assert.rejects(send({ caller, origin: {}, read: () => ({ ok: true, value: BODY }) }), /no space left/);
  assert.equal(stored.size, 0);
  assert.deepEqual(await rowsOf(rig, 'SELECT seq FROM email'), before);
});

test('Feedback-ID names tag, account, and sender once without an ID, unless the caller set it', async () => {
  const fieldsOf = async (body: object): Promise<string[]> => {
    const { messageId } = dataOf(await rig.send({ ...GOOD, ...body }));
    const [mail] = await rowsOf<{ content: Uint8Array }>(
      rig,
      `SELECT e.content FROM email e JOIN message m ON m.email_seq = e.seq WHERE m.id = '${messageId}'`,
    );
    const text = Buffer.from(mail!.content).toString('latin1');
    return [...text.matchAll(/^Feedback-ID: (.*)\r$/gim)].map(([, value]) => value!);
  };
  const [untagged] = await fieldsOf({});
  assert.match(untagged!, /^untagged:[0-9a-f]{10}:mail:POSTRIDER$/);
  const [, account] = untagged!.split(':');
  assert.deepEqual(await fieldsOf({ tags: ['welcome', 'second'] }), [`welcome:${account}:mail:POSTRIDER`]);
  assert.deepEqual(await fieldsOf({ headers: { 'feedback-id': 'a:b:c:OTHER' } }), ['a:b:c:OTHER']);
});
