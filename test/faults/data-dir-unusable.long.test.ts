/**
 * An unusable data directory stops the start with one line that names the path and the remedy. If the tests run as root, the service runs
 * without root's capabilities, which would bypass permissions.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
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
/** Users without an account on this machine. */
const [OWNER, OTHER] = [64_000, 65_532] as const;
const octal = (mode: number): string => mode.toString(8).padStart(4, '0');

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-unusable-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The single line that a start on this directory prints before it exits. */
async function refusal(dataDir: string, by: string[] = wrapper): Promise<string> {
  const done = await runCommand(['serve'], { dataDir, wrapper: by });
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
  const remedy = `run chmod -R u+rwX ${dataDir}, ${ELSEWHERE}`;
  for (const mode of [0o500, 0o000]) {
    assert.equal(await closed(mode), `the folder ${dataDir} has the mode ${octal(mode)}; ${remedy}`);
  }
  const made = await runCommand(['migrate'], { dataDir, wrapper });
  assert.equal(made.code, 0, made.stderr);
  assert.equal(await closed(0o500), `the folder ${dataDir} has the mode 0500; ${remedy}`);
  chmodSync(path.join(dataDir, 'blobs'), 0o500);
  const blobs = `the folder ${dataDir}/blobs has the mode 0500; run chmod -R u+rwX ${dataDir}/blobs, ${ELSEWHERE}`;
  assert.equal(await refusal(dataDir), blobs);
  chmodSync(path.join(dataDir, 'blobs'), 0o700);
  const database = path.join(dataDir, 'postrider.db');
  chmodSync(database, 0o400);
  assert.equal(await refusal(dataDir), `${database} cannot be opened: ${database} has the mode 0400; ${remedy}`);
});

test('a directory of another user is refused with its owner, chown, and --user', {
  skip: isRoot ? missing('setpriv') : 'needs root',
}, async (t) => {
  const dataDir = folderOf(t);
  const as = (user: number): string[] => ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];
  const own = (user: number, ...names: string[]): void => chownSync(path.join(dataDir, ...names), user, user);
  own(OWNER);
  assert.equal((await runCommand(['migrate'], { dataDir, wrapper: as(OWNER) })).code, 0);
  const files = ['blobs', 'postrider.db'];
  for (const name of files) assert.equal(statSync(path.join(dataDir, name)).uid, OWNER);
  const runsAs = 'but Postrider runs as the user 65532, which cannot write to it';
  const remedy = `run chown -R 65532:65532 ${dataDir}, or run Postrider as the user ${OWNER} (docker run --user ${OWNER}:${OWNER})`;
  const said = `the folder ${dataDir} belongs to the user ${OWNER}, ${runsAs}; ${remedy}`;
  for (const mode of [0o700, 0o755]) {
    chmodSync(dataDir, mode);
    assert.equal(await refusal(dataDir, as(OTHER)), said);
    const command = await runCommand(['account', 'list'], { dataDir, wrapper: as(OTHER) });
    assert.equal(
      command.stderr,
      `postrider: the folder ${dataDir} belongs to the user ${OWNER}; run the command as that user, or set POSTRIDER_DATA_DIR\n`,
    );
  }
  // The owner of the folder itself is changed, without -R.
  own(OTHER);
  const blobs = path.join(dataDir, 'blobs');
  assert.equal(await refusal(dataDir, as(OTHER)), said.replaceAll(dataDir, blobs));
  own(OTHER, 'blobs');
  const database = path.join(dataDir, 'postrider.db');
  assert.equal(
    await refusal(dataDir, as(OTHER)),
    `${database} cannot be opened: ${database} belongs to the user ${OWNER}, ${runsAs}; ${remedy}`,
  );
  own(0);
  assert.equal(
    await refusal(dataDir, as(OTHER)),
    `the folder ${dataDir} belongs to the user 0, ${runsAs}; run chown -R 65532:65532 ${dataDir}, ${ELSEWHERE}`,
  );
  for (const name of ['', ...readdirSync(dataDir)]) own(OTHER, name);
  assert.equal((await runCommand(['account', 'list'], { dataDir, wrapper: as(OTHER) })).code, 0, 'after chown');
});

test('an empty directory that every user can write to is closed to others, and one with files is not changed', async (t) => {
  const dataDir = folderOf(t);
  const modeAfter = async (): Promise<number> => {
    chmodSync(dataDir, 0o1777);
    const done = await runCommand(['migrate'], { dataDir });
    assert.equal(done.code, 0, done.stderr);
    return statSync(dataDir).mode & 0o7777;
  };
  assert.equal(await modeAfter(), 0o700);
  assert.equal(await modeAfter(), 0o1777);
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
