/**
 * A database moves between its two kinds and back without losing a row, a blob or a number: from the embedded one into PostgreSQL and out
 * again. Each table is compared row by row, and messages accepted later get new numbers.
 */

import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, test } from 'node:test';
import { keysOperation } from '../../src/accounts/accounts.ts';
import { recordUsesOperation } from '../../src/accounts/use-store.ts';
import { systemClock } from '../../src/base/clock.ts';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { readEventsOperation } from '../../src/events/read-store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { prepareDataDirectory } from '../../src/storage/data-directory.ts';
import { alignEventOrderOperation } from '../../src/storage/meta-store.ts';
import { fileBlobs, openPortableFile } from '../../src/storage/portable-file.ts';
import { connectPostgres } from '../../src/storage/postgres/connection.ts';
import { exportFromPostgres, importIntoPostgres } from '../../src/storage/postgres/transfer.ts';

import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { backUp } from '../../src/storage/sqlite/backup.ts';
import { openSqlite } from '../../src/storage/sqlite/connection.ts';
import { acceptance } from '../kit/seed-mail.ts';
import { type TempDatabase, tempDatabase } from '../kit/temp-database.ts';
import { waitUntil } from '../kit/wait-until.ts';

const quiet = (): void => undefined;
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-portable-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Returns every table of a file as sorted texts of its rows, and the digests of its blobs. */
function contentOf(name: string): { rows: Record<string, string[]>; blobs: string[] } {
  const file = openPortableFile(name);
  try {
    const shown = (value: unknown): unknown =>
      value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value;
    const rows: Record<string, string[]> = {};
    for (const table of file.tables) {
      const all = file.raw.prepare(`SELECT ${table.columns.join(', ')} FROM ${table.name}`).all();
      rows[table.name] = all.map((row) => JSON.stringify(table.columns.map((column) => shown(row[column])))).sort();
    }
    return { rows, blobs: [...fileBlobs(file)].map((blob) => `${blob.key} ${shown(blob.content)}`) };
  } finally {
    file.close();
  }
}

interface Embedded {
  file: string;
  accountId: string;
  messages: number;
}

let made: Promise<Embedded> | undefined;

/** Returns the backup of an embedded database with messages of every kind. */
function embeddedWithMail(): Promise<Embedded> {
  made ??= makeEmbedded();
  return made;
}

async function makeEmbedded(): Promise<Embedded> {
  const embedded = await tempDatabase();
  try {
    const directory = prepareDataDirectory(embedded.folder);
    const blobs = openDiskBlobs(directory.blobsFolder);
    const { database } = embedded;
    const first = await firstRun({ database, clock: systemClock, directory, baseUrl: 'http://localhost' });
    const accountId = first!.accountId;
    const keys = await database.execute(keysOperation, { accountId, before: null, limit: 10 });
    await database.execute(
      recordUsesOperation,
      keys.map(({ id }, index) => ({ credentialId: id, usedAt: 1_000 + index, address: '2001:db8::1' })),
    );
    let messages = 0;
    for (let i = 0; i < 2_300; i += 1) {
      const large = i % 700 === 0 ? await blobs.put(Buffer.alloc(100_000, i % 256)) : null;
      await database.execute(
        acceptOperation,
        acceptance({
          accountId,
          mode: i % 3 === 0 ? 'sandbox' : 'live',
          recipients: i % 10 === 0 ? [`a${i}@x.example`, `ü${i}@y.example`] : [`a${i}@x.example`],
          subject: `Grüße ${i} \u{1F600}`,
          ...(i % 50 === 0 ? { sendAtMs: Date.now() + 86_400_000 } : {}),
          ...(large === null ? {} : { email: { content: null, blobKey: large } }),
        }),
      );
      messages += i % 10 === 0 ? 2 : 1;
    }
    // Some are held by a process that does not return.
    await database.execute(claimOperation, { nowMs: Date.now(), leaseMs: 60_000, limit: 40, quarantined: false });
    const connection = openSqlite(directory.databaseFile, { readOnly: false });
    connection.run('UPDATE work SET leased = 0 WHERE leased <> 0');
    const file = path.join(folder, 'embedded.backup');
    await backUp({ connection, blobs }, file);
    connection.close();
    return { file, accountId, messages };
  } finally {
    await embedded.close();
  }
}

async function importInto(target: TempDatabase, name: string) {
  const file = openPortableFile(name);
  const connection = await connectPostgres(parsePostgresUrl(target.url!));
  const blobs = openDiskBlobs(prepareDataDirectory(target.folder).blobsFolder);
  try {
    return await importIntoPostgres({ file, client: connection.client, blobs, progress: quiet });
  } finally {
    file.close();
    await connection.client.end();
  }
}

