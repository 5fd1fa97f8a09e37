/**
 * Row "portal": an account with a million messages: the list, a search that matches nearly all, a later page, and scrolling as fast as the
 * wheel goes, in Debian's Chromium. Times are from the click or key to the visible result. Frames without a row in the middle of the window
 * are counted.
 *
 * node bench/portal.ts [--messages 1000000] [--rounds 5] [--postgres 1]
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { PASSWORD, startBrowser } from '../test/kit/browser.ts';
import { tempPostgres } from '../test/kit/temp-postgres.ts';
import { fillPostgres, fillSqlite } from './fill-messages.ts';
import { median, onEnd, readArguments, row, shown, spread, table, WORK } from './lib.ts';
import { startService } from './service.ts';

const options = readArguments({ messages: 1_000_000, rounds: 5, postgres: 0 });

/** Prepares a stopped service's folder and database with messages of the first operator's account. */
async function prepare() {
  const folder = mkdtempSync(path.join(WORK, 'portal-'));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  const url = options.postgres ? (await tempPostgres()).url : undefined;
  const settings = url === undefined ? {} : { POSTRIDER_DATABASE_URL: url };
  const first = await startService(settings, folder);
  const { accountId, signInUrl } = JSON.parse(readFileSync(path.join(folder, 'first-run.json'), 'utf8'));
  const token = new URL(signInUrl).hash.slice('#token='.length);
  const body = JSON.stringify({ token, password: PASSWORD });
  await fetch(`${first.url}/password`, { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body });
  await first.stop();
  if (url === undefined) fillSqlite(folder, accountId, options.messages, 1);
  else await fillPostgres(url, accountId, options.messages, 1);
  return startService(settings, folder);
}

const ROWS = 'tbody tr[data-index]';

/** Returns the milliseconds until the condition holds in the page, checked in every frame. */
async function until(page: Page, act: () => Promise<unknown>, condition: string): Promise<number> {
  const began = performance.now();
  await act();
  await page.evaluate(`new Promise((resolve) => {
    const look = () => (${condition} ? resolve() : requestAnimationFrame(look));
    look();
  })`);
  return performance.now() - began;
}

/** Scrolls for this many frames; returns those without a row in the middle of the window, and the number of loaded rows. */
const scroll = (frames: number): string => `new Promise((resolve) => {
  let [left, blank] = [${frames}, 0];
  const step = () => {
    const middle = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
    if (middle?.closest('${ROWS}') == null) blank += 1;
    scrollBy(0, 240);
    left -= 1;
    if (left > 0) requestAnimationFrame(step);
    else resolve({ blank, rows: Number(document.querySelectorAll('${ROWS}')[0].dataset.index) });
  };
  requestAnimationFrame(step);
})`;

await row('portal', 3_600, async () => {
  const visitors = await startBrowser();
  onEnd(() => visitors.close());
  const service = await prepare();
  const times: Record<string, number[]> = {
    list: [],
    'search: one in 50 (bounced)': [],
    'search: a part, one in 1,000': [],
  };
  const [list, status, part] = Object.values(times) as [number[], number[], number[]];
  const blanks: number[] = [];
  for (let round = 0; round < options.rounds; round += 1) {
    const { page, context } = await visitors.visit(service.url);
    await context.request.post('/session', { data: { email: 'operator@localhost', password: PASSWORD } });
    await page.goto('/app/live/events');
    const hasRows = `document.querySelectorAll('${ROWS}').length > 10`;
    await page.getByRole('link', { name: 'Messages' }).waitFor();
    list.push(
      await until(
        page,
        () => page.getByRole('link', { name: 'Messages' }).click(),
        `document.title.startsWith('Messages') && ${hasRows}`,
      ),
    );
    const goTo = (query: string): Promise<unknown> =>
      page.evaluate(
        `history.pushState({}, '', '/app/live/messages?${query}'); dispatchEvent(new PopStateEvent('popstate'))`,
      );
    const all = (text: string): string =>
      `[...document.querySelectorAll('${ROWS}')].length > 0 && [...document.querySelectorAll('${ROWS}')].every((one) => one.textContent.includes('${text}'))`;
    status.push(await until(page, () => goTo('status=bounced'), all('Bounced')));
    part.push(await until(page, () => goTo('q=777%40'), all('777@')));
    await until(page, () => goTo(''), hasRows);
    const { blank } = await page.evaluate<{ blank: number; rows: number }>(scroll(300));
    blanks.push(blank);
    await context.close();
  }
  table(
    ['what is in sight', 'ms'],
    Object.entries(times).map(([name, of]) => [name, `${shown(median(of))} (${spread(of)})`]),
  );
  console.log(`\nscrolling 300 frames of 240 pixels: ${blanks.join(', ')} frames without a row`);
});
