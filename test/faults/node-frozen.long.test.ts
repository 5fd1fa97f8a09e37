/**
 * A node is stopped in the middle of its work for three lease periods, and then resumed. Other nodes take over its leases. When it resumes,
 * it must not overwrite their results, start a delivery that it no longer holds, or complete one that it had started: the receiving server
 * has replied 354 in the meantime, and waits for the content.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { waitUntil } from '../kit/wait-until.ts';
import { copiesByKey } from './ledger.ts';
import { nodesTrial } from './nodes-trial.ts';

const THREE_LEASES_MS = 3 * 60_000;
const TAKE_OVER_MS = 60_000;

test('a node frozen for three lease periods and resumed', { timeout: 600_000 }, async (t) => {
  let takenOverMs = 0;
  const report = await nodesTrial({
    nodes: 2,
    workers: 4,
    script: async ({ cluster, sink, ledger, fault, progress }) => {
      await progress(60);
      const frozen = cluster.nodes[1]!;
      sink.setScript({ data: { delayMs: 500 } });
      await progress(20);
      const freeze = async (): Promise<void> => {
        process.kill(frozen.pid, 'SIGSTOP');
        const began = performance.now();
        const before = [...ledger.acknowledged.keys()];
        await waitUntil(
          "the frozen node's leases to be taken over",
          () => {
            const there = copiesByKey(sink.messages);
            return before.every((key) => there.has(key));
          },
          TAKE_OVER_MS + 30_000,
        );
        takenOverMs = performance.now() - began;
        await wait(Math.max(0, THREE_LEASES_MS - (performance.now() - began)));
        process.kill(frozen.pid, 'SIGCONT');
        await wait(2_000);
      };
      await fault('freeze', freeze, { isStandstill: true });
      await progress(30);
    },
  });
  t.diagnostic(JSON.stringify({ ...report, takenOverMs: Math.round(takenOverMs) }));
  assert.ok(takenOverMs <= TAKE_OVER_MS + 10_000, `taken over after ${Math.round(takenOverMs)} ms`);
});
