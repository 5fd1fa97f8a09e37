/**
 * A PostgreSQL standby is promoted that lacks the last transactions of the old primary: transaction ids are reused, and followers of the
 * log must not skip the events that have them. The standby is a copy of the data directory from before those transactions.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import pg from 'pg';
import { silentLog } from '../../src/base/log.ts';
import { type EventPlace, isAfterEndOperation, readEventsOperation } from '../../src/events/read-store.ts';
import { openPostgresDatabase } from '../../src/storage/postgres/database.ts';
import { migratePostgres } from '../../src/storage/postgres/migrate.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { ownPostgresServer, serverIsOurs, tempPostgres } from '../kit/temp-postgres.ts';

ownPostgresServer();

const OWNER = { accountId: 'acc_1', mode: 'live' as const };

async function administer(url: string, sql: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Writes events, each in a separate transaction. */
async function write(url: string, from: number, count: number): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (let at = from; at < from + count; at += 1) {
    await client.query(
      `INSERT INTO event (account_id, mode, id, type, message_id, at, detail) VALUES ('acc_1', 'live', 'evt_${at}', 'Send', 'msg_${at}', ${at}, '{}')`,
    );
  }
  await client.end();
}

/** Reads as a follower from its position, and advances the position. */
async function follow(t: TestContext, url: string, place: { after: EventPlace | null }): Promise<string[]> {
  const database = await openPostgresDatabase({ address: parsePostgresUrl(url), log: silentLog });
  t.after(() => database.close());
  const page = { ...OWNER, order: 'asc' as const, limit: 1_000, messageId: null, sinceMs: null, untilMs: null };
  const rows = await database.execute(readEventsOperation, { ...page, after: place.after });
  const last = rows.at(-1);
  if (last) place.after = { position: last.position!, seq: last.seq };
  if (place.after)
    assert.equal(await database.execute(isAfterEndOperation, place.after), false, 'its position is accepted');
  await database.close();
  return rows.map(({ id }) => id);
}

const ids = (from: number, count: number): string[] => Array.from({ length: count }, (_, at) => `evt_${from + at}`);

test('a follower gets every event written after a failover that lost transactions', {
  skip: !serverIsOurs,
}, async (t) => {
  const { url, server, drop } = await tempPostgres();
  t.after(drop);
  await migratePostgres({ address: parsePostgresUrl(url), log: silentLog, nowMs: 1 });
  const place: { after: EventPlace | null } = { after: null };
  await write(url, 0, 10);
  assert.deepEqual(await follow(t, url, place), ids(0, 10));
  let next = 10;
  const folder = server.folder!;
  for (let failover = 1; failover <= 2; failover += 1) {
    await server.stopServer('fast');
    execFileSync('cp', ['-a', folder, `${folder}-standby`]);
    await server.startServer();
    await write(url, next, 200);
    assert.deepEqual(await follow(t, url, place), ids(next, 200), 'read on the lost primary');
    await server.stopServer('immediate');
    execFileSync('rm', ['-rf', folder]);
    execFileSync('mv', [`${folder}-standby`, folder]);
    writeFileSync(path.join(folder, 'standby.signal'), '');
    execFileSync('chown', ['--reference', folder, path.join(folder, 'standby.signal')]);
    await server.startServer();
    await assert.rejects(follow(t, url, place), /standby/, 'a standby receives no writes');
    await administer(server.url('postgres'), 'SELECT pg_promote(true, 60)');
    assert.deepEqual(await follow(t, url, place), [], 'there is nothing new, and the position stays valid');
    next += 200;
    // Fewer than were lost, so all of them have reused ids.
    await write(url, next, 50);
    assert.deepEqual(await follow(t, url, place), ids(next, 50), `after failover ${failover}`);
    next += 50;
  }
});
