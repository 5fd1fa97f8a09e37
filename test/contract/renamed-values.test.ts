/** Migrations that rename stored values: rows of the previous version read as current ones, in both databases. */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { suite, type TestContext, test } from 'node:test';
import pg from 'pg';
import { causeOf, causeText } from '../../src/delivery/outcome/cause.ts';
import { listMigrations } from '../../src/storage/migrate.ts';
import { DIALECTS, type Dialect } from '../kit/temp-database.ts';
import { tempPostgres } from '../kit/temp-postgres.ts';

interface Past {
  run(sql: string): Promise<void>;
  rows(sql: string): Promise<Record<string, unknown>[]>;
  /** Applies the migrations from `number` on. */
  migrate(): Promise<void>;
}

/** Returns an empty database in the state before migration `number`. */
async function before(t: TestContext, dialect: Dialect, number: number): Promise<Past> {
  const all = listMigrations(dialect);
  const past = dialect === 'sqlite' ? pastSqlite(t) : await pastPostgres(t);
  for (const one of all.filter((one) => one.number < number)) await past.run(one.sql);
  return {
    ...past,
    migrate: async () => {
      for (const one of all.filter((one) => one.number >= number)) await past.run(one.sql);
    },
  };
}

function pastSqlite(t: TestContext): Omit<Past, 'migrate'> {
  const raw = new DatabaseSync(':memory:');
  t.after(() => raw.close());
  return {
    run: async (sql) => raw.exec(sql),
    rows: async (sql) => raw.prepare(sql).all() as Record<string, unknown>[],
  };
}

async function pastPostgres(t: TestContext): Promise<Omit<Past, 'migrate'>> {
  const { url, drop } = await tempPostgres();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.after(async () => {
    await client.end();
    await drop();
  });
  return {
    run: async (sql) => void (await client.query(sql)),
    rows: async (sql) => (await client.query(sql)).rows as Record<string, unknown>[],
  };
}

const text = (value: unknown): string => `'${JSON.stringify(value).replaceAll("'", "''")}'`;

