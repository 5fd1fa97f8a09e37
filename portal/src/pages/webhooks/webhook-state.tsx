/** The state of a webhook: whether it is enabled and its deliveries succeed, and its types of events. */
import type { Answer } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { Second } from '../../parts/rows.tsx';
import { sentence } from '../../parts/sentence.ts';
import { Time } from '../../parts/time.tsx';
import { EVENT_TYPES } from '../../texts/event-types.ts';
import { webhooks } from '../../texts/webhooks.ts';

export type Webhook = Answer<'getWebhook'>;

/** Returns the display name: the description, or the URL. */
export function nameOf({ description, url }: Webhook): string {
  return description || url;
}

export function eventsOf({ events }: Webhook): string {
  return events.length === EVENT_TYPES.length ? webhooks.every : events.join(', ');
}

/** Returns the name of the state in the list and on the page of a webhook. */
export function stateOf({ enabled, failingSince }: Webhook): string {
  if (!enabled) return webhooks.disabled;
  return failingSince === undefined ? webhooks.enabled : webhooks.failing;
}

export function WebhookState({ webhook }: { webhook: Webhook }) {
  const { enabled, failingSince, disabledReason } = webhook;
  const isBad = enabled ? failingSince !== undefined : disabledReason !== undefined;
  return <Badge tone={isBad ? 'bad' : enabled ? 'good' : 'calm'}>{stateOf(webhook)}</Badge>;
}

/** Below the state in the list: why the webhook is disabled, or since when it fails and when Postrider tries again. */
export function StateReason({ webhook }: { webhook: Webhook }) {
  const { enabled, failingSince, disabledReason } = webhook;
  if (!enabled) return <Second>{disabledReason === undefined ? webhooks.byHand : sentence(disabledReason)}</Second>;
  return failingSince !== undefined && <FailingSince webhook={webhook} since={failingSince} />;
}

function FailingSince({ webhook: { nextAttemptAt }, since }: { webhook: Webhook; since: string }) {
  return (
    <>
      <Second>
        {webhooks.since} <Time at={since} exact />
      </Second>
      {nextAttemptAt !== undefined && (
        <Second>
          {webhooks.nextAttempt} <Time at={nextAttemptAt} />
        </Second>
      )}
    </>
  );
}
