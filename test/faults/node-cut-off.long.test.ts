/**
 * A node is cut off: from everything, by disconnecting its network, and from only the database while the receiving server stays reachable.
 * It must start no delivery once its leases have ended, other nodes take over, and nothing is lost.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { type NetworkNamespace, networkNamespace, noNamespaces } from '../kit/network-namespace.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { copiesByKey } from './ledger.ts';
import { type NodesReport, type NodesTrial, nodesTrial } from './nodes-trial.ts';

const LEASE_MS = 60_000;

/** Two nodes, one of them in a network namespace; `cut` acts on that one. */
async function cutOff(
  cut: (place: { space: NetworkNamespace; databasePort: number }, trial: NodesTrial) => Promise<void>,
): Promise<NodesReport> {
  const space = networkNamespace();
  let databasePort = 0;
  try {
    return await nodesTrial({
      nodes: 3,
      reachable: 2,
      workers: 4,
      // Enough messages are in progress at any time, and other tests get their share of the machine.
      restMs: 100,
      wrapperOf: (index) => (index === 2 ? space.wrapper : []),
      // Nodes without the delivery role leave all messages to be claimed, so that the distant node gets a share.
      envOf: async (index, env) => {
        if (index === 0) return { POSTRIDER_ROLES: 'api' };
        if (index === 1) return {};
        const database = new URL(env.POSTRIDER_DATABASE_URL!);
        databasePort = Number(database.port);
        const through = await space.forward(databasePort);
        database.host = `${through.host}:${through.port}`;
        const route = new URL(env.POSTRIDER_ROUTE!);
        const sink = await space.forward(Number(route.port));
        return {
          POSTRIDER_DATABASE_URL: database.href,
          POSTRIDER_ROUTE: `smtp://${sink.host}:${sink.port}`,
          POSTRIDER_SMTP_HOSTNAME: 'distant.test',
        };
      },
      script: (trial) => cut({ space, databasePort }, trial),
    });
  } finally {
    await space.close();
  }
}

async function takenOver({ ledger, sink }: NodesTrial): Promise<void> {
  const before = [...ledger.acknowledged.keys()];
  await waitUntil(
    "the disconnected node's leases to be taken over",
    () => {
      const there = copiesByKey(sink.messages);
      return before.every((key) => there.has(key));
    },
    LEASE_MS + 40_000,
  );
}

test('a node whose network is down for longer than a lease', { timeout: 400_000, skip: noNamespaces }, async (t) => {
  const report = await cutOff(async ({ space }, trial) => {
    await trial.progress(100);
    await trial.fault('cable pulled', async () => {
      space.link('down');
      const until = performance.now() + LEASE_MS + 15_000;
      await takenOver(trial);
      await wait(Math.max(0, until - performance.now()));
      space.link('up');
      await wait(3_000);
    });
    await trial.progress(50);
  });
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.acknowledged >= 150);
});

test('a node without its database starts no deliveries', {
  timeout: 400_000,
  skip: noNamespaces,
}, async (t) => {
  let late: string[] = [];
  const report = await cutOff(async ({ space, databasePort }, trial) => {
    await trial.progress(100);
    await trial.fault('database out of reach', async () => {
      space.silence(databasePort, true);
      const began = Date.now();
      await takenOver(trial);
      await wait(Math.max(0, LEASE_MS + 5_000 - (Date.now() - began)));
      const distant = trial.sink.messages.length;
      const sinceMs = Date.now();
      await trial.progress(30);
      late = trial.sink.messages
        .slice(distant)
        .filter((message) => message.at > sinceMs && /by distant\.test/.test(message.content.toString('latin1')))
        .map((message) => message.to.join());
      space.silence(databasePort, false);
      await wait(3_000);
    });
    await trial.progress(50);
  });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual(late, [], 'the node without a database started no delivery');
});
