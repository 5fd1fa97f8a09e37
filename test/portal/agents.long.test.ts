/** Requests of AI agents in the portal: an owner reads the exact call with every recipient, approves one, and declines another. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { mcpClient } from '../kit/mcp.ts';
import { startService } from '../kit/start-service.ts';
import { faultsOf } from './every-page.ts';

test('an owner approves and declines agent requests', { skip: noBrowser() }, async (t) => {
  const service = await startService({ env: { POSTRIDER_MCP: 'on', POSTRIDER_ROUTE: 'smtp://127.0.0.1:9' } });
  t.after(() => service.close());
  await setFirstPassword(service);
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const { page, assertClean } = await signedIn(t, visitors, service, { viewport: { width: 1280, height: 900 } });
  const agent = mcpClient({ url: service.url, key: service.live.apiKey, clientName: 'Support agent' });
  const before = await agent.tool('change_suppression', { action: 'add', email: 'first@example.com' });
  assert.equal(before.structuredContent.status, 'pending_approval');
  await page.goto('/app/live/agents');
  await page.getByRole('heading', { level: 2, name: 'Support agent wants to run change_suppression' }).waitFor();
  await page.getByText('first@example.com').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  await page.setViewportSize({ width: 390, height: 800 });
  assert.deepEqual(await faultsOf(page), []);
  await page.getByRole('button', { name: 'Approve and run' }).click();
  await page.getByText('Done', { exact: true }).waitFor();
  assert.equal((await service.api.get('/suppressions/first%40example.com')).status, 200);
  await agent.tool('change_suppression', { action: 'remove', email: 'first@example.com' });
  await page.getByRole('button', { name: 'Decline' }).click();
  await page.getByText('Declined', { exact: true }).waitFor();
  assert.equal((await service.api.get('/suppressions/first%40example.com')).status, 200);
  assertClean();
});
