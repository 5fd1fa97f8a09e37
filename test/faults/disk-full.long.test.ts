/**
 * The disk fills up: intake stops at the free-space limit before the disk is full, reports it on /ready, and resumes when space is
 * available. If the limit is disabled, a commit without space is a rejection and never a loss.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, rmSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { fill, freeBytes, mountSmallDisk, noSmallDisk as skip } from '../kit/small-disk.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { allMessages } from './ledger.ts';

const MEGABYTE = 1_000_000;

const send = (service: Service, text = 'x') =>
  service.sandboxApi.post('/send', { from: 'a@x.example', to: 'b@x.example', subject: 'Full', text });

/** The reasons why the service is not ready, as its metrics say. */
async function notReady({ anonymous }: Service): Promise<string[]> {
  const { text } = await anonymous.get('/metrics');
  return [...text.matchAll(/^postrider_not_ready\{reason="(\w+)"\} 1$/gm)].map(([, reason]) => reason!);
}

test('intake stops at the free-space limit and resumes when space is available', {
  skip,
  timeout: 240_000,
}, async (t) => {
  const disk = mountSmallDisk();
  t.after(() => disk.unmount());
  // The required free space is the smaller of this and 10 % of 64 MiB.
  const service = await startService({ dataDir: disk.folder, env: { POSTRIDER_MIN_FREE_BYTES: '500000000' } });
  try {
    assert.equal((await send(service)).status, 202);
    assert.equal((await service.anonymous.get('/ready')).status, 200);
    assert.deepEqual(await notReady(service), []);
    const ballast = fill(disk.folder, 4 * MEGABYTE);
    const ready = await waitUntil('the free-space limit to be noticed', async () => {
      const answer = await service.anonymous.get('/ready');
      return answer.status === 503 && answer;
    });
    assert.match(ready.text, /disk|space|free/i, 'the log has the reason');
    assert.deepEqual(await notReady(service), ['disk']);
    const refused = await send(service);
    assert.equal(refused.status, 503);
    assert.equal(refused.body.error.code, 'OVERLOADED');
    assert.ok(Number(refused.headers['retry-after']) >= 1);
    assert.equal((await service.anonymous.get('/health')).status, 200);
    assert.equal((await service.sandboxApi.get('/messages')).status, 200, 'reads still work');
    assert.ok(freeBytes(disk.folder) > MEGABYTE, 'the service itself has not filled the rest');
    rmSync(ballast);
    await waitUntil('intake to resume', async () => (await send(service)).status === 202);
    assert.equal((await service.anonymous.get('/ready')).status, 200);
  } finally {
    await service.close();
  }
});

/** The doctor check with this name. */
async function doctorOf(dataDir: string, name: string, env: Record<string, string> = {}): Promise<JsonObject> {
  const { stdout } = await runCommand(['doctor', '--json'], { dataDir, env });
  return (JSON.parse(stdout) as { checks: JsonObject[] }).checks.find((one) => one.name === name)!;
}

test('the smaller of the two free-space limits applies', { skip, timeout: 240_000 }, async (t) => {
  const disk = mountSmallDisk();
  t.after(() => disk.unmount());
  // 10 % of 64 MiB is 6.7 MB.
  const env = { POSTRIDER_MIN_FREE_BYTES: '3000000' };
  const service = await startService({ dataDir: disk.folder, env });
  try {
    const first = fill(disk.folder, 5 * MEGABYTE);
    const until = performance.now() + 2_500;
    await waitUntil('the disk to be looked at twice', async () => {
      assert.equal((await service.anonymous.get('/ready')).status, 200, 'below 10 %, and above the setting');
      return performance.now() > until;
    });
    assert.equal((await send(service)).status, 202);
    const near = await doctorOf(disk.folder, 'disk space', env);
    assert.match(`${near.status} ${near.message}`, /^warn \d MB are free; Postrider accepts no mail below 3 MB$/);
    rmSync(first);
    const second = fill(disk.folder, 2 * MEGABYTE);
    await waitUntil('the free-space limit to be noticed', async () =>
      /[12] MB free, but 3 MB are needed/.test((await service.anonymous.get('/ready')).text),
    );
    assert.equal((await send(service)).status, 503);
    assert.equal((await doctorOf(disk.folder, 'disk space', env)).status, 'fail');
    rmSync(second);
    await waitUntil('intake to resume', async () => (await send(service)).status === 202);
  } finally {
    await service.close();
  }
});

test('without free inodes Postrider rejects mail, reports it, and loses nothing', {
  skip,
  timeout: 240_000,
}, async (t) => {
  const disk = mountSmallDisk('size=64m,nr_inodes=600');
  t.after(() => disk.unmount());
  const service = await startService({ dataDir: disk.folder });
  const acknowledged: string[] = [];
  const large = 'y'.repeat(100_000);
  const sendLarge = async (): Promise<number> => {
    const answer = await send(service, large);
    if (answer.status === 202) acknowledged.push(answer.body.data.messageId);
    return answer.status;
  };
  try {
    assert.equal(await sendLarge(), 202);
    const files: string[] = [];
    try {
      for (;;) {
        files.push(path.join(disk.folder, `ballast${files.length}`));
        closeSync(openSync(files.at(-1)!, 'w'));
      }
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC', 'control: no inode is left');
    }
    // Until the limit is noticed, blobs get no inode; after that nothing is accepted at all.
    assert.equal(await sendLarge(), 503);
    const ready = await waitUntil('the free-space limit to be noticed', async () => {
      const answer = await service.anonymous.get('/ready');
      return answer.status === 503 && answer;
    });
    assert.match(ready.text, /\d inodes free, but 60 are needed/);
    assert.equal((await send(service)).status, 503, 'small mail too');
    assert.equal((await doctorOf(disk.folder, 'inodes')).status, 'fail');
    for (const file of files) rmSync(file, { force: true });
    await waitUntil('intake to resume', async () => (await sendLarge()) === 202);
    await service.kill('SIGKILL');
    await service.restart();
    const stored = (await allMessages(service.sandboxApi)).map((one) => one.messageId);
    assert.deepEqual(
      acknowledged.filter((id) => !stored.includes(id)),
      [],
      'lost',
    );
  } finally {
    await service.close();
  }
});

test('without the limit, a full disk rejects mail and loses nothing', { skip, timeout: 240_000 }, async (t) => {
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
    assert.ok(refusals > 0, 'the disk was full');
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