test('all data moves to PostgreSQL and back, row by row', async () => {
  const { file, accountId, messages } = await embeddedWithMail();
  const target = await tempDatabase('postgres');
  try {
    const copied = await importInto(target, file);
    assert.equal(copied.tables.message, messages);
    assert.equal(copied.blobs, 4);
    assert.equal(copied.tables.credential_use, 2);

    await assert.rejects(importInto(target, file), /already has accounts/);

    const back = path.join(folder, 'postgres.export');
    const connection = await connectPostgres(parsePostgresUrl(target.url!));
    const blobs = openDiskBlobs(prepareDataDirectory(target.folder).blobsFolder);
    const exported = await exportFromPostgres(
      { client: connection.client, blobs, nowMs: Date.now(), progress: quiet },
      back,
    );
    await connection.client.end();
    assert.deepEqual(exported, { ...copied, lost: [] });
    const [before, after] = [contentOf(file), contentOf(back)];
    assert.deepEqual(Object.keys(after.rows).sort(), Object.keys(before.rows).sort());
    for (const [table, rows] of Object.entries(before.rows)) assert.deepEqual(after.rows[table], rows, table);
    assert.deepEqual(after.blobs, before.blobs);

    const lastSeq = openPortableFile(file);
    const highest = Math.max(...lastSeq.tables.map((table) => (table.name === 'work' ? table.lastSeq! : 0)));
    lastSeq.close();
    const nowMs = Date.now();
    const result = await target.database.execute(acceptOperation, {
      ...acceptance({ accountId, nowMs }),
      leaseUntilMs: nowMs + 60_000,
    });
    assert.ok(result.leased[0]!.seq > highest, 'row numbers are never reused');

    // As at every opening of a server's database; the log continues where its followers are.
    await target.database.execute(alignEventOrderOperation, null);
    const follow = (seq: number) =>
      target.database.execute(readEventsOperation, {
        accountId,
        mode: 'live',
        order: 'asc',
        after: { position: seq, seq },
        limit: 50,
        messageId: null,
        sinceMs: null,
        untilMs: null,
      });
    const last = Number(exported.tables.event);
    const middle = await follow(last - 40);
    assert.ok(middle.length > 10 && middle[0]!.seq <= last - 36, 'a cursor from before the move');
    const later = acceptance({ accountId, nowMs });
    await target.database.execute(acceptOperation, later);
    const id = later.emails[0]!.recipients[0]!.messageId;
    await waitUntil('the event of a new message', async () =>
      (await follow(last)).some((one) => one.message_id === id),
    );
  } finally {
    await target.close();
  }
});

test('rejects a corrupt file, another version, or another format with a clear message', async () => {
  const { file } = await embeddedWithMail();
  assert.throws(() => openPortableFile(path.join(folder, 'nothing')), /the file .*nothing does not exist/);
  const other = path.join(folder, 'other-version');
  copyFileSync(file, other);
  const raw = new DatabaseSync(other);
  raw.exec('DELETE FROM migration WHERE number = (SELECT max(number) FROM migration)');
  raw.close();
  assert.throws(() => openPortableFile(other), /another version of postrider/);
  const newer = path.join(folder, 'newer-version');
  copyFileSync(file, newer);
  const changed = new DatabaseSync(newer);
  changed.exec("INSERT INTO migration (number, name, applied_at) VALUES (9999, '9999-future', 1)");
  changed.close();
  assert.throws(() => openPortableFile(newer), /newer version of postrider/);
  const cut = path.join(folder, 'cut');
  copyFileSync(file, cut);
  truncateSync(cut, Math.floor(statSync(cut).size / 2));
  assert.throws(() => openPortableFile(cut), /not a complete file/);
});

test('a failed import leaves the database empty', async () => {
  const { file } = await embeddedWithMail();
  const spoilt = path.join(folder, 'spoilt');
  copyFileSync(file, spoilt);
  const raw = new DatabaseSync(spoilt);
  // A row that the target rejects, in a table that comes after many others.
  raw.exec('PRAGMA ignore_check_constraints=ON');
  raw.exec("UPDATE message SET role = 'nobody' WHERE id = (SELECT max(id) FROM message)");
  raw.close();
  const target = await tempDatabase('postgres');
  try {
    await assert.rejects(importInto(target, spoilt));
    const connection = await connectPostgres(parsePostgresUrl(target.url!));
    for (const table of ['account', 'email', 'message', 'event', 'work']) {
      const { rows } = await connection.client.query(`SELECT count(*) AS n FROM ${table}`);
      assert.equal(Number((rows[0] as { n: number }).n), 0, table);
    }
    await connection.client.end();
  } finally {
    await target.close();
  }
});

import { firstRun } from '../../src/users/users.ts';

