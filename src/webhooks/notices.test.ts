/** Notices of disabled endpoints: sent once, retried with the same key, and not sent for endpoints that were fixed in the meantime. */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { noticeText } from '../../test/kit/notice-text.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { webhookRig } from '../../test/kit/webhook-rig.ts';
import { silentLog } from '../base/log.ts';
import type { Notice } from '../base/notice.ts';
import { sendDueNotices } from './notices.ts';
import { findEndpointOperation, replaceEndpointOperation } from './store.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

test('a notice is retried with the same key until sent or the endpoint is enabled', async () => {
  const clock = fakeClock();
  const w = await webhookRig((close) => closers.push(close), { clock });
  const hook = await w.catcher({ status: 410 });
  const { id } = await w.endpoint(`${hook.url}?token=secret`);
  const key = { id, accountId: w.accountId, mode: 'live' as const };
  const disable = async (): Promise<void> => {
    await w.event();
    w.worker.nudge();
    await waitUntil('the endpoint to be disabled', async () => {
      return (await w.db.database.execute(findEndpointOperation, key))?.enabled === 0;
    });
  };
  const given: Notice[] = [];
  let failing = true;
  const give = (): Promise<void> =>
    sendDueNotices({
      database: w.db.database,
      clock,
      log: silentLog,
      notify: async (notice) => {
        given.push(notice);
        if (failing) throw new Error('not now');
      },
    });
  await disable();
  await give();
  await give();
  assert.equal(given.length, 1, 'put off for a minute');
  clock.advance(60_000);
  failing = false;
  await give();
  clock.advance(60_000);
  await give();
  assert.deepEqual(
    given.map((notice) => notice.key),
    [given[0]!.key, given[0]!.key],
  );
  assert.equal(given[0]!.accountId, w.accountId);
  const text = noticeText(given[0]!);
  assert.match(text, /410 Gone/);
  assert.ok(!text.includes('secret'));

  const enable = {
    ...key,
    url: hook.url,
    events: '["Send"]',
    description: null,
    enabled: true,
    secretSealed: null,
    nowMs: clock.now(),
  };
  await w.db.database.execute(replaceEndpointOperation, enable);
  await disable();
  await w.db.database.execute(replaceEndpointOperation, enable);
  await give();
  assert.equal(given.length, 2, 'it was mended before it was told');
});
