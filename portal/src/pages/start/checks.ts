/**
 * The items of the checklist, derived from current API responses. Without a response, an item is unknown: it is never shown as done unless
 * it was checked.
 */
import type { Answer } from '../../api.ts';
import { count } from '../../parts/time.tsx';
import { checklist } from '../../texts/start.ts';

export interface Check {
  name: string;
  state: 'done' | 'todo' | 'broken' | 'unknown';
  message: string;
  remedy?: string;
  /** Where to do it: a path below the live pages, and its name. */
  link?: { path: string; name: string };
}

/** A response, the reason why there is none, or neither while loading. */
export interface Asked<T> {
  data: T | undefined;
  error: Error | null;
}

function checked<T>(
  asked: Asked<T>,
  item: Pick<Check, 'name' | 'link'>,
  check: (data: T) => Pick<Check, 'state' | 'message'>,
): Check {
  if (asked.data !== undefined) return { ...item, ...check(asked.data) };
  return { ...item, state: 'unknown', message: asked.error?.message ?? checklist.looking };
}

export function domainCheck(asked: Asked<Answer<'listDomains'>>): Check {
  const item = { name: checklist.domain, link: { path: '/domains', name: checklist.toDomains } };
  return checked(asked, item, (domains) => {
    const of = (state: string) => domains.find((one) => (one.verifiedBy ?? one.status) === state)?.domain;
    const [verified, unsigned, failing, pending] = [of('dns'), of('operator'), of('failing'), of('pending')];
    if (verified !== undefined) return { state: 'done', message: checklist.domainDone(verified) };
    if (failing !== undefined) return { state: 'broken', message: checklist.domainFailing(failing) };
    if (unsigned !== undefined) return { state: 'todo', message: checklist.domainUnsigned(unsigned) };
    if (pending !== undefined) return { state: 'todo', message: checklist.domainPending(pending) };
    return { state: 'todo', message: checklist.domainNone };
  });
}

export function keyCheck(asked: Asked<Answer<'listApiKeys'>>): Check {
  const item = { name: checklist.key, link: { path: '/keys', name: checklist.toKeys } };
  return checked(asked, item, (keys) =>
    keys.some(({ mode }) => mode === 'live')
      ? { state: 'done', message: checklist.keyDone }
      : { state: 'todo', message: checklist.keyNone },
  );
}

export function smtpCheck(asked: Asked<Answer<'listSmtpCredentials'>>, plan: string | undefined): Check {
  const item = { name: checklist.smtp, link: { path: '/keys', name: checklist.toKeys } };
  if (plan === 'free') return { name: checklist.smtp, state: 'unknown', message: checklist.smtpPlan };
  return checked(asked, item, (credentials) =>
    credentials.some(({ mode }) => mode === 'live')
      ? { state: 'done', message: checklist.smtpDone }
      : { state: 'todo', message: checklist.smtpNone },
  );
}

export function webhookCheck(asked: Asked<Answer<'listWebhooks'>>): Check {
  const item = { name: checklist.webhook, link: { path: '/webhooks', name: checklist.toWebhooks } };
  return checked(asked, item, (webhooks) => {
    const enabled = webhooks.filter((one) => one.enabled);
    if (enabled.some(({ failingSince }) => failingSince === undefined))
      return { state: 'done', message: checklist.webhookDone };
    if (enabled.length > 0) return { state: 'broken', message: checklist.webhookFails };
    return { state: 'todo', message: webhooks.length > 0 ? checklist.webhookOff : checklist.webhookNone };
  });
}

export function healthCheck(asked: Asked<Answer<'getAccountHealth'>>): Check {
  const item = { name: checklist.health, link: { path: '', name: checklist.toOverview } };
  return checked(asked, item, ({ status, messages, periodDays, advice, thresholds, ...counts }) => {
    const { delivered, bounced, complained } = counts;
    const { minimumMessages } = thresholds.bounceRate;
    if (delivered + bounced + complained < minimumMessages && messages > 0)
      return { state: 'unknown', message: checklist.healthFew(minimumMessages) };
    if (messages === 0) return { state: 'unknown', message: checklist.healthNone };
    if (status === 'good') return { state: 'done', message: checklist.healthGood(count(messages), periodDays) };
    return { state: status === 'critical' ? 'broken' : 'todo', message: advice.join(' ') };
  });
}

const STATES = { ok: 'done', warn: 'todo', fail: 'broken', skip: 'unknown' } as const;
const URGENCY = { broken: 0, todo: 1, unknown: 2, done: 3 } as const;

/** Sorts items that need action first. */
export function doctorChecks({ checks }: Answer<'examineService'>): Check[] {
  return checks
    .map(({ name, status, message, remedy }) => ({
      name: name.charAt(0).toUpperCase() + name.slice(1),
      state: STATES[status],
      message,
      remedy,
    }))
    .sort((one, other) => URGENCY[one.state] - URGENCY[other.state]);
}
