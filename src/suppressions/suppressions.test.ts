/** The suppression list through the real HTTP server: per mode and account, case-insensitive, with CSV import and export. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { testAddressHash } from '../../test/kit/address-hash.ts';
import { type Called, serveRoutes } from '../../test/kit/call-routes.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount } from '../accounts/accounts.ts';
import { suppressionRoutes } from '../api/suppressions.ts';
import { createSearches } from '../storage/searches.ts';
import { readSuppressions } from './csv.ts';

async function setup(t: TestContext) {
  const temp = await tempDatabase();
  t.after(temp.close);
  const clock = fakeClock();
  const making = { database: temp.database, clock };
  const one = await createAccount(making, { name: 'One', plan: 'paid' });
  const two = await createAccount(making, { name: 'Two', plan: 'paid' });
  const server = await serveRoutes({
    ...making,
    routes: suppressionRoutes({
      ...making,
      addressHash: testAddressHash,
      searches: createSearches({ firstRows: 2, answerMs: 60_000 }),
    }),
  });
  t.after(server.close);
  const live = { key: one.apiKey, id: one.account.id };
  const sandbox = { key: one.sandboxApiKey, id: one.account.id };
  const foreign = { key: two.apiKey, id: two.account.id };
  return { clock, call: server.call, live, sandbox, foreign };
}

const emails = (called: Called): string[] => called.body.map((one: { email: string }) => one.email);

test('addresses are suppressed case-insensitively, per account and mode', async (t) => {
  const { call, live, sandbox, foreign, clock } = await setup(t);
  const made = await call('POST', '/suppressions', { ...live, json: { email: 'Some.One@Example.COM' } });
  assert.equal(made.status, 201);
  assert.deepEqual(made.body, {
    email: 'some.one@example.com',
    reason: 'manual',
    sourceMessageId: null,
    expiresAt: null,
    createdAt: new Date(clock.now()).toISOString(),
  });
  clock.advance(1);
  const again = {
    email: 'some.one@example.com',
    reason: 'complaint',
    expiresAt: new Date(clock.now() + 60_000).toISOString(),
  };
  assert.equal((await call('POST', '/suppressions', { ...live, json: again })).status, 201);
  const list = await call('GET', '/suppressions', live);
  assert.deepEqual([list.body.length, list.body[0].reason, list.body[0].expiresAt], [1, 'complaint', null]);
  assert.deepEqual((await call('GET', '/suppressions', sandbox)).body, []);
  assert.deepEqual((await call('GET', '/suppressions', foreign)).body, []);
  assert.equal((await call('DELETE', '/suppressions/some.one@example.com', foreign)).status, 404);
  assert.equal((await call('DELETE', '/suppressions/SOME.one%40example.com', live)).status, 200);
  assert.equal((await call('DELETE', '/suppressions/some.one@example.com', live)).status, 404);
});

test('an address can be retrieved, and the list is filtered by address and reason', async (t) => {
  const { call, live, sandbox, foreign, clock } = await setup(t);
  const add = (email: string, reason: string) => call('POST', '/suppressions', { ...live, json: { email, reason } });
  for (const [email, reason] of [
    ['ada@a.example', 'bounce'],
    ['bob@b.example', 'manual'],
    ['Ada@Bücher.example', 'complaint'],
    ['eve@a.example', 'bounce'],
    ['max@a.example', 'unsubscribe'],
  ] as const) {
    clock.advance(1);
    await add(email, reason);
  }
  const one = await call('GET', '/suppressions/ADA%40b%C3%BCcher.example', live);
  assert.deepEqual([one.status, one.body.email, one.body.reason], [200, 'ada@xn--bcher-kva.example', 'complaint']);
  for (const other of [sandbox, foreign])
    assert.equal((await call('GET', '/suppressions/ada@a.example', other)).status, 404);
  assert.equal((await call('GET', '/suppressions/nobody@a.example', live)).status, 404);
  const found = async (query: string) =>
    (await call('GET', `/suppressions?${query}`, live)).body.map((row: { email: string }) => row.email);
  assert.deepEqual(await found('email=%40A.Example'), ['max@a.example', 'eve@a.example', 'ada@a.example']);
  assert.deepEqual(await found('reason=bounce'), ['eve@a.example', 'ada@a.example']);
  assert.deepEqual(await found('reason=bounce&email=ada'), ['ada@a.example']);
  assert.deepEqual(await found('email=ada%40b%C3%BCcher.example'), ['ada@xn--bcher-kva.example']);
  assert.deepEqual(await found('email=bücher'), []);
  const first = await call('GET', '/suppressions?reason=bounce&limit=1', live);
  assert.equal(first.body[0].email, 'eve@a.example');
  const second = await call(
    'GET',
    `/suppressions?reason=bounce&limit=1&cursor=${first.headers.get('x-next-cursor')}`,
    live,
  );
  assert.deepEqual([second.body[0].email, second.headers.get('x-next-cursor')], ['ada@a.example', null]);
  assert.equal((await call('GET', '/suppressions?reason=other', live)).status, 400);
});

test('an entry is never weakened by a later one and keeps the later expiry', async (t) => {
  const { call, live, clock } = await setup(t);
  const email = 'a@example.com';
  const inMs = (ms: number) => new Date(clock.now() + ms).toISOString();
  const add = async (json: object) => (await call('POST', '/suppressions', { ...live, json: { email, ...json } })).body;
  const until = inMs(60_000);
  const steps: [added: object, reason: string, expiresAt: string | null][] = [
    [{ reason: 'manual', expiresAt: inMs(2_000) }, 'manual', inMs(2_000)],
    [{ reason: 'bounce', expiresAt: inMs(1_000) }, 'bounce', inMs(2_000)],
    [{ expiresAt: until }, 'bounce', until],
    [{ reason: 'complaint' }, 'complaint', null],
    [{ reason: 'manual', expiresAt: inMs(2_000) }, 'complaint', null],
    [{ reason: 'unsubscribe' }, 'complaint', null],
    [{ reason: 'bounce' }, 'complaint', null],
  ];
  for (const [added, reason, expiresAt] of steps) {
    const shown = await add(added);
    assert.deepEqual([shown.reason, shown.expiresAt], [reason, expiresAt], JSON.stringify(added));
    assert.deepEqual((await call('GET', '/suppressions', live)).body, [shown]);
  }
  assert.equal((await call('DELETE', `/suppressions/${email}`, live)).status, 200);
  await add({ reason: 'complaint', expiresAt: inMs(1_000) });
  clock.advance(1_001);
  assert.deepEqual((await call('GET', '/suppressions', live)).body, []);
  assert.equal((await call('DELETE', `/suppressions/${email}`, live)).status, 404, 'as listed');
  const fresh = await add({ expiresAt: inMs(5_000) });
  assert.deepEqual([fresh.reason, fresh.expiresAt], ['manual', inMs(5_000)], 'an expired entry no longer applies');
});

test('a weaker or equal reason keeps the date of an entry', async (t) => {
  const { call, live, clock } = await setup(t);
  const add = async (reason: string) =>
    (await call('POST', '/suppressions', { ...live, json: { email: 'a@example.com', reason } })).body;
  const first = await add('bounce');
  for (const reason of ['manual', 'bounce']) {
    clock.advance(1_000);
    assert.deepEqual(await add(reason), first, reason);
  }
  clock.advance(1_000);
  assert.equal((await add('unsubscribe')).createdAt, new Date(clock.now()).toISOString());
});

test('an import merges with the list as single calls do', async (t) => {
  const { call, live, clock } = await setup(t);
  const inMs = (ms: number) => new Date(clock.now() + ms).toISOString();
  const bounce = { email: 'left@x.example', reason: 'bounce', expiresAt: inMs(60_000) };
  await call('POST', '/suppressions', { ...live, json: bounce });
  await call('POST', '/suppressions', { ...live, json: { email: 'known@x.example', reason: 'complaint' } });
  const csv = [
    'left@x.example,unsubscribe',
    'known@x.example,manual',
    'new@x.example,manual',
    'New@x.example,complaint',
    'new@x.example,bounce',
  ].join('\n');
  const { body } = await call('POST', '/suppressions/import', { ...live, csv });
  assert.deepEqual(body, { imported: 2, skipped: 3 });
  const list = (await call('GET', '/suppressions', live)).body as Record<string, unknown>[];
  const kept = list.map(({ email, reason, expiresAt }) => [email, reason, expiresAt]).sort();
  assert.deepEqual(kept, [
    ['known@x.example', 'complaint', null],
    ['left@x.example', 'unsubscribe', null],
    ['new@x.example', 'complaint', null],
  ]);
  assert.deepEqual((await call('POST', '/suppressions/import', { ...live, csv })).body, { imported: 0, skipped: 5 });
});

test('addresses that look like formulas are escaped in the export and imported unchanged', async (t) => {
  const { call, live, sandbox } = await setup(t);
  const odd = ['=1+1@x.example', '+1@x.example', '-1@x.example', "'=1@x.example", "'a@x.example", "''+1@x.example"];
  for (const email of odd) {
    assert.equal((await call('POST', '/suppressions', { ...live, json: { email } })).status, 201, email);
  }
  const exported = (await call('GET', '/suppressions.csv', live)).body as string;
  for (const line of exported.split('\r\n')) assert.doesNotMatch(line, /^"?[=+\-@\t]/);
  assert.deepEqual(
    (await call('POST', '/suppressions/import', { ...sandbox, csv: exported })).body.imported,
    odd.length,
  );
  const back = emails(await call('GET', '/suppressions', sandbox));
  assert.deepEqual(back.sort(), [...odd].sort());
  assert.equal((await call('POST', '/suppressions/import', { ...live, csv: '=1+1@x.example\n' })).body.skipped, 1);
});

test('all issues are listed', async (t) => {
  const { call, live } = await setup(t);
  const bad = { email: 'no address', expiresAt: '2020-01-01T00:00:00Z' };
  const refused = await call('POST', '/suppressions', { ...live, json: bad });
  assert.equal(refused.status, 400);
  assert.deepEqual(
    refused.body.error.details.map((one: { field: string }) => one.field),
    ['email', 'expiresAt'],
  );
  const json = { email: 'A <a@example.com>' };
  assert.equal((await call('POST', '/suppressions', { ...live, json })).status, 400);
  const worse = await call('POST', '/suppressions', { ...live, json: { ...bad, reason: 'x' } });
  assert.deepEqual(
    worse.body.error.details.map((one: { field: string }) => one.field),
    ['reason', 'email', 'expiresAt'],
  );
});

test('pages skip and repeat nothing, even with equal timestamps', async (t) => {
  const { call, live, clock } = await setup(t);
  const wanted: string[] = [];
  for (let i = 0; i < 7; i += 1) {
    const email = `a${i}@example.com`;
    wanted.push(email);
    await call('POST', '/suppressions', { ...live, json: { email } });
    if (i % 3 === 0) clock.advance(1);
  }
  const seen: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await call('GET', `/suppressions?limit=2${cursor && `&cursor=${cursor}`}`, live);
    seen.push(...emails(page));
    cursor = page.headers.get('x-next-cursor');
  }
  assert.deepEqual([...seen].sort(), wanted);
});

test('a CSV export can be imported', async (t) => {
  const { call, live, sandbox, clock } = await setup(t);
  const odd = '"a,b"@example.com';
  await call('POST', '/suppressions', { ...live, json: { email: odd, reason: 'bounce' } });
  const expiresAt = new Date(clock.now() + 60_000).toISOString();
  await call('POST', '/suppressions', { ...live, json: { email: 'x@example.com', expiresAt } });
  const exported = await call('GET', '/suppressions.csv', live);
  assert.equal(exported.status, 200);
  assert.match(exported.headers.get('content-type') ?? '', /^text\/csv/);
  assert.ok(exported.body.startsWith('email,reason,sourceMessageId,expiresAt,createdAt\r\n'));
  assert.ok(exported.body.includes('"""a,b""@example.com",bounce,'));
  const first = await call('POST', '/suppressions/import', { ...sandbox, csv: exported.body });
  assert.deepEqual(first.body, { imported: 2, skipped: 0 });
  const second = await call('POST', '/suppressions/import', { ...sandbox, csv: exported.body });
  assert.deepEqual(second.body, { imported: 0, skipped: 2 });
  const list = await call('GET', '/suppressions', sandbox);
  assert.deepEqual(emails(list).sort(), [odd, 'x@example.com']);
  assert.equal(list.body.find((one: { email: string }) => one.email === 'x@example.com').expiresAt, expiresAt);
});

test('an import with invalid lines lists them all and imports nothing', async (t) => {
  const { call, live } = await setup(t);
  const csv = 'Email,Reason\nok@example.com,manual\n\nnobody\nB@Example.com,because\n"multi\nline"\n';
  const refused = await call('POST', '/suppressions/import', { ...live, csv });
  assert.equal(refused.status, 400);
  assert.deepEqual(
    refused.body.error.details.map((one: { field: string }) => one.field),
    ['line 4', 'line 5', 'line 6'],
  );
  assert.deepEqual((await call('GET', '/suppressions', live)).body, []);
  assert.equal((await call('POST', '/suppressions/import', { ...live, json: {} })).status, 415);
  const large = `${'a@example.com\n'.repeat(400_000)}`;
  assert.equal((await call('POST', '/suppressions/import', { ...live, csv: large })).status, 413);
});

test('reads lists without a header, with a BOM, quotes, and duplicates', async () => {
  const read = await readSuppressions('\uFEFFA@x.com\r\n"b@x.com","BOUNCE"\r\na@X.com\n', 0);
  assert.ok(read.ok);
  assert.deepEqual(
    read.value.suppressions.map((one) => [one.email, one.reason]),
    [
      ['a@x.com', 'manual'],
      ['b@x.com', 'bounce'],
    ],
  );
  assert.equal(read.value.skipped, 1);
  for (const text of ['', '\n\n', '"a@x.com', 'x'.repeat(100_000)])
    assert.equal((await readSuppressions(text, 0)).ok, false);
});

test('an expiry is an ISO 8601 date or time, in UTC if it has no zone', async () => {
  const read = (expiry: string) => readSuppressions(`email,expiresAt\na@x.com,${expiry}\n`, 0);
  for (const [written, expiresAt] of [
    ['', null],
    ['2027-01-31', '2027-01-31T00:00:00.000Z'],
    ['2027-01-31T12:00', '2027-01-31T12:00:00.000Z'],
    ['2027-01-31 12:00:00', '2027-01-31T12:00:00.000Z'],
    ['2027-01-31T12:00:00.5Z', '2027-01-31T12:00:00.500Z'],
    ['2027-01-31 12:00:00 UTC', '2027-01-31T12:00:00.000Z'],
    ['2027-01-31 12:00:00.123456+00', '2027-01-31T12:00:00.123Z'],
    ['2027-01-31 12:00:00 +0200', '2027-01-31T10:00:00.000Z'],
    ['2027-01-31T12:00:00-05:30', '2027-01-31T17:30:00.000Z'],
  ] as const) {
    const found = await read(written);
    assert.ok(found.ok, written);
    const [one] = found.value.suppressions;
    assert.equal(one!.expiresAt, expiresAt === null ? null : Date.parse(expiresAt), written);
  }
  for (const written of [
    '0',
    '12',
    '+1',
    '2027',
    'until 2027',
    '01/02/2027',
    '1 Feb 2027',
    '2027-02-31',
    '2027-01-31 25:00:00',
    '2027-01-31T12:00:00 PST',
    '1801310400',
    'never',
  ]) {
    const found = await read(written);
    assert.ok(!found.ok, written);
    assert.match(JSON.stringify(found), /line 2/);
  }
});

test('reading a long list yields to other work', async () => {
  let turns = 0;
  let isRead = false;
  const count = (): void => {
    turns += 1;
    if (!isRead) setImmediate(count);
  };
  setImmediate(count);
  const list = Array.from({ length: 95_000 }, (_, index) => `user${index}@example.com`).join('\n');
  const read = await readSuppressions(list, 0);
  isRead = true;
  assert.equal(read.ok && read.value.suppressions.length, 95_000);
  assert.ok(turns >= 1, `others ran ${turns} times`);
});
