/**
 * A real browser on the portal of a real service: Debian's Chromium, driven by Playwright. A page that logs to its console, throws,
 * violates the Content-Security-Policy, or makes a request to another host fails its test. Pages do not animate, which takes CPU time.
 *
 * The files of a test process share the browser. A visit that was closed leaves its browser context to the next visit of the same file with
 * the same options: without cookies, stored data, routes, and pages, but with the HTTP cache and the compiled code, which makes the first
 * page of the next visit load in half the CPU time.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { TestContext } from 'node:test';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  type Cookie,
  chromium,
  type Page,
  type Request,
} from 'playwright-core';
import { buildPortal } from '../../scripts/build.ts';
import { keep } from './shared-resources.ts';
import type { Service } from './start-service.ts';

/** The build without windows takes about two thirds of the CPU time. */
const CHROMIUM = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((file) => existsSync(file));
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
  // These start fewer processes, which saves about a fifth of the CPU time.
  '--in-process-gpu',
  '--disable-site-isolation-trials',
  '--renderer-process-limit=1',
];
export const PASSWORD = 'correct horse battery staple';

/** Why browser tests are skipped; an error in CI. */
export function noBrowser(): string | false {
  if (CHROMIUM !== undefined) return false;
  if (process.env.CI) throw new Error('chromium is not installed, and CI requires it');
  return 'chromium is not installed';
}

export interface VisitOptions extends BrowserContextOptions {
  /** Installs Playwright's clock, which tests can move forward, before the first page loads. */
  hasClock?: boolean;
  /** Uses a new context, which has an empty cache, and does not leave it to another visit. */
  isNew?: boolean;
}

export interface Visit {
  page: Page;
  context: BrowserContext;
  /** Errors of the page so far: exceptions, policy violations, requests to other hosts. */
  wrong: string[];
  assertClean(): void;
  /** Ends the visit with all pages of its context. */
  close(): Promise<void>;
}

export interface Visitors {
  /** Opens a page without cookies and stored data, in a context that no other open visit uses. */
  visit(url: string, options?: VisitOptions): Promise<Visit>;
}

let shared: Browser | undefined;

/** Returns the browser of this process, or starts it. */
async function presentBrowser(): Promise<{ browser: Browser; end(): Promise<void> }> {
  if (shared?.isConnected()) return { browser: shared, end: async () => undefined };
  const browser = await chromium.launch({ executablePath: CHROMIUM!, args: ARGUMENTS });
  const end = (): Promise<void> => browser.close();
  if (!keep(end)) return { browser, end };
  shared = browser;
  return { browser, end: async () => undefined };
}

/** Removes everything that pages of the origin have stored. The given page must not have loaded anything yet. */
async function clearStorage(page: Page, origin: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  await session.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
  await session.detach();
}

