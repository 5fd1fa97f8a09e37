/** The database rejects changes to the audit log on both databases, even through SQL with the service's own role. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { DIALECTS, tempDatabase } from '../../test/kit/temp-database.ts';
import { connectPostgres } from '../storage/postgres/connection.ts';
import { parsePostgresUrl } from '../storage/postgres/url.ts';
import { openSqlite } from '../storage/sqlite/connection.ts';
import { systemOrigin } from './audit.ts';
import { changedBy, recordChangeOperation } from './change.ts';
import { auditOperation } from './store.ts';

const row = "INTO audit (id, at, actor_kind, action, resource) VALUES ('aud_1', 0, 'user', 'a.b', 'a')";
const DAY = 86_400_000;
const everything = {
  accountId: null,
  mode: null,
  action: null,
  resource: null,
  resourceIds: null,
  actorId: null,
  fromId: '',
  belowId: 'aud_~',
  limit: 10,
};

for (const dialect of DIALECTS) {
  test(`${dialect}: audit rows cannot be changed or replaced, and can be deleted only after 400 days`, async () => {
    const temp = await tempDatabase(dialect);
    const run = async (sql: string): Promise<void> => {
      if (temp.url === undefined) {
        const connection = openSqlite(path.join(temp.folder, 'postrider.db'), { readOnly: false });
        try {
          connection.raw.exec(sql);
        } finally {
          connection.close();
        }
        return;
      }
      const { client, destroy } = await connectPostgres(parsePostgresUrl(temp.url));
      await client.query(sql).finally(destroy);
    };
    try {
      const record = (atMs: number) =>
        changedBy(temp.database, systemOrigin(atMs, 'acc_1')).execute(recordChangeOperation, {
          action: 'webhook.replay',
          resourceId: 'whk_1',
          requested: { since: 'then' },
        });
      await record(Date.now());
      await record(Date.now() - 399 * DAY);
      const kept = await temp.database.execute(auditOperation, everything);
      assert.equal(kept.length, 2);
      const { id } = kept[0]!;
      for (const sql of [
        "UPDATE audit SET actor_name = 'somebody else'",
        'DELETE FROM audit',
        `DELETE FROM audit WHERE id = '${kept[1]!.id}'`,
        `INSERT ${row.replace('aud_1', id)}`,
        dialect === 'sqlite' ? `REPLACE ${row.replace('aud_1', id)}` : 'TRUNCATE audit',
      ]) {
        await assert.rejects(run(sql), /append-only|duplicate key/, sql);
      }
      assert.deepEqual(await temp.database.execute(auditOperation, everything), kept);
      await run(`INSERT ${row}`);
      await run("DELETE FROM audit WHERE id = 'aud_1'");
      assert.deepEqual(
        await temp.database.execute(auditOperation, everything),
        kept,
        'control: an old row can be deleted',
      );
    } finally {
      await temp.close();
    }
  });
}
