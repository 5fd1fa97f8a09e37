/** How long host failures are remembered. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { openHostMemory } from './hosts.ts';

const MINUTE_MS = 60_000;

const MX = 'mx.example';
const peer = (address: string) => ({ host: MX, address });

test('a failed address goes last for 1, 2, 5, then 10 minutes, and concurrent failures count once', () => {
  const clock = fakeClock();
  const hosts = openHostMemory(() => clock.now());
  const fail = (): void => hosts.failed(MX, ['192.0.2.1'], ['192.0.2.1']);
  for (const minutes of [1, 2, 5, 10, 10]) {
    for (let connection = 0; connection < 5; connection += 1) fail();
    clock.advance(minutes * MINUTE_MS - 1);
    assert.equal(hosts.isFailing(peer('192.0.2.1')), true, `within ${minutes} min`);
    assert.equal(hosts.isBackedOff(MX), true, `within ${minutes} min`);
    clock.advance(1);
    assert.equal(hosts.isFailing(peer('192.0.2.1')), false, `after ${minutes} min`);
    assert.equal(hosts.isBackedOff(MX), false, `after ${minutes} min`);
  }
  hosts.worked(peer('192.0.2.1'));
  fail();
  clock.advance(MINUTE_MS);
  assert.equal(hosts.isBackedOff(MX), false, 'after a success the interval starts over');
  assert.equal(hosts.isBackedOff('other.example'), false);
});

test('a host goes last when all of its addresses fail', () => {
  const clock = fakeClock();
  const hosts = openHostMemory(() => clock.now());
  const all = ['192.0.2.1', '192.0.2.2'];
  hosts.failed(MX, ['192.0.2.1'], all);
  assert.deepEqual([hosts.isFailing(peer('192.0.2.1')), hosts.isBackedOff(MX)], [true, false]);
  hosts.failed(MX, ['192.0.2.2'], all);
  assert.equal(hosts.isBackedOff(MX), true);
  hosts.worked(peer('192.0.2.2'));
  assert.equal(hosts.isBackedOff(MX), false);
});

test('PIPELINING is avoided for 3 days after lost commands, connection reuse for an hour', () => {
  const clock = fakeClock();
  const hosts = openHostMemory(() => clock.now());
  hosts.pipeliningFailed(peer('192.0.2.1'), { isSure: true });
  hosts.reuseFailed(peer('192.0.2.1'));
  const now = () => [hosts.mayPipeline(peer('192.0.2.1')), hosts.mayReuse(peer('192.0.2.1'))];
  assert.deepEqual(now(), [false, false]);
  assert.deepEqual([hosts.mayPipeline(peer('192.0.2.2')), hosts.mayReuse(peer('192.0.2.2'))], [true, true]);
  clock.advance(60 * MINUTE_MS);
  assert.deepEqual(now(), [false, true]);
  clock.advance(71 * 60 * MINUTE_MS);
  assert.deepEqual(now(), [true, true]);
});
