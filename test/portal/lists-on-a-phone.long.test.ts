/**
 * Lists on a phone: each row has two lines without labels, and opens its page or its drawer with a tap anywhere. A preview is as tall as its
 * email, and the editor of a template is at least half as high as the window.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { faultsOf, open, SEED_ENV, type Seeded, seed } from './every-page.ts';

const skip = noBrowser();
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };
const TWO_LINES_PX = 72;

let visitors: Awaited<ReturnType<typeof startBrowser>>;
let service: Service;
let dns: FakeDns;
let sink: SmtpSink;
let seeded: Seeded;
let lists: readonly List[];

interface List {
  at: string;
  /** The name of the table, of pages with several. */
  table?: string;
  /** What a row opens on a phone. */
  opens: 'page' | 'drawer';
  /** In a desktop window, its page. */
  hasPage?: true;
}

/** Every list of the portal with rows. */
const listsOf = ({ ids }: Seeded): readonly List[] => [
  { at: '/sandbox/messages', opens: 'page' },
  { at: '/sandbox/shares', opens: 'drawer', hasPage: true },
  { at: '/sandbox/events', opens: 'drawer' },
  { at: '/sandbox/requests', opens: 'drawer' },
  { at: '/sandbox/incidents', opens: 'page' },
  { at: '/sandbox/inbound', opens: 'page' },
  { at: '/sandbox/inbound-routes', opens: 'page' },
  { at: '/sandbox/statistics', opens: 'drawer', hasPage: true },
  { at: '/live/suppressions', opens: 'drawer' },
  { at: '/live/domains', opens: 'page' },
  { at: '/live/templates', opens: 'page' },
  { at: '/live/template-shares', opens: 'drawer', hasPage: true },
  { at: `/live/templates/${ids['live/templates']}?view=versions`, opens: 'drawer' },
  { at: '/live/webhooks', opens: 'page' },
  { at: '/live/keys', opens: 'drawer' },
  { at: '/live/keys?tab=smtp', opens: 'drawer' },
  { at: '/live/team', opens: 'drawer' },
  { at: '/live/audit', opens: 'drawer' },
  { at: '/live/approvals', opens: 'drawer' },
  { at: '/live/profile', opens: 'drawer' },
  { at: '/operator', table: 'Destinations', opens: 'drawer' },
  { at: '/operator', table: 'By account', opens: 'drawer', hasPage: true },
  { at: '/operator/accounts', opens: 'page' },
  { at: `/operator/accounts/${ids['operator/accounts']}`, table: 'Users', opens: 'drawer' },
  { at: `/operator/accounts/${ids['operator/accounts']}`, table: 'Latest changes', opens: 'drawer' },
  { at: '/operator/keys', opens: 'drawer' },
  { at: '/operator/nodes', opens: 'drawer' },
  { at: '/operator/audit', opens: 'drawer' },
];

before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  sink = await smtpSink({ script: { mail: '421 4.7.28 unusual rate of mail, try again in 20 minutes' } });
  dns = await fakeDns({ 'busy.example': { MX: [[10, 'mx.busy.example']] }, 'mx.busy.example': { A: ['127.0.0.1'] } });
  service = await startService({
    env: {
      ...SEED_ENV,
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(sink.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
    },
  });
  await setFirstPassword(service);
  seeded = await seed(service);
  lists = listsOf(seeded);
  const made = await service.api.post('/smtp-credentials', { mode: 'live' });
  assert.equal(made.status, 201, made.text);
  await service.cli('domain', 'add', service.live.accountId, 'sender.example', '--verified');
  const mail = { from: 'a@sender.example', to: 'ann@busy.example', subject: 's', text: 't' };
  assert.equal((await service.api.post('/send', mail)).status, 202);
});

after(async () => {
  await service?.close();
  await sink?.close();
  await dns?.close();
  await visitors?.close();
});

async function rowsOf(page: Page, { at, table }: List) {
  await open(page, `/app${at}`);
  const within = table === undefined ? page : page.getByRole('table', { name: table });
  const rows = within.locator('tr[data-index]');
  await rows.first().waitFor({ timeout: 20_000 });
  return rows;
}

test('rows of every list have two lines, and are accessible in light and dark mode', {
  skip,
  timeout: 300_000,
}, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, PHONE);
  const faults: Record<string, unknown> = {};
  for (const list of lists) {
    await page.emulateMedia({ colorScheme: 'light' });
    const rows = await rowsOf(page, list);
    const name = `${list.at} ${list.table ?? ''}`;
    for (const row of await rows.all()) {
      const { height = 0 } = (await row.boundingBox()) ?? {};
      if (height <= 30 || height > TWO_LINES_PX) faults[`${name}: ${await row.innerText()}`] = height;
    }
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.locator(`html[data-mantine-color-scheme="${colorScheme}"]`).waitFor();
      const found = await faultsOf(page);
      if (found.length > 0) faults[`${name} (${colorScheme})`] = found;
    }
  }
  assert.deepEqual(faults, {});
  assertClean();
});

