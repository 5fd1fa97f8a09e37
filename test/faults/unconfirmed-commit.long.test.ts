/**
 * The server stops waiting for its synchronous standby, for example because it is restarted: the commit is stored on the primary alone, and
 * a failover may lose it. A retry with the same key finds the stored response, and must not get it before the standby has the commit.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import pg from 'pg';
import type { Answer } from '../kit/api.ts';
import { startService } from '../kit/start-service.ts';
import { ownPostgresServer, serverIsOurs, tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';

ownPostgresServer();

const WAITING = `FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()`;

test('a retry gets no 202 before the standby has the commit', {
  skip: !serverIsOurs,
  timeout: 150_000,
}, async (t) => {
  const postgres = await tempPostgres();
  const admin = new pg.Client({ connectionString: postgres.url });
  await admin.connect();
  const requireStandby = async (standby: string): Promise<void> => {
    await admin.query(`ALTER SYSTEM SET synchronous_standby_names = '${standby}'`);
    await admin.query('SELECT pg_reload_conf()');
  };
  const service = await startService({
    env: { POSTRIDER_DATABASE_URL: postgres.url, POSTRIDER_SECRET_KEY: randomBytes(32).toString('base64') },
  });
  // In this order: dropping the database is a commit too.
  t.after(async () => {
    await requireStandby('');
    await service.close();
    await admin.end();
    await postgres.drop();
  });
  const send = (key: string): Promise<Answer> =>
    service.sandboxApi.post(
      '/send',
      { from: 'a@x.example', to: `${key}@x.example`, subject: key, text: 'x' },
      { 'Idempotency-Key': key },
    );
  const stored = async (key: string): Promise<boolean> =>
    (await admin.query('SELECT FROM idempotency WHERE key = $1', [key])).rowCount === 1;
  /** Sends, and cancels all waits for the standby until the service responds: other commits of the service wait as well. */
  const sendUnconfirmed = async (key: string): Promise<Answer> => {
    let isAnswered = false;
    const answer = send(key).finally(() => {
      isAnswered = true;
    });
    await waitUntil('a response', async () => {
      await admin.query(`SELECT pg_cancel_backend(pid) ${WAITING}`);
      return isAnswered;
    });
    return answer;
  };
  await requireStandby('absent');

  // Commits wait only after the checkpointer has read the setting too.
  const unconfirmed = await waitUntil('a commit that the standby has not confirmed', async () => {
    const key = `k${randomBytes(4).toString('hex')}`;
    const { status } = await sendUnconfirmed(key);
    return status === 500 && (await stored(key)) && key;
  });

  for (let retry = 0; retry < 3; retry++) {
    assert.notEqual((await sendUnconfirmed(unconfirmed)).status, 202, 'the standby is still absent');
  }

  await requireStandby('');
  const confirmed = await waitUntil('the response to the next retry', async () => {
    const answer = await send(unconfirmed);
    return answer.status === 202 && answer;
  });
  assert.equal(confirmed.headers['idempotent-replayed'], 'true');
});
