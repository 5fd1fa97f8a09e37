/** Lists on a phone: a row has two lines, opens with a tap anywhere, and has no column headers. A preview is as tall as its email. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { faultsOf, open, SEED_ENV, type Seeded, seed } from './every-page.ts';

const skip = noBrowser();
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };
const TWO_LINES_PX = 66;

let visitors: Awaited<ReturnType<typeof startBrowser>>;
let service: Service;
let seeded: Seeded;

before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  service = await startService({ env: SEED_ENV });
  await setFirstPassword(service);
  seeded = await seed(service);
});

after(async () => {
  await service?.close();
  await visitors?.close();
});

for (const colorScheme of ['light', 'dark'] as const)
  test(`rows have two lines (${colorScheme})`, { skip }, async (t) => {
    const { page, assertClean } = await signedIn(t, visitors, service, { ...PHONE, colorScheme });
    for (const at of ['/sandbox/messages', '/sandbox/events', '/live/suppressions', '/live/domains']) {
      await open(page, `/app${at}`);
      const rows = page.locator('tr[data-index]');
      await rows.first().waitFor();
      for (const row of await rows.all()) {
        const { height = 0 } = (await row.boundingBox()) ?? {};
        assert.ok(height > 30 && height <= TWO_LINES_PX, `${at}: ${height} px`);
      }
      assert.deepEqual(await faultsOf(page), [], at);
    }
    assertClean();
  });

test('tapping anywhere in a row opens it', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, PHONE);
  await open(page, '/app/sandbox/messages');
  const time = page.locator('tr[data-index] td[data-phone="time"]').first();
  await time.locator('xpath=..').tap({ position: { x: 380 - 60, y: 12 } });
  await page.waitForURL(/\/app\/sandbox\/messages\/msg_/);
  assertClean();
});

test('the preview frame is as tall as the email', { skip }, async (t) => {
  const html = `<body style="margin:0">${'<p style="margin:0;height:100px">A paragraph</p>'.repeat(11)}</body>`;
  const { data } = (
    await service.sandboxApi.post('/send', { from: 'a@shop.example', to: 'ann@example.com', subject: 'Long', html })
  ).body;
  const { page, assertClean } = await signedIn(t, visitors, service);
  for (const [id, least, most] of [
    [data.messageId, 1_100, 1_110],
    [seeded.ids['sandbox/messages'], 100, 300],
  ]) {
    await open(page, `/app/sandbox/inbox/${id}`);
    const frame = page.getByTitle('Email preview');
    await waitUntil('the frame to have the height of the email', async () => {
      const { height = 0 } = (await frame.boundingBox()) ?? {};
      return height >= least && height <= most;
    });
  }
  assertClean();
});
