/**
 * The event feed on two nodes: events from one node appear on the other immediately, and after a lost connection nothing is missing or
 * duplicated. Also pausing, filters, and an event next to the list.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser, setFirstPassword, signInAs, startBrowser } from '../kit/browser.ts';
import { startCluster } from '../kit/cluster.ts';
import { faultProxy } from '../kit/fault-proxy.ts';
import type { Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { faultsOf, load } from './every-page.ts';

const SEEN_WITHIN_MS = 1_000;

async function send(node: Service, subject: string, further: object = {}): Promise<void> {
  const mail = { from: 'shop@shop.example', to: 'ann@example.com', subject, text: 'Hello', ...further };
  const { status, text } = await node.sandboxApi.post('/send', mail);
  assert.equal(status, 202, text);
}

/** Type and subject of each row, in page order. */
async function shown(page: Page): Promise<string[]> {
  const rows = page.getByRole('table', { name: 'Events' }).locator('tbody tr');
  const cells = await rows.evaluateAll((all) =>
    all.map((row) =>
      Array.from((row as { children: ArrayLike<{ textContent: string }> }).children, (cell) => cell.textContent),
    ),
  );
  return cells.filter((one) => one.length > 2).map(([type, , subject]) => `${type} ${subject}`);
}

test('events from another node, a lost connection, a pause, and filters', {
  skip: noBrowser(),
  timeout: 170_000,
}, async (t) => {
  const visitors = await startBrowser();
  t.after(() => visitors.close());
  const cluster = await startCluster({ nodes: 2 });
  t.after(() => cluster.close());
  const [here, there] = cluster.nodes as [Service, Service];
  const credentials = await setFirstPassword(here);
  // Offline, Chromium continues a stream that is already open, so the connection is cut as well.
  const line = await faultProxy(Number(new URL(here.url).port));
  t.after(() => line.close());
  const visit = await visitors.visit(line.url);
  t.after(() => visit.close());
  await signInAs(visit, credentials);
  const { page, context } = visit;

  await t.test('are displayed within a second', async () => {
    await page.goto('/app/sandbox/events');
    await page.getByText('No events yet').waitFor();
    await page.getByRole('main').getByText('Auto-updating', { exact: true }).waitFor();
    const tookMs: number[] = [];
    for (const subject of ['one', 'two', 'three']) {
      await send(there, subject);
      const sentAt = performance.now();
      await page.getByRole('row', { name: new RegExp(`Send.*${subject}`) }).waitFor();
      tookMs.push(performance.now() - sentAt);
    }
    assert.ok(Math.min(...tookMs) <= SEEN_WITHIN_MS, tookMs.join(' '));
  });

  await t.test('are all displayed once after a lost connection', async () => {
    const live = page.getByRole('main').getByText('Auto-updating', { exact: true });
    await context.setOffline(true);
    line.set({ kind: 'down' });
    await live.waitFor({ state: 'detached' });
    for (const subject of ['four', 'five', 'six']) await send(there, subject);
    await send(here, 'seven');
    line.set();
    await context.setOffline(false);
    await send(there, 'eight');
    const subjects = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];
    const expected = subjects.flatMap((one) => [`Delivery ${one}`, `Send ${one}`]).sort();
    await waitUntil('every event', async () => (await shown(page)).length >= expected.length);
    assert.deepEqual((await shown(page)).sort(), expected);
    await live.waitFor();
  });

  await t.test('are counted while the feed is paused', async () => {
    await page.getByRole('button', { name: 'Pause' }).click();
    const before = await shown(page);
    await send(here, 'nine');
    const fresh = page.getByRole('button', { name: '2 new' });
    await fresh.waitFor();
    assert.deepEqual(await shown(page), before);
    await fresh.click();
    await page.getByRole('row', { name: /Delivery.*nine/ }).waitFor();
  });

  await t.test('are filtered by the URL, and open next to the list', async () => {
    await send(here, 'ten', { to: 'bounced@example.com', tags: ['night'] });
    await page.getByRole('button', { name: 'More filters' }).click();
    await page.getByLabel('Tag').fill('night');
    await page.waitForURL(/tag=night/);
    await page.getByRole('row', { name: /Bounce.*ten/ }).waitFor();
    await waitUntil('only these', async () => (await shown(page)).length === 2);
    await send(here, 'eleven');
    await send(here, 'twelve', { tags: ['night'] });
    await page.getByRole('row', { name: /Delivery.*twelve/ }).waitFor();
    assert.equal((await shown(page)).length, 4);
    await page.getByRole('button', { name: 'Bounce' }).click();
    const json = page.getByRole('dialog').getByRole('region', { name: 'Event as JSON' });
    const event = JSON.parse(await json.innerText());
    assert.deepEqual([event.eventType, event.recipient, event.bounce.smtpCode], ['Bounce', 'bounced@example.com', 550]);
    assert.deepEqual(await faultsOf(page), []);
    await page.getByRole('dialog').getByRole('link', { name: 'View message' }).click();
    await page.waitForURL(`**/app/sandbox/messages/${event.messageId}`);
  });

  await t.test('of inbound emails are filtered by their type', async () => {
    const to = 'support@in.shop.example';
    assert.equal((await here.sandboxApi.post('/inbound-routes', { match: to })).status, 201);
    const mail = { to, from: 'ann@example.com', subject: 'received', text: 'Hello' };
    assert.ok((await here.sandboxApi.post('/sandbox/inbound', mail)).status < 300);
    await load(page, '/app/sandbox/events?type=Inbound');
    await page.getByRole('row', { name: /Inbound.*received/ }).waitFor();
    assert.deepEqual(await shown(page), ['Inbound received']);
    assert.equal(await page.getByLabel('Type').first().inputValue(), 'Inbound');
  });
  const cut = /net::ERR_/;
  assert.deepEqual(
    visit.wrong.filter((one) => !cut.test(one)),
    [],
  );
});
