/** Inbound messages and their handlers: processed once, in round-robin order, retried during outages, and quarantined after crashes. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { afterEach, test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { DIALECTS, type Dialect, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { createLog } from '../base/log.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import type { Handler, InboundMail, Use } from './inbound-mail.ts';
import { createInboundQueue, type InboundItem } from './queue.ts';
import { type ClaimedInbound, claimInboundOperation, findInboundOperation, storeInboundOperation } from './store.ts';
import { createKeeper, startInboundWorker } from './worker.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function rig(dialect: Dialect, nodes = 1) {
  const temp = await tempDatabase(dialect);
  closers.push(() => temp.close());
  const { database } = temp;
  const clock = fakeClock(Date.now());
  const blobs = openDiskBlobs(path.join(temp.folder, 'inbound-blobs'));
  const lines: string[] = [];
  const log = createLog('info', (line) => lines.push(line));
  const keeper = createKeeper(database);
  const read: InboundMail[] = [];
  let reading: (mail: InboundMail) => Promise<void> = async () => undefined;
  const handler: Handler<null> = {
    read: async (mail) => {
      await reading(mail);
      read.push(mail);
      return null;
    },
    record: keeper.record,
  };
  const kinds = { abuse: handler, postmaster: handler, route: handler, unsubscribe: handler, 'return-path': handler };
  const start = () => {
    const deps = { database, blobs, clock, log, handlers: kinds, random: () => 0.5, onRecorded: () => undefined };
    const worker = startInboundWorker({ ...deps, pollMs: 50, quarantineAfterMs: 0, crashWatchMs: 50 });
    closers.push(() => worker.stop());
    return worker;
  };
  const workers = Array.from({ length: nodes }, start);
  const store = async (
    change: { use?: Use; content?: Buffer; blobKey?: string; address?: string } = {},
  ): Promise<string> => {
    const { use = { kind: 'abuse' }, content = Buffer.from('mail'), blobKey = null, address = '192.0.2.1' } = change;
    const id = newId('inb');
    const facts = { id, receivedAtMs: clock.now(), envelopeFrom: '', recipient: 'abuse@b.example', use };
    const client = { address, helo: 'mx.example', tls: null };
    const bytes = { sizeBytes: content.length, content: blobKey === null ? content : null, blobKey };
    await database.execute(storeInboundOperation, [{ ...facts, client, ...bytes, nowMs: clock.now() }]);
    return id;
  };
  return {
    database,
    clock,
    blobs,
    workers,
    start,
    store,
    read,
    lines,
    onRead: (next: typeof reading) => {
      reading = next;
    },
  };
}

for (const dialect of DIALECTS) {
  test(`each message is processed once by any node, with unchanged content (${dialect})`, async () => {
    const r = await rig(dialect, 2);
    const large = Buffer.alloc(200_000, 'large ');
    const blobKey = await r.blobs.put(large);
    const ids = [await r.store({ content: large, blobKey })];
    for (let index = 0; index < 60; index += 1) ids.push(await r.store({ content: Buffer.from(`mail ${index}`) }));
    for (const worker of r.workers) worker.nudge();
    await waitUntil('all to be read', () => r.read.length === ids.length);
    assert.deepEqual(r.read.map(({ id }) => id).sort(), [...ids].sort());
    const mail = r.read.find(({ id }) => id === ids[0])!;
    assert.ok((await mail.content()).equals(large));
    assert.equal((await r.read.find(({ id }) => id === ids[7])!.content()).toString(), 'mail 6');
  });
}

test('a message unreadable due to an outage is retried with growing delays and no crash count', async () => {
  const r = await rig('sqlite');
  let tries = 0;
  r.onRead(async () => {
    tries += 1;
    if (tries <= 4) throw new Unavailable('the DNS is away');
  });
  await r.store();
  for (const minutes of [1, 5, 15, 30]) {
    const before = tries;
    await waitUntil('an attempt', () => tries > before || r.read.length > 0);
    r.clock.advance(minutes * 60_000 - 1_000);
    r.workers[0]!.nudge();
    r.clock.advance(2_000);
  }
  await waitUntil('the end', () => r.read.length === 1);
  assert.equal(tries, 5);
});

test('a message that crashes Postrider three times is quarantined, and others are processed', async () => {
  const r = await rig('sqlite');
  let poison = '';
  let thrown = 0;
  r.onRead(async ({ id }) => {
    if (id !== poison) return;
    thrown += 1;
    throw new TypeError('a bug');
  });
  poison = await r.store();
  for (let crash = 1; crash <= 3; crash += 1) {
    await waitUntil(`crash ${crash}`, () => thrown === crash);
    const other = await r.store();
    await waitUntil('another to be read', () => r.read.some(({ id }) => id === other));
    r.clock.advance(61_000);
  }
  await waitUntil('the message to be quarantined', () => r.lines.some((line) => line.includes('quarantined')));
  assert.equal(thrown, 3);
  const kept = await r.database.execute(findInboundOperation, { id: poison, accountId: '', mode: 'live' });
  assert.equal(Buffer.from(kept!.content!).toString(), 'mail');
});

const SMALL = 1_000;
function itemOf(lane: string, seq: number, sizeBytes = SMALL): InboundItem {
  const job = { seq, lane, mail: { sizeBytes } } as InboundItem['job'];
  return { job, state: 'waiting', leaseUntilMs: 0, quarantined: false };
}

/** A queue as the engine uses it. */
function queueRig() {
  const queue = createInboundQueue();
  const change = (one: InboundItem, state: InboundItem['state']): void => {
    const from = one.state;
    one.state = state;
    queue.changed(one, from);
  };
  const start = (): InboundItem | undefined => {
    const next = queue.next();
    if (next) change(next, 'running');
    return next;
  };
  let seq = 0;
  const admit = (lane: string, count: number, sizeBytes?: number): number => {
    let admitted = 0;
    for (let index = 0; index < count; index += 1) {
      seq += 1;
      if (queue.admit(itemOf(lane, seq, sizeBytes), { first: false, laneHasParked: false })) admitted += 1;
    }
    return admitted;
  };
  const started = (): InboundItem[] => Array.from({ length: 100 }, start).filter((one) => one !== undefined);
  return { queue, change, start, started, admit };
}

