/** A backup and an export of a service that lost content: everything else is saved, and both report that the file is incomplete. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { runCommand, startService } from '../kit/start-service.ts';

test('backup and export list missing content and report it in the exit code', { timeout: 150_000 }, async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-lost-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const service = await startService();
  t.after(() => service.close());
  const sendAt = new Date(Date.now() + 3_600_000).toISOString();
  for (const name of ['one', 'two']) {
    const body = { from: 'a@x.example', to: 'b@x.example', subject: name, text: 'x'.repeat(200_000), sendAt };
    assert.equal((await service.sandboxApi.post('/send', body)).status, 202);
  }
  await service.kill('SIGTERM');
  const { dataDir } = service;
  const blobs = path.join(dataDir, 'blobs');
  const keys = readdirSync(blobs, { recursive: true })
    .map(String)
    .filter((name) => name.includes('/'));
  assert.equal(keys.length, 2);

  const whole = await runCommand(['export', path.join(folder, 'whole'), '--json'], { dataDir });
  assert.equal(whole.code, 0, whole.stderr);
  const said = JSON.parse(whole.stdout);
  assert.deepEqual([said.complete, said.blobs, said.lost], [true, 2, { count: 0, keys: [] }]);
  assert.match(whole.stderr, /postrider: blobs 2\/2\n/);
  assert.match(whole.stderr, /postrider: message 2\/2\n/);

  const [gone] = keys as [string];
  rmSync(path.join(blobs, gone));
  for (const command of ['backup', 'export']) {
    const file = path.join(folder, command);
    const told = await runCommand([command, file, '--json'], { dataDir });
    assert.equal(told.code, 1, command);
    const { complete, blobs: count, lost } = JSON.parse(told.stdout);
    assert.deepEqual([complete, count, lost], [false, 1, { count: 1, keys: [gone] }]);
    assert.match(told.stderr, /one blob in use is missing or damaged in the blob store and could not be copied/);
    assert.ok(told.stderr.includes(gone));
    assert.ok(existsSync(file), 'the rest is saved');
    const shown = await runCommand([command, `${file}-text`], { dataDir });
    assert.equal(shown.code, 1);
    assert.match(shown.stdout, /The file is incomplete: one blob could not be copied/);
    assert.ok(shown.stderr.includes(gone));
  }

  // Lost content stays lost: scheduled backups continue, report it, and do not accumulate.
  const scheduled = path.join(folder, 'scheduled');
  mkdirSync(scheduled);
  for (const time of ['2026-11-01T031500', '2026-11-02T031500'])
    writeFileSync(path.join(scheduled, `postrider-scheduled-${time}.backup`), '');
  const env = { POSTRIDER_BACKUP_URL: pathToFileURL(scheduled).href, POSTRIDER_BACKUP_KEEP: '2' };
  const incomplete = await runCommand(['backup', '--scheduled'], { dataDir, env });
  assert.equal(incomplete.code, 1);
  assert.ok(incomplete.stderr.includes(gone));
  const kept = readdirSync(scheduled).sort();
  assert.equal(kept.length, 2);
  assert.equal(kept[0], 'postrider-scheduled-2026-11-02T031500.backup');
});
