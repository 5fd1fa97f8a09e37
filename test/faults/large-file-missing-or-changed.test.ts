/**
 * A stored file of a large message is missing, changed, or fails while it is read: the receiver accepts nothing, the operator is alerted,
 * other mail is delivered, and the message arrives complete once the file is restored, or bounces when it expires.
 */
import assert from 'node:assert/strict';
import { createPrivateKey, randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { generateDkimKeys } from '../../src/mail/compose/dkim-sign.ts';
import type { Blobs } from '../../src/storage/blobs/blobs.ts';
import { deliveryRig, type Rig } from '../kit/delivery-rig.ts';
import { type LargeMail, largeMail } from '../kit/large-mail.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const { ed25519 } = await generateDkimKeys();
const key = { algorithm: 'ed25519' as const, selector: 's', privateKey: createPrivateKey(ed25519.privateKeyPem) };

interface Scene {
  sink: SmtpSink;
  rig: Rig;
  lines: string[];
  mail: LargeMail;
  id: string;
  /** Where the second file of the message is stored. */
  file: string;
  /** Makes the message due. */
  go(): void;
}

async function scene(
  t: TestContext,
  options: { signed: boolean; lifetimeMs?: number; blobs?: (blobs: Blobs) => Blobs },
): Promise<Scene> {
  const sink = await smtpSink();
  const lines: string[] = [];
  const log = createLog('error', (line) => lines.push(line));
  const rig = await deliveryRig({ relayPort: sink.port, idle: true });
  const keysFor = async () => (options.signed ? { domain: 'shop.example', keys: [key] } : undefined);
  await rig.restart({ log, keysFor, blobs: options.blobs?.(rig.blobs) ?? rig.blobs });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const mail = await largeMail(rig.blobs, [{ bytes: randomBytes(50_000) }, { bytes: randomBytes(3_000_000) }]);
  const [id] = await rig.store({
    to: ['a@x.example'],
    content: mail.content.toString('latin1'),
    sizeBytes: mail.sizeBytes,
    options: { files: mail.files },
    sendAtMs: rig.clock.now() + 1000,
    ...(options.lifetimeMs === undefined ? {} : { lifetimeMs: options.lifetimeMs }),
  });
  const file = path.join(rig.storage.folder, 'rig-blobs', mail.files[1]!.blobKey);
  return { sink, rig, lines, mail, id: id!, file, go: () => rig.clock.advance(1000) };
}

/** What happens while the file is damaged. */
async function delayed({ sink, rig, lines, id }: Scene, alarm: RegExp): Promise<void> {
  await waitUntil('the delay', () => rig.status(id) === 'delayed');
  const { deliveryDelay } = rig.events(id).at(-1)!.detail;
  assert.deepEqual([deliveryDelay!.category, deliveryDelay!.owner], ['internal', 'service']);
  assert.match(String(deliveryDelay!.reply), alarm);
  assert.ok(!String(deliveryDelay!.reply).includes(rig.storage.folder), 'no path is revealed');
  const told = lines.map((line) => JSON.parse(line) as { messageId: string; msg: string });
  assert.ok(told.some((line) => line.messageId === id && alarm.test(line.msg)));
  const [other] = await rig.send({ to: ['other@x.example'] });
  await waitUntil('another message', () => rig.status(other!) === 'delivered');
  assert.equal(sink.messages.length, 1, 'only the other mail was accepted');
}

async function deliveredWhole({ sink, rig, mail, id }: Scene): Promise<void> {
  rig.clock.advance(120_000);
  await waitUntil('the delivery', () => rig.status(id) === 'delivered');
  assert.equal(sink.messages.length, 2);
  assert.ok(sink.messages[1]!.content.subarray(-mail.sizeBytes).equals(mail.whole()));
}

for (const signed of [true, false]) {
  const kind = signed ? 'signed' : 'unsigned';

  test(`${kind}: a missing file is found before any server is contacted`, async (t) => {
    const one = await scene(t, { signed });
    await rename(one.file, `${one.file}.away`);
    one.go();
    await delayed(one, /missing/);
    assert.ok(!one.sink.commands.some((line) => line.includes('<a@x.example>')));
    await rename(`${one.file}.away`, one.file);
    await deliveredWhole(one);
  });

  test(`${kind}: the receiver never accepts a changed file`, async (t) => {
    const one = await scene(t, { signed });
    const bytes = await readFile(one.file);
    const changed = Buffer.from(bytes);
    changed[2_999_999] = changed[2_999_999]! ^ 1;
    await writeFile(one.file, changed);
    one.go();
    await delayed(one, /SHA-256 differs/);
    // Signing reads the file first; without signing, the connection is cut in the middle.
    assert.equal(
      one.sink.commands.some((line) => line.includes('<a@x.example>')),
      !signed,
    );
    await writeFile(one.file, bytes);
    await deliveredWhole(one);
  });

  test(`${kind}: a file that fails during sending closes the connection`, async (t) => {
    let broken = true;
    const opens = { count: 0 };
    const one = await scene(t, {
      signed,
      blobs: (blobs) => ({
        ...blobs,
        open: async (blobKey) => {
          const reader = (await blobs.open!(blobKey))!;
          opens.count += 1;
          // Signing reads both files once more: that pass succeeds.
          const breaks = broken && opens.count === (signed ? 4 : 2);
          let fills = 0;
          const fill = (into: Buffer): Promise<number> => {
            fills += 1;
            return breaks && fills > 5 ? Promise.reject(new Error('EIO: /secret/path')) : reader.fill(into);
          };
          return { fill, close: () => reader.close() };
        },
      }),
    });
    one.go();
    await delayed(one, /cannot be read/);
    assert.ok(one.sink.commands.some((line) => line.includes('<a@x.example>')));
    broken = false;
    await deliveredWhole(one);
  });
}

test('a file that stays missing: the message bounces when it expires', async (t) => {
  const one = await scene(t, { signed: true, lifetimeMs: 60_000 });
  await one.rig.blobs.remove(one.mail.files[1]!.blobKey);
  one.go();
  await delayed(one, /missing/);
  one.rig.clock.advance(120_000);
  await waitUntil('the bounce', () => one.rig.status(one.id) === 'bounced');
  assert.equal(one.rig.events(one.id).at(-1)!.detail.bounce!.category, 'expired');
});
