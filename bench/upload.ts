/**
 * Row "upload": PUT of 29 MB to an upload URL, hashed, stored and recorded, compared with plain node:http that pipes the same body into a
 * synced file; one at a time and several at the same time, interleaved.
 *
 * node bench/upload.ts [--rounds 7] [--at-once 1,4]
 */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  freePort,
  machineBusySeconds,
  onEnd,
  pause,
  readArguments,
  row,
  spread,
  start,
  table,
  WORK,
  waitForPort,
} from './lib.ts';
import { register, startLargeService, upload } from './uploading.ts';

function removeFiles(folder: string): void {
  for (const one of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (one.isFile()) rmSync(path.join(one.parentPath, one.name));
  }
}

const options = readArguments({ rounds: 7, 'at-once': '1,4' });
const bytes = randomBytes(29_000_000);

await row('upload', 300, async () => {
  const folder = mkdtempSync(path.join(WORK, 'upload-'));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  const port = await freePort();
  start(process.execPath, [fileURLToPath(new URL('./floor-upload.ts', import.meta.url)), String(port), folder]);
  const service = await startLargeService({ POSTRIDER_ROLES: 'api' });
  await waitForPort(port);

  const targets: Record<string, (count: number) => Promise<(() => Promise<void>)[]>> = {
    postrider: async (count) => {
      const puts: (() => Promise<void>)[] = [];
      for (let i = 0; i < count; i += 1) {
        const { url, headers } = await register(service, bytes);
        puts.push(() => upload(url, headers, bytes));
      }
      return puts;
    },
    'bare node:http': async (count) =>
      Array.from({ length: count }, () => () => upload(`http://127.0.0.1:${port}/`, {}, bytes)),
  };
  const measure = async (name: string, count: number): Promise<{ rate: number; cpu: number }> => {
    const puts = await targets[name]!(count);
    const busy = machineBusySeconds();
    const began = performance.now();
    await Promise.all(puts.map((put) => put()));
    const seconds = (performance.now() - began) / 1000;
    const cpu = (machineBusySeconds() - busy) / count;
    // Same conditions for both: new files use pages that the kernel already has, instead of pages that it must first get from the host.
    for (const each of [folder, path.join(service.folder, 'blobs')]) removeFiles(each);
    return { rate: (count * bytes.length) / 1e6 / seconds, cpu };
  };

  const names = Object.keys(targets);
  const rows: string[][] = [];
  for (const count of options['at-once'].split(',').map(Number)) {
    const results = new Map<string, { rate: number; cpu: number }[]>(names.map((name) => [name, []]));
    for (const name of names) await measure(name, count);
    for (let round = 0; round < options.rounds; round += 1) {
      for (const name of round % 2 ? [...names].reverse() : names) {
        results.get(name)!.push(await measure(name, count));
        await pause(300);
      }
    }
    const floor = results.get('bare node:http')!;
    for (const name of names) {
      const measured = results.get(name)!;
      rows.push([
        name,
        String(count),
        spread(measured.map((one) => one.rate)),
        name === 'postrider' ? spread(measured.map((one, i) => one.rate / floor[i]!.rate)) : '1',
        spread(measured.map((one) => one.cpu)),
      ]);
    }
  }
  table(['system', 'at once', 'MB/s', 'of the floor', 'cpu s each'], rows);
});
