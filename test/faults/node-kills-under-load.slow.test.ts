/**
 * Three nodes on PostgreSQL and S3: a random one is killed every 5 seconds, the database is restarted in immediate mode every 10, and mail
 * keeps flowing. The short form of `npm run torture`.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverIsOurs } from '../kit/temp-postgres.ts';
import { killUnderLoad, LEAST_KILLS, LEAST_RESTARTS } from './node-kills.ts';

test('killed nodes and a restarted database under load', {
  timeout: 420_000,
  skip: !serverIsOurs && 'the server of TEST_PG_URL is not ours to restart',
}, async (t) => {
  const report = await killUnderLoad({ seconds: 30 });
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.acknowledged >= 300, `too little load to be meaningful: ${report.acknowledged}`);
  assert.ok((report.faults.kill ?? 0) >= LEAST_KILLS && (report.faults['database restart'] ?? 0) >= LEAST_RESTARTS);
});
