/** The state of a webhook: whether it is enabled, and its event types. */
import type { Answer } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { eventSentences, webhooks } from '../../texts/webhooks.ts';

export type Webhook = Answer<'getWebhook'>;
export type EventType = Webhook['events'][number];

export const EVENT_TYPES = Object.keys(eventSentences) as EventType[];

/** Returns the display name: the description, or the URL. */
export function nameOf({ description, url }: Webhook): string {
  return description || url;
}

export function eventsOf({ events }: Webhook): string {
  return events.length === EVENT_TYPES.length ? webhooks.every : events.join(', ');
}

export function WebhookState({ webhook }: { webhook: Webhook }) {
  if (webhook.enabled) return <Badge tone="good">{webhooks.enabled}</Badge>;
  return <Badge tone={webhook.disabledReason === undefined ? 'calm' : 'bad'}>{webhooks.disabled}</Badge>;
}
