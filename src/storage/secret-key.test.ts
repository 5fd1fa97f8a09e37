/** The secret key: generated once, reused afterwards, and rejected with an error message if it is wrong or lost. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import test from 'node:test';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { dataDirectory } from './data-directory.ts';
import { loadSecretKey, secretKeyFile } from './secret-key.ts';

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
