/** Streaming uploads: exactly the announced bytes, slow clients are aborted, and no client delays others. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { againIfPaused } from '../../test/kit/running-time.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { createSemaphore, type Semaphore } from '../base/semaphore.ts';
import { type LeastRate, receive, UploadError, UploadReader } from './receive.ts';

const RATE: LeastRate = { stallMs: 10_000, graceMs: 10_000, bytesPerSecond: 1_000 };

interface Running {
  body: PassThrough;
  /** All bytes yielded so far. */
  received(): Buffer;
  done: Promise<void>;
}

/** Receives a body that the test writes. */
function start(writers: Semaphore, bytes: Buffer, rate = RATE): Running {
  const body = new PassThrough();
  const pieces: Buffer[] = [];
  const expected = { sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest() };
  const reader = new UploadReader(body, rate);
  const run = async (): Promise<void> => {
    try {
      for await (const piece of receive(reader, { ...expected, writers })) {
        pieces.push(Buffer.from(piece));
        await nextTurn();
      }
    } finally {
      reader.close();
    }
  };
  const done = run();
  done.catch(() => undefined);
  return { body, received: () => Buffer.concat(pieces), done };
}

/** Sends a byte occasionally, and the remaining bytes when it is told to hurry. */
async function trickle({ body }: Running, bytes: Buffer, hurry: () => boolean): Promise<void> {
  let at = 0;
  for (; at < bytes.length && !hurry(); at += 1) {
    body.write(bytes.subarray(at, at + 1));
    await pause(3);
  }
  body.end(bytes.subarray(at));
}

const failsAs = (reason: string) => (error: UploadError) => error instanceof UploadError && error.reason === reason;

test('many slow clients do not delay a fast one, and all complete', async () => {
  const writers = createSemaphore(2);
  const small = randomBytes(4_000);
  let hurry = false;
  const slow = Array.from({ length: 30 }, () => start(writers, small));
  const writing = slow.map((one) => trickle(one, small, () => hurry));
  await waitUntil('all of them to start', () => slow.every((one) => one.received().length > 0));
  const large = randomBytes(6_000_000);
  const fast = start(writers, large);
  fast.body.end(large);
  await fast.done;
  assert.ok(fast.received().equals(large));
  assert.ok(slow.every((one) => one.received().length < small.length));
  hurry = true;
  await Promise.all([...writing, ...slow.map((one) => one.done)]);
  for (const one of slow) assert.ok(one.received().equals(small));
});

test('a slow client completes during a continuous series of fast ones', async () => {
  const writers = createSemaphore(1);
  const large = randomBytes(3_000_000);
  let stop = false;
  const busy = async (): Promise<void> => {
    while (!stop) {
      const fast = start(writers, large);
      fast.body.end(large);
      await fast.done;
    }
  };
  const fast = Array.from({ length: 3 }, busy);
  const small = randomBytes(40);
  const slow = start(writers, small);
  await trickle(slow, small, () => false);
  await slow.done;
  assert.ok(slow.received().equals(small));
  stop = true;
  await Promise.all(fast);
});

test('a client that disconnects or stalls releases its permit', async () => {
  const writers = createSemaphore(1);
  const bytes = randomBytes(2_000_000);
  const short = { stallMs: 60, graceMs: 60, bytesPerSecond: 1_000_000 };
  const stalled = start(writers, bytes, short);
  stalled.body.write(bytes.subarray(0, 1_000_000));
  const dead = start(writers, bytes);
  dead.body.write(bytes.subarray(0, 100_000));
  await nextTurn();
  dead.body.destroy();
  const good = start(writers, bytes);
  good.body.end(bytes);
  await good.done;
  assert.ok(good.received().equals(bytes));
  await assert.rejects(stalled.done, failsAs('too-slow'));
  await assert.rejects(dead.done, failsAs('broken-off'));
});

test("waiting for a permit does not count toward the client's time", () => againIfPaused(waitForAPermit));

async function waitForAPermit(): Promise<void> {
  const writers = createSemaphore(1);
  await writers.acquire();
  const bytes = randomBytes(100_000);
  const waiting = start(writers, bytes, { stallMs: 50, graceMs: 50, bytesPerSecond: 1_000_000 });
  waiting.body.end(bytes);
  await pause(150);
  writers.release();
  await waiting.done;
  assert.ok(waiting.received().equals(bytes));
}

test('a client that sends too slowly is aborted even if it never pauses', () => againIfPaused(crawl));

async function crawl(): Promise<void> {
  const bytes = randomBytes(1_000);
  const slow = start(createSemaphore(1), bytes, { stallMs: 10_000, graceMs: 100, bytesPerSecond: 1_000 });
  let isOver = false;
  const over = slow.done.finally(() => {
    isOver = true;
  });
  await Promise.all([trickle(slow, bytes, () => isOver), assert.rejects(over, failsAs('too-slow'))]);
  assert.ok(slow.received().length < bytes.length);
}

test('when the consumer stops, the body is left unread and the connection ends', async () => {
  const writers = createSemaphore(1);
  const bytes = randomBytes(1_000_000);
  const long = start(writers, bytes.subarray(1));
  long.body.end(bytes);
  await assert.rejects(long.done, failsAs('too-long'));
  for (const event of ['data', 'end', 'error', 'close']) assert.equal(long.body.listenerCount(event), 0, event);
  assert.ok(!long.body.destroyed);
  const other = start(writers, bytes);
  other.body.end(Buffer.from(bytes).fill(0, 10, 20));
  await assert.rejects(other.done, failsAs('other-digest'));
  const short = start(writers, bytes);
  short.body.end(bytes.subarray(1));
  await assert.rejects(short.done, failsAs('other-size'));
  // All permits were released.
  await writers.acquire();
});
