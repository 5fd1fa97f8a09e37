/**
 * Two nodes of the previous version are replaced one after the other under load over HTTP and SMTP, with deferred and scheduled messages in
 * the queue. The first new node migrates the database while the old one still serves. Counted at the relay and the webhook receiver:
 * nothing is lost, and nothing arrives twice. Then the old version is refused.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { installEarlierVersion, noEarlierVersion } from '../kit/earlier-version.ts';
import type { SinkContext } from '../kit/smtp-sink.ts';
import { runCommand } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';
import { addressOf, keyOf, smallMail } from './ledger.ts';
import { type NodesTrial, nodesTrial } from './nodes-trial.ts';
import { startSubmissionLoad } from './submission-load.ts';

const FROM = 'load@load.example';
const HOUR_MS = 3_600_000;

/** Keys with a prefix, for example d1 to d12. */
const keys = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i + 1}`);

/** Messages that the receiver defers once, that become due during the upgrade, and that are due after it. */
const [DEFERRED, DUE, LATER] = [keys('deferred-', 12), keys('due-', 20), keys('later-', 12)];

/** A receiver that defers each of the messages once. */
function deferringOnce(): { rcpt(context: SinkContext): string | undefined; deferred: Set<string> } {
  const deferred = new Set<string>();
  return {
    deferred,
    rcpt: ({ line }) => {
      const key = keyOf(/<(.+)>/.exec(line)?.[1] ?? '');
      if (!DEFERRED.includes(key) || deferred.has(key)) return undefined;
      deferred.add(key);
      return '452 4.2.2 mailbox full, try again later';
    },
  };
}

/** Sends one message per key, and adds it to the ledger. */
async function send({ cluster, ledger }: NodesTrial, sent: string[], dueMs?: (index: number) => number): Promise<void> {
  for (const [index, key] of sent.entries()) {
    const sendAt = dueMs && new Date(Date.now() + dueMs(index)).toISOString();
    ledger.attempt(key);
    const { status, body, text } = await cluster.api.post('/send', { ...smallMail(FROM, key), sendAt });
    assert.equal(status, 202, text);
    ledger.acknowledge({ key, messageId: body.data.messageId, replayed: false, unanswered: 0, at: Date.now() });
  }
}

const idOf = ({ ledger }: NodesTrial, key: string): string => ledger.acknowledged.get(key)!.messageId;

const statusOf = async (trial: NodesTrial, key: string): Promise<string> =>
  (await trial.cluster.api.get(`/messages/${idOf(trial, key)}`)).body.status;

/** The names of applied and pending migrations, as this version reports them. */
async function migrations({ cluster }: NodesTrial, dataDir: string): Promise<{ pending: unknown[] }> {
  const { stdout } = await runCommand(['migrate', '--status', '--json'], { dataDir, env: cluster.env });
  return JSON.parse(stdout);
}

/** Replaces one node after the other. */
async function roll(trial: NodesTrial, dataDir: string): Promise<void> {
  const { cluster, progress } = trial;
  for (const node of cluster.nodes) {
    assert.deepEqual(await node.kill('SIGTERM'), { code: 0, signal: null });
    await progress(20);
    await node.restart({ env: cluster.env });
    await waitUntil('the node to be ready', async () => (await node.anonymous.get('/ready')).status === 200);
    assert.deepEqual((await migrations(trial, dataDir)).pending, [], 'the new node has migrated');
    // The old node records this rejection too.
    for (const { api } of cluster.nodes) assert.equal((await api.post('/send', {})).status, 400);
    await progress(100);
  }
}

/** Checks that the receiver of webhooks got one request for each message that was sent since the webhook exists. */
async function postedOnce({ ledger }: NodesTrial, catcher: WebhookCatcher, sentBefore: Set<string>): Promise<void> {
  const expected = [...ledger.acknowledged]
    .filter(([key]) => !sentBefore.has(key))
    .map(([, { messageId }]) => messageId);
  const posted = (): string[] =>
    catcher.requests.map(({ body }) => String(JSON.parse(body).messageId ?? JSON.parse(body).data?.messageId));
  const allPosted = (): boolean => new Set(posted()).isSupersetOf(new Set(expected));
  await waitUntil('a webhook request per message', allPosted, 60_000);
  assert.ok(expected.length >= 270, `${expected.length} messages`);
  assert.equal(posted().length, new Set(posted()).size, 'no webhook request is repeated');
}

test('a rolling upgrade of two nodes under load loses and duplicates neither messages nor webhook requests', {
  skip: noEarlierVersion(),
  timeout: 600_000,
}, async (t) => {
  const earlier = installEarlierVersion();
  t.after(() => earlier.remove());
  const catcher = await webhookCatcher();
  t.after(() => catcher.close());
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'postrider-downgrade-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const receiver = deferringOnce();
  let errors = '';
  let sentBefore = new Set<string>();

  const report = await nodesTrial({
    nodes: 2,
    workers: 4,
    program: earlier.program,
    env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' },
    sinkScript: { rcpt: receiver.rcpt },
    script: async (trial) => {
      const { cluster, ledger, sink, progress } = trial;
      const hook = { url: catcher.url, events: ['Delivery'] };
      assert.equal((await cluster.api.post('/webhooks', hook)).status, 201);
      sentBefore = new Set(ledger.attempted.keys());
      const smtp = startSubmissionLoad({ nodes: cluster.nodes, ledger, from: FROM, workers: 2, prefix: 'smtp-' });
      t.after(() => smtp.abandon());
      await progress(50);
      await send(trial, DEFERRED);
      for (const key of DEFERRED) {
        await waitUntil('the deferral', async () => (await statusOf(trial, key)) === 'delayed', 30_000);
      }
      await send(trial, LATER, () => HOUR_MS);
      await send(trial, DUE, (index) => 1_000 * index);
      assert.ok((await migrations(trial, dataDir)).pending.length > 5, 'the old nodes have not migrated');
      const submittedBefore = [...smtp.accepted];
      await roll(trial, dataDir);
      const perNode = smtp.accepted.map((count, node) => count - submittedBefore[node]!);
      await smtp.finish();
      assert.deepEqual(smtp.unanswered, [], 'every final dot was answered');
      assert.ok(smtp.interruptions > 0, 'the stops interrupted sessions');
      for (const count of perNode) assert.ok(count > 0, `messages by SMTP during the upgrade: ${perNode}`);
      const arrived = new Set(sink.messages.flatMap(({ to }) => to));
      for (const key of LATER) assert.ok(!arrived.has(addressOf(key)), `${key} was not sent early`);
      // The new nodes deliver what the old ones deferred and scheduled.
      for (const key of DEFERRED) {
        const isDelayed = async (): Promise<boolean> => (await statusOf(trial, key)) === 'delayed';
        if (!(await isDelayed())) continue;
        // The scheduled attempt can come first.
        await cluster.nodes[0]!.cli('queue', 'retry', idOf(trial, key)).catch(async (error: Error) => {
          if (await isDelayed()) throw error;
        });
      }
      for (const key of LATER) {
        const moved = await cluster.api.patch(`/messages/${idOf(trial, key)}`, {
          sendAt: new Date().toISOString(),
        });
        assert.equal(moved.status, 200, moved.text);
      }
      t.diagnostic(JSON.stringify({ submitted: smtp.accepted, during: perNode, interruptions: smtp.interruptions }));
    },
    finish: async (trial) => {
      const { cluster } = trial;
      const lines = cluster.nodes.flatMap(({ log }) => log.trim().split('\n'));
      const isError = (line: string): boolean => ['error', 'fatal'].includes(JSON.parse(line).level);
      errors = lines.filter(isError).join('\n');
      assert.deepEqual([...receiver.deferred].sort(), [...DEFERRED].sort());
      await postedOnce(trial, catcher, sentBefore);

      const refused = await runCommand(['serve'], { dataDir, env: cluster.env, program: earlier.program });
      assert.notEqual(refused.code, 0);
      assert.match(refused.stderr, /newer/i);
      assert.equal(refused.stderr.trim().split('\n').length, 1, refused.stderr);
    },
  });
  assert.equal(errors, '', 'the nodes report no error');
  t.diagnostic(JSON.stringify(report));
  assert.equal(report.duplicates, 0);
});
