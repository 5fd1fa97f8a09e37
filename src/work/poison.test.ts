import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openRunningLimit } from './poison.ts';

/** Resolves after everything that resolves without a timer. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const always = (): boolean => true;

test('a process may run one row, plus one for each second of uptime, up to sixteen', async () => {
  for (const [ageMs, most] of [
    [0, 1],
    [2_999, 3],
    [15_000, 16],
    [3_600_000, 16],
  ] as const) {
    const limit = openRunningLimit(() => ageMs);
    let entered = 0;
    let open = true;
    const entering = Array.from({ length: 20 }, () =>
      limit
        .enter(1, () => open)
        .then((isIn) => {
          if (isIn) entered += 1;
        }),
    );
    await settled();
    assert.equal(entered, most, `${ageMs} ms`);
    limit.leave(1);
    await settled();
    assert.equal(entered, most + 1, 'one leaves and another enters');
    open = false;
    limit.leave(1);
    await Promise.all(entering);
    assert.equal(entered, most + 1, 'rows waiting at a stop are rejected');
  }
});

test('waiting rows start as the uptime grows', async () => {
  let ageMs = 0;
  const limit = openRunningLimit(() => ageMs);
  await limit.enter(1, always);
  const second = limit.enter(1, always);
  ageMs = 1_000;
  assert.equal(await second, true);
});

test('a group over the limit runs alone and is not overtaken by smaller ones', async () => {
  const limit = openRunningLimit(() => 9_000);
  const order: string[] = [];
  const enter = (name: string, rows: number) => limit.enter(rows, always).then(() => order.push(name));
  await enter('one', 1);
  const group = enter('group', 50);
  const last = enter('last', 1);
  await settled();
  assert.deepEqual(order, ['one']);
  limit.leave(1);
  await group;
  await settled();
  assert.deepEqual(order, ['one', 'group']);
  limit.leave(50);
  await last;
  assert.deepEqual(order, ['one', 'group', 'last']);
});
