/** Simulated scenarios that must all succeed, in separate processes, since these replace their time and their sockets. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { kindOf, shrink } from './shrink.ts';
import { simulateWell } from './simulate-process.ts';
import { addTo, noSums } from './sums.ts';

/** About 0.8 s of CPU time each, in one process on each of two cores; seeds.long.test.ts goes on from there. */
const SEEDS = 40;
/** One part per process, two of which run at the same time; the first one also runs the kept seeds. */
const PART = 20;
const PIECES = Array.from({ length: SEEDS / PART }, (_, part) => ({ first: 1 + part * PART, seeds: PART }));
/** About 5,000 on average. A count, because CPU time depends on what else runs on the machine. */
const MOST_STEPS = 7_500;
const seen = noSums();

describe(`scenarios 1 to ${SEEDS} keep the promises`, { concurrency: 2 }, () => {
  for (const { first, seeds } of PIECES) {
    const isFirst = first === 1;
    test(isFirst ? 'the first ones, and those that once had a fault' : `from ${first} on`, async () => {
      addTo(seen, await simulateWell(first, seeds, ...(isFirst ? (['--kept'] as const) : [])));
    });
  }
});

test('a scenario takes few steps', () => {
  const steps = seen.steps / seen.seeds;
  assert.ok(steps < MOST_STEPS, `${steps} steps each`);
});

test('every kind of fault occurs, and every status transition is reached', () => {
  const faults = [
    'kill',
    'power cut',
    'graceful stop',
    'crash during start',
    'crash during stop',
    'disk I/O error',
    'checkpoint',
    'content past its time',
    'lost DNS datagram',
    'a connection reset',
    'lost reply to the final dot',
    'greylisted',
  ];
  assert.deepEqual(
    faults.filter((one) => !seen.counts[one]),
    [],
  );
  const changes = [
    '>queued',
    '>scheduled',
    'queued>delayed',
    'queued>delivered',
    'delayed>delivered',
    'delayed>bounced',
  ];
  assert.deepEqual(
    changes.filter((one) => !seen.transitions[one]),
    [],
  );
});

const PARTS = Array.from({ length: 40 }, (_, at) => `mail-${at}`);

test('a scenario shrinks to what its failure needs, in few tries', async () => {
  let tries = 0;
  const left = await shrink(PARTS, async (only) => {
    tries += 1;
    return only.includes('mail-3') && only.includes('mail-31') ? only : undefined;
  });
  assert.deepEqual(left, ['mail-3', 'mail-31']);
  assert.ok(tries < 40, `${tries} tries`);
});

test('a failure that needs nothing, or the entire scenario, shrinks to that', async () => {
  assert.deepEqual(await shrink(PARTS, async (only) => only), []);
  assert.deepEqual(await shrink(PARTS, async () => undefined), PARTS);
});

test('parts that a smaller scenario does not reach are also removed', async () => {
  const left = await shrink(['death-1', 'death-2', 'mail-0'], async (only) => {
    if (!only.includes('mail-0')) return undefined;
    return only.includes('death-1') ? only : ['mail-0'];
  });
  assert.deepEqual(left, ['mail-0']);
});

test('failures of the same kind differ only in ids, addresses, and numbers', () => {
  const first = kindOf('key mail-0: 2 messages to r0.0@d0.example');
  assert.equal(kindOf('key mail-11: 3 messages to r7.1@d2.example'), first);
  assert.notEqual(kindOf('msg_0VbmjoLxMlca2usK4VPcl was cancelled, and is delivered'), first);
});
