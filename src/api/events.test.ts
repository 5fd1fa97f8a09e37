/** GET /events: filters, pages that are exact during writes, and following the log. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Api } from '../../test/kit/api.ts';
import { type FeatureApp, featureApp } from '../../test/kit/feature-app.ts';
import { assertPaged } from '../../test/kit/list-pages.ts';
import { seedInbound } from '../../test/kit/seed-inbound.ts';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { EVENT_TYPES } from '../events/event.ts';
import { type EventPlace, latestPlacesOperation } from '../events/read-store.ts';
import { createEventCursors, createFollowers } from '../events/stream.ts';
import { createConcurrencyLimiter } from '../limits/limits.ts';
import { createSearches } from '../storage/searches.ts';
import { eventRoutes } from './events.ts';

const secretKey = Buffer.alloc(32, 1);
let app: FeatureApp;
before(async () => {
  app = await featureApp(({ database }) =>
    eventRoutes({
      database,
      secretKey,
      searches: createSearches({ firstRows: 2, answerMs: 60_000 }),
      followers: createFollowers({ database }),
      isAllowed: async () => true,
      streams: createConcurrencyLimiter('eventStreams', () => 1),
    }),
  );
});
after(() => app.close());

const seed = (accountId: string, count: number, nowMs = Date.now()) =>
  Promise.all(Array.from({ length: count }, () => seedMail(app.temp.database, { accountId, nowMs })));

async function pages(api: Api, query: string, between?: () => Promise<unknown>): Promise<string[]> {
  const ids: string[] = [];
  let cursor = '';
  for (;;) {
    const page = await api.get(`/events?${query}${cursor}`);
    assert.equal(page.status, 200, page.text);
    ids.push(...page.body.map((event: { eventId: string }) => event.eventId));
    if (!page.headers.link) return ids;
    cursor = `&cursor=${page.headers['x-next-cursor']}`;
    await between?.();
  }
}

test('events are listed newest first, with the documented fields, of one account and mode only', async () => {
  const api = app.api('acc_a');
  const mail = await seedMail(app.temp.database, { accountId: 'acc_a', subject: 'Grüße', tags: ['x'] });
  await seed('acc_b', 3);
  const list = await api.get('/events');
  assert.equal(list.body.length, 1);
  const { eventId, timestamp, ...rest } = list.body[0];
  assert.match(eventId, /^evt_/);
  assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(rest, {
    eventType: 'Send',
    messageId: mail.recipients[0]!.messageId,
    mode: 'live',
    recipient: 'ada@example.com',
    from: 'Shop <shop@example.org>',
    subject: 'Grüße',
    headerMessageId: JSON.parse(mail.answer).data.headerMessageId,
    tags: ['x'],
    metadata: {},
  });
  assert.deepEqual((await app.api('acc_a', 'sandbox').get('/events')).body, []);
  assert.equal((await api.get(`/events?messageId=${rest.messageId}&eventType=Send`)).body.length, 1);
  assert.equal((await api.get(`/events?messageId=${rest.messageId}&eventType=Bounce`)).body.length, 0);
  const foreign = (await app.api('acc_b').get(`/events?messageId=${rest.messageId}`)).body;
  assert.deepEqual(foreign, []);
});

test('event types are listed page by page, in the order of the life of a message', async () => {
  const api = app.api('acc_types');
  const types = (await api.get('/event-types')).body as unknown as { eventType: string }[];
  assert.deepEqual(
    types.map(({ eventType }) => eventType),
    EVENT_TYPES,
  );
  await assertPaged('/event-types', api.get, ({ eventType }) => eventType);
});

test('pages are exact while events are being written', async () => {
  await seed('acc_p', 60);
  const api = app.api('acc_p');
  const whole = (await api.get('/events?limit=100')).body.map((event: { eventId: string }) => event.eventId);
  const paged = await pages(api, 'limit=7', () => seed('acc_p', 3));
  assert.deepEqual(paged, whole);
});

test('a followed log skips and repeats nothing, and returns a cursor at its end', async () => {
  const api = app.api('acc_f');
  const begin = await api.get('/events?order=asc');
  assert.deepEqual([begin.body, begin.headers['x-next-cursor']], [[], undefined]);
  const writers = [1, 2, 3, 4].map(async () => {
    for (let i = 0; i < 20; i += 1) await seed('acc_f', 1);
  });
  let done = false;
  const finished = Promise.all(writers).then(() => {
    done = true;
  });
  const seen: string[] = [];
  let cursor = '';
  for (let idle = 0; idle < 2; ) {
    const last = done;
    const page = await api.get(`/events?order=asc&limit=9${cursor}`);
    seen.push(...page.body.map((event: { eventId: string }) => event.eventId));
    const next = page.headers['x-next-cursor'];
    if (next) cursor = `&cursor=${next}`;
    idle = last && page.body.length === 0 ? idle + 1 : 0;
  }
  await finished;
  assert.equal(seen.length, 80);
  assert.equal(new Set(seen).size, 80);
  assert.deepEqual(seen, (await pages(api, 'limit=50')).reverse());
});

test('cursors are opaque, and an invalid one or one past the end is rejected', async () => {
  const api = app.api('acc_c');
  await seed('acc_c', 2);
  const [one, two] = await Promise.all([api.get('/events?limit=1'), api.get('/events?limit=1&order=asc')]);
  for (const page of [one, two]) assert.match(page.headers['x-next-cursor']!, /^[A-Za-z0-9_-]{22}$/);
  const cursors = createEventCursors(secretKey);
  const end = await app.temp.database.execute(latestPlacesOperation, [{ accountId: 'acc_c', mode: 'live' }]);
  const [{ position, seq }] = end as [EventPlace];
  assert.equal((await api.get(`/events?order=asc&cursor=${cursors.textOf({ position, seq })}`)).status, 200);
  const behind = { position: position + 1_000_000, seq: seq + 1_000_000 };
  for (const [cursor, path] of [
    [Buffer.from(JSON.stringify([position, seq])).toString('base64url'), '/events'],
    [createEventCursors(Buffer.alloc(32, 2)).textOf({ position, seq }), '/events'],
    [cursors.textOf({ position, seq }).slice(1), '/events'],
    [cursors.textOf(behind), '/events?order=asc'],
    [cursors.textOf(behind), '/events/stream'],
  ] as [cursor: string, path: string][]) {
    const refused = await api.get(`${path}${path.includes('?') ? '&' : '?'}cursor=${cursor}`);
    assert.equal(refused.status, 400, cursor);
    assert.equal(refused.body.error.details[0].field, 'cursor');
  }
  const headers = { 'last-event-id': cursors.textOf(behind) };
  const resumed = await api.call({ method: 'GET', path: '/events/stream', headers });
  assert.equal(resumed.body.error.details[0].field, 'Last-Event-ID');
});

test('an event ID can be used as a cursor, in the log and in the stream', async () => {
  const accountId = 'acc_ids';
  const api = app.api(accountId);
  await seed('acc_others', 1);
  await seed(accountId, 3, Date.UTC(2026, 0, 2));
  const { body } = await api.get('/events?order=asc');
  const ids = body.map((event: { eventId: string }) => event.eventId) as [string, string, string];
  const shown = async (query: string): Promise<string[]> =>
    (await api.get(`/events?${query}`)).body.map((event: { eventId: string }) => event.eventId);
  assert.deepEqual(await shown(`order=asc&cursor=${ids[0]}`), ids.slice(1));
  assert.deepEqual(await shown(`order=asc&cursor=${ids[2]}`), []);
  assert.deepEqual(await shown(`cursor=${ids[2]}`), [ids[1], ids[0]]);
  const stranger = (await app.api('acc_others').get('/events')).body[0].eventId;
  const unknown = `${ids[0].slice(0, -1)}${ids[0].endsWith('a') ? 'b' : 'a'}`;
  for (const id of [stranger, unknown, 'evt_1', `${ids[0]}a`]) {
    for (const path of ['/events', '/events?order=asc', '/events/stream']) {
      const refused = await api.get(`${path}${path.includes('?') ? '&' : '?'}cursor=${id}`);
      assert.deepEqual([refused.status, refused.body.error.details[0].field], [400, 'cursor'], `${path} ${id}`);
    }
    const resumed = await api.call({ method: 'GET', path: '/events/stream', headers: { 'last-event-id': id } });
    assert.deepEqual([resumed.status, resumed.body.error.details[0].field], [400, 'Last-Event-ID']);
  }
  assert.equal((await app.api(accountId, 'sandbox').get(`/events?cursor=${ids[0]}`)).status, 400);
  const url = `http://127.0.0.1:${app.port}/events/stream`;
  const headers = { 'x-api-key': 'live', 'x-id': accountId, 'last-event-id': ids[0] };
  const reading = new AbortController();
  const stream = await fetch(url, { headers, signal: reading.signal });
  let text = '';
  for await (const chunk of stream.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text.includes(ids[2])) break;
  }
  reading.abort();
  const streamed = [...text.matchAll(/"eventId":"(\w+)"/g)].map(([, id]) => id);
  assert.deepEqual(streamed, ids.slice(1));
});

test('events are filtered by recipient, in pages and in a followed log', async () => {
  const accountId = 'acc_recipient';
  const api = app.api(accountId);
  const addresses = ['Ada@Bücher.example', 'bob@example.com', 'c@example.com', 'ada@bücher.example', 'd@example.com'];
  const messageIds: string[] = [];
  for (const email of addresses) {
    const { recipients } = await seedMail(app.temp.database, { accountId, recipients: [email], nowMs: Date.now() });
    messageIds.push(recipients[0]!.messageId);
  }
  const wanted = [messageIds[0]!, messageIds[3]!];
  const recipient = encodeURIComponent('ADA@xn--bcher-kva.example');
  const shown = async (query: string) => {
    const { body, headers } = await api.get(`/events?recipient=${recipient}&${query}`);
    const cursor = headers['x-next-cursor'];
    return { ids: (body as unknown as { messageId: string }[]).map((one) => one.messageId), cursor };
  };
  assert.deepEqual((await shown('')).ids, wanted.toReversed());
  assert.deepEqual((await shown('eventType=Delivery')).ids, []);
  assert.deepEqual((await shown(`messageId=${messageIds[3]}`)).ids, [messageIds[3]]);
  const first = await shown('order=asc&limit=1');
  assert.deepEqual(first.ids, [wanted[0]]);
  const second = await shown(`order=asc&limit=1&cursor=${first.cursor}`);
  assert.deepEqual(second.ids, [wanted[1]]);
  assert.deepEqual((await shown(`order=asc&cursor=${second.cursor}`)).ids, []);
  const late = await seedMail(app.temp.database, { accountId, recipients: [addresses[0]!], nowMs: Date.now() });
  assert.deepEqual((await shown(`order=asc&cursor=${second.cursor}`)).ids, [late.recipients[0]!.messageId]);
});

test('a recipient in any script is found in any spelling, among many others', async () => {
  const accountId = 'acc_scripts';
  const api = app.api(accountId);
  const wanted: string[] = [];
  for (let i = 0; i < 20; i += 1) {
    const isWanted = i % 6 === 1;
    const email = isWanted ? 'Жанна@пример.example' : `иван${i}@пример.example`;
    const { recipients } = await seedMail(app.temp.database, { accountId, recipients: [email], nowMs: Date.now() });
    if (isWanted) wanted.push(recipients[0]!.messageId);
  }
  const inbound = await seedInbound(app.temp.database, { accountId, recipient: 'жанна@пример.example', text: 'x' });
  const path = (query: string): string =>
    `/events?recipient=${encodeURIComponent('ЖАННА@xn--e1afmkfd.example')}&${query}`;
  for (const order of ['asc', 'desc'] as const) {
    const found: string[] = [];
    for (let url: string | undefined = path(`order=${order}&limit=2`); url; ) {
      const page = await api.get(url);
      const events = page.body as unknown as { eventType: string; eventId: string; messageId: string }[];
      found.push(...events.map((one) => (one.eventType === 'Inbound' ? one.eventId : one.messageId)));
      url = /<([^>]+)>; rel="next"/.exec(page.headers.link ?? '')?.[1];
    }
    const expected = [...wanted, inbound];
    assert.deepEqual(found, order === 'asc' ? expected : expected.toReversed(), order);
  }
  const followed = await api.get(path('order=asc&limit=100'));
  assert.deepEqual([followed.body.length, followed.headers.link], [wanted.length + 1, undefined]);
  const others = await seedMail(app.temp.database, {
    accountId,
    recipients: ['иван@пример.example', 'жанна@ПРИМЕР.example'],
  });
  const next = await api.get(path(`order=asc&cursor=${followed.headers['x-next-cursor']}`));
  const shown = (next.body as unknown as { messageId: string }[]).map(({ messageId }) => messageId);
  assert.deepEqual(shown, [others.recipients[1]!.messageId]);
});

test('events are filtered by tags and by several types', async () => {
  const accountId = 'acc_tags';
  const api = app.api(accountId);
  const messageIds: string[] = [];
  for (const tags of [['a'], ['a', 'b'], ['ab'], []]) {
    const { recipients } = await seedMail(app.temp.database, { accountId, tags, nowMs: Date.now() });
    messageIds.push(recipients[0]!.messageId);
  }
  const shown = async (query: string) =>
    ((await api.get(`/events?order=asc&${query}`)).body as unknown as { messageId: string }[]).map(
      (one) => one.messageId,
    );
  assert.deepEqual(await shown('tag=a'), messageIds.slice(0, 2));
  assert.deepEqual(await shown('tag=a&tag=b'), [messageIds[1]]);
  assert.deepEqual(await shown('tag=A'), []);
  assert.deepEqual(await shown('eventType=Bounce&eventType=Send&tag=ab'), [messageIds[2]]);
  assert.deepEqual(await shown('eventType=Bounce&eventType=Click'), []);
  assert.deepEqual(await shown('eventType=Send&eventType=Click'), messageIds);
});

test('a page of large events is shorter, and the next page continues after it', async () => {
  const accountId = 'acc_large';
  const api = app.api(accountId);
  const { database } = app.temp;
  const recipient = 'ada@in.shop.example';
  const written: string[] = [];
  const large = 'x'.repeat(290_000);
  for (let index = 0; index < 30; index += 1) {
    written.push(await seedInbound(database, { accountId, recipient, text: large }));
    if (index % 10 === 0) await seed(accountId, 1);
  }
  // Larger than a page, but still returned.
  written.push(await seedInbound(database, { accountId, recipient, text: 'y'.repeat(5_000_000) }));
  for (const [query, expected, mostBytes] of [
    ['limit=100', written.toReversed(), 4_100_000],
    ['limit=100&order=asc', written, 4_100_000],
    [`limit=100&recipient=${recipient}`, written.toReversed(), 8_200_000],
  ] as const) {
    const ids: string[] = [];
    const sizes: number[] = [];
    let cursor = '';
    for (;;) {
      const page = await api.get(`/events?${query}${cursor}`);
      const events = page.body as unknown as { eventId: string; inbound?: { text: string } }[];
      const ofMail = events.filter(({ inbound }) => inbound !== undefined);
      ids.push(...ofMail.map(({ eventId }) => eventId));
      assert.ok(
        ofMail.every(({ inbound }) => inbound!.text.length >= large.length),
        'nothing is truncated',
      );
      if (ofMail.length > 1) sizes.push(page.text.length);
      if (!page.headers.link) break;
      cursor = `&cursor=${page.headers['x-next-cursor']}`;
    }
    assert.deepEqual(ids, expected, query);
    assert.ok(Math.max(...sizes) < mostBytes, `${query}: ${sizes}`);
  }
});

test('since and until are inclusive, and invalid values are named', async () => {
  const at = Date.UTC(2026, 0, 2);
  for (const shift of [-1, 0, 1]) await seed('acc_t', 1, at + shift);
  const api = app.api('acc_t');
  const iso = new Date(at).toISOString();
  assert.equal((await api.get(`/events?since=${iso}`)).body.length, 2);
  assert.equal((await api.get('/events?since=2016-12-31T23:59:60Z')).body.length, 3, 'a leap second');
  assert.equal((await api.get(`/events?until=${iso}`)).body.length, 2);
  assert.equal((await api.get(`/events?since=${iso}&until=${iso}`)).body.length, 1);
  for (const [query, field] of [
    ['since=yesterday', 'since'],
    ['until=2026-02-31T00:00:00Z', 'until'],
    ['eventType=Delivered', 'eventType'],
    ['order=up', 'order'],
    ['limit=0', 'limit'],
    ['cursor=x', 'cursor'],
    ['color=red', 'color'],
  ] as const) {
    const refused = await api.get(`/events?${query}`);
    assert.equal(refused.status, 400, query);
    assert.equal(refused.body.error.details[0].field, field);
  }
});
