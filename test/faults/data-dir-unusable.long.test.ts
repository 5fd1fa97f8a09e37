/**
 * An unusable data directory stops the start with one line that names the path and the remedy. If the tests run as root, the service runs
 * without root's capabilities, which would bypass permissions.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { missing, notAllowed } from '../kit/requirements.ts';
import { runCommand, startService } from '../kit/start-service.ts';

const isRoot = process.getuid?.() === 0;
const wrapper = isRoot ? ['setpriv', '--bounding-set=-all', '--inh-caps=-all'] : [];
const drop = () => void execFileSync(wrapper[0]!, [...wrapper.slice(1), 'true'], { stdio: 'pipe' });
const skip = isRoot && (missing('setpriv') || notAllowed('give up powers of root', drop));
const ELSEWHERE = 'or choose another POSTRIDER_DATA_DIR';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-unusable-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The single line that a start on this directory prints before it exits. */
async function refusal(dataDir: string): Promise<string> {
  const done = await runCommand(['serve'], { dataDir, wrapper });
  assert.equal(done.code, 1, done.stderr);
  const lines = `${done.stdout}${done.stderr}`.trim().split('\n');
  assert.equal(lines.length, 1, lines.join('\n'));
  return lines[0]!.replace('postrider: ', '');
}

test('a directory without write permission, new or used before', { skip }, async (t) => {
  const dataDir = folderOf(t);
  const closed = async (mode: number): Promise<string> => {
    chmodSync(dataDir, mode);
    try {
      return await refusal(dataDir);
    } finally {
      chmodSync(dataDir, 0o700);
    }
  };
  const may = `(this user cannot write to ${dataDir}); change its owner to the user of the service, ${ELSEWHERE}`;
  for (const mode of [0o500, 0o000]) {
    assert.equal(await closed(mode), `the folder ${dataDir}/blobs cannot be created ${may}`);
  }
  mkdirSync(path.join(dataDir, 'blobs'));
  assert.equal(
    await closed(0o500),
    `${dataDir}/serving.lock cannot be opened: this user cannot write to ${dataDir}; change its owner to the user of the service, ${ELSEWHERE}`,
  );
  const made = await runCommand(['migrate'], { dataDir, wrapper });
  assert.equal(made.code, 0, made.stderr);
  assert.match(await closed(0o500), new RegExp(`${dataDir}/serving.lock cannot be opened: this user cannot write to`));
  chmodSync(path.join(dataDir, 'postrider.db'), 0o400);
  assert.equal(
    await refusal(dataDir),
    `${dataDir}/postrider.db cannot be opened: this user cannot write to ${dataDir}/postrider.db; change its owner to the user of the service, ${ELSEWHERE}`,
  );
});

test('a parent directory without write permission', { skip }, async (t) => {
  const parent = folderOf(t);
  chmodSync(parent, 0o500);
  const may = `(this user cannot write to ${parent}); change its owner to the user of the service, ${ELSEWHERE}`;
  assert.equal(await refusal(path.join(parent, 'one')), `the folder ${parent}/one cannot be created ${may}`);
  assert.equal(await refusal(path.join(parent, 'one', 'two')), `the folder ${parent}/one cannot be created ${may}`);
  chmodSync(parent, 0o700);
});

test('a file instead of the directory, or of a parent', async (t) => {
  const folder = folderOf(t);
  const file = path.join(folder, 'data');
  writeFileSync(file, 'x');
  assert.equal(
    await refusal(file),
    `the folder ${file} cannot be created (a file with this name exists); move that file away, ${ELSEWHERE}`,
  );
  assert.equal(
    await refusal(path.join(file, 'below')),
    `the folder ${file}/below cannot be created (${file} is not a folder); move that file away, ${ELSEWHERE}`,
  );
});

test('a missing or empty database in a directory that was in use', async (t) => {
  const dataDir = path.join(folderOf(t), 'data');
  const service = await startService({ dataDir });
  await service.kill('SIGTERM');
  const database = path.join(dataDir, 'postrider.db');
  const whole = readFileSync(database);
  for (const change of [() => truncateSync(database, 0), () => rmSync(database)]) {
    change();
    const said = await refusal(dataDir);
    assert.match(
      said,
      /the database .*postrider\.db is (empty \(0 bytes\)|missing), but .* was in use \(it has .*secret\.key/,
    );
    assert.match(said, /postrider restore FILE/);
    assert.equal(statSync(database, { throwIfNoEntry: false })?.size ?? 0, 0, 'nothing is created instead');
  }
  writeFileSync(database, whole);
  await service.restart();
  await service.kill('SIGTERM');
});
