/** The first run: once, whole, and the same credentials after a crash between the file and the commit. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { accountsOperation, createAuthenticator, createSmtpAuthenticator } from '../accounts/accounts.ts';
import { dataDirectory, prepareDataDirectory } from '../storage/data-directory.ts';
import type { Database } from '../storage/database.ts';
import { metaOperation } from '../storage/meta-store.ts';
import { type FirstRun, firstRun, firstRunFile, moveFirstRun } from './create.ts';
import { tokenUserOperation } from './store.ts';
import { tokenHash } from './tokens.ts';

/** The operation that commits the first run, in the name of the service. */
const COMMIT = 'audit.change';

const BASE = 'https://mail.example.com';

test('the first run creates working credentials once and keeps them in a private file', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const directory = dataDirectory(folder);
  const made = await firstRun({ database, clock, directory, baseUrl: BASE });
  assert.ok(made);
  assert.deepEqual(JSON.parse(readFileSync(firstRunFile(directory), 'utf8')), made);
  assert.equal(statSync(firstRunFile(directory)).mode & 0o777, 0o600);
  const authenticate = createAuthenticator({ database, clock });
  const live = await authenticate(made.apiKey, made.accountId);
  assert.ok(live.ok && live.value.mode === 'live' && live.value.account.plan === 'enterprise');
  const sandbox = await authenticate(made.sandboxApiKey, made.accountId);
  assert.ok(sandbox.ok && sandbox.value.mode === 'sandbox');
  const smtp = createSmtpAuthenticator({ database, clock });
  const address = '127.0.0.1';
  const ofLive = await smtp.logIn({ username: made.smtpUsername, password: made.smtpPassword, address });
  assert.ok(ofLive.ok && ofLive.value.mode === 'live');
  const ofSandbox = await smtp.logIn({
    username: made.sandboxSmtpUsername,
    password: made.sandboxSmtpPassword,
    address,
  });
  assert.ok(ofSandbox.ok && ofSandbox.value.mode === 'sandbox');

  const [, token = ''] = made.signInUrl.split(`${BASE}/welcome#token=`);
  const byLink = await database.execute(tokenUserOperation, { tokenHash: tokenHash(token), nowMs: clock.now() });
  assert.equal(byLink?.id, made.operatorUserId, 'the link is the operator’s');

  assert.equal(await firstRun({ database, clock, directory, baseUrl: BASE }), undefined);
  assert.equal((await database.execute(accountsOperation, null)).length, 1);
});

test('the link of a first run moves to the port that the system chose', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const directory = dataDirectory(folder);
  const made = await firstRun({ database, clock, directory, baseUrl: 'http://localhost:0' });
  const moved = moveFirstRun(directory, made!, 'http://localhost:41234');
  const [, token = ''] = made!.signInUrl.split('http://localhost:0/welcome#token=');
  assert.deepEqual(moved, { ...made, signInUrl: `http://localhost:41234/welcome#token=${token}` });
  assert.deepEqual(JSON.parse(readFileSync(firstRunFile(directory), 'utf8')), moved);
  assert.equal(statSync(firstRunFile(directory)).mode & 0o777, 0o600);
  const byLink = await database.execute(tokenUserOperation, { tokenHash: tokenHash(token), nowMs: clock.now() });
  assert.equal(byLink?.id, made!.operatorUserId);
});

test('a crash before the commit neither loses nor duplicates the credentials', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const directory = dataDirectory(folder);
  const crashing: Database = {
    ...database,
    execute: (op, args) => (op.name === COMMIT ? Promise.reject(new Error('crash')) : database.execute(op, args)),
  };
  await assert.rejects(firstRun({ database: crashing, clock, directory, baseUrl: BASE }), /crash/);
  const file = readFileSync(firstRunFile(directory), 'utf8');
  clock.advance(60_000);
  const made = await firstRun({ database, clock, directory, baseUrl: BASE });
  assert.deepEqual(made, JSON.parse(file));
  assert.equal(readFileSync(firstRunFile(directory), 'utf8'), file);
  const accounts = await database.execute(accountsOperation, null);
  assert.deepEqual(
    accounts.map((one) => one.id),
    [made?.accountId],
  );
});

test('of two nodes that start together, one creates the account and keeps the credentials', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const directories = ['a', 'b'].map((name) => prepareDataDirectory(path.join(folder, name)));
  const made = await Promise.all(
    directories.map((directory) => firstRun({ database, clock, directory, baseUrl: BASE })),
  );
  const winner = made.findIndex((one) => one !== undefined);
  assert.equal(made[1 - winner], undefined);
  assert.deepEqual(
    directories.map((directory) => existsSync(firstRunFile(directory))),
    [winner === 0, winner === 1],
  );
  assert.equal((await database.execute(accountsOperation, null)).length, 1);
});

test('a file whose commit has an unknown outcome is kept', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const clock = fakeClock();
  const directory = dataDirectory(folder);
  let lost = 0;
  const losing: Database = {
    ...database,
    execute: async (op, args) => {
      if (op.name === metaOperation.name && lost === 1) return null as never;
      const done = await database.execute(op, args);
      if (op.name !== COMMIT || lost > 0) return done;
      lost += 1;
      throw new Error('connection lost');
    },
  };
  await assert.rejects(firstRun({ database: losing, clock, directory, baseUrl: BASE }), /connection lost/);
  // The next look comes before the commit is seen, and the second try after it.
  assert.equal(await firstRun({ database: losing, clock, directory, baseUrl: BASE }), undefined);
  const kept = JSON.parse(readFileSync(firstRunFile(directory), 'utf8')) as FirstRun;
  assert.ok((await createAuthenticator({ database, clock })(kept.apiKey, kept.accountId)).ok);
});

test('does not overwrite a file of another program', async (t) => {
  const { database, folder, close } = await tempDatabase();
  t.after(close);
  const directory = dataDirectory(folder);
  writeFileSync(firstRunFile(directory), '{"half":');
  await assert.rejects(
    firstRun({ database, clock: fakeClock(), directory, baseUrl: BASE }),
    /is not a valid first-run file/,
  );
});
