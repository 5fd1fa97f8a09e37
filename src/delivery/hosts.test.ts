/** What is remembered of hosts, and for how long. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { openHostMemory } from './hosts.ts';

const MINUTE_MS = 60_000;

test('a host that fails goes last for 1, 2, 5, then 10 minutes; failures of the same moment are one', () => {
  const clock = fakeClock();
  const hosts = openHostMemory(() => clock.now());
  for (const minutes of [1, 2, 5, 10, 10]) {
    for (let connection = 0; connection < 5; connection += 1) hosts.failed('mx.example');
    clock.advance(minutes * MINUTE_MS - 1);
    assert.equal(hosts.goesLast('mx.example'), true, `within ${minutes} min`);
    clock.advance(1);
    assert.equal(hosts.goesLast('mx.example'), false, `after ${minutes} min`);
  }
  hosts.worked('mx.example');
  hosts.failed('mx.example');
  clock.advance(MINUTE_MS);
  assert.equal(hosts.goesLast('mx.example'), false, 'once it worked, it begins again');
  assert.equal(hosts.goesLast('other.example'), false);
});
