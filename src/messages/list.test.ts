/** The list of messages: filters, pages, and searches that skip many rows. */

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { testAddressHash } from '../../test/kit/address-hash.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { type FeatureApp, featureApp } from '../../test/kit/feature-app.ts';
import { type SeededMail, seedMail } from '../../test/kit/seed-mail.ts';
import { messageRoutes } from '../api/messages.ts';
import { claimOperation } from '../delivery/queue/claim.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { createSearches } from '../storage/searches.ts';

const clock = fakeClock(Date.now());
let app: FeatureApp;

before(async () => {
  app = await featureApp(({ database, folder }) =>
    messageRoutes({
      database,
      blobs: openDiskBlobs(path.join(folder, 'blobs')),
      clock,
      addressHash: testAddressHash,
      searches: createSearches({ firstRows: 2, answerMs: 60_000 }),
      checkSender: async () => undefined,
      once: async (_, first) => (await first(null))!,
      nudge: () => {},
    }),
  );
});
after(() => app.close());

const seed = async (mail: SeededMail): Promise<string> => {
  const { recipients } = await seedMail(app.temp.database, { nowMs: clock.now(), ...mail });
  return recipients[0]!.messageId;
};
const claim = () =>
  app.temp.database.execute(claimOperation, { nowMs: clock.now(), leaseMs: 60_000, limit: 100, quarantined: false });
const ids = (list: { messageId: string }[]): string[] => list.map((one) => one.messageId);

test('the list is filtered by every field, ignoring case as documented', async () => {
  const api = app.api('acc_list');
  const accountId = 'acc_list';
  const a = await seed({ accountId, recipients: ['Ada@Example.com'], subject: '100% off_now', tags: ['a_b'] });
  const b = await seed({
    accountId,
    recipients: ['bob@example.com'],
    subject: 'Hello',
    tags: ['axb', 'new'],
    email: { metadata: JSON.stringify({ order: '17', 'a b': 'é' }), templateId: 'tpl_7', templateVersion: 1 },
  });
  const c = await seed({
    accountId,
    from: 'Desk <desk@example.net>',
    recipients: ['c@example.com'],
    sendAtMs: clock.now() + 60_000,
  });
  await seed({ accountId: 'acc_other' });
  await seed({ accountId, mode: 'sandbox' });
  const found = async (query: string): Promise<string[]> => ids((await api.get(`/messages?${query}`)).body as never);
  assert.deepEqual((await found('')).sort(), [a, b, c].sort());
  assert.deepEqual(await found('to=ADA@example.com'), [a]);
  assert.deepEqual(await found('to=ada'), [a]);
  assert.deepEqual((await found('to=%40EXAMPLE.com')).sort(), [a, b, c].sort());
  assert.deepEqual(await found('tag=new&tag=axb'), [b]);
  assert.deepEqual(await found('tag=new&tag=a_b'), []);
  assert.deepEqual(await found('metadata.order=17'), [b]);
  assert.deepEqual(await found('metadata.order=17&metadata.a+b=%C3%A9&tag=new'), [b]);
  assert.deepEqual(await found('metadata.order=17&metadata.b=1'), []);
  assert.equal((await api.get('/messages?metadata.order=17&metadata.order=18')).status, 400);
  assert.equal((await api.get('/messages?meta.order=17')).status, 400);
  assert.deepEqual(await found('subject=%25%20OFF_'), [a]);
  assert.deepEqual(await found('from=DESK@'), [c]);
  assert.deepEqual(await found('q=HELL'), [b]);
  assert.deepEqual(await found('q=ADA%40'), [a]);
  assert.deepEqual(await found('q=desk'), []);
  assert.deepEqual(await found('template=tpl_7'), [b]);
  assert.deepEqual(await found('template=tpl_'), []);
  assert.deepEqual(await found('tag=a_b'), [a]);
  assert.deepEqual(await found('tag=A_b'), []);
  assert.deepEqual(await found(`messageId=${b}&tag=new`), [b]);
  assert.deepEqual(await found('status=scheduled'), [c]);
  assert.deepEqual((await found('status=queued')).sort(), [a, b].sort());
  for (const several of ['status=queued&status=scheduled', 'status=queued,scheduled', 'status=scheduled%2Cqueued']) {
    assert.deepEqual((await found(several)).sort(), [a, b, c].sort(), several);
  }
  assert.deepEqual(await found('status=scheduled,bounced&tag=a_b'), []);
  assert.equal((await api.get('/messages?status=queued,sent')).status, 400);
  assert.deepEqual(await found(`since=${new Date(clock.now() + 1).toISOString()}`), []);
  assert.equal((await found(`since=${new Date(clock.now()).toISOString()}`)).length, 3);
  assert.equal((await found('since=2016-12-31T23:59:60Z')).length, 3, 'a leap second');
  assert.deepEqual(await found(`until=${new Date(clock.now() - 1).toISOString()}`), []);
  const refused = await api.get('/messages?status=sent&since=now');
  assert.equal(refused.status, 400);
  assert.deepEqual(refused.body.error.details.map(({ field, code }: Record<string, string>) => [field, code]).sort(), [
    ['since', 'WRONG_FORMAT'],
    ['status', 'NOT_ALLOWED'],
  ]);
  await claim();
  assert.deepEqual((await found('status=sending')).sort(), [a, b].sort());
  assert.deepEqual(await found('status=queued'), []);
});

