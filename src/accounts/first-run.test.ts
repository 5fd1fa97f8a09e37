/** The first run: once, whole, and the same credentials after a crash between the file and the commit. */
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import test from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import type { Database } from '../storage/database.ts';
import { createAuthenticator } from './authenticate.ts';
import { firstRun, firstRunFile } from './first-run.ts';
import { createSmtpAuthenticator } from './smtp-authenticate.ts';
import { accountsOperation, firstRunOperation } from './store.ts';

test('the first run makes working credentials once, and keeps them in a private file', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const directory = dataDirectory(folder);
  const made = await firstRun({ database, clock, directory });
  assert.ok(made);
  assert.deepEqual(JSON.parse(readFileSync(firstRunFile(directory), 'utf8')), made);
  assert.equal(statSync(firstRunFile(directory)).mode & 0o777, 0o600);
  const authenticate = createAuthenticator({ database, clock });
  const live = await authenticate(made.apiKey, made.accountId);
  assert.ok(live.ok && live.value.mode === 'live' && live.value.account.plan === 'enterprise');
  const sandbox = await authenticate(made.sandboxApiKey, made.accountId);
  assert.ok(sandbox.ok && sandbox.value.mode === 'sandbox');
  const smtp = createSmtpAuthenticator({ database, clock });
  assert.ok((await smtp.logIn(made.smtpUsername, made.smtpPassword)).ok);

  assert.equal(await firstRun({ database, clock, directory }), undefined);
  assert.equal((await database.execute(accountsOperation, null)).length, 1);
});

test('a crash before the commit neither loses nor doubles the credentials', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const directory = dataDirectory(folder);
  const crashing: Database = {
    ...database,
    execute: (op, args) =>
      op.name === firstRunOperation.name ? Promise.reject(new Error('crash')) : database.execute(op, args),
  };
  await assert.rejects(firstRun({ database: crashing, clock, directory }), /crash/);
  const file = readFileSync(firstRunFile(directory), 'utf8');
  clock.advance(60_000);
  const made = await firstRun({ database, clock, directory });
  assert.deepEqual(made, JSON.parse(file));
  assert.equal(readFileSync(firstRunFile(directory), 'utf8'), file);
  const accounts = await database.execute(accountsOperation, null);
  assert.deepEqual(
    accounts.map((one) => one.id),
    [made?.accountId],
  );
});

test('a file that is not ours is not overwritten', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const directory = dataDirectory(folder);
  writeFileSync(firstRunFile(directory), '{"half":');
  await assert.rejects(firstRun({ database, clock: fakeClock(), directory }), /not what the first run wrote/);
});
