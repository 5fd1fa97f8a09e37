import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('missing or changed content is never sent: alarm, delay, bounce at expiry; others proceed', async (t) => {
  const sink = await smtpSink();
  const lines: string[] = [];
  const log = createLog('error', (line) => lines.push(line));
  const rig = await deliveryRig({ relayPort: sink.port, deps: { log } });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const [gone] = await rig.store({
    to: ['a@x.example'],
    blob: true,
    sendAtMs: rig.clock.now() + 1000,
    lifetimeMs: 60_000,
  });
  for await (const { key } of rig.blobs.list()) await rig.blobs.remove(key);
  const [changed] = await rig.store({
    to: ['b@x.example'],
    blob: true,
    sizeBytes: 12_345,
    sendAtMs: rig.clock.now() + 1000,
  });
  const [altered] = await rig.store({ to: ['d@x.example'], blob: true, sendAtMs: rig.clock.now() + 1000 });
  const { blob_key } = rig.rows<{ blob_key: string }>('SELECT blob_key FROM email ORDER BY seq DESC LIMIT 1')[0]!;
  const file = path.join(rig.storage.folder, 'rig-blobs', blob_key);
  writeFileSync(file, readFileSync(file, 'latin1').replace('Hello', 'Jello'));
  rig.clock.advance(1000);
  const [other] = await rig.send({ to: ['c@x.example'] });
  await waitUntil('the other to be delivered', () => rig.status(other!) === 'delivered');
  await waitUntil('the delays', () => [gone, changed, altered].every((id) => rig.status(id!) === 'delayed'));
  assert.equal(rig.events(gone!)[1]!.detail.deliveryDelay!.category, 'internal');
  assert.ok(
    lines.some((line) => line.includes('missing') && line.includes(gone!)),
    'an alarm names the message',
  );
  assert.ok(lines.some((line) => line.includes('is not what was accepted') && line.includes(altered!)));
  rig.clock.advance(120_000);
  await waitUntil('the bounce', () => rig.status(gone!) === 'bounced');
  assert.equal(rig.events(gone!).at(-1)!.detail.bounce!.category, 'expired');
  assert.equal(sink.messages.length, 1);
});

test('content in the database with any single flipped bit is never sent', async (t) => {
  const sink = await smtpSink();
  const rig = await deliveryRig({ relayPort: sink.port });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  const FLIPS = 40;
  const later = { sendAtMs: rig.clock.now() + 1_000 };
  const altered: string[] = [];
  for (let at = 0; at < FLIPS; at += 1) altered.push(...(await rig.store({ to: [`a${at}@x.example`], ...later })));
  const [whole] = await rig.store({ to: ['whole@x.example'], ...later });
  const emails = rig.rows<{ seq: number; content: Uint8Array }>('SELECT seq, content FROM email ORDER BY seq');
  for (const [index, { seq, content }] of emails.slice(0, FLIPS).entries()) {
    const bit = Math.floor((index * 8 * content.length) / FLIPS);
    content[bit >> 3]! ^= 1 << (bit & 7);
    rig.tamper(`UPDATE email SET content = X'${Buffer.from(content).toString('hex')}' WHERE seq = ?`, seq);
  }
  rig.clock.advance(1_000);
  await waitUntil('the delivery', () => rig.status(whole!) === 'delivered');
  await waitUntil('the delays', () => altered.every((id) => rig.status(id) === 'delayed'));
  assert.deepEqual(
    sink.messages.map(({ to }) => to),
    [['whole@x.example']],
  );
  for (const id of altered) assert.match(rig.attempts(id)[0]!.reply, /is not what was accepted/);
});
