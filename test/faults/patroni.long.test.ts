/**
 * Two nodes on a highly available PostgreSQL (Patroni, etcd) with synchronous replication, under load: a switchover, and later the
 * primary is killed. Nothing that was accepted is lost or remains in the queue. The short form of `node test/faults/ha/run.ts`.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noPatroni } from './ha/cluster.ts';
import { haTrial } from './ha/trial.ts';

test('a switchover and a killed primary lose nothing with a synchronous standby', {
  timeout: 400_000,
  skip: noPatroni,
}, async (t) => {
  const report = await haTrial({
    kinds: ['switchover', 'kill'],
    mode: 'sync',
    members: 2,
    rate: 50,
    workers: 64,
    via: 'hosts',
    report: (line) => t.diagnostic(line),
  });
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.accepted >= 500, `too little load to be meaningful: ${report.accepted}`);
  assert.ok(report.acceptGaps[1]! > 2, 'control: the killed primary interrupted the service');
  assert.deepEqual([report.failovers, report.goneAtMost, report.stuck, report.unexplained], [2, 0, 0, 0]);
  assert.deepEqual(report.strange, [], 'every rejection can be retried');
});
