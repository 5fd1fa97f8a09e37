/** Turns of uploads: few places, handed on in order, and never held by a client that brings nothing. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { againIfPaused } from '../../test/kit/running-time.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { Inflow, UploadError, type UploadPace } from './inflow.ts';
import { receive } from './receive.ts';
import { createUploadTurns, type UploadTurns } from './upload-turns.ts';

const PACE: UploadPace = { stallMs: 10_000, graceMs: 10_000, bytesPerSecond: 1_000 };

interface Running {
  body: PassThrough;
  /** All that was given out so far. */
  received(): Buffer;
  done: Promise<void>;
}

/** Receives a body of these bytes, which the test writes. */
function start(turns: UploadTurns, bytes: Buffer, pace = PACE): Running {
  const body = new PassThrough();
  const seat = turns.seat();
  const pieces: Buffer[] = [];
  const expected = { sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest() };
  const { isWanted, moved: onArrived } = seat;
  const inflow = new Inflow(body, { sizeBytes: bytes.length, pace, isWanted, onArrived });
  const run = async (): Promise<void> => {
    try {
      for await (const piece of receive(inflow, expected, seat)) {
        pieces.push(Buffer.from(piece));
        await nextTurn();
      }
    } finally {
      inflow.close();
      seat.leave();
    }
  };
  const done = run();
  done.catch(() => undefined);
  return { body, received: () => Buffer.concat(pieces), done };
}

/** A byte now and then, and the rest once it is told to hurry. */
async function trickle({ body }: Running, bytes: Buffer, hurry: () => boolean): Promise<void> {
  let at = 0;
  for (; at < bytes.length && !hurry(); at += 1) {
    body.write(bytes.subarray(at, at + 1));
    await pause(3);
  }
  body.end(bytes.subarray(at));
}

test('places are handed on in the order of asking, and memory is used again', async () => {
  const turns = createUploadTurns(2);
  const seats = Array.from({ length: 4 }, () => turns.seat());
  const order: number[] = [];
  const memories = seats.map(async (seat, index) => {
    const memory = await seat.take();
    order.push(index);
    return memory;
  });
  await nextTurn();
  assert.deepEqual(order, [0, 1]);
  assert.ok(seats[0]!.isWanted());
  seats[1]!.leave();
  seats[1]!.leave();
  await nextTurn();
  assert.deepEqual(order, [0, 1, 2]);
  assert.equal((await memories[2])![0], (await memories[1])![0]);
  seats[0]!.leave();
  await nextTurn();
  assert.deepEqual(order, [0, 1, 2, 3]);
  assert.ok(!seats[2]!.isWanted());
});

test('many slow clients do not hold up a fast one, and come through themselves', async () => {
  const turns = createUploadTurns(2);
  const small = randomBytes(4_000);
  let hurry = false;
  const slow = Array.from({ length: 30 }, () => start(turns, small));
  const writing = slow.map((one) => trickle(one, small, () => hurry));
  await waitUntil('all of them to have begun', () => slow.every((one) => one.received().length > 0));
  const large = randomBytes(6_000_000);
  const fast = start(turns, large);
  fast.body.end(large);
  await fast.done;
  assert.ok(fast.received().equals(large));
  assert.ok(slow.every((one) => one.received().length < small.length));
  hurry = true;
  await Promise.all([...writing, ...slow.map((one) => one.done)]);
  for (const one of slow) assert.ok(one.received().equals(small));
});

test('a slow client comes through while fast ones follow each other without an end', async () => {
  const turns = createUploadTurns(1);
  const large = randomBytes(3_000_000);
  let stop = false;
  const busy = async (): Promise<void> => {
    while (!stop) {
      const fast = start(turns, large);
      fast.body.end(large);
      await fast.done;
    }
  };
  const fast = Array.from({ length: 3 }, busy);
  const small = randomBytes(40);
  const slow = start(turns, small);
  await trickle(slow, small, () => false);
  await slow.done;
  assert.ok(slow.received().equals(small));
  stop = true;
  await Promise.all(fast);
});

test('a client that dies or stalls while it has a place, or waits for one, leaves it to others', async () => {
  const turns = createUploadTurns(1);
  const bytes = randomBytes(2_000_000);
  const short = { stallMs: 60, graceMs: 60, bytesPerSecond: 1_000_000 };
  const stalled = start(turns, bytes, short);
  stalled.body.write(bytes.subarray(0, 1_000_000));
  const dead = start(turns, bytes);
  dead.body.write(bytes.subarray(0, 100_000));
  await nextTurn();
  dead.body.destroy();
  const good = start(turns, bytes);
  good.body.end(bytes);
  await good.done;
  assert.ok(good.received().equals(bytes));
  await assert.rejects(stalled.done, (error: UploadError) => error.fault === 'too-slow');
  await assert.rejects(dead.done, (error: UploadError) => error.fault === 'broken-off');
});

test('waiting for a place is not the client’s time', () => againIfPaused(waitForAPlace));

async function waitForAPlace(): Promise<void> {
  const turns = createUploadTurns(1);
  const first = turns.seat();
  await first.take();
  const bytes = randomBytes(100_000);
  const waiting = start(turns, bytes, { stallMs: 50, graceMs: 50, bytesPerSecond: 1_000_000 });
  waiting.body.end(bytes);
  await pause(150);
  first.leave();
  await waiting.done;
  assert.ok(waiting.received().equals(bytes));
}

test('whoever gives up in the middle leaves the body at rest, and bytes beyond the size end it', async () => {
  const turns = createUploadTurns(1);
  const bytes = randomBytes(1_000_000);
  const long = start(turns, bytes.subarray(1));
  long.body.write(bytes);
  await assert.rejects(long.done, (error: UploadError) => error instanceof UploadError && error.fault === 'too-long');
  assert.equal(long.body.listenerCount('data'), 0);
  assert.ok(!long.body.destroyed);
  const other = start(turns, bytes);
  other.body.end(Buffer.from(bytes).fill(0, 10, 20));
  await assert.rejects(other.done, (error: UploadError) => error.fault === 'other-digest');
  const short = start(turns, bytes);
  short.body.end(bytes.subarray(1));
  await assert.rejects(short.done, (error: UploadError) => error.fault === 'other-size');
});
