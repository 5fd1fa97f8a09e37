/** The only process of the embedded database: its published state is available to the command line and removed when it stops. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { joinNodes, nodesOperation } from './nodes.ts';

test('a standalone process publishes its changed state and removes it on exit', async (t) => {
  const { database, close } = await tempDatabase('sqlite');
  t.after(close);
  const nodes = await joinNodes({
    database,
    clock: systemClock,
    log: silentLog,
    host: 'one',
    version: '1',
    roles: ['api', 'delivery'],
  });
  t.after(() => nodes.stop());
  let looks = 0;
  const state = { leases: { delivery: 1 }, destinations: [] };
  nodes.publish(() => {
    looks += 1;
    return state;
  });
  const written = () => database.execute(nodesOperation, null);
  const [row] = await waitUntil('the state to be written', async () => {
    const rows = await written();
    return rows.length > 0 && rows;
  });
  assert.deepEqual([row!.host, row!.roles, JSON.parse(row!.state)], ['one', 'api,delivery', state]);
  const before = looks;
  await waitUntil('the next check', () => looks > before);
  assert.deepEqual(await written(), [row], 'unchanged state is not written again');
  assert.equal((await nodes.list())[0]!.id, row!.id);
  await nodes.stop();
  assert.deepEqual(await written(), []);
});