test('reports missing or changed blobs and copies the rest', async () => {
  const target = await tempDatabase('postgres');
  const embedded = await tempDatabase();
  try {
    for (const { database, folder: home } of [target, embedded]) {
      const { blobsFolder, databaseFile } = prepareDataDirectory(home);
      const blobs = openDiskBlobs(blobsFolder);
      const [whole, gone, changed] = (await Promise.all(
        ['whole', 'gone', 'changed'].map((text) => blobs.put(Buffer.from(text))),
      )) as [string, string, string];
      const orphan = await blobs.put(Buffer.from('named by no row'));
      for (const blobKey of [whole, gone, changed]) {
        await database.execute(acceptOperation, acceptance({ accountId: 'acc_1', email: { content: null, blobKey } }));
      }
      await blobs.remove(gone);
      for (const key of [changed, orphan]) writeFileSync(path.join(blobsFolder, key), 'other');
      const file = path.join(folder, `lossy-${database.dialect}`);
      let copied: { blobs: number; lost: string[] };
      if (database.dialect === 'sqlite') {
        const connection = openSqlite(databaseFile, { readOnly: false });
        copied = await backUp({ connection, blobs }, file);
        connection.close();
      } else {
        const { client } = await connectPostgres(parsePostgresUrl(target.url!));
        copied = await exportFromPostgres({ client, blobs, nowMs: Date.now(), progress: quiet }, file);
        await client.end();
      }
      assert.deepEqual([copied.blobs, copied.lost], [1, [gone, changed].sort()], database.dialect);
      const made = openPortableFile(file);
      assert.deepEqual(
        [...fileBlobs(made)].map(({ key }) => key),
        [whole],
      );
      made.close();
    }
  } finally {
    await target.close();
    await embedded.close();
  }
});

test('content deleted by the running service during the copy is not an error', async () => {
  const embedded = await tempDatabase();
  try {
    const { blobsFolder, databaseFile } = prepareDataDirectory(embedded.folder);
    const blobs = openDiskBlobs(blobsFolder);
    const blobKey = await blobs.put(Buffer.from('delivered meanwhile'));
    await embedded.database.execute(
      acceptOperation,
      acceptance({ accountId: 'acc_1', email: { content: null, blobKey } }),
    );
    const connection = openSqlite(databaseFile, { readOnly: false });
    const settling = {
      ...blobs,
      list: async function* () {
        connection.run('UPDATE email SET blob_key = NULL');
        await blobs.remove(blobKey);
        yield* blobs.list();
      },
    };
    const { lost } = await backUp({ connection, blobs: settling }, path.join(folder, 'meanwhile'));
    connection.close();
    assert.deepEqual(lost, []);
  } finally {
    await embedded.close();
  }
});

test('a file created while the service is running is a consistent snapshot', async () => {
  const target = await tempDatabase('postgres');
  const embedded = await tempDatabase();
  const accept = (into: TempDatabase) => into.database.execute(acceptOperation, acceptance({ accountId: 'acc_1' }));
  const held = ['email', 'message', 'event', 'work'];
  try {
    for (const one of [target, embedded]) for (let i = 0; i < 3; i += 1) await accept(one);

    const server = await connectPostgres(parsePostgresUrl(target.url!));
    const beside = await connectPostgres(parsePostgresUrl(target.url!));
    await beside.client.query("SET lock_timeout = '100ms'");
    const { rows } = await beside.client.query<{ week: string }>(
      'SELECT min(tableoid::regclass::text) AS week FROM message',
    );
    let dropped: Promise<unknown> | undefined;
    const query = async (sql: string, values?: unknown[]): Promise<unknown> => {
      const answered = await server.client.query(sql, values);
      if (dropped === undefined && sql.startsWith('SELECT count(*)')) {
        dropped = beside.client.query(`DROP TABLE ${rows[0]!.week}`);
        await assert.rejects(dropped, /lock timeout/, 'content of the snapshot is kept until it is copied');
        await accept(target);
      }
      return answered;
    };
    const { blobsFolder } = prepareDataDirectory(target.folder);
    const fromServer = path.join(folder, 'server.moment');
    const client = new Proxy(server.client, {
      get: (real, name) => (name === 'query' ? query : Reflect.get(real, name)),
    });
    await exportFromPostgres(
      { client, blobs: openDiskBlobs(blobsFolder), nowMs: Date.now(), progress: quiet },
      fromServer,
    );
    assert.ok(dropped !== undefined, 'there was traffic in the middle of it');
    await server.client.end();
    await beside.client.end();

    const directory = prepareDataDirectory(embedded.folder);
    const connection = openSqlite(directory.databaseFile, { readOnly: false });
    const writer = openSqlite(directory.databaseFile, { readOnly: false });
    const fromEmbedded = path.join(folder, 'embedded.moment');
    const onSnapshot = (raw: DatabaseSync): void => {
      assert.equal(raw.prepare('SELECT count(*) AS n FROM message').get()?.n, 3);
      for (const table of held) writer.run(`DELETE FROM ${table}`);
    };
    await backUp({ connection, blobs: openDiskBlobs(directory.blobsFolder), onSnapshot }, fromEmbedded);
    assert.equal(writer.get<{ n: number }>('SELECT count(*) AS n FROM message')?.n, 0, 'control: writes continued');
    connection.close();
    writer.close();

    for (const name of [fromServer, fromEmbedded]) {
      const file = openPortableFile(name);
      assert.deepEqual(
        held.map((table) => file.count(table)),
        [3, 3, 3, 3],
        name,
      );
      file.close();
    }
  } finally {
    await target.close();
    await embedded.close();
  }
});