/** Starts the browser of a test file. Call before the service starts: it builds the portal if that has changed. */
export async function startBrowser(): Promise<Visitors & { close(): Promise<void> }> {
  await buildPortal();
  const { browser, end } = await presentBrowser();
  /** Contexts of open visits. */
  const contexts = new Set<BrowserContext>();
  /** Contexts of closed visits, by their options. */
  const free = new Map<string, BrowserContext[]>();

  /** Makes a context with an empty page, which keeps the renderer process alive when the other pages of a visit close. */
  async function newContext(settings: BrowserContextOptions): Promise<BrowserContext> {
    const context = await browser.newContext(settings);
    await context.newPage();
    return context;
  }

  return {
    async close() {
      const all = [...contexts, ...[...free.values()].flat()];
      contexts.clear();
      free.clear();
      await Promise.all(all.map((one) => one.close()));
      await end();
    },
    async visit(url, { hasClock = false, isNew = false, ...options } = {}) {
      const settings = { baseURL: url, reducedMotion: 'reduce', ...options } as const;
      const kind = JSON.stringify([settings, hasClock]);
      const left = isNew ? undefined : free.get(kind)?.pop();
      const context = left ?? (await newContext(settings));
      contexts.add(context);
      const page = await context.newPage();
      if (left) await clearStorage(page, new URL(url).origin);
      if (hasClock) await page.clock.install();
      const wrong: string[] = [];
      page.on('pageerror', (error) => wrong.push(`threw: ${error.message}`));
      page.on('console', (message) => {
        // The browser reports refused requests itself; tests check them if relevant.
        const isRefusal = /^Failed to load resource: the server responded with a status of/.test(message.text());
        if (['error', 'warning'].includes(message.type()) && !isRefusal) wrong.push(`console: ${message.text()}`);
      });
      const onRequest = (request: Request): void => {
        const { host, protocol } = new URL(request.url());
        if (protocol.startsWith('http') && host !== new URL(url).host) wrong.push(`asked ${request.url()}`);
      };
      context.on('request', onRequest);
      return {
        page,
        context,
        wrong,
        assertClean: () => assert.deepEqual(wrong, []),
        async close() {
          // The test file has closed all of them, or the visit was closed before.
          if (!contexts.delete(context)) return;
          if (isNew) return context.close();
          context.off('request', onRequest);
          const [, ...pages] = context.pages();
          await Promise.all(pages.map((one) => one.close()));
          await context.unrouteAll({ behavior: 'ignoreErrors' });
          await context.clearCookies();
          free.set(kind, [...(free.get(kind) ?? []), context]);
        },
      };
    },
  };
}

/** Returns the URL of the first start's link, with this service's port. */
export function firstLink(service: Service): string {
  const firstRun = JSON.parse(readFileSync(path.join(service.dataDir, 'first-run.json'), 'utf8'));
  return service.url + new URL(firstRun.signInUrl).pathname + new URL(firstRun.signInUrl).hash;
}

/** Sets a password for the first operator without the page, once per service. */
export async function setFirstPassword(service: Service): Promise<{ email: string; password: string }> {
  const token = firstLink(service).split('#token=')[1];
  const answer = await service.anonymous.put('/password', { token, password: PASSWORD });
  assert.equal(answer.status, 200, answer.text);
  return { email: 'operator@localhost', password: PASSWORD };
}

/** Logs in without the page: the context has the cookie from then on. */
export async function signInAs(visit: Visit, credentials: { email: string; password: string }): Promise<void> {
  const answer = await visit.context.request.post('/session', {
    data: credentials,
    headers: { 'X-Requested-With': 'postrider' },
  });
  assert.equal(answer.status(), 200, await answer.text());
}

/** Sessions of the first operator, by service. */
const sessions = new WeakMap<Service, Cookie[]>();

/** Opens a page that is logged in as the first operator. Visits of the same service share the session as long as it is valid. */
export async function signedIn(
  t: TestContext,
  visitors: Visitors,
  service: Service,
  options?: VisitOptions,
): Promise<Visit> {
  const visit = await visitors.visit(service.url, options);
  t.after(() => visit.close());
  await visit.context.addCookies(sessions.get(service) ?? []);
  const present = await visit.context.request.get('/session');
  if (present.status() === 200) return visit;
  await signInAs(visit, { email: 'operator@localhost', password: PASSWORD });
  sessions.set(service, await visit.context.cookies());
  return visit;
}

/** Invites a user with this role to the account, and logs the user in. */
export async function invited(owner: Visit, visit: Visit, service: Service, role: string): Promise<void> {
  const email = `${role}@shop.example`;
  const answer = await owner.context.request.post('/users', {
    data: { email, role },
    headers: { 'X-Requested-With': 'postrider', 'X-Id': service.live.accountId, Origin: service.url },
  });
  assert.equal(answer.status(), 201, await answer.text());
  const { inviteUrl } = await answer.json();
  const token = new URL(inviteUrl).hash.replace('#token=', '');
  assert.equal((await service.anonymous.put('/password', { token, password: PASSWORD })).status, 200);
  await signInAs(visit, { email, password: PASSWORD });
}
