/**
 * Files of a large message in S3 are streamed completely; a store that closes the connection or goes down in the middle costs an attempt,
 * and never causes a partial message.
 */
import assert from 'node:assert/strict';
import { createPrivateKey, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { generateDkimKeys } from '../../src/mail/compose/dkim-sign.ts';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { faultProxy } from '../kit/fault-proxy.ts';
import { largeMail } from '../kit/large-mail.ts';
import { noLocalS3, startLocalS3 } from '../kit/s3.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('a message with files in S3 arrives; if cut off midway, it is delayed and arrives later', {
  skip: noLocalS3,
}, async (t) => {
  const peer = await startLocalS3();
  const proxy = await faultProxy(Number(new URL(peer.location.endpoint).port));
  const sink = await smtpSink();
  const lines: string[] = [];
  const rig = await deliveryRig({ relayPort: sink.port, idle: true });
  const blobs = peer.open({ location: { endpoint: proxy.url } });
  const { rsa } = await generateDkimKeys();
  const keys = [{ algorithm: 'rsa' as const, selector: 's', privateKey: createPrivateKey(rsa.privateKeyPem) }];
  let signed = true;
  await rig.restart({
    blobs,
    log: createLog('error', (line) => lines.push(line)),
    keysFor: async () => (signed ? { domain: 'shop.example', keys } : undefined),
  });
  t.after(async () => {
    await rig.close();
    await sink.close();
    await proxy.close();
    await peer.close();
  });
  const mail = await largeMail(blobs, [{ bytes: randomBytes(6_000_000) }, { bytes: randomBytes(100_000) }]);
  const send = async (): Promise<string> => {
    const [id] = await rig.send({
      to: ['a@x.example'],
      content: mail.content.toString('latin1'),
      sizeBytes: mail.sizeBytes,
      options: { files: mail.files },
    });
    return id!;
  };
  const arrived = async (id: string, count: number): Promise<void> => {
    await waitUntil('the delivery', () => rig.status(id) === 'delivered');
    assert.equal(sink.messages.length, count);
    assert.ok(sink.messages.at(-1)!.content.subarray(-mail.sizeBytes).equals(mail.whole()));
  };
  await arrived(await send(), 1);

  // Unsigned, so that the first read is the one that is sent.
  signed = false;
  for (const [fault, count] of [
    [{ kind: 'cut', afterBytes: 2_000_000 }, 2],
    [{ kind: 'down' }, 3],
  ] as const) {
    proxy.set(fault, { methods: ['GET'] });
    const id = await send();
    await waitUntil('the delay', () => rig.status(id) === 'delayed');
    assert.equal(rig.events(id).at(-1)!.detail.deliveryDelay!.owner, 'service');
    assert.ok(lines.some((line) => line.includes(id)));
    assert.ok(proxy.met > 0);
    assert.equal(sink.messages.length, count - 1);
    proxy.set();
    rig.clock.advance(120_000);
    await arrived(id, count);
  }
});
