/** Connections that end or stall in the middle of a large message: it is sent again from the start, and arrives once. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import net, { type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { largeMail } from '../kit/large-mail.ts';
import { againIfPaused } from '../kit/running-time.ts';
import { between } from '../kit/smtp-proxy.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

const harms = {
  'the connection is reset': (client: Socket) => void client.resetAndDestroy(),
  'the receiver closes the connection': (client: Socket) => void client.end(),
  'the receiver stops reading': (client: Socket) => void client.pause(),
};

for (const [name, act] of Object.entries(harms)) {
  test(`${name} mid-message: delayed, then delivered completely, once`, (t) => againIfPaused(() => harmOnce(t, act)));
}

async function harmOnce(t: TestContext, act: (client: Socket) => void): Promise<void> {
  const sink = await smtpSink();
  // Early, because reads grow the system's buffers, and a receiver that stops reading must not have capacity for everything.
  const proxy = await between(sink.port, { afterBytes: 200_000, times: 1, act });
  const rig = await deliveryRig({ relayPort: proxy.port, deps: { timeouts: { contentMs: 300 } } });
  t.after(async () => {
    await rig.close();
    await proxy.close();
    await sink.close();
  });
  const mail = await largeMail(rig.blobs, [{ bytes: randomBytes(12_000_000) }]);
  const [id] = await rig.send({
    to: ['a@x.example'],
    content: mail.content.toString('latin1'),
    sizeBytes: mail.sizeBytes,
    options: { files: mail.files },
  });
  await waitUntil('the delay', () => rig.status(id!) === 'delayed');
  assert.equal(rig.events(id!).at(-1)!.detail.deliveryDelay!.category, 'network');
  assert.equal(sink.messages.length, 0);
  // The timeout per block is only this short for the fault.
  await rig.restart({ timeouts: {} });
  rig.clock.advance(120_000);
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
  assert.equal(sink.messages.length, 1);
  assert.ok(sink.messages[0]!.content.subarray(-mail.sizeBytes).equals(mail.whole()));
}

test('a slow receiver gets the timeout per block, however long the message takes', (t) =>
  againIfPaused(() => receiveSlowly(t)));

async function receiveSlowly(t: TestContext): Promise<void> {
  const sink = await smtpSink();
  // Reads part of the available bytes, and pauses for a fraction of the timeout of a block.
  const server = net.createServer((client) => {
    const upstream = net.connect(sink.port, '127.0.0.1');
    for (const socket of [client, upstream]) socket.on('error', () => {});
    client.on('data', (chunk) => {
      upstream.write(chunk);
      if (chunk.length < 1000) return;
      client.pause();
      setTimeout(() => client.resume(), 3);
    });
    upstream.on('data', (chunk) => client.write(chunk));
    client.on('close', () => upstream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as net.AddressInfo;
  const rig = await deliveryRig({ relayPort: port, deps: { timeouts: { contentMs: 250 } } });
  t.after(async () => {
    await rig.close();
    await new Promise<void>((resolve) => server.close(() => resolve()));
    await sink.close();
  });
  const mail = await largeMail(rig.blobs, [{ bytes: randomBytes(9_000_000) }]);
  const began = performance.now();
  const [id] = await rig.send({
    to: ['a@x.example'],
    content: mail.content.toString('latin1'),
    sizeBytes: mail.sizeBytes,
    options: { files: mail.files },
  });
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered', 10_000);
  assert.ok(performance.now() - began > 500, 'it took longer than the timeout of one block');
  assert.ok(sink.messages[0]!.content.subarray(-mail.sizeBytes).equals(mail.whole()));
}
