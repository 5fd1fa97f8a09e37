/**
 * A real browser on the portal of a real service: Debian's Chromium, driven by Playwright. A page that logs to its console, throws,
 * violates the Content-Security-Policy, or makes a request to another host fails its test. Pages do not animate, which takes CPU time.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { buildPortal } from '../../scripts/build.ts';
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
];
export const PASSWORD = 'correct horse battery staple';

/** Why browser tests are skipped; an error in CI. */
export function noBrowser(): string | false {
  if (CHROMIUM !== undefined) return false;
  if (process.env.CI) throw new Error('chromium is not installed, and CI requires it');
  return 'chromium is not installed';
}

export interface Visit {
  page: Page;
  context: BrowserContext;
  /** Errors of the page so far: exceptions, policy violations, requests to other hosts. */
  wrong: string[];
  assertClean(): void;
}

export interface Visitors {
  browser: Browser;
  /** Opens a new browser context without shared state. */
  visit(url: string, options?: BrowserContextOptions): Promise<Visit>;
}

/** Starts the browser of a test file. Call before the service starts: it builds the portal if that has changed. */
export async function startBrowser(): Promise<Visitors & { close(): Promise<void> }> {
  await buildPortal();
  const browser = await chromium.launch({ executablePath: CHROMIUM!, args: ARGUMENTS });
  return {
    browser,
    close: () => browser.close(),
    async visit(url, options) {
      const context = await browser.newContext({ baseURL: url, reducedMotion: 'reduce', ...options });
      const page = await context.newPage();
      const wrong: string[] = [];
      page.on('pageerror', (error) => wrong.push(`threw: ${error.message}`));
      page.on('console', (message) => {
        // The browser reports refused requests itself; tests check them if relevant.
        const isRefusal = /^Failed to load resource: the server responded with a status of/.test(message.text());
        if (['error', 'warning'].includes(message.type()) && !isRefusal) wrong.push(`console: ${message.text()}`);
      });
      context.on('request', (request) => {
        const { host, protocol } = new URL(request.url());
        if (protocol.startsWith('http') && host !== new URL(url).host) wrong.push(`asked ${request.url()}`);
      });
      return { page, context, wrong, assertClean: () => assert.deepEqual(wrong, []) };
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

/** Starts a service and opens a page with a signed-in operator. */
export async function signedIn(t: TestContext, visitors: Visitors, service: Service, options?: BrowserContextOptions) {
  const visit = await visitors.visit(service.url, options);
  t.after(() => visit.context.close());
  await signInAs(visit, { email: 'operator@localhost', password: PASSWORD });
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
