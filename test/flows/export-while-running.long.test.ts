/** An export from a running service that accepts mail: a consistent snapshot, which can be imported and served elsewhere. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { openPortableFile } from '../../src/storage/portable-file.ts';
import { runCommand, startService } from '../kit/start-service.ts';

test('an export from a running service contains everything accepted before it', { timeout: 150_000 }, async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-export-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const service = await startService();
  t.after(() => service.close());
  const sent: string[] = [];
  const send = async (): Promise<void> => {
    const large = sent.length % 10 === 0 ? 'x'.repeat(100_000) : '';
    const { status, body, text } = await service.sandboxApi.post('/send', {
      from: 'any@unverified.example',
      to: 'ann@example.com',
      subject: `Number ${sent.length}`,
      text: `Thank you.${large}`,
    });
    assert.equal(status, 202, text);
    sent.push(body.data.messageId);
  };
  while (sent.length < 20) await send();
  let isDone = false;
  const traffic = (async () => {
    while (!isDone) await send();
  })();
  const target = path.join(folder, 'running.export');
  const acceptedBefore = sent.length;
  const made = await runCommand(['export', target, '--json'], { dataDir: service.dataDir }).finally(() => {
    isDone = true;
  });
  const acceptedMeanwhile = sent.length - acceptedBefore;
  await traffic;
  assert.equal(made.code, 0, made.stderr);
  const told = JSON.parse(made.stdout);
  assert.deepEqual([told.complete, told.lost.count], [true, 0]);
  assert.ok(acceptedMeanwhile > 0, 'control: mail was accepted during the export');

  const file = openPortableFile(target);
  const there = file.raw.prepare('SELECT id FROM message ORDER BY id').all();
  file.close();
  assert.equal(there.length, told.tables.message);
  assert.ok(there.length >= acceptedBefore, `${there.length} of ${acceptedBefore}`);
  const ids = new Set(there.map((row) => String(row.id)));
  // They were sent one after another: if one is included, so are all before it.
  assert.deepEqual(
    sent.filter((id) => ids.has(id)),
    sent.slice(0, there.length),
  );

  const busy = await runCommand(['import', target], { dataDir: service.dataDir });
  assert.equal(busy.code, 1);
  assert.match(busy.stderr, /already serving/);

  const dataDir = path.join(folder, 'elsewhere');
  const imported = await runCommand(['import', target, '--json'], { dataDir });
  assert.equal(imported.code, 0, imported.stderr);
  const secretKey = readFileSync(path.join(service.dataDir, 'secret.key'), 'utf8').trim();
  const other = await startService({ dataDir, joins: service.dataDir, env: { POSTRIDER_SECRET_KEY: secretKey } });
  t.after(() => other.close());
  assert.equal((await other.anonymous.get('/ready')).status, 200);
  for (const [index, id] of sent.slice(0, acceptedBefore).entries()) {
    const { status, text } = await other.sandboxApi.get(`/messages/${id}/content`);
    assert.deepEqual([status, text.includes('Thank you.')], [200, true], text);
    assert.equal(text.length > 100_000, index % 10 === 0, 'large content too');
  }
});
