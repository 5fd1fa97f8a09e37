/**
 * Statistics move with a database: earlier events are not counted again, and later ones are counted. A log on PostgreSQL is in the order of
 * its transactions, in a file in that of its numbers; here one order is the reverse of the other.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import type { Caller } from '../../src/accounts/accounts.ts';
import { createAccountOperation } from '../../src/accounts/store.ts';
import { statisticsRoutes } from '../../src/api/statistics.ts';
import { iso, systemClock } from '../../src/base/clock.ts';
import { countAll } from '../../src/statistics/statistics.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { dataDirectory, prepareDataDirectory } from '../../src/storage/data-directory.ts';
import type { Database } from '../../src/storage/database.ts';
import { alignEventOrderOperation } from '../../src/storage/meta-store.ts';
import { openPortableFile } from '../../src/storage/portable-file.ts';
import { connectPostgres } from '../../src/storage/postgres/connection.ts';
import { exportFromPostgres, importIntoPostgres } from '../../src/storage/postgres/transfer.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { restore } from '../../src/storage/sqlite/backup.ts';
import { openDirect } from '../../src/storage/sqlite/connection.ts';
import type { JsonObject } from '../kit/api.ts';
import { eventMix, logOf } from '../kit/event-mix.ts';
import { assertCounted } from '../kit/recount.ts';
import { seedMail } from '../kit/seed-mail.ts';
import { type TempDatabase, tempDatabase } from '../kit/temp-database.ts';

const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-portable-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const NOW = Date.now();
const OWNER = { accountId: 'acc_a', mode: 'live' } as const;

/** Asserts that statistics match the log; returns the number of events. */
async function compare(database: Database): Promise<number> {
  const events = await logOf(database, OWNER);
  const [route] = statisticsRoutes({ database, clock: systemClock });
  const caller = { account: { id: OWNER.accountId }, mode: OWNER.mode } as Caller;
  const query = { since: iso(NOW - 3 * 86_400_000), interval: 'hour', groupBy: 'tag' };
  const answer = await route!.handle({ caller, query } as unknown as Parameters<
    NonNullable<typeof route>['handle']
  >[0]);
  const { body } = answer as unknown as { body: { buckets: JsonObject[] } };
  assertCounted(body.buckets, events, { interval: 'hour', groupBy: 'tag' });
  return events.length;
}

async function exported(source: TempDatabase): Promise<string> {
  const file = path.join(folder, 'export');
  const connection = await connectPostgres(parsePostgresUrl(source.url!));
  const blobs = openDiskBlobs(prepareDataDirectory(source.folder).blobsFolder);
  await exportFromPostgres({ client: connection.client, blobs, nowMs: NOW, progress: () => undefined }, file);
  await connection.client.end();
  return file;
}

/** Adds messages to a database that was imported from a file. */
async function goOn(database: Database, before: number): Promise<void> {
  assert.equal(await compare(database), before);
  await seedMail(database, { ...OWNER, nowMs: NOW, tags: ['order', 'later'] });
  await countAll(database);
  assert.equal(await compare(database), before + 1);
}

test('statistics count each event once after a move from PostgreSQL to either database', async (t) => {
  const [source, target] = [await tempDatabase('postgres'), await tempDatabase('postgres')];
  t.after(() => Promise.all([source.close(), target.close()]));
  const mix = eventMix(source, { nowMs: NOW, days: 2 });
  const settings = { variables: {}, missingVariables: 'error', retainContent: '30d', defaultFrom: null } as const;
  const account = {
    id: OWNER.accountId,
    name: 'A',
    plan: 'paid',
    status: 'active',
    protectionStatus: 'good',
    approvedEmailBytes: 2_000_000,
  } as const;
  await source.database.execute(createAccountOperation, {
    account: { ...account, limits: {}, twoFactorRequired: false, timeZone: 'UTC', settings, createdAt: NOW },
    keys: [],
  });
  for (let i = 0; i < 5; i += 1) await mix.addMessage(OWNER.accountId, OWNER.mode);
  await mix.append(100);
  await mix.write((tx) =>
    tx.run('UPDATE event SET position = 1 + (SELECT count(*) FROM event later WHERE later.seq > event.seq)'),
  );
  await countAll(source.database);
  const events = await compare(source.database);
  const file = await exported(source);

  const directory = prepareDataDirectory(path.join(folder, 'embedded'));
  restore(file, { directory, nowMs: NOW });
  const embedded = openDirect(dataDirectory(directory.path).databaseFile);
  await goOn(embedded, events);
  await embedded.close();

  const connection = await connectPostgres(parsePostgresUrl(target.url!));
  const blobs = openDiskBlobs(prepareDataDirectory(target.folder).blobsFolder);
  const opened = openPortableFile(file);
  await importIntoPostgres({ file: opened, client: connection.client, blobs, progress: () => undefined });
  opened.close();
  // Both servers number rows in the same four seconds here; the later one must continue after the earlier.
  await connection.client.query("SELECT setval('time_number', 1000000)");
  await connection.client.end();
  await target.database.execute(alignEventOrderOperation, null);
  await goOn(target.database, events);
});
