/**
 * Rows "start" and "idle": the time from the command to a ready service, with an empty queue and with many messages queued, and the
 * resident memory of the entire service a while after its start.
 *
 * node bench/start-idle.ts [--rounds 5] [--queued 100000] [--settle 10]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fillQueue } from './fill-queue.ts';
import { onEnd, pause, readArguments, row, spread, table, WORK } from './lib.ts';
import { residentMegabytes, startService } from './service.ts';

const options = readArguments({ rounds: 5, queued: 100_000, settle: 10 });

await row('start and idle', 900, async () => {
  const rows: string[][] = [];
  for (const queued of [0, options.queued]) {
    const folder = mkdtempSync(path.join(WORK, 'start-'));
    onEnd(() => rmSync(folder, { recursive: true, force: true }));
    // Deliveries go to a port without a listener, so that the queue does not change.
    const environment = { POSTRIDER_ROUTE: 'smtp://127.0.0.1:9' };
    const first = await startService({ ...environment, POSTRIDER_ROLES: 'api' }, folder);
    await first.stop();
    if (queued > 0) await fillQueue(folder, first.headers['x-id']!, queued);
    const starts: number[] = [];
    const memory: number[] = [];
    for (let round = 0; round < options.rounds; round += 1) {
      const service = await startService(environment, folder);
      starts.push(service.startedMs);
      if (queued === 0) {
        await pause(options.settle * 1000);
        memory.push(residentMegabytes(service.child.process.pid!));
      }
      await service.stop();
    }
    rows.push([`start, ${queued} queued`, `${spread(starts)} ms`]);
    if (queued === 0) rows.push(['idle, resident memory', `${spread(memory)} MB`]);
  }
  table(['what', 'median (min–max)'], rows);
});
