/**
 * MAIL FROM of sent messages as received by the server: the copy that it identifies, its domain, and which recipients have a separate
 * transaction.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { deliveryRig, type Rig } from '../../../test/kit/delivery-rig.ts';
import { type SmtpSink, smtpSink } from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { systemClock } from '../../base/clock.ts';
import { createTokenAddresses } from '../../mail/token-address.ts';
import { createReturnPaths } from './return-path.ts';

const tokens = createTokenAddresses(Buffer.alloc(32, 1));
const returnPaths = createReturnPaths({ tokens, clock: systemClock, bounceDomain: 'bounces.example' });

async function begin(
  t: TestContext,
  { returnPath, isSender = false }: { returnPath?: string; isSender?: boolean } = {},
): Promise<{ sink: SmtpSink; rig: Rig }> {
  const sink = await smtpSink();
  const keysFor = async () => ({ domain: 'shop.example', keys: [], returnPath });
  const rig = await deliveryRig({ relayPort: sink.port, deps: { keysFor, ...(!isSender && { returnPaths }) } });
  t.after(async () => {
    await rig.close();
    await sink.close();
  });
  return { sink, rig };
}

async function delivered(rig: Rig, ids: string[]): Promise<void> {
  for (const id of ids) await waitUntil('the delivery', () => rig.status(id) === 'delivered');
}

/** Returns the claims in the received sender addresses, each with its domain. */
function claimsAt(sink: SmtpSink) {
  return sink.messages.map(({ from, to: recipients }) => {
    const [local = '', domain = ''] = from.split('@');
    const claim = tokens.open(local, Date.now());
    assert.equal(claim?.use, 'bounce', from);
    return { messageId: claim.messageId, isShared: claim.isShared, domain, recipients };
  });
}

test('each recipient has its own transaction and return path', async (t) => {
  const { sink, rig } = await begin(t);
  const to = ['a@x.example', 'b@x.example', 'c@x.example'];
  const ids = await rig.send({ to });
  await delivered(rig, ids);
  const found = claimsAt(sink).sort((one, other) => (one.recipients[0]! < other.recipients[0]! ? -1 : 1));
  assert.deepEqual(
    found,
    to.map((address, index) => ({
      messageId: ids[index],
      isShared: false,
      domain: 'bounces.example',
      recipients: [address],
    })),
  );
});

test('large content is sent once per destination, with a shared return path', async (t) => {
  const { sink, rig } = await begin(t);
  const content = `From: a@shop.example\r\n\r\n${`${'x'.repeat(98)}\r\n`.repeat(1_000)}`;
  const to = ['a@x.example', 'b@x.example'];
  const ids = await rig.send({ to, content, blob: true });
  await delivered(rig, ids);
  const [found, ...others] = claimsAt(sink);
  assert.deepEqual([others.length, found!.isShared, found!.recipients.toSorted()], [0, true, to]);
  assert.ok(ids.includes(found!.messageId));
});

test("the return path uses the sender's domain that points to Postrider", async (t) => {
  const { sink, rig } = await begin(t, { returnPath: 'bounces.shop.example' });
  const ids = await rig.send({ to: ['a@x.example'] });
  await delivered(rig, ids);
  assert.deepEqual(
    claimsAt(sink).map(({ domain, messageId }) => [domain, messageId]),
    [['bounces.shop.example', ids[0]]],
  );
});

test('the null sender is kept, and without a bounce domain MAIL FROM is the sender', async (t) => {
  const { sink, rig } = await begin(t);
  await delivered(rig, await rig.send({ from: 'Nobody <>', to: ['a@x.example'] }));
  assert.equal(sink.messages.at(-1)!.from, '');
  const other = await begin(t, { isSender: true });
  await delivered(other.rig, await other.rig.send({ from: 'shop@shop.example', to: ['a@x.example', 'b@x.example'] }));
  const last = other.sink.messages.at(-1)!;
  assert.deepEqual([last.from, last.to.length], ['shop@shop.example', 2], 'control');
});
