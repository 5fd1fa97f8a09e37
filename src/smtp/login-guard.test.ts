import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLoginGuard, type LoginAttempt } from './login-guard.ts';

/** A guard whose clock advances only by its pauses, which are recorded and end immediately or when released. */
function rig({ held = false } = {}) {
  const waits: number[] = [];
  const releases: (() => void)[] = [];
  const state = { nowMs: 0 };
  const guard = createLoginGuard({
    nowMs: () => state.nowMs,
    pause: (ms) => {
      waits.push(ms);
      const endsMs = state.nowMs + ms;
      if (held) return new Promise((resolve) => releases.push(resolve));
      return Promise.resolve().then(() => {
        state.nowMs = Math.max(state.nowMs, endsMs);
      });
    },
  });
  const fail = async (address: string, name = 'a'): Promise<boolean | undefined> =>
    (await guard.enter(address, name))?.failed();
  /** Returns how long a login has to wait, or undefined if it is rejected. */
  const waitOf = async (address: string): Promise<number | undefined> => {
    const before = waits.length;
    const attempt = await guard.enter(address, 'a');
    attempt?.undecided();
    return attempt && (waits[before] ?? 0);
  };
  return { guard, state, waits, releases, fail, waitOf };
}

/** Lets everything continue that is not waiting for anything else. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('delays grow with the failures of an address, are served in order, and affect no other one', async () => {
  const { guard, waits, fail, waitOf } = rig();
  const closes: (boolean | undefined)[] = [];
  for (let i = 0; i < 12; i += 1) closes.push(await fail('192.0.2.1', `name${i}`));
  assert.deepEqual(waits, [250, 500, 1000, 2000, 4000, 8000, 8000]);
  assert.deepEqual(closes.indexOf(true), 9);
  assert.equal(await waitOf('192.0.2.2'), 0);
  // Concurrent: the first waits, the second waits after it, and the third would wait too long.
  const three = [1, 2, 3].map(() => guard.enter('192.0.2.1', 'a'));
  assert.deepEqual(
    (await Promise.all(three)).map((one) => one !== undefined),
    [true, true, false],
  );
  assert.deepEqual(waits.slice(-2), [8000, 16_000]);
});

test('concurrent guesses are delayed as if earlier ones had failed', async () => {
  const { guard, waits, releases } = rig({ held: true });
  const checked: LoginAttempt[] = [];
  let turnedAway = 0;
  for (let i = 0; i < 45; i += 1) {
    void guard.enter('192.0.2.1', `name${i}`).then((attempt) => {
      if (attempt) checked.push(attempt);
      else turnedAway += 1;
    });
  }
  await turn();
  assert.equal(checked.length, 5);
  checked[0]!.failed();
  await turn();
  assert.equal(checked.length, 5, 'a failure frees no capacity');
  for (const attempt of checked.slice(1)) attempt.failed();
  await turn();
  assert.deepEqual([checked.length, waits], [5, [250, 750, 1750, 3750, 7750, 15_750]]);
  assert.equal(turnedAway, 34);
  for (const release of releases) release();
  await turn();
  assert.equal(checked.length, 11);
});

test('many clients with the right password are admitted a few at a time, and none is rejected', async () => {
  const { guard, waits } = rig();
  let under = 0;
  let most = 0;
  const crowd = Array.from({ length: 50 }, async (_, i) => {
    const attempt = await guard.enter('192.0.2.1', 'a');
    under += 1;
    most = Math.max(most, under);
    await turn();
    under -= 1;
    if (i % 2 === 0) attempt!.succeeded();
    else attempt!.undecided();
  });
  await Promise.all(crowd);
  assert.deepEqual([most, waits], [5, []]);
});

test('a success clears the failures of its name, time clears all, and the address is known', async () => {
  const { guard, state, fail, waitOf } = rig();
  for (let i = 0; i < 3; i += 1) await fail('192.0.2.1', 'mine');
  for (let i = 0; i < 5; i += 1) await fail('192.0.2.1', 'theirs');
  assert.equal(guard.knows('192.0.2.1'), false);
  guard.succeeded('192.0.2.1', 'mine');
  assert.equal(guard.knows('192.0.2.1'), true);
  assert.equal(await waitOf('192.0.2.1'), 250, 'the failures of other names are kept');
  (await guard.enter('192.0.2.1', 'theirs'))!.succeeded();
  assert.equal(await waitOf('192.0.2.1'), 0);

  for (let i = 0; i < 8; i += 1) await fail('192.0.2.1');
  state.nowMs += 600_000;
  assert.equal(await waitOf('192.0.2.1'), 0);
  assert.equal(guard.knows('192.0.2.1'), false);
});

test('an unlimited number of names is counted together, unaffected by successes', async () => {
  const { guard, fail, waitOf } = rig();
  for (let i = 0; i < 16; i += 1) await fail('192.0.2.1', `name${i}`);
  for (let i = 0; i < 16; i += 1) guard.succeeded('192.0.2.1', `name${i}`);
  assert.equal(await waitOf('192.0.2.1'), 500, 'six failures are kept');
});

test('the memory for addresses is bounded', async () => {
  const { fail, waitOf } = rig();
  for (let i = 0; i < 12_000; i += 1) for (let n = 0; n < 6; n += 1) await fail(`a${i}`, `name${i}`);
  assert.equal(await waitOf('a0'), 0);
  assert.equal(await waitOf('a11999'), 500);
});

test('guesses at one name from many addresses are slowed down to about twenty per minute', async () => {
  const { guard, state, waits, fail } = rig();
  guard.succeeded('192.0.2.1', 'victim');
  let checked = 0;
  for (let i = 0; state.nowMs < 60_000; i += 1) if ((await fail(`stranger${i}`, 'victim')) !== undefined) checked += 1;
  assert.ok(checked >= 20 && checked <= 25, `${checked} guesses were checked in a minute`);
  assert.deepEqual(waits.slice(0, 7), [250, 500, 1000, 2000, 4000, 8000, 8000]);

  const before = waits.length;
  const own = await guard.enter('192.0.2.1', 'victim');
  own!.failed();
  assert.equal(waits.length, before, 'a known address of the name is not delayed, right or wrong');
  (await guard.enter('stranger0', 'another'))!.undecided();
  assert.equal(waits.length, before, 'another name is unaffected');
  // The owner's logins in between do not free capacity.
  guard.succeeded('192.0.2.1', 'victim');
  await fail('stranger-late', 'victim');
  assert.equal(waits.at(-1), 8000);
  state.nowMs += 600_000;
  await fail('stranger-later', 'victim');
  assert.equal(waits.at(-1), 8000, 'ten minutes without a guess clear them: no other delay');
  assert.equal(waits.length, before + 1);
});

test('concurrent guesses at one name from many addresses count as if earlier ones had failed', async () => {
  const { guard, waits, releases } = rig({ held: true });
  const checked: LoginAttempt[] = [];
  let turnedAway = 0;
  for (let i = 0; i < 300; i += 1) {
    void guard.enter(`stranger${i}`, 'victim').then((attempt) => {
      if (attempt) checked.push(attempt);
      else turnedAway += 1;
    });
  }
  await turn();
  assert.equal(checked.length, 10);
  for (const attempt of checked.slice()) attempt.failed();
  await turn();
  assert.deepEqual([waits, turnedAway], [[250, 750, 1750, 3750, 7750, 15_750], 284]);
  for (const release of releases) release();
  await turn();
  assert.equal(checked.length, 16);
});

test('many new addresses with the right password are neither delayed nor rejected', async () => {
  const { guard, waits } = rig();
  const crowd = Array.from({ length: 200 }, async (_, i) => {
    const attempt = await guard.enter(`server${i}`, 'shared');
    await turn();
    attempt!.succeeded();
  });
  await Promise.all(crowd);
  assert.deepEqual(waits, []);
});

test('a flood of other names does not evict a name that is slowed down', async () => {
  const { waits, fail } = rig();
  for (let i = 0; i < 11; i += 1) await fail(`stranger${i}`, 'victim');
  for (let i = 0; i < 25_000; i += 1) await fail(`bot${i}`, `random${i}`);
  const before = waits.length;
  await fail('stranger', 'victim');
  assert.equal(waits.length, before + 1);
});