test('a search finds matches far apart, page by page', async () => {
  const accountId = 'acc_search';
  const api = app.api(accountId);
  const wanted: string[] = [];
  for (let i = 0; i < 12; i += 1) {
    clock.advance(1);
    const id = await seed({ accountId, subject: i % 5 === 0 ? 'needle' : 'straw' });
    if (i % 5 === 0) wanted.unshift(id);
  }
  const first = await api.get('/messages?subject=needle&limit=2');
  assert.deepEqual(ids(first.body as never), wanted.slice(0, 2));
  const second = await api.get(/<([^>]+)>; rel="next"/.exec(first.headers.link ?? '')![1]!);
  assert.deepEqual([ids(second.body as never), second.headers.link], [wanted.slice(2), undefined]);
});

test('a search over its time limit returns short pages that link to all matches', async () => {
  const hurried = await featureApp(({ database, folder }) =>
    messageRoutes({
      database,
      blobs: openDiskBlobs(path.join(folder, 'blobs')),
      clock,
      addressHash: testAddressHash,
      searches: createSearches({ firstRows: 2, answerMs: 0 }),
      checkSender: async () => undefined,
      once: async (_, first) => (await first(null))!,
      nudge: () => {},
    }),
  );
  try {
    const accountId = 'acc_hurried';
    const wanted: string[] = [];
    for (let i = 0; i < 9; i += 1) {
      clock.advance(1);
      const mail = { accountId, subject: i % 4 === 0 ? 'needle' : 'straw', nowMs: clock.now() };
      const { recipients } = await seedMail(hurried.temp.database, mail);
      if (i % 4 === 0) wanted.unshift(recipients[0]!.messageId);
    }
    const pages: string[][] = [];
    for (let url: string | undefined = '/messages?subject=needle&limit=2'; url; ) {
      const page = await hurried.api(accountId).get(url);
      pages.push(ids(page.body as never));
      url = /<([^>]+)>; rel="next"/.exec(page.headers.link ?? '')?.[1];
    }
    assert.deepEqual(pages, [wanted.slice(0, 1), [], wanted.slice(1, 2), [], wanted.slice(2)]);
    assert.equal((await hurried.api(accountId).get('/messages')).body.length, 9, 'a list without a filter is complete');
  } finally {
    await hurried.close();
  }
});

