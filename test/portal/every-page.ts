/** Every page of the portal, with content: the list of pages from the router's own table, and an account with data for each of them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import type { JsonObject } from '../kit/api.ts';
import type { Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const ROUTER = path.resolve(import.meta.dirname, '../../portal/src/router.tsx');

/** Settings of a service for seed(): its webhooks point to this machine. */
export const SEED_ENV = { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' };

export interface Seeded {
  /** Values for `$id` in the paths below an area. */
  ids: Record<string, string>;
}

/** Paths of the router, those of an account in both modes, with the ids of the created data. */
export function everyPage({ ids }: Seeded): string[] {
  const text = readFileSync(ROUTER, 'utf8');
  const block = (name: string): string[] => {
    const [, body = ''] = new RegExp(`const ${name} = \\[([\\s\\S]*?)\\n\\]`).exec(text) ?? [];
    return [...body.matchAll(/path: '([^']+)'/g)].map(([, one]) => one!);
  };
  const filled = (base: string, one: string): string[] => {
    const area = `${base.split('/')[2]}${one.replace('/$id', '')}`;
    if (!one.includes('$id')) return [base + (one === '/' ? '' : one)];
    return ids[area] === undefined ? [] : [base + one.replace('$id', ids[area])];
  };
  const [ofAccount, ofOperator] = [block('ofAccount'), block('ofOperator')];
  assert.ok(ofAccount.length > 20 && ofOperator.length > 5, 'the table of routes is read');
  return [
    '/sign-in',
    '/welcome',
    '/reset',
    '/shared',
    '/preview',
    '/app/live/no-such-page',
    ...['/app/live', '/app/sandbox'].flatMap((base) => ofAccount.flatMap((one) => filled(base, one))),
    ...ofOperator.flatMap((one) => filled('/app/operator', one)),
  ];
}

const RECIPIENTS = ['ann', 'bounced', 'delayed', 'complained', 'suppressed', 'ben'];

/** Creates data for every page; `text` is used in every field that strangers or colleagues can write. */
export async function seed(service: Service, text = 'Your order has shipped'): Promise<Seeded> {
  const [live, sandbox] = [service.api, service.sandboxApi];
  const made = async (answer: Promise<JsonObject>): Promise<JsonObject> => {
    const { status, body, text: said } = await answer;
    assert.ok(status < 300, said);
    return body;
  };
  const html = `<h1>Hello</h1><p>${text}</p><p><a href="https://shop.example/orders/17">Order 17</a>, code 481516</p>`;
  const ids: Record<string, string> = {};
  for (const recipient of RECIPIENTS) {
    const { data } = await made(
      sandbox.post('/send', {
        from: 'Shop <orders@shop.example>',
        to: `${recipient}@example.com`,
        subject: text,
        html,
        tags: ['order'],
        metadata: { note: text.slice(0, 100) },
      }),
    );
    ids['sandbox/messages'] ??= data.messageId;
    ids['sandbox/inbox'] ??= data.messageId;
  }
  await made(sandbox.post(`/messages/${ids['sandbox/messages']}/share`, { hideContent: true }));
  for (const [mode, api] of [
    ['live', live],
    ['sandbox', sandbox],
  ] as const) {
    const template = { name: `receipt-${mode}`, subject: 'Hello {{name}}', html: `${html}<p>{{name}}</p>` };
    ids[`${mode}/templates`] = (await made(api.post('/templates', template))).templateId;
    await made(api.post(`/templates/${ids[`${mode}/templates`]}/share`, { templateVariables: { name: text } }));
    const webhook = { url: 'http://127.0.0.1:9/hook', events: ['Delivery', 'Bounce'], description: text.slice(0, 200) };
    ids[`${mode}/webhooks`] = (await made(api.post('/webhooks', webhook))).webhookId;
    await made(api.post('/suppressions', { email: 'nobody@example.com', reason: 'manual' }));
    await api.post('/send', { from: text });
  }
  const route = await made(sandbox.post('/inbound-routes', { match: '*@in.shop.example' }));
  ids['sandbox/inbound-routes'] = route.inboundRouteId;
  const came = { to: 'support@in.shop.example', from: 'ann@example.com', subject: text, html };
  ids['sandbox/inbound'] = (await made(sandbox.post('/sandbox/inbound', came))).inboundId;
  const { domainId } = await made(live.post('/domains', { domain: 'shop.example' }));
  for (const mode of ['live', 'sandbox']) ids[`${mode}/domains`] = domainId;
  await made(live.post('/approvals', { requestedEmailBytes: 20_000_000, reason: text.slice(0, 200) }));
  // A name cannot have control characters.
  const keyName = text.replace(/\p{Cc}/gu, ' ').slice(0, 200);
  await service.cli('operator-key', 'create', `--name=${keyName}`, '--scope', 'read', '--expires', '90d');
  ids['operator/accounts'] = service.live.accountId;
  await waitUntil('the simulated outcomes', async () => {
    const { body } = await sandbox.get('/messages?status=delivered');
    return (body as unknown as JsonObject[]).length > 0;
  });
  return { ids };
}

/** Returns the path before /app of a page for users who are logged in; undefined for other pages. */
const baseOf = (url: URL): string | undefined => /^(.*?)\/app(?=\/|$)/.exec(url.pathname)?.[1];

/** Returns the path without its account or mode: `/domains` of `/app/live/domains`. */
const pageOf = (url: URL): string => url.pathname.replace(/^.*?\/app\/[^/]*/, '');

/**
 * Goes to a page as a link does, if the browser shows another page of the same portal. This takes a quarter of the CPU time of loading it.
 * Loads it otherwise, and if it is the same page of another account: the portal keeps the elements that both have, so no heading is new.
 */
export async function open(page: Page, at: string): Promise<void> {
  const present = new URL(page.url());
  if (baseOf(present) === undefined) return load(page, at);
  const target = new URL(at, present);
  const isSamePortal = target.origin === present.origin && baseOf(target) === baseOf(present);
  await (isSamePortal && pageOf(target) !== pageOf(present) ? follow : load)(page, at);
}

/** Loads the portal with this page and waits until it shows its content. */
export async function load(page: Page, at: string): Promise<void> {
  await page.goto(at);
  await page.locator('h1, h2').first().waitFor();
  // Not waitForFunction: the content security policy forbids its eval.
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
}

/**
 * Goes to a page of the portal as a link does, without loading the portal again, and waits until it shows its content: a heading that was
 * not there before. The portal shows data that is younger than five seconds without a request.
 */
export async function follow(page: Page, at: string): Promise<void> {
  await page.evaluate(`for (const one of document.querySelectorAll('h1, h2')) one.dataset.previous = '';
    history.pushState({}, '', ${JSON.stringify(at)})`);
  await page.locator(':is(h1, h2):not([data-previous])').first().waitFor();
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
}

interface Violation {
  id: string;
  nodes: { target: string[]; failureSummary: string }[];
}

/** Waits until animations end, because fading elements have wrong colors before; endless ones are ignored. */
export async function animationsEnded(page: Page): Promise<void> {
  const running =
    'document.getAnimations().filter(({ effect }) => Number.isFinite(effect.getComputedTiming().endTime)).length';
  // An animation that starts with the next frame does not exist yet.
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
  await waitUntil('the animations to end', async () => (await page.evaluate(running)) === 0);
}

/** The rules of axe whose result depends on colors. Further ones are of level AAA, and axe does not apply them by default. */
export const COLOR_RULES = ['color-contrast', 'link-in-text-block'];

/** Returns the violations that axe finds, of any level or only of the given rules, and whether the page scrolls sideways. */
export async function faultsOf(page: Page, rules?: readonly string[]): Promise<string[]> {
  await animationsEnded(page);
  // A page that was followed to still has it.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe.source);
  const options = JSON.stringify({ resultTypes: ['violations'], runOnly: rules });
  const violations = await page.evaluate<Violation[]>(
    `axe.run(document, ${options}).then(({ violations }) => violations)`,
  );
  const overflow = await page.evaluate<number>(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  );
  const found = violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${target}: ${failureSummary}`),
  );
  return [...found, ...(overflow > 0 ? [`scrolls sideways by ${overflow} px`] : [])];
}
