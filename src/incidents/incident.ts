/**
 * An incident: an ongoing failure with one cause, and what to do about it. Its id is derived from the cause, so that it is stable while the
 * incident lasts and needs no row. Types, ids, and texts; pure.
 */
import { hash } from 'node:crypto';
import { ADVICE, reasonText, type SendingProtection } from '../accounts/accounts.ts';
import { iso } from '../base/clock.ts';
import type { Cause } from '../delivery/delivery.ts';
import type { DelayedGroup, FailingDomain, FailingWebhook, Sample } from './store.ts';

interface Common {
  incidentId: string;
  /** Sort key of incidents: the number of messages or webhook deliveries; domains and account-wide incidents come first. */
  weight: number;
}

export interface DelayedIncident extends Common, DelayedGroup {
  kind: 'delayed';
}

export interface BouncedIncident extends Common {
  kind: 'bounced';
  meaning: Cause;
  destination: string;
  reply: string | null;
  advice: string;
  messages: number;
  sinceMs: number;
  lastAtMs: number;
  /** Newest first. */
  messageIds: string[];
}

export interface WebhookIncident extends Common {
  kind: 'webhook';
  webhook: FailingWebhook;
}

export interface DomainIncident extends Common {
  kind: 'domain';
  domain: FailingDomain;
}

export interface ReputationIncident extends Common {
  kind: 'reputation';
  protection: SendingProtection;
}

export type Incident = DelayedIncident | BouncedIncident | WebhookIncident | DomainIncident | ReputationIncident;

export const INCIDENT_ID = /^inc_[0-9a-f]{20}$/;
const ID_CHARACTERS = 20;
/** Higher than any number of messages. */
const DOMAIN_WEIGHT = 1_000_000_000_000;

export function incidentId(kind: Exclude<Incident['kind'], 'delayed'>, of: string): string {
  return `inc_${hash('sha256', `${kind} ${of}`).slice(0, ID_CHARACTERS)}`;
}

/** The id of a delayed incident is the start of the cause in its rows, so it can be used to find them. */
export function delayedIncident(group: DelayedGroup): DelayedIncident {
  const incidentId = `inc_${group.cause.slice(0, ID_CHARACTERS)}`;
  return { kind: 'delayed', incidentId, weight: group.messages, ...group };
}

/** Returns the range of the causes of an incident in their index. */
export function causeRange(id: string): { from: string; below: string } {
  const prefix = id.slice('inc_'.length);
  return { from: `${prefix} `, below: `${prefix}!` };
}

export function webhookIncident(webhook: FailingWebhook): WebhookIncident {
  return { kind: 'webhook', incidentId: incidentId('webhook', webhook.id), weight: webhook.deliveries, webhook };
}

export function domainIncident(domain: FailingDomain): DomainIncident {
  return { kind: 'domain', incidentId: incidentId('domain', domain.id), weight: DOMAIN_WEIGHT, domain };
}

/** Returns the incident of an account that is warned, or whose live mail is held. */
export function reputationIncident(protection: SendingProtection): ReputationIncident {
  const id = incidentId('reputation', `${protection.accountId} ${protection.status} ${protection.sinceMs}`);
  return { kind: 'reputation', incidentId: id, weight: 2 * DOMAIN_WEIGHT, protection };
}

export function byWeight(a: Incident, b: Incident): number {
  return b.weight - a.weight || (a.incidentId < b.incidentId ? 1 : -1);
}

export interface DelayedWords {
  cause: Cause;
  advice: string;
  destination: string;
  sample: Sample;
  clockOffsetMs: number;
}

function deliveryBody(
  { category, owner, smtpCode, enhancedCode }: Cause,
  shown: { incidentId: string; state: 'delayed' | 'bounced'; destination: string; reply: string | null },
) {
  const { incidentId, state, destination, reply } = shown;
  return { incidentId, kind: 'delivery', state, destination, smtpCode, enhancedCode, reply, category, owner };
}

export function delayedBody(
  { incidentId, messages }: DelayedIncident,
  { cause, advice, destination, sample, clockOffsetMs }: DelayedWords,
) {
  const { sinceMs, nextDueMs, lastAtMs } = sample;
  return {
    ...deliveryBody(cause, { incidentId, state: 'delayed', destination, reply: sample.reply }),
    advice,
    messages,
    since: iso(sinceMs ?? lastAtMs),
    lastAt: iso(lastAtMs),
    nextAttemptAt: iso(nextDueMs + clockOffsetMs),
    sampleMessageIds: sample.messageIds,
  };
}

export function bouncedBody(one: BouncedIncident) {
  const { incidentId, destination, reply, advice, messages, sinceMs, lastAtMs, messageIds } = one;
  return {
    ...deliveryBody(one.meaning, { incidentId, state: 'bounced', destination, reply }),
    advice,
    messages,
    since: iso(sinceMs),
    lastAt: iso(lastAtMs),
    sampleMessageIds: messageIds,
  };
}

export function webhookBody({ incidentId, webhook }: WebhookIncident) {
  const { id, url, enabled, disabledReason, failingSince, updatedAt, deliveries, lastStatus, lastError } = webhook;
  const isDisabled = enabled === 0;
  const { host } = new URL(url);
  return {
    incidentId,
    kind: 'webhook',
    state: isDisabled ? 'disabled' : 'failing',
    webhookId: id,
    host,
    deliveries,
    lastStatus,
    lastError,
    ...(disabledReason !== null && isDisabled && { disabledReason }),
    owner: 'sender',
    advice: webhookAdvice(webhook, host),
    since: iso(failingSince ?? updatedAt),
    lastAt: iso(webhook.lastAtMs ?? updatedAt),
  };
}

function webhookAdvice({ id, enabled, lastStatus, lastError }: FailingWebhook, host: string): string {
  const problem = lastStatus === null ? (lastError ?? 'it cannot be reached') : `it returned ${lastStatus}`;
  if (enabled === 1)
    return `${host} must return 2xx within 15 s (${problem}). Postrider retries automatically, and disables the webhook after five days of failures.`;
  return `Fix ${host} (${problem}), enable the webhook with PATCH /webhooks/${id}, then retry this incident or replay the missed events.`;
}

export function domainBody({ incidentId, domain }: DomainIncident) {
  const { id, domain: name, selector, sinceMs, checkedAt } = domain;
  const record = { type: 'TXT', name: `${selector}._domainkey.${name}` };
  return {
    incidentId,
    kind: 'domain',
    state: 'failing',
    domainId: id,
    domain: name,
    record,
    owner: 'sender',
    advice: `Publish the TXT record ${record.name} again (GET /domains/${id}/dns-records has its value), then call POST /domains/${id}/verify. Until then, email from the domain fails DKIM. 24 hours after the record disappeared, Postrider rejects email from the domain.`,
    since: iso(sinceMs),
    lastAt: iso(checkedAt),
  };
}

export function reputationBody({ incidentId, protection }: ReputationIncident) {
  const { status, sinceMs, reason } = protection;
  const at = iso(sinceMs ?? 0);
  const advice =
    status === 'held'
      ? 'Once the cause is fixed, an owner can release the mail with POST /account/resume-sending. Until then, Postrider accepts live mail and holds it.'
      : 'Postrider still sends live mail. If the rate gets too high, Postrider holds live mail until an owner or the operator releases it.';
  return {
    incidentId,
    kind: 'reputation',
    state: status,
    rate: reason?.rate ?? null,
    owner: 'sender',
    reason: reason === null ? null : reasonText(reason),
    advice: reason === null ? advice : `${ADVICE[reason.rate]} ${advice}`,
    since: at,
    lastAt: at,
  };
}
