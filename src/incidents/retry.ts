/**
 * Retries an incident: its messages become due one after another, or the failed deliveries of its webhook are sent again. Done in small
 * transactions; a repeat does not change messages that are already in progress.
 */

import { type Failure, failure, ok, type Result, refuse } from '../base/failure.ts';
import type { Owner } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { retryDeliveryOperation } from '../webhooks/webhooks.ts';
import type { DelayedIncident, Incident, WebhookIncident } from './incident.ts';
import { DELIVERIES_SCANNED } from './incidents.ts';
import { failedDeliveriesOperation, type RetriedPart, retryCauseOperation } from './store.ts';

const PART_ROWS = 500;
/** Maximum messages that one call makes due. */
const MOST_RETRIED = 50_000;
/** A thousand per second, faster than they can be sent, but not all at the same moment. */
const APART_MS = 1;

export interface Retried {
  retried: number;
  message: string;
}

export interface RetryOptions {
  database: Database;
  owner: Owner;
  /** Real time, and how far the clock of the owner's mode is ahead of it. */
  nowMs: number;
  clockOffsetMs: number;
  /** Called once before anything is changed. */
  onChange(requested: { messages: number } | { deliveries: number }): Promise<void>;
}

export function retryIncident(options: RetryOptions, incident: Incident): Promise<Result<Retried>> | Result<Retried> {
  if (incident.kind === 'delayed') return retryMessages(options, incident);
  if (incident.kind === 'webhook') return retryDeliveries(options, incident);
  return refuse(notRetried(incident.kind));
}

const NOT_RETRIED = {
  bounced:
    'Bounced messages cannot be retried. Once the cause is fixed, resend each message with POST /messages/{id}/resend.',
  domain: 'A domain cannot be retried. Publish its DNS record, then call POST /domains/{id}/verify.',
  reputation: 'Held mail cannot be retried. Once the cause is fixed, release it with POST /account/resume-sending.',
} as const;

function notRetried(kind: keyof typeof NOT_RETRIED): Failure {
  return failure('CONFLICT', { message: NOT_RETRIED[kind] });
}

async function retryMessages(options: RetryOptions, incident: DelayedIncident): Promise<Result<Retried>> {
  const { database, owner, nowMs } = options;
  const { cause, messages } = incident;
  const count = Math.min(messages, MOST_RETRIED);
  // Messages that a previous call has rescheduled are due by then.
  const latestMs = nowMs + count * APART_MS;
  await options.onChange({ messages });
  let retried = 0;
  for (let afterSeq: number | null = 0; afterSeq !== null && retried < MOST_RETRIED; ) {
    const limit = Math.min(PART_ROWS, MOST_RETRIED - retried);
    const part: RetriedPart = await database.execute(retryCauseOperation, {
      ...owner,
      cause,
      afterSeq,
      limit,
      nowMs,
      latestMs,
      done: retried,
      apartMs: APART_MS,
    });
    retried += part.retried;
    afterSeq = part.lastSeq;
  }
  const more = messages > MOST_RETRIED ? ' Repeat the call to retry the others.' : '';
  if (retried === 0) return ok({ retried, message: 'All messages of the incident are already due or being sent.' });
  const messagesText = retried === 1 ? '1 message' : `${retried} messages`;
  return ok({
    retried,
    message: `Retrying ${messagesText} as soon as the pauses and limits of the destination allow.${more}`,
  });
}

async function retryDeliveries(options: RetryOptions, { webhook }: WebhookIncident): Promise<Result<Retried>> {
  const { database, owner, nowMs, clockOffsetMs } = options;
  if (webhook.enabled === 0) {
    const message = `The webhook is disabled. Enable it with PATCH /webhooks/${webhook.id}, then retry.`;
    return refuse(failure('CONFLICT', { message }));
  }
  const deliveryIds = await database.execute(failedDeliveriesOperation, {
    webhookId: webhook.id,
    scanLimit: DELIVERIES_SCANNED,
    nowMs: nowMs + clockOffsetMs,
  });
  if (deliveryIds.length > 0) await options.onChange({ deliveries: deliveryIds.length });
  let retried = 0;
  for (const deliveryId of deliveryIds) {
    const done = await database.execute(retryDeliveryOperation, { ...owner, id: webhook.id, deliveryId, nowMs });
    if (done.found && done.enabled) retried += 1;
  }
  if (retried === 0) return ok({ retried, message: 'All deliveries of the incident are already being sent.' });
  return ok({ retried, message: `Sending ${retried} ${retried === 1 ? 'delivery' : 'deliveries'} again.` });
}
