/** The secret key: generated once, reused afterwards, and rejected with an error message if it is wrong or lost. */
import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import test from 'node:test';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { dataDirectory } from './data-directory.ts';
import {
  isSecretKeyOf,
  loadSecretKey,
  readKey,
  rotateSecretKey,
  secretKeyFile,
  secretKeyProblem,
} from './secret-key.ts';

test('a key is generated once, kept private, and found again', async (t) => {
  const temp = await tempDatabase();
  t.after(temp.close);
  const place = { directory: dataDirectory(temp.folder), database: temp.database, configured: undefined };
  const [first, second] = await Promise.all([loadSecretKey(place), loadSecretKey(place)]);
  assert.equal(first.length, 32);
  assert.deepEqual(first, second);
  const file = secretKeyFile(place.directory);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(
    readdirSync(temp.folder).filter((name) => name.includes('.part')),
    [],
  );

  await assert.rejects(
    loadSecretKey({ ...place, configured: randomBytes(32) }),
    /POSTRIDER_SECRET_KEY is not the secret key of this database/,
  );
  assert.deepEqual(await loadSecretKey({ ...place, configured: first }), first);
  writeFileSync(file, `${randomBytes(32).toString('base64')}\n`);
  await assert.rejects(loadSecretKey(place), /secret\.key is not the secret key of this database/);
  rmSync(file);
  await assert.rejects(loadSecretKey(place), /the secret key is missing; restore \S+secret\.key/);
});

test('a rotation replaces the key in the data directory, and stored secrets stay readable', async (t) => {
  const temp = await tempDatabase();
  t.after(temp.close);
  const place = { directory: dataDirectory(temp.folder), database: temp.database, configured: undefined };
  const file = secretKeyFile(place.directory);
  const dataKey = await loadSecretKey(place);
  for (const nowMs of [Date.UTC(2026, 10, 28, 20), Date.UTC(2026, 10, 29, 20)]) {
    const before = readKey(file);
    const { previousFile } = await rotateSecretKey(place, { configuredNext: undefined, nowMs });
    assert.deepEqual(readKey(previousFile!), before);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.notDeepEqual(readKey(file), before);
    assert.deepEqual(await loadSecretKey(place), dataKey);
    assert.ok(await isSecretKeyOf(temp.database, readKey(file)));
    // The previous key is refused, also when it is configured.
    await assert.rejects(loadSecretKey({ ...place, configured: before }), /is not the secret key of this database/);
  }
  assert.deepEqual(
    readdirSync(temp.folder)
      .filter((name) => name.startsWith('secret.key'))
      .sort(),
    ['secret.key', 'secret.key.until-20261128T200000.000Z', 'secret.key.until-20261129T200000.000Z'],
  );
});

test('rotations in the same second keep every previous key, and none replaces the key of another', async (t) => {
  const temp = await tempDatabase();
  t.after(temp.close);
  const place = { directory: dataDirectory(temp.folder), database: temp.database, configured: undefined };
  const file = secretKeyFile(place.directory);
  await loadSecretKey(place);
  const keys = [readKey(file)];
  const files: string[] = [];
  for (const nowMs of [1_000, 1_001]) {
    files.push((await rotateSecretKey(place, { configuredNext: undefined, nowMs })).previousFile!);
    keys.push(readKey(file));
  }
  assert.deepEqual(files.map(readKey), keys.slice(0, 2));
  await assert.rejects(
    rotateSecretKey(place, { configuredNext: undefined, nowMs: 1_001 }),
    /already holds another key/,
  );
  assert.deepEqual(files.map(readKey), keys.slice(0, 2));
  assert.deepEqual(readKey(file), keys[2]);
  assert.ok(!readdirSync(temp.folder).some((name) => name.includes('.next-')));
});

test('a rotation that was interrupted is completed or has no effect', async (t) => {
  const temp = await tempDatabase();
  t.after(temp.close);
  const place = { directory: dataDirectory(temp.folder), database: temp.database, configured: undefined };
  const file = secretKeyFile(place.directory);
  const dataKey = await loadSecretKey(place);
  const first = readKey(file);
  // Interrupted before the database recorded it.
  writeFileSync(`${file}.next-0123456789abcdef`, randomBytes(32).toString('base64'));
  assert.deepEqual(await loadSecretKey(place), dataKey);
  assert.deepEqual(readKey(file), first);
  // Interrupted after that, before the file had its final name.
  const { previousFile } = await rotateSecretKey(place, { configuredNext: undefined, nowMs: 0 });
  const second = readKey(file);
  const check = createHmac('sha256', second).update('postrider secret key check').digest('hex');
  renameSync(file, `${file}.next-${check.slice(0, 16)}`);
  writeFileSync(file, first.toString('base64'));
  assert.equal(await secretKeyProblem(place), undefined);
  assert.deepEqual(await loadSecretKey(place), dataKey);
  assert.deepEqual(readKey(file), second);
  assert.deepEqual(readKey(previousFile!), first, 'the previous key is kept before the database changes');
});

test('of two rotations at the same time one succeeds, and its key opens the database', async (t) => {
  const temp = await tempDatabase();
  t.after(temp.close);
  const place = { directory: dataDirectory(temp.folder), database: temp.database, configured: undefined };
  const dataKey = await loadSecretKey(place);
  const results = await Promise.allSettled([
    rotateSecretKey(place, { configuredNext: undefined, nowMs: 0 }),
    rotateSecretKey(place, { configuredNext: undefined, nowMs: 5_000 }),
  ]);
  assert.ok(results.some(({ status }) => status === 'fulfilled'));
  assert.deepEqual(await loadSecretKey(place), dataKey);
});

test('the remedy for a wrong key names where the key is configured', async (t) => {
  const temp = await tempDatabase();
  t.after(temp.close);
  const place = { directory: dataDirectory(temp.folder), database: temp.database, configured: undefined };
  await loadSecretKey(place);
  const configured = await secretKeyProblem({ ...place, configured: randomBytes(32) });
  assert.match(configured!.remedy, /^Set POSTRIDER_SECRET_KEY to the key of this database/);
  writeFileSync(secretKeyFile(place.directory), `${randomBytes(32).toString('base64')}\n`);
  assert.match((await secretKeyProblem(place))!.remedy, /^Restore \S+secret\.key from your copy/);
});

test('a configured key is replaced with the given one', async (t) => {
  const temp = await tempDatabase();
  t.after(temp.close);
  const [first, second] = [randomBytes(32), randomBytes(32)];
  const place = { directory: dataDirectory(temp.folder), database: temp.database, configured: first };
  assert.deepEqual(await loadSecretKey(place), first);
  await rotateSecretKey(place, { configuredNext: second, nowMs: 0 });
  assert.deepEqual(await loadSecretKey({ ...place, configured: second }), first, 'the data key');
  await assert.rejects(rotateSecretKey(place, { configuredNext: second, nowMs: 0 }), /is not the secret key/);
  const now = { ...place, configured: second };
  await assert.rejects(rotateSecretKey(now, { configuredNext: second, nowMs: 0 }), /is the present secret key/);
  assert.ok(!readdirSync(temp.folder).some((name) => name.startsWith('secret.key')));
});