test('drawers of a desktop window are accessible in dark mode', { skip, timeout: 300_000 }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, { colorScheme: 'dark' });
  const faults: Record<string, unknown> = {};
  for (const list of lists.filter(({ opens, hasPage }) => opens === 'drawer' && !hasPage)) {
    const rows = await rowsOf(page, list);
    await rows.first().locator('button').first().click();
    await page.getByRole('dialog').waitFor();
    const found = await faultsOf(page);
    if (found.length > 0) faults[list.at] = found;
  }
  assert.deepEqual(faults, {});
  assertClean();
});

test('tapping anywhere in a row opens its page or its drawer', { skip, timeout: 300_000 }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, PHONE);
  for (const list of lists) {
    const rows = await rowsOf(page, list);
    const { pathname } = new URL(page.url());
    const first = rows.first();
    const { width = 0, height = 0 } = (await first.boundingBox()) ?? {};
    // Between the lines, where no text is.
    await first.tap({ position: { x: width / 2, y: height / 2 } });
    if (list.opens === 'page') await page.waitForURL((url) => url.pathname !== pathname);
    else {
      await page.getByRole('dialog').waitFor();
      assert.deepEqual(await faultsOf(page), [], list.at);
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      // The row has the focus again.
      await waitUntil('the focus to return', () =>
        page.evaluate<boolean>("document.activeElement.closest('tr[data-index]') !== null"),
      );
    }
  }
  assertClean();
});

test('what can be done with a row is named in its drawer', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, PHONE);
  const rows = await rowsOf(page, { at: '/live/suppressions', opens: 'drawer' });
  await rows.first().tap();
  const drawer = page.getByRole('dialog');
  await drawer.getByText('Reason').waitFor();
  await drawer.getByRole('button', { name: /^Remove / }).tap();
  // The address is no longer in the list, so its drawer closes.
  await drawer.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).tap();
  await rows.first().waitFor();
  assertClean();
});

test('rows with a page and more columns or actions open a drawer with a link to the page', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, PHONE);
  const drawer = page.getByRole('dialog');
  for (const { list, columns, link, at } of [
    {
      list: { at: '/sandbox/statistics', opens: 'drawer' },
      columns: ['Accepted', 'Bounce rate', 'Clicks'],
      link: 'View messages',
      at: /\/app\/sandbox\/messages\?tags=order$/,
    },
    {
      list: { at: '/operator', table: 'By account', opens: 'drawer' },
      columns: ['Ready', 'Throttled', 'Due later'],
      link: 'Open account',
      at: /\/app\/operator\/accounts\/acc_/,
    },
  ] as const) {
    await (await rowsOf(page, list)).first().tap();
    for (const name of columns) await drawer.getByText(name, { exact: true }).waitFor();
    await drawer.getByRole('link', { name: link }).tap();
    await page.waitForURL(at);
    await drawer.waitFor({ state: 'detached' });
  }
  assertClean();
});

test('a shared link is revoked on a phone', { skip }, async (t) => {
  const messageId = seeded.ids['sandbox/messages'];
  const shared = await service.sandboxApi.post(`/messages/${messageId}/share`, {});
  assert.equal(shared.status, 201, shared.text);
  const { page, assertClean } = await signedIn(t, visitors, service, PHONE);
  const rows = await rowsOf(page, { at: '/sandbox/shares', opens: 'drawer' });
  const before = await rows.count();
  await rows.first().tap();
  const drawer = page.getByRole('dialog').filter({ hasText: 'Created by' });
  const confirmation = page.getByRole('dialog', { name: 'Revoke' });
  await drawer.getByRole('link', { name: 'Open message' }).waitFor();
  await drawer.getByRole('button', { name: 'Revoke' }).tap();
  await confirmation.waitFor();
  assert.deepEqual(await faultsOf(page), []);
  await page.keyboard.press('Escape');
  await confirmation.waitFor({ state: 'detached' });
  assert.ok(await drawer.isVisible(), 'Escape closes the confirmation, but not the drawer');
  await drawer.getByRole('button', { name: 'Revoke' }).tap();
  await confirmation.getByRole('button', { name: 'Revoke link' }).tap();
  await page.getByText('Link revoked').waitFor();
  await drawer.waitFor({ state: 'detached' });
  assert.equal(await rows.count(), before - 1);
  assert.equal((await service.sandboxApi.get('/shares')).body.length, before - 1);
  assertClean();
});

test('versions are compared from the drawer of one', { skip }, async (t) => {
  const id = seeded.ids['live/templates'];
  const changed = await service.api.patch(`/templates/${id}`, { subject: 'Changed {{name}}' });
  assert.equal(changed.status, 200, changed.text);
  const { page, assertClean } = await signedIn(t, visitors, service, PHONE);
  const rows = await rowsOf(page, { at: `/live/templates/${id}?view=versions`, opens: 'drawer' });
  await rows.first().tap();
  const drawer = page.getByRole('dialog');
  await drawer.getByRole('button', { name: /^Compare/ }).tap();
  await drawer.waitFor({ state: 'detached' });
  await page.getByText('Changed {{name}}').first().waitFor();
  assertClean();
});

