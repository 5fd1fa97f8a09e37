/** Kills and restarts for as long as asked, a node every 5 seconds and the database every 10, and until there were enough of both. */
import { setTimeout as wait } from 'node:timers/promises';
import { type NodesReport, nodesTrial } from './nodes-trial.ts';

const KILL_EVERY_MS = 5_000;
const RESTART_EVERY_MS = 10_000;

/** So many at least, however slowly the machine starts what was killed. */
export const LEAST_KILLS = 8;
export const LEAST_RESTARTS = 4;

export function underFire(options: { seconds: number; nodes?: number }): Promise<NodesReport> {
  return nodesTrial({
    nodes: options.nodes ?? 3,
    workers: 6,
    s3: true,
    script: async ({ cluster, fault, progress }) => {
      await progress(50);
      const end = performance.now() + options.seconds * 1_000;
      let killed = 0;
      let restarted = 0;
      const going = (): boolean => performance.now() < end || killed < LEAST_KILLS || restarted < LEAST_RESTARTS;
      const kills = (async () => {
        while (going()) {
          const node = cluster.nodes[Math.floor(Math.random() * cluster.nodes.length)]!;
          await fault('kill', async () => {
            await node.kill('SIGKILL');
          });
          killed += 1;
          await node.restart();
          await wait(Math.max(0, KILL_EVERY_MS - 1_000));
        }
      })();
      const restarts = (async () => {
        while (going()) {
          await wait(RESTART_EVERY_MS);
          await fault('database restart', () => cluster.postgres.restart('immediate'));
          restarted += 1;
        }
      })();
      await Promise.all([kills, restarts]);
      await progress(50);
    },
  });
}
