/** Appended events: the ID follows the event's time, whichever clock created it, on both databases. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { DIALECTS, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { idAt, newId } from '../base/ids.ts';
import { acceptOperation } from '../send/acceptance.ts';
import { readEventsOperation } from './read-store.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

for (const dialect of DIALECTS) {
  test(`an event ID contains its time (${dialect})`, async () => {
    const { database, close } = await tempDatabase(dialect);
    closers.push(close);
    const atMs = Date.now() + 40 * 86_400_000;
    const mail = acceptance({ accountId: 'acc_1', mode: 'sandbox', nowMs: atMs });
    const [recipient] = mail.emails[0]!.recipients;
    recipient!.sendEventId = newId('evt', 1);
    recipient!.simulateSuppressed = true;
    await database.execute(acceptOperation, mail);
    // The log returns no events that an open transaction on the same server might still precede.
    const events = await waitUntil('both events', async () => {
      const shown = await database.execute(readEventsOperation, {
        accountId: 'acc_1',
        mode: 'sandbox',
        order: 'asc',
        after: null,
        limit: 10,
        messageId: null,
        sinceMs: null,
        untilMs: null,
      });
      return shown.length === 2 && shown;
    });
    assert.deepEqual(
      events.map(({ type, at, id }) => ({ type, at, id: id.slice(0, 12) })),
      [
        { type: 'Send', at: atMs, id: newId('evt', atMs).slice(0, 12) },
        { type: 'Reject', at: atMs + 1, id: newId('evt', atMs + 1).slice(0, 12) },
      ],
    );
    assert.equal(events[0]!.id.slice(12), recipient!.sendEventId.slice(12), 'the random part is kept');
  });
}

test('only the ID changes when an event gets another time', () => {
  assert.equal(idAt('evt_1', 5), 'evt_1');
  assert.equal(idAt('x'.repeat(25), 5), 'x'.repeat(25));
  const id = newId('evt', 7);
  assert.equal(idAt(id, 7), id);
  assert.equal(idAt(idAt(id, 8), 7), id);
});