test('a message opens with a tap next to its time', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service, PHONE);
  await open(page, '/app/sandbox/messages');
  const time = page.locator('tr[data-index] td[data-phone="time"]').first();
  await time.locator('xpath=..').tap({ position: { x: 380 - 60, y: 12 } });
  await page.waitForURL(/\/app\/sandbox\/messages\/msg_/);
  assertClean();
});

/** The property of a button that names it; tests have no types of the DOM. */
interface Named {
  ariaLabel: string | null;
  innerText: string;
}

test('the primary action is the first one of its page, and the API request the last', { skip }, async (t) => {
  const { page, assertClean } = await signedIn(t, visitors, service);
  for (const [at, primary] of [
    ['/live/suppressions', 'Add address'],
    ['/live/webhooks', 'Create webhook'],
    ['/live/domains', 'Add domain'],
    ['/live/templates', 'Create template'],
    ['/live/team', 'Invite member'],
    ['/sandbox/inbound', 'Simulate email'],
    [`/live/domains/${seeded.ids['live/domains']}`, 'Verify DNS records'],
    [`/live/templates/${seeded.ids['live/templates']}`, 'Save'],
  ] as const) {
    await open(page, `/app${at}`);
    const names = await page
      .locator('h1')
      .locator('xpath=../../..')
      .getByRole('button')
      .evaluateAll((buttons) => (buttons as unknown as Named[]).map((one) => one.ariaLabel ?? one.innerText));
    assert.deepEqual([names[0], names.at(-1)], [primary, 'API request'], at);
  }
  assertClean();
});

test('the editor of a template with little content is half as high as the window', { skip }, async (t) => {
  for (const viewport of [PHONE.viewport, { width: 1280, height: 800 }, { width: 1280, height: 1_440 }]) {
    const { page, assertClean } = await signedIn(t, visitors, service, { viewport });
    await open(page, `/app/live/templates/${seeded.ids['live/templates']}`);
    const editor = page.locator('.cm-editor').first();
    await editor.waitFor();
    const { height = 0 } = (await editor.boundingBox()) ?? {};
    assert.ok(height >= viewport.height / 2, `${height} px of ${viewport.height}`);
    assertClean();
  }
});

test('the preview frame is as tall as the email', { skip }, async (t) => {
  const page100 = '<p style="margin:0;height:100px">A paragraph</p>';
  const htmlOf = (paragraphs: number): string => `<body style="margin:0">${page100.repeat(paragraphs)}</body>`;
  const sent = async (html: string): Promise<string> => {
    const mail = { from: 'a@shop.example', to: 'ann@example.com', subject: 'Long', html };
    return (await service.sandboxApi.post('/send', mail)).body.data.messageId;
  };
  // Its height is that of the frame and more, so a frame that follows it grows without end.
  const growing = await sent('<body style="margin:0;height:120vh">Growing</body>');
  const template = { name: 'long', subject: 'Long', html: htmlOf(60) };
  const { templateId } = (await service.sandboxApi.post('/templates', template)).body;
  const { page, assertClean } = await signedIn(t, visitors, service);
  /** The height before the frame is scaled to the width of its panel; 0 while the panel does not have the height of the scaled frame. */
  const heightOfFrame = (): Promise<number> =>
    page.evaluate<number>(`{
      const frame = document.querySelector('iframe[title="Email preview"]');
      const shown = frame?.getBoundingClientRect().height ?? 0;
      Math.abs((frame?.parentElement.offsetHeight ?? 0) - shown) > 2 ? 0 : (frame?.offsetHeight ?? 0);
    }`);
  for (const [at, least, most] of [
    [`inbox/${await sent(htmlOf(11))}`, 1_100, 1_110],
    [`inbox/${await sent(htmlOf(80))}`, 8_000, 8_010],
    [`inbox/${seeded.ids['sandbox/messages']}`, 100, 300],
    [`templates/${templateId}`, 6_000, 6_010],
  ] as const) {
    await open(page, `/app/sandbox/${at}`);
    await waitUntil(`the frame to have the height of the email (${at})`, async () => {
      const height = await heightOfFrame();
      return height >= least && height <= most;
    });
  }
  await open(page, `/app/sandbox/inbox/${growing}`);
  await waitUntil('the frame to stop growing', async () => {
    const before = await heightOfFrame();
    await page.evaluate(`new Promise((resolve) => {
      const wait = (frames) => requestAnimationFrame(() => (frames === 0 ? resolve() : wait(frames - 1)));
      wait(10);
    })`);
    // It has grown with its content, to a multiple of its first height.
    return before > 4_000 && (await heightOfFrame()) === before;
  });
  assert.ok((await heightOfFrame()) <= 20_002, 'the height has a limit');
  assertClean();
});
