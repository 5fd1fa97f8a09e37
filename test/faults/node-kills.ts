/** Kills a node every 5 seconds and restarts the database every 10, for the requested time and until both happened often enough. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Service } from '../kit/start-service.ts';
import { ownPostgresServer } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type NodesReport, nodesTrial } from './nodes-trial.ts';

const KILL_EVERY_MS = 5_000;
const RESTART_EVERY_MS = 10_000;

/** The minimum number, however slowly the machine restarts what was killed. */
export const LEAST_KILLS = 5;
export const LEAST_RESTARTS = 2;

export function killUnderLoad(options: { seconds: number; nodes?: number }): Promise<NodesReport> {
  ownPostgresServer();
  return nodesTrial({
    nodes: options.nodes ?? 3,
    workers: 6,
    s3: true,
    script: async ({ cluster, fault, progress }) => {
      await progress(50);
      const end = performance.now() + options.seconds * 1_000;
      let killed = 0;
      let restarted = 0;
      let failed = false;
      const going = (): boolean =>
        !failed && (performance.now() < end || killed < LEAST_KILLS || restarted < LEAST_RESTARTS);
      const kills = async (): Promise<void> => {
        while (going()) {
          const node = cluster.nodes[Math.floor(Math.random() * cluster.nodes.length)]!;
          await fault('kill', async () => {
            await node.kill('SIGKILL');
          });
          killed += 1;
          await startAgain(node);
          await wait(Math.max(0, KILL_EVERY_MS - 1_000));
        }
      };
      const restarts = async (): Promise<void> => {
        while (going()) {
          await wait(RESTART_EVERY_MS);
          await fault('database restart', () => cluster.postgres.restart('immediate'));
          restarted += 1;
        }
      };
      const orEnd = (error: unknown): never => {
        failed = true;
        throw error;
      };
      // Both have ended before anything is closed.
      for (const outcome of await Promise.allSettled([kills().catch(orEnd), restarts().catch(orEnd)])) {
        if (outcome.status === 'rejected') throw outcome.reason;
      }
      await progress(50);
    },
  });
}

/** As a supervisor does: a node that finds no database at startup exits with one line that says so, and is started again. */
async function startAgain(node: Service): Promise<void> {
  const start = (): Promise<boolean> =>
    node.restart().then(
      () => true,
      () => false,
    );
  await waitUntil('the node to start', start, 60_000);
}
