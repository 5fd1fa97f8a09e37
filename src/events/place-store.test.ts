/** The position of an event while an earlier one is uncommitted: a follower that continues from it misses nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { newId } from '../base/ids.ts';
import { connectPostgres } from '../storage/postgres/connection.ts';
import { parsePostgresUrl } from '../storage/postgres/url.ts';
import { placeOfEventOperation } from './place-store.ts';
import { type EventPage, readEventsOperation } from './read-store.ts';

test('an event committed after later positions is not skipped', async (t) => {
  const temp = await tempDatabase('postgres');
  t.after(() => temp.close());
  const { database } = temp;
  const { client, destroy } = await connectPostgres(parsePostgresUrl(temp.url!));
  t.after(destroy);
  const owner = { accountId: 'acc_1', mode: 'live' } as const;
  const page: EventPage = {
    ...owner,
    order: 'desc',
    after: null,
    limit: 10,
    messageId: null,
    sinceMs: null,
    untilMs: null,
  };
  const idsOf = async (change: Partial<EventPage> = {}): Promise<string[]> =>
    (await database.execute(readEventsOperation, { ...page, ...change })).map(({ id }) => id);

  await seedMail(database, owner);
  const [first] = await idsOf();
  // Other tests have transactions on the same server.
  const settled = (count: number): Promise<boolean> =>
    waitUntil(`${count} settled events`, async () => (await idsOf({ order: 'asc' })).length === count);
  await settled(1);
  await client.query('BEGIN');
  const late = newId('evt');
  await client.query(
    `INSERT INTO event (account_id, mode, id, type, message_id, at, detail) VALUES ('acc_1', 'live', $1, 'Open', 'msg_1', 0, '{}')`,
    [late],
  );
  await seedMail(database, owner);
  const [second, ...others] = await idsOf();
  assert.deepEqual(others, [first]);
  const placeOf = (id: string, order: EventPage['order']) =>
    database.execute(placeOfEventOperation, { ...owner, order, id });
  const after = await placeOf(second!, 'asc');
  const before = await placeOf(second!, 'desc');
  await client.query('COMMIT');
  await settled(3);
  assert.deepEqual(await idsOf({ order: 'asc', after }), [late, second]);
  assert.deepEqual(await idsOf({ after: before }), [late, first]);
  assert.deepEqual(await idsOf({ order: 'asc', after: await placeOf(second!, 'asc') }), []);
});