test('a filter in any script finds messages far apart, page by page, and never more or less than once', async () => {
  const hurried = await featureApp(({ database, folder }) =>
    messageRoutes({
      database,
      blobs: openDiskBlobs(path.join(folder, 'blobs')),
      clock,
      addressHash: testAddressHash,
      searches: createSearches({ firstRows: 3, answerMs: 0 }),
      checkSender: async () => undefined,
      once: async (_, first) => (await first(null))!,
      nudge: () => {},
    }),
  );
  try {
    const accountId = 'acc_scripts';
    const wanted: string[] = [];
    const all: string[] = [];
    for (let i = 0; i < 40; i += 1) {
      clock.advance(1);
      const isWanted = i % 9 === 2 || i === 3;
      const [subject, from] = isWanted
        ? ['ÄRGER Straße', '"Ünal, X" <A@Example.com>']
        : ['Grüße', 'Öztürk <b@example.com>'];
      const mail = {
        accountId,
        nowMs: clock.now(),
        subject,
        from,
        recipients: [isWanted ? 'Жанна@пример.example' : 'иван@пример.example'],
      };
      for (const { temp, found } of [
        { temp: app.temp, found: all },
        { temp: hurried.temp, found: wanted },
      ]) {
        const id = (await seedMail(temp.database, mail)).recipients[0]!.messageId;
        if (isWanted) found.unshift(id);
      }
    }
    for (const filter of [
      'subject=ärger',
      'from=ünal',
      'to=жанна',
      'to=ЖАННА@ПРИМЕР.example',
      'q=ÄRGER',
      'q=ПРИМЕР.example&subject=straß',
    ]) {
      for (const [api, expected] of [
        [app.api(accountId), all],
        [hurried.api(accountId), wanted],
      ] as const) {
        const found: string[] = [];
        let last: Awaited<ReturnType<typeof api.get>>;
        for (let url: string | undefined = `/messages?${encodeURI(filter)}&limit=2`; url; ) {
          last = await api.get(url);
          const page = ids(last.body as never);
          assert.ok(page.length <= 2);
          found.push(...page);
          url = /<([^>]+)>; rel="next"/.exec(last.headers.link ?? '')?.[1];
          assert.equal(last.headers['x-next-cursor'] !== undefined, url !== undefined);
        }
        assert.deepEqual(found, expected, filter);
      }
    }
    // A page that has all matches has no next page if the search had the time to reach the end.
    const whole = await app.api(accountId).get(`/messages?${encodeURI('subject=ärger')}&limit=${all.length}`);
    assert.deepEqual([ids(whole.body as never), whole.headers.link], [all, undefined]);
  } finally {
    await hurried.close();
  }
});

test('pages are exact while messages are accepted', async () => {
  const accountId = 'acc_pages';
  const api = app.api(accountId);
  // IDs of the same millisecond have no order, so later ones get a later time.
  for (let i = 0; i < 40; i += 1) await seed({ accountId });
  const whole = ids((await api.get('/messages?limit=100')).body as never);
  const paged: string[] = [];
  for (let url: string | undefined = '/messages?limit=7'; url; ) {
    const page = await api.get(url);
    paged.push(...ids(page.body as never));
    url = /<([^>]+)>; rel="next"/.exec(page.headers.link ?? '')?.[1];
    clock.advance(1);
    await seed({ accountId });
  }
  assert.deepEqual(paged, whole);
});

test('a recipient is found by any spelling of the address', async () => {
  const accountId = 'acc_spelled';
  const api = app.api(accountId);
  for (const email of ['Idn@bücher.example', 'idn@xn--bcher-kva.example', 'other@bücher.example']) {
    await seed({ accountId, recipients: [email] });
  }
  for (const to of ['idn@bücher.example', 'IDN@BÜCHER.example', 'idn@xn--bcher-kva.example', '"idn"@bücher.example']) {
    assert.equal((await api.get(`/messages?to=${encodeURIComponent(to)}`)).body.length, 2, to);
  }
});
