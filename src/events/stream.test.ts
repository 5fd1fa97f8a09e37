/** The log as a stream: resumed at any position during many writes on both databases, with slow readers, a revoked key, and a stop. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { DIALECTS, type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { Database } from '../storage/database.ts';
import { BEGINNING, type EventPlace, readEventsOperation } from './read-store.ts';
import { createEventCursors, createFollowers, eventStream, type StreamOptions } from './stream.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const filters = { messageId: null };

const cursors = createEventCursors(Buffer.alloc(32, 1));

function placeOf(id: string): EventPlace {
  const place = cursors.read(id);
  assert.ok(place, id);
  return place;
}

interface Sent {
  id: string;
  data: Record<string, unknown> | undefined;
}

/** Parses the messages in a text of complete frames, without comments. */
function parse(text: string): Sent[] {
  return text.split('\n\n').flatMap((block) => {
    const lines = block.split('\n');
    const id = lines.find((line) => line.startsWith('id: '))?.slice(4);
    const data = lines.find((line) => line.startsWith('data: '))?.slice(6);
    return id === undefined ? [] : [{ id, data: data === undefined ? undefined : JSON.parse(data) }];
  });
}

async function open(dialect: TempDatabase['database']['dialect'] = 'sqlite') {
  const temp = await tempDatabase(dialect);
  closers.push(() => temp.close());
  const calls: string[] = [];
  const execute: Database['execute'] = (op, args) => {
    calls.push(op.name);
    return temp.database.execute(op, args);
  };
  const database: Database = { ...temp.database, dialect, execute };
  const followers = createFollowers({ database, pollMs: 20 });
  closers.push(() => followers.stop());
  const stream = (options: Partial<StreamOptions> & { accountId: string }) => {
    const controller = new AbortController();
    const made = eventStream({
      read: async (page) => ({ rows: await database.execute(readEventsOperation, page), stoppedAt: null }),
      database,
      followers,
      cursors,
      after: BEGINNING,
      signal: controller.signal,
      isAllowed: async () => true,
      page: { accountId: options.accountId, mode: 'live', ...filters },
      ...options,
    });
    made.on('error', () => undefined);
    return { made, stop: () => controller.abort() };
  };
  return { database, temp, calls, followers, stream };
}

for (const dialect of DIALECTS) {
  test(`an interrupted stream skips and repeats nothing during many writes (${dialect})`, async () => {
    const { database, stream } = await open(dialect);
    const accountId = 'acc_1';
    let written = 0;
    const writers = Array.from({ length: 8 }, async () => {
      for (let i = 0; i < 30; i += 1) {
        await seedMail(database, { accountId, recipients: ['a@x.example', 'b@x.example'] });
        written += 2;
      }
    });
    const seen: string[] = [];
    let place = BEGINNING;
    let breaks = 0;
    while (seen.length < 480) {
      const { made, stop } = stream({ accountId, after: place });
      let left = 1 + ((breaks * 7) % 40);
      for await (const text of made) {
        for (const { id, data } of parse(String(text))) {
          if (data) seen.push(String(data.eventId));
          place = placeOf(id);
          left -= 1;
          // The rest of the page is lost, as if the connection broke.
          if (left === 0) break;
        }
        if (left <= 0 || seen.length === 480) break;
      }
      stop();
      breaks += 1;
    }
    await Promise.all(writers);
    assert.equal(written, 480);
    assert.ok(breaks > 10);
    const page = { accountId, mode: 'live' as const, order: 'asc' as const, ...filters, sinceMs: null, untilMs: null };
    const rows = await database.execute(readEventsOperation, { ...page, after: null, limit: 1_000 });
    assert.deepEqual(
      seen,
      rows.map((row) => row.id),
    );
  });
}

