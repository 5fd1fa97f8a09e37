/**
 * The cost of an event in an account with many endpoints, in statements and rows: it reads only the endpoints subscribed to its type, in a
 * constant number of statements.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { storage } from '../../test/kit/counted-database.ts';
import { highLimitAccount } from '../../test/kit/high-limit-account.ts';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { newId } from '../base/ids.ts';
import { acceptOperation } from '../send/acceptance.ts';
import { createEndpointOperation, removeEndpointOperation, replaceEndpointOperation } from '../webhooks/store.ts';

const accountId = 'acc_1';
const { database, counted, rows, close } = await storage();
after(close);
await highLimitAccount(database, accountId);

const made: string[] = [];
async function endpoints(count: number, events: string[], owner = accountId): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const id = newId('whk');
    made.push(id);
    await database.execute(createEndpointOperation, {
      id,
      accountId: owner,
      mode: 'live',
      url: 'https://a.example',
      description: null,
      enabled: true,
      nowMs: 1,
      events: JSON.stringify(events),
      secretSealed: Buffer.from([1]),
    });
  }
}

/** Counts statements, rows read, and rows written when one message is accepted, which appends one Send event. */
async function cost() {
  counted.statements = 0;
  counted.read = 0;
  counted.written = 0;
  await database.execute(acceptOperation, acceptance({ accountId }));
  return { ...counted };
}
const waiting = (): number => Number(rows("SELECT count(*) AS n FROM work WHERE kind = 'webhook'")[0]?.n);

test('endpoints with other subscriptions add no cost to an event', async () => {
  // The first row of a table has no predecessor.
  await cost();
  const alone = await cost();
  await endpoints(3_000, ['Bounce', 'Complaint']);
  assert.deepEqual(await cost(), alone);
  assert.equal(waiting(), 0);
});

test('any number of subscribed endpoints cost one statement', async () => {
  await endpoints(2, ['Send', 'Delivery']);
  const two = await cost();
  assert.equal(waiting(), 2);
  await endpoints(1_998, ['Send']);
  const many = await cost();
  assert.equal(waiting(), 2_002);
  assert.equal(many.statements, two.statements);
  assert.equal(many.read, two.read);
  assert.equal(many.written, two.written + 1_998);
});

test('changing an endpoint changes what it receives', async () => {
  const key = { accountId, mode: 'live' as const };
  const change = { url: 'https://a.example', description: null, secretSealed: null, nowMs: 2 };
  for (const id of made.slice(3_002)) await database.execute(removeEndpointOperation, { ...key, id });
  const before = waiting();
  await cost();
  assert.equal(waiting() - before, 2);
  const [first, second] = made.slice(3_000) as [string, string];
  await database.execute(replaceEndpointOperation, {
    ...key,
    ...change,
    id: first,
    events: '["Bounce"]',
    enabled: null,
  });
  await cost();
  assert.equal(waiting() - before, 3);
  await database.execute(replaceEndpointOperation, {
    ...key,
    ...change,
    id: second,
    events: '["Send"]',
    enabled: false,
  });
  await cost();
  assert.equal(waiting() - before, 3, 'disabled');
  await database.execute(replaceEndpointOperation, {
    ...key,
    ...change,
    id: second,
    events: '["Send"]',
    enabled: true,
  });
  await database.execute(replaceEndpointOperation, {
    ...key,
    ...change,
    id: second,
    events: '["Send"]',
    enabled: null,
  });
  await cost();
  assert.equal(waiting() - before, 4, 'enabled again, once');
});

test('the work of an endpoint is in the order of its events, with any number of subscriptions', async () => {
  const owner = 'acc_2';
  await endpoints(1, ['Send', 'Reject'], owner);
  await endpoints(1, ['Reject'], owner);
  const mail = acceptance({ accountId: owner });
  for (const recipient of mail.emails[0]!.recipients) recipient.simulateSuppressed = true;
  await database.execute(acceptOperation, mail);
  const types = (endpoint: string): unknown[] =>
    rows(
      `SELECT e.type FROM work w JOIN event e ON e.seq = w.ref WHERE w.kind = 'webhook' AND w.subject = '${endpoint}'
       ORDER BY w.seq`,
    ).map((row) => row.type);
  assert.deepEqual(types(made.at(-2)!), ['Send', 'Reject']);
  assert.deepEqual(types(made.at(-1)!), ['Reject']);
});