for (const dialect of DIALECTS) {
  suite(dialect, () => {
    test('renames owners and failure categories in events, and leaves message text unchanged', async (t) => {
      const past = await before(t, dialect, 39);
      const quoted = 'it said "category":"our-side", "owner":"sender-domain"';
      const details: [type: string, then: unknown, now: unknown][] = [
        [
          'Bounce',
          { bounce: { category: 'our-side', reply: quoted, owner: 'our-side' } },
          { bounce: { category: 'internal', reply: quoted, owner: 'service' } },
        ],
        [
          'DeliveryDelay',
          { deliveryDelay: { category: 'policy', owner: 'sender-domain' } },
          { deliveryDelay: { category: 'policy', owner: 'sender' } },
        ],
        [
          'Reject',
          { reject: { reason: 'cancelled', owner: 'our-side' } },
          { reject: { reason: 'cancelled', owner: 'sender' } },
        ],
        [
          'Bounce',
          { bounce: { category: 'blocked', owner: 'remote' } },
          { bounce: { category: 'blocked', owner: 'remote' } },
        ],
      ];
      for (const [index, [type, then]] of details.entries()) {
        await past.run(
          `INSERT INTO event (account_id, mode, id, type, message_id, at, detail)
           VALUES ('acc_1', 'live', 'evt_${index}', '${type}', 'msg_1', ${index}, ${text(then)})`,
        );
      }
      await past.migrate();
      const found = await past.rows('SELECT detail FROM event ORDER BY at');
      assert.deepEqual(
        found.map(({ detail }) => JSON.parse(String(detail)) as unknown),
        details.map(([, , now]) => now),
      );
    });

    test('accounts with a warning or paused mail keep their state, reasons, and thresholds', async (t) => {
      const past = await before(t, dialect, 39);
      const accounts: [status: string, notice: string | null, now: unknown][] = [
        ['good', null, ['good', null, '{}', '{}', null]],
        ['warned', 'warned', ['warned', 'warned', '{"reason":1}', '{"bounceRate":{}}', 7]],
        ['resting', 'resting', ['held', 'held', '{"reason":1}', '{"bounceRate":{}}', 7]],
      ];
      for (const [index, [status, notice]] of accounts.entries()) {
        const facts = status === 'good' ? "'{}', '{}', NULL" : `'{"reason":1}', '{"bounceRate":{}}', 7`;
        await past.run(
          `INSERT INTO account (id, name, plan, status, approved_email_bytes, settings, created_at, guard_status, guard_notice,
             guard, guard_thresholds, guard_since)
           VALUES ('acc_${index}', 'One', 'paid', 'active', 1, '{}', 1, '${status}', ${notice === null ? 'NULL' : `'${notice}'`}, ${facts})`,
        );
      }
      const json = { guardStatus: 'resting', guard: { reason: null }, note: 'of "guard":' };
      await past.run(
        `INSERT INTO audit (id, at, actor_kind, action, resource, before_change, after_change)
         VALUES ('aud_0', 1, 'system', 'account.guard', 'account', '{"guardStatus":"good"}', ${text(json)})`,
      );
      await past.migrate();
      const found = await past.rows(
        `SELECT protection_status AS status, protection_notice AS notice, protection, protection_thresholds AS thresholds,
           protection_since AS since FROM account ORDER BY id`,
      );
      assert.deepEqual(
        found.map(({ status, notice, protection, thresholds, since }) => [
          status,
          notice,
          protection,
          thresholds,
          since === null ? null : Number(since),
        ]),
        accounts.map(([, , now]) => now),
      );
      const [row] = await past.rows('SELECT action, before_change AS before, after_change AS after FROM audit');
      assert.deepEqual(
        [row!.action, JSON.parse(String(row!.before)), JSON.parse(String(row!.after))],
        [
          'account.sending-protection',
          { protectionStatus: 'good' },
          { protectionStatus: 'held', protection: { reason: null }, note: 'of "guard":' },
        ],
      );
    });

    test('renames actions in the audit log, which stays append-only', async (t) => {
      const past = await before(t, dialect, 39);
      const actions: [then: string, now: string][] = [
        ['account.look', 'account.start-support-access'],
        ['account.end-look', 'account.end-support-access'],
        ['account.update', 'account.update'],
      ];
      for (const [index, [then]] of actions.entries()) {
        await past.run(
          `INSERT INTO audit (id, at, actor_kind, action, resource) VALUES ('aud_${index}', 1, 'system', '${then}', 'account')`,
        );
      }
      await past.migrate();
      const found = await past.rows('SELECT action FROM audit ORDER BY id');
      assert.deepEqual(
        found.map(({ action }) => action),
        actions.map(([, now]) => now),
      );
      await assert.rejects(past.run("UPDATE audit SET action = 'account.look'"), /append-only/);
      await past.run("DELETE FROM audit WHERE id = 'aud_0'");
    });

    test('delayed messages stay in their incident, with those that fail after the upgrade', async (t) => {
      const past = await before(t, dialect, 39);
      // As the previous version wrote them: with old ids and old values.
      const facts = { smtpCode: 450, enhancedCode: '4.7.1', reply: '450 4.7.1 try again' };
      const stored: [then: string, now: string][] = [
        [
          '7a966bb5fe9707295283 450 4.7.1 our-side our-side',
          causeText(causeOf('ann@x.example', { ...facts, category: 'internal', owner: 'service' })),
        ],
        [
          'ee2863be666989db2159 450 4.7.1 blocked our-side',
          causeText(causeOf('ann@x.example', { ...facts, category: 'blocked', owner: 'service' })),
        ],
        [
          'abe64993bbbebbc49bac 450 4.7.1 policy sender-domain',
          causeText(causeOf('ann@x.example', { ...facts, category: 'policy', owner: 'sender' })),
        ],
        [
          '8ad1a9746b7228008c5f 450 4.7.1 greylisted recipient',
          causeText(causeOf('ann@x.example', { ...facts, category: 'greylisted', owner: 'recipient' })),
        ],
      ];
      for (const [index, [then]] of stored.entries()) {
        await past.run(
          `INSERT INTO work (kind, account_id, mode, subject, ref, lane, due, leased, fence, attempts, crashes, held, cause)
           VALUES ('delivery', 'acc_1', 'live', 'msg_${index}', 1, 'x.example', ${index}, 0, 0, 1, 0, 0, '${then}')`,
        );
      }
      await past.migrate();
      const found = await past.rows('SELECT cause FROM work ORDER BY due');
      assert.deepEqual(
        found.map(({ cause }) => cause),
        stored.map(([, now]) => now),
      );
    });
  });
}
