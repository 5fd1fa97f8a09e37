/** Logs written by SQLite, as left by a kill or a power failure, and with changed bits. */
import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { openSqlite } from './connection.ts';
import { assertLogWhole } from './log-check.ts';

const COMMITS = 12;
const FRAME_BYTES = 4096 + 24;

/** A log of several commits, the last with several frames, and the end offset of each. */
function logged(t: TestContext) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-log-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'one.db');
  writeFileSync(file, '');
  const connection = openSqlite(file, { readOnly: false });
  connection.raw.exec('CREATE TABLE t (x)');
  const ends: number[] = [];
  for (let at = 0; at < COMMITS; at += 1) {
    connection.run('INSERT INTO t VALUES (?)', Buffer.alloc(at === COMMITS - 1 ? 40_000 : 500, at));
    ends.push(statSync(`${file}-wal`).size);
  }
  const left = path.join(folder, 'two.db');
  copyFileSync(`${file}-wal`, `${left}-wal`);
  connection.close();
  const bytes = readFileSync(`${left}-wal`);
  return {
    bytes,
    ends,
    left,
    lastFrom: ends.at(-2)!,
    with: (change: (copy: Buffer) => void): (() => void) => {
      const copy = Buffer.from(bytes);
      change(copy);
      writeFileSync(`${left}-wal`, copy);
      return () => assertLogWhole(left);
    },
  };
}

test('accepts the log that a kill or a power failure leaves', (t) => {
  const { with: log, left, bytes, lastFrom } = logged(t);
  assert.ok(bytes.length - lastFrom > 8 * FRAME_BYTES, 'the last commit has frames');
  assertLogWhole(left);
  assertLogWhole(`${left}-none`);
  for (let from = lastFrom; from < bytes.length; from += 512)
    log((copy) => copy.fill(0, from, Math.min(from + 512, copy.length)))();
  log((copy) => copy.fill(0, lastFrom, lastFrom + FRAME_BYTES))();
  log((copy) => copy.fill(0))();
  for (const length of [0, 20, 32, 5_000, lastFrom - 100, lastFrom, lastFrom + 100]) {
    truncateSync(`${left}-wal`, length);
    assertLogWhole(left);
    log(() => undefined)();
  }
});

test('a changed bit before the last commit is detected', (t) => {
  const { with: log, lastFrom } = logged(t);
  for (let at = 0; at < lastFrom; at += 61) {
    const flip = (copy: Buffer): void => {
      copy[at]! ^= 1 << (at % 8);
    };
    assert.throws(log(flip), /-wal is damaged: .* restore a backup/, `byte ${at}`);
  }
});

test('ignores frames of an older log after the current one', (t) => {
  const { with: log, ends } = logged(t);
  const from = ends[5]!;
  log((copy) => {
    for (let at = from; at < copy.length; at += FRAME_BYTES) copy[at + 8]! ^= 1;
  })();
});
