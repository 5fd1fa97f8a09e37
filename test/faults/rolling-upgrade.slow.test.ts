/**
 * Two nodes of the version before are replaced one after the other under load. The first new node migrates the database while the old one
 * still serves. Counted at the relay and the webhook receiver: nothing is lost, and nothing arrives twice. Then the old version is refused.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { installEarlierVersion, noEarlierVersion } from '../kit/earlier-version.ts';
import { runCommand } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { webhookCatcher } from '../kit/webhook-catcher.ts';
import { nodesTrial } from './nodes-trial.ts';

test('a rolling upgrade of two nodes under load loses and duplicates neither messages nor webhook requests', {
  skip: noEarlierVersion(),
  timeout: 300_000,
}, async (t) => {
  const earlier = installEarlierVersion();
  t.after(() => earlier.remove());
  const catcher = await webhookCatcher();
  t.after(() => catcher.close());
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'postrider-downgrade-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  let errors = '';
  let sentBefore = new Set<string>();

  const report = await nodesTrial({
    nodes: 2,
    workers: 4,
    program: earlier.program,
    env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' },
    script: async ({ cluster, ledger, progress }) => {
      const migrations = async (): Promise<{ applied: unknown[]; pending: unknown[] }> => {
        const { stdout } = await runCommand(['migrate', '--status', '--json'], { dataDir, env: cluster.env });
        return JSON.parse(stdout);
      };
      const hook = { url: catcher.url, events: ['Delivery'] };
      assert.equal((await cluster.api.post('/webhooks', hook)).status, 201);
      sentBefore = new Set(ledger.attempted.keys());
      await progress(50);
      assert.ok((await migrations()).pending.length > 5, 'the old nodes have not migrated');
      for (const node of cluster.nodes) {
        assert.deepEqual(await node.kill('SIGTERM'), { code: 0, signal: null });
        await progress(20);
        await node.restart({ env: cluster.env });
        await waitUntil('the node to be ready', async () => (await node.anonymous.get('/ready')).status === 200);
        assert.deepEqual((await migrations()).pending, [], 'the new node has migrated');
        // The old node records this rejection too.
        for (const { api } of cluster.nodes) assert.equal((await api.post('/send', {})).status, 400);
        await progress(100);
      }
    },
    finish: async ({ cluster, ledger }) => {
      const lines = cluster.nodes.flatMap(({ log }) => log.trim().split('\n'));
      const isError = (line: string): boolean => ['error', 'fatal'].includes(JSON.parse(line).level);
      errors = lines.filter(isError).join('\n');
      const expected = [...ledger.acknowledged]
        .filter(([key]) => !sentBefore.has(key))
        .map(([, { messageId }]) => messageId);
      const posted = (): string[] =>
        catcher.requests.map(({ body }) => String(JSON.parse(body).messageId ?? JSON.parse(body).data?.messageId));
      const allPosted = (): boolean => new Set(posted()).isSupersetOf(new Set(expected));
      await waitUntil('a webhook request per message', allPosted, 60_000);
      assert.ok(expected.length >= 270, `${expected.length} messages`);
      assert.equal(posted().length, new Set(posted()).size, 'no webhook request is repeated');

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