test('a stream has the filters of the list and sends later events', async () => {
  const { database, stream } = await open();
  const first = await seedMail(database, { accountId: 'acc_1' });
  await seedMail(database, { accountId: 'acc_2' });
  const { made, stop } = stream({
    accountId: 'acc_1',
    page: { accountId: 'acc_1', mode: 'live', messageId: first.recipients[0]!.messageId, eventTypes: ['Send'] },
  });
  let text = '';
  made.on('data', (chunk) => {
    text += chunk;
  });
  await waitUntil('the first event', () => parse(text).filter((one) => one.data).length === 1);
  await seedMail(database, { accountId: 'acc_1' });
  const other = stream({ accountId: 'acc_1' });
  let whole = '';
  other.made.on('data', (chunk) => {
    whole += chunk;
  });
  await waitUntil('both events', () => parse(whole).filter((one) => one.data).length === 2);
  await seedMail(database, { accountId: 'acc_1' });
  await waitUntil('the third', () => parse(whole).filter((one) => one.data).length === 3);
  assert.equal(parse(text).filter((one) => one.data).length, 1);
  stop();
  other.stop();
});

test('a stream starts with its position, sends heartbeats, and ends with a retry delay on stop', async () => {
  const { stream } = await open();
  const { made, stop } = stream({ accountId: 'acc_1', heartbeatMs: 10 });
  let text = '';
  made.on('data', (chunk) => {
    text += chunk;
  });
  await waitUntil('two heartbeats', () => text.split(': nothing new\n\n').length > 2);
  assert.match(text, /^retry: \d+\nid: \S+\n\n/);
  const ended = new Promise((resolve) => made.once('end', resolve));
  stop();
  await ended;
  assert.match(text, /retry: \d+\n\n$/);
});

test('a heartbeat is sent even if filtered events arrive continuously', async () => {
  const { database, stream } = await open();
  const accountId = 'acc_busy';
  const page = { accountId, mode: 'live' as const, messageId: null, eventTypes: ['Click'] as const };
  const { made, stop } = stream({ accountId, page, heartbeatMs: 60 });
  let text = '';
  made.on('data', (chunk) => {
    text += chunk;
  });
  let isOver = false;
  const busy = (async () => {
    while (!isOver) await seedMail(database, { accountId });
  })();
  await waitUntil('a heartbeat', () => text.includes(': nothing new\n\n'));
  isOver = true;
  await busy;
  stop();
});

test('a revoked key ends the stream, even if it is idle or not being read', async () => {
  const { database, stream } = await open();
  let isAllowed = true;
  const options = { accountId: 'acc_1', checkMs: 10, isAllowed: async () => isAllowed };
  const idle = stream(options);
  idle.made.resume();
  const unread = stream(options);
  for (let i = 0; i < 10; i += 1) await seedMail(database, { accountId: 'acc_1' });
  await new Promise<void>((resolve) => unread.made.once('readable', () => resolve()));
  const closed = [idle, unread].map(({ made }) => new Promise((resolve) => made.once('close', resolve)));
  isAllowed = false;
  await Promise.all(closed);
});

test('a client that does not read buffers at most two pages and is disconnected', async () => {
  const { database, calls, stream } = await open();
  const accountId = 'acc_1';
  const recipients = Array.from({ length: 50 }, (_, index) => `r${index}@x.example`);
  for (let i = 0; i < 40; i += 1) await seedMail(database, { accountId, recipients });
  calls.length = 0;
  const { made } = stream({ accountId, stalledMs: 200, checkMs: 10 });
  // The client reads the first chunk and then stops.
  await new Promise<void>((resolve) => made.once('readable', () => resolve()));
  const closed = new Promise((resolve) => made.once('close', resolve));
  await closed;
  assert.ok(calls.filter((name) => name === 'events.read').length <= 3, calls.join(' '));
});

test('a thousand idle followers share their queries', async () => {
  const { database, calls, followers } = await open();
  let woken = 0;
  const leave = Array.from({ length: 1_000 }, (_, index) =>
    followers.follow({ accountId: `acc_${index % 100}`, mode: 'live' }, () => {
      woken += 1;
    }),
  );
  await waitUntil('all followers to be woken once', () => woken === 1_000);
  calls.length = 0;
  await waitUntil('five queries', () => calls.length >= 5);
  assert.ok(
    calls.every((name) => name === 'events.latest'),
    'one operation queries for all followers',
  );
  assert.equal(woken, 1_000, 'no follower is woken without an event');
  await seedMail(database, { accountId: 'acc_7' });
  await waitUntil('ten followers to be woken', () => woken === 1_010);
  for (const one of leave) one();
  const count = calls.length;
  followers.nudge();
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.ok(calls.length <= count + 1, 'no followers are left');
});
