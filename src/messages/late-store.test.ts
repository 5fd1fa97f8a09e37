/** The copies that a shared return path is about, by the attempts that deliveries to real servers recorded. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mxRig } from '../../test/kit/mx-rig.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { createReturnPaths } from '../delivery/routing/return-path.ts';
import { createTokenAddresses } from '../mail/token-address.ts';
import { findSentOperation } from './late-store.ts';

const tokens = createTokenAddresses(Buffer.alloc(32, 1));
const content = `From: a@shop.example\r\n\r\n${`${'x'.repeat(98)}\r\n`.repeat(1_000)}`;

test('a shared return path is about the copies that a server accepted with it', async (t) => {
  const mx = await mxRig({ evil: { script: { rcpt: ['250 2.1.5 OK', '451 4.2.1 later'] } }, bank: {} }, { idle: true });
  t.after(() => mx.close());
  const { rig, sinks } = mx;
  mx.serve('evil', ['evil.example']);
  mx.serve('bank', ['bank.example']);
  const returnPaths = createReturnPaths({ tokens, clock: rig.clock, bounceDomain: 'bounces.example' });
  await rig.restart({ returnPaths });
  const to = ['x@evil.example', 'y@evil.example', 'z@evil.example', 'ceo@bank.example', 'cfo@bank.example'];
  const ids = await rig.send({ to, content, blob: true });
  await waitUntil('four deliveries', () => ids.filter((id) => rig.status(id) === 'delivered').length === 4);
  const sentTo = async (returnPath: string): Promise<string[]> => {
    const claim = tokens.open(returnPath.split('@')[0]!, rig.clock.now())!;
    assert.equal(claim.isShared, true);
    const query = { messageId: claim.messageId, sharedReturnPath: returnPath.split('@')[0]! };
    return (await rig.storage.database.execute(findSentOperation, query)).map(({ recipient }) => recipient).sort();
  };
  const [evil] = sinks.evil!.messages;
  const [bank] = sinks.bank!.messages;
  assert.deepEqual([evil!.to.length, bank!.to.length], [2, 2]);
  assert.deepEqual(await sentTo(evil!.from), evil!.to.toSorted());
  assert.deepEqual(await sentTo(bank!.from), bank!.to.toSorted());

  rig.clock.advance(3_600_000);
  await waitUntil('the last delivery', () => ids.every((id) => rig.status(id) === 'delivered'));
  assert.deepEqual(await sentTo(evil!.from), evil!.to.toSorted(), 'the third copy has its own transaction');
});
