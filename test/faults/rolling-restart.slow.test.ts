/** One node after another is stopped and started under load: no loss, no duplicates, and no request fails permanently. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitUntil } from '../kit/wait-until.ts';
import { nodesTrial } from './nodes-trial.ts';

test('a rolling restart under load loses and duplicates nothing', { timeout: 300_000 }, async (t) => {
  const exits: (number | null)[] = [];
  const report = await nodesTrial({
    nodes: 3,
    workers: 6,
    script: async ({ cluster, progress }) => {
      await progress(50);
      for (let round = 0; round < 2; round += 1) {
        for (const node of cluster.nodes) {
          const { code } = await node.kill('SIGTERM');
          exits.push(code);
          await node.restart();
          await waitUntil('the node to be ready', async () => (await node.anonymous.get('/ready')).status === 200);
          await progress(20);
        }
      }
    },
  });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual(exits, [0, 0, 0, 0, 0, 0]);
  assert.equal(report.duplicates, 0);
});
