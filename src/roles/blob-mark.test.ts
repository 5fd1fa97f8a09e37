/** Matching of a database and a blob store, starting with their first start. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { refuse, scriptedS3 } from '../../test/kit/scripted-s3.ts';
import { type TempDatabase, tempDatabase } from '../../test/kit/temp-database.ts';
import { Unavailable } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { type BlobMark, DRAWN_ID_KEY, MARK_NAME, matchMark, STORE_ID_KEY } from '../storage/blobs/mark.ts';
import { prepareDataDirectory } from '../storage/data-directory.ts';
import { metaOperation } from '../storage/meta-store.ts';
import { parsePostgresUrl } from '../storage/postgres/url.ts';
import { checkBlobStore } from './blob-store.ts';

async function databases(t: TestContext, count: number): Promise<TempDatabase[]> {
  const made: TempDatabase[] = [];
  for (let i = 0; i < count; i += 1) {
    const one = await tempDatabase();
    t.after(one.close);
    made.push(one);
  }
  return made;
}

function storeIn(database: TempDatabase, name: string): { folder: string; mark: BlobMark; blobs: Blobs } {
  const folder = prepareDataDirectory(database.folder, path.join(database.folder, name)).blobsFolder;
  const blobs = openDiskBlobs(folder);
  return { folder, blobs, mark: blobs.mark! };
}

const idOf = ({ database }: TempDatabase) => database.execute(metaOperation, STORE_ID_KEY);

test('a new database and blob store share an ID, which is found again and is not a blob', async (t) => {
  const [one] = (await databases(t, 1)) as [TempDatabase];
  const { mark, folder, blobs } = storeIn(one, 'shared');
  assert.equal(await matchMark(one.database, mark), undefined);
  const id = await idOf(one);
  assert.match(id!, /^[0-9A-Za-z]{26}$/);
  assert.equal(readFileSync(path.join(folder, MARK_NAME), 'utf8').trim(), id);
  assert.equal(await matchMark(one.database, mark), undefined);
  assert.equal(await idOf(one), id);
  const key = await blobs.put(Buffer.from('x'));
  assert.deepEqual(
    (await Array.fromAsync(blobs.list())).map((listed) => listed.key),
    [key],
  );
  await blobs.removeUnfinished();
  assert.ok(existsSync(path.join(folder, MARK_NAME)));
});

test('nodes that start together end up with one ID', async (t) => {
  const [one] = (await databases(t, 1)) as [TempDatabase];
  const { mark } = storeIn(one, 'shared');
  const faults = await Promise.all(Array.from({ length: 8 }, () => matchMark(one.database, mark)));
  assert.deepEqual(new Set(faults), new Set([undefined]));
  assert.equal(await mark.read(), await idOf(one));
});

test('an interrupted start is resumed at any step', async (t) => {
  const [one] = (await databases(t, 1)) as [TempDatabase];
  const { mark } = storeIn(one, 'shared');
  const before: BlobMark = { ...mark, write: () => Promise.reject(new Unavailable('blob storage: away')) };
  await assert.rejects(matchMark(one.database, before), Unavailable);
  assert.equal(await idOf(one), null);
  let reads = 0;
  const between: BlobMark = {
    ...mark,
    read: async () => {
      reads += 1;
      if (reads === 2) throw new Unavailable('blob storage: away');
      return mark.read();
    },
  };
  await assert.rejects(matchMark(one.database, between), Unavailable);
  assert.equal(await idOf(one), null);
  assert.equal(await matchMark(one.database, mark), undefined);
  assert.equal(await idOf(one), await one.database.execute(metaOperation, DRAWN_ID_KEY));
  assert.equal(await mark.read(), await idOf(one));
});

test('rejects another, emptied, or foreign store with the fix', async (t) => {
  const [one, other] = (await databases(t, 2)) as [TempDatabase, TempDatabase];
  const store = storeIn(one, 'shared');
  const check = (at: { folder: string; blobs: Blobs }, { database }: TempDatabase) =>
    checkBlobStore(
      { blobs: { kind: 'disk', folder: at.folder }, databaseUrl: undefined },
      { blobs: at.blobs, database, log: silentLog },
    );
  await check(store, one);
  await assert.rejects(
    check(storeIn(one, 'empty'), one),
    /postrider-store is missing there\); all nodes .* the same POSTRI/,
  );
  const errors: string[] = [];
  const log = { ...silentLog, error: (_: object, line: string) => errors.push(line) } as unknown as typeof silentLog;
  const unset = {
    blobs: { kind: 'disk', folder: undefined } as const,
    databaseUrl: parsePostgresUrl('postgres://u@h/d'),
  };
  await checkBlobStore(unset, { blobs: storeIn(one, 'own').blobs, database: one.database, log });
  assert.match(errors.join(), /postrider-store is missing there/);
  const foreignStore = storeIn(other, 'theirs');
  await check(foreignStore, other);
  await assert.rejects(check(foreignStore, one), /postrider-store there names another store/);
  const [fresh] = (await databases(t, 1)) as [TempDatabase];
  await assert.rejects(
    check(store, fresh),
    /^Error: POSTRIDER_BLOB_URL: .* belongs to another installation .* remove postr/,
  );
  rmSync(path.join(foreignStore.folder, MARK_NAME));
  await check(foreignStore, fresh);
  // The mark moves with the content.
  const moved = storeIn(one, 'moved');
  cpSync(store.folder, moved.folder, { recursive: true });
  await check(moved, one);
  renameSync(path.join(moved.folder, MARK_NAME), path.join(moved.folder, 'lost'));
  await assert.rejects(check(moved, one), /is missing there/);
  writeFileSync(path.join(moved.folder, MARK_NAME), 'x');
  await assert.rejects(check(moved, one), /names another store/);
  // A data directory of one embedded database needs no mark.
  const own = storeIn(fresh, 'blobs');
  await checkBlobStore(
    { blobs: { kind: 'disk', folder: undefined }, databaseUrl: undefined },
    { blobs: own.blobs, database: fresh.database, log: silentLog },
  );
  assert.equal(await own.mark.read(), undefined);
});

test('the mark in S3 is an object under the prefix', async (t) => {
  const objects = new Map<string, Buffer>();
  let away = false;
  const scripted = await scriptedS3(({ method, target, body }, response) => {
    if (away) return refuse(response, 503, 'SlowDown');
    if (method === 'PUT') objects.set(target, body);
    const found = objects.get(target);
    if (method === 'PUT') return void response.setHeader('etag', '"x"').end();
    if (!found) return refuse(response, 404, 'NoSuchKey');
    response.writeHead(200, { 'content-length': String(found.length) }).end(found);
  });
  t.after(() => scripted.close());
  const [one, other] = (await databases(t, 2)) as [TempDatabase, TempDatabase];
  const { mark } = scripted.blobs;
  assert.equal(await matchMark(one.database, mark!), undefined);
  assert.deepEqual(
    [...objects.keys()].map((target) => target.replace(/\?.*/, '')),
    [`/box/a/${MARK_NAME}`],
  );
  assert.equal(await matchMark(one.database, mark!), undefined);
  assert.equal(await matchMark(other.database, mark!), 'database has none');
  away = true;
  await assert.rejects(matchMark(one.database, mark!), Unavailable);
});