test('lanes alternate, and a full lane does not block others', () => {
  const { queue, admit } = queueRig();
  assert.equal(admit('busy', 300), 256);
  assert.equal(admit('quiet', 1), 1);
  const turns = Array.from({ length: 4 }, () => queue.next()?.job);
  assert.deepEqual(
    turns.map((job) => `${job?.lane} ${job?.seq}`),
    ['busy 1', 'quiet 301', 'busy 2', 'busy 3'],
  );
  assert.deepEqual(queue.resumable(['busy', 'quiet'], 0), [
    { lane: 'busy', limit: 3 },
    { lane: 'quiet', limit: 256 },
  ]);
});

const floods: [name: string, flood: { use: Use; address?: string }, other: { use: Use; address?: string }][] = [
  ['of one token', { use: tokenOf('msg_flood') }, { use: tokenOf('msg_other') }],
  ['of one address to abuse', { use: { kind: 'abuse' } }, { use: { kind: 'abuse' }, address: '192.0.2.99' }],
  ['for one account', { use: routeOf('acc_flood') }, { use: routeOf('acc_other') }],
];
function tokenOf(messageId: string): Use {
  return { kind: 'return-path', copy: { messageId, isShared: false, day: 1 } };
}
function routeOf(accountId: string): Use {
  return { kind: 'route', accountId, mode: 'live', routeId: 'inr_1' };
}

for (const [name, flood, other] of floods)
  test(`a flood ${name} does not delay other mail`, async () => {
    const r = await rig('sqlite', 0);
    const execute = r.database.execute.bind(r.database);
    let claimed = 0;
    r.database.execute = async (operation, args) => {
      const answer = await execute(operation, args);
      if ((operation as unknown) === claimInboundOperation) claimed += (answer as ClaimedInbound).taken.rows;
      return answer;
    };
    for (let index = 0; index < 100; index += 1) await r.store(flood);
    const id = await r.store(other);
    // No message completes before all are in progress.
    r.onRead(async () => void (await waitUntil('all to be claimed', () => claimed >= 101)));
    r.start();
    await waitUntil('the message after the flood', () => r.read.some((mail) => mail.id === id));
    const before = r.read.findIndex((mail) => mail.id === id);
    assert.ok(before <= 8, `${before} of 100 were read before it`);
  });

test('concurrent reads are limited per lane, with capacity reserved for reports', () => {
  const { admit, started, change } = queueRig();
  admit('route acc_1', 20);
  const first = started();
  assert.equal(first.length, 4);
  for (let account = 2; account <= 15; account += 1) admit(`route acc_${account}`, 20);
  assert.equal(started().length, 44, '48 across all accounts');
  for (let copy = 1; copy <= 10; copy += 1) admit(`return-path msg_${copy}`, 20);
  assert.equal(started().length, 16, 'the remaining capacity is reserved for reports');
  change(first[0]!, 'settling');
  change(first[0]!, 'gone');
  change(first[1]!, 'gone');
  assert.equal(started().length, 2, 'as many as have ended');
});

test('large messages waiting for DNS do not delay reports or small messages of other accounts', () => {
  const { admit, started, change } = queueRig();
  const lanesOf = (items: InboundItem[]): string[] => items.map(({ job }) => job.lane);
  admit('route acc_1', 10, 16_000_000);
  const large = started();
  assert.equal(large.length, 2, 'half of the bytes');
  admit('return-path msg_1', 1, 1_000_000);
  admit('route acc_2', 1);
  assert.deepEqual(lanesOf(started()), ['return-path msg_1', 'route acc_2']);
  admit('route acc_3', 10, 16_000_000);
  assert.equal(started().length, 1, 'all of the bytes');
  admit('return-path msg_2', 1, 1_000_000);
  assert.deepEqual(lanesOf(started()), ['return-path msg_2']);
  change(large[0]!, 'settling');
  assert.deepEqual(lanesOf(started()), ['route acc_1'], 'the first in the queue');
});

test('consecutive messages are claimed together', async () => {
  const r = await rig('sqlite', 0);
  const execute = r.database.execute.bind(r.database);
  let claims = 0;
  r.database.execute = (operation, args) => {
    if ((operation as unknown) === claimInboundOperation) claims += 1;
    return execute(operation, args);
  };
  const began = performance.now();
  const worker = r.start();
  for (let index = 0; index < 60; index += 1) {
    await r.store();
    worker.nudge();
  }
  await waitUntil('all to be read', () => r.read.length === 60);
  const most = 2 + (performance.now() - began) / 90;
  assert.ok(claims <= most, `${claims} claims, at most ${most} expected`);
});
