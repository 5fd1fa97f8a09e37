/**
 * The disk fills up: intake stops at its mark, before the disk is full, says so on /ready and takes up again when there
 * is room; and where the mark is switched off, a commit that finds no room is a refusal, never a loss.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, statfsSync, writeSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { notAllowed } from '../kit/peers.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { allMessages } from './ledger.ts';

const MEGABYTE = 1_000_000;

function mountSmallDisk(): { folder: string; unmount: () => void } {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-small-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m,mode=0700', 'tmpfs', folder], { stdio: 'pipe' });
  } catch (error) {
    rmdirSync(folder);
    throw error;
  }
  const unmount = (): void => {
    execFileSync('umount', ['-l', folder]);
    rmdirSync(folder);
  };
  return { folder, unmount };
}

const skip = notAllowed('mount a small file system', () => mountSmallDisk().unmount());

const freeBytes = (folder: string): number => {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
};

/** Writes a file until so many bytes are left, or none. */
function fill(folder: string, leaveBytes: number): string {
  const name = path.join(folder, 'ballast');
  const file = openSync(name, 'w');
  const block = Buffer.alloc(256 * 1024, 1);
  try {
    while (freeBytes(folder) > leaveBytes) {
      const room = freeBytes(folder) - leaveBytes;
      writeSync(file, block, 0, Math.min(block.length, Math.max(room, 4096)));
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(file);
  }
  return name;
}

const send = (service: Service, text = 'x') =>
  service.sandboxApi.post('/send', { from: 'a@x.example', to: 'b@x.example', subject: 'Full', text });

test('intake stops at the mark and takes up again when there is room', { skip, timeout: 240_000 }, async (t) => {
  const disk = mountSmallDisk();
  t.after(() => disk.unmount());
  // The smaller of this and 10 % of 64 MiB is what has to be free.
  const service = await startService({ dataDir: disk.folder, env: { POSTRIDER_MIN_FREE_BYTES: '500000000' } });
  try {
    assert.equal((await send(service)).status, 202);
    assert.equal((await service.anonymous.get('/ready')).status, 200);
    const ballast = fill(disk.folder, 4 * MEGABYTE);
    const ready = await waitUntil('the mark to be noticed', async () => {
      const answer = await service.anonymous.get('/ready');
      return answer.status === 503 && answer;
    });
    assert.match(ready.text, /disk|space|free/i, 'it says why');
    const refused = await send(service);
    assert.equal(refused.status, 503);
    assert.equal(refused.body.error.code, 'OVERLOADED');
    assert.ok(Number(refused.headers['retry-after']) >= 1);
    assert.equal((await service.anonymous.get('/health')).status, 200);
    assert.equal((await service.sandboxApi.get('/messages')).status, 200, 'reading goes on');
    assert.ok(freeBytes(disk.folder) > MEGABYTE, 'the service itself has not filled the rest');
    rmSync(ballast);
    await waitUntil('intake to take up again', async () => (await send(service)).status === 202);
    assert.equal((await service.anonymous.get('/ready')).status, 200);
  } finally {
    await service.close();
  }
});

test('without the mark, a full disk refuses and loses nothing', { skip, timeout: 240_000 }, async (t) => {
  const disk = mountSmallDisk();
  t.after(() => disk.unmount());
  const service = await startService({ dataDir: disk.folder, env: { POSTRIDER_MIN_FREE_BYTES: '0' } });
  const acknowledged: string[] = [];
  let refusals = 0;
  try {
    const ballast = fill(disk.folder, 2 * MEGABYTE);
    for (let i = 0; i < 400 && refusals < 5; i += 1) {
      const answer = await send(service, 'y'.repeat(20_000)).catch(() => undefined);
      if (answer?.status === 202) {
        acknowledged.push(answer.body.data.messageId);
        continue;
      }
      refusals += 1;
      if (!answer) break;
      assert.equal(answer.status, 503, answer.text);
    }
    assert.ok(refusals > 0, 'the disk did fill up');
    rmSync(ballast);
    const alive = await service.anonymous.get('/health').then(
      () => true,
      () => false,
    );
    if (!alive) await service.restart();
    await waitUntil(
      'sends to be accepted again',
      async () => (await send(service).catch(() => undefined))?.status === 202,
    );
    await service.kill('SIGKILL');
    await service.restart();
    const stored = new Set((await allMessages(service.sandboxApi)).map((one) => one.messageId));
    assert.ok(acknowledged.length > 0);
    assert.deepEqual(
      acknowledged.filter((id) => !stored.has(id)),
      [],
      'lost',
    );
  } finally {
    await service.close();
  }
});
