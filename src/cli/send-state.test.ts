import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, beforeEach, test } from 'node:test';
import { openSendState } from './send-state.ts';

const HOUR = 3_600_000;
const NOW = Date.UTC(2026, 10, 20);
let home: string;
let folder: string;
before(() => {
  home = mkdtempSync(path.join(os.tmpdir(), 'postrider-state-'));
  folder = path.join(home, '.local/state/postrider/sends');
});
beforeEach(() => rmSync(folder, { recursive: true, force: true }));
after(() => rmSync(home, { recursive: true, force: true }));

const command = { to: 'ann@example.com', items: [{ sha256: 'a' }] };
const open = (what: unknown = command, nowMs = NOW) => openSendState(what, { environment: { HOME: home }, nowMs });
/** State left by another process. */
function handOver(pid: number): void {
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name);
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), pid }));
  }
}
/** Higher than any process id on Linux and macOS. */
const DEAD = 2 ** 30;

test('an interrupted send resumes with its key, unless it finished or differs', () => {
  const first = open();
  assert.match(first.idempotencyKey, /^send-[0-9A-Za-z]{26}$/);
  assert.equal(first.isContinued, false);
  handOver(DEAD);
  const second = open();
  assert.deepEqual([second.idempotencyKey, second.isContinued], [first.idempotencyKey, true]);
  const other = open({ ...command, to: 'bob@example.com' });
  assert.notEqual(other.idempotencyKey, first.idempotencyKey);
  second.finish();
  other.finish();
  assert.deepEqual(readdirSync(folder), []);
  assert.notEqual(open().idempotencyKey, first.idempotencyKey);
});

test('a send in progress in another process is rejected', () => {
  open();
  handOver(process.ppid);
  assert.throws(() => open(), /is already being sent by process \d+: wait for it to finish, or delete/);
});

test('without uploads, the same send in another process is another email', () => {
  const first = open();
  handOver(process.ppid);
  const second = openSendState(command, { environment: { HOME: home }, nowMs: NOW, allowsConcurrent: true });
  assert.notEqual(second.idempotencyKey, first.idempotencyKey);
  assert.deepEqual([second.isContinued, second.isStored], [false, false]);
  second.finish();
  assert.equal(readdirSync(folder).length, 1, 'the state of the first');
});

test('of runs that start together, one resumes the interrupted run', async () => {
  const interrupted = open();
  handOver(DEAD);
  const script = `
    import { openSendState } from ${JSON.stringify(path.join(import.meta.dirname, 'send-state.ts'))};
    process.stdout.write('ready\\n');
    process.stdin.once('data', () => {
      const options = { environment: { HOME: ${JSON.stringify(home)} }, nowMs: ${NOW}, allowsConcurrent: true };
      const { idempotencyKey } = openSendState(${JSON.stringify(command)}, options);
      process.stdout.write(idempotencyKey + '\\n');
    });
  `;
  const runs = Array.from({ length: 4 }, () => spawn(process.execPath, ['--input-type=module', '-e', script]));
  try {
    const outputs = runs.map((run) => createInterface(run.stdout)[Symbol.asyncIterator]());
    for (const output of outputs) assert.equal((await output.next()).value, 'ready');
    for (const run of runs) run.stdin.write('start\n');
    const keys = await Promise.all(outputs.map(async (output) => (await output.next()).value));
    assert.equal(new Set(keys).size, 4, keys.join());
    assert.equal(keys.filter((key) => key === interrupted.idempotencyKey).length, 1, keys.join());
  } finally {
    for (const run of runs) run.kill('SIGKILL');
  }
});

test('a run deletes only its own state', () => {
  const first = open();
  handOver(DEAD);
  const second = open();
  first.finish();
  assert.equal(readdirSync(folder).length, 1, 'the state of the second run');
  second.finish();
  assert.deepEqual(readdirSync(folder), []);
});

test('the lock of a run that crashed delays the next one only', () => {
  const first = open();
  handOver(DEAD);
  const [name] = readdirSync(folder);
  writeFileSync(path.join(folder, `${name}.lock`), '');
  assert.equal(open().idempotencyKey, first.idempotencyKey);
  assert.deepEqual(readdirSync(folder), [name]);
});

test('a key that may have expired is not reused, and old files are deleted', () => {
  const first = open();
  handOver(DEAD);
  assert.equal(open(command, NOW + 22 * HOUR).idempotencyKey, first.idempotencyKey);
  handOver(DEAD);
  assert.notEqual(open(command, NOW + 23 * HOUR).idempotencyKey, first.idempotencyKey);
  const short = { environment: { HOME: home }, nowMs: NOW + 23 * HOUR + 1_000, usefulMs: 1_000 };
  assert.equal(openSendState(command, short).isContinued, false);
  handOver(DEAD);
  open({ other: true }, NOW + 60 * HOUR);
  assert.equal(readdirSync(folder).length, 1);
});

test('the state file is readable only by its owner and contains no email content', () => {
  open();
  const [name] = readdirSync(folder);
  const file = path.join(folder, name!);
  assert.equal(statSync(file).mode & 0o077, 0);
  assert.ok(!readFileSync(file, 'utf8').includes('ann@example.com'));
});

test('a send starts over if its state cannot be stored or read', () => {
  writeFileSync(path.join(home, 'file'), '');
  const without = openSendState(command, {
    environment: { HOME: home, XDG_STATE_HOME: path.join(home, 'file') },
    nowMs: NOW,
  });
  assert.deepEqual([without.isContinued, without.isStored], [false, false]);
  without.finish();
  const first = open();
  for (const name of readdirSync(folder)) writeFileSync(path.join(folder, name), '{');
  assert.notEqual(open().idempotencyKey, first.idempotencyKey);
});
