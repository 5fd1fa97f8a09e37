/** Limits that a relay announces (RFC 9422), counted at the relay. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { relayRig } from '../../../test/kit/relay-rig.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';

test('a relay that accepts one domain per transaction gets the recipients of each domain together', async (t) => {
  const { sink, rig } = await relayRig(t, { extensions: ['PIPELINING', 'LIMITS RCPTDOMAINMAX=1'] });
  const ids = await rig.send({ to: ['a@x.example', 'b@y.example', 'c@X.example', 'd@y.example', 'e@z.example'] });
  await waitUntil('the deliveries', () => ids.every((id) => rig.status(id) === 'delivered'));
  assert.deepEqual(sink.messages.map((mail) => mail.to.map((to) => to.toLowerCase()).sort()).sort(), [
    ['a@x.example', 'c@x.example'],
    ['b@y.example', 'd@y.example'],
    ['e@z.example'],
  ]);
  for (const id of ids) assert.equal(rig.attempts(id).length, 1);
});
