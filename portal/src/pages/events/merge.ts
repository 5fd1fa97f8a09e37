/** Pure functions of the event feed. */
import type { Event } from '../../../../clients/typescript/src/schema.ts';

export interface FeedFilter {
  messageId?: string;
  recipient?: string;
  eventType?: readonly string[];
  tag?: readonly string[];
  since?: string;
}

/** Applies the same filters as the service. */
export function matches(event: Event, { messageId, recipient, eventType = [], tag = [], since }: FeedFilter): boolean {
  return (
    (messageId === undefined || event.messageId === messageId) &&
    (recipient === undefined || event.recipient.toLowerCase() === recipient.toLowerCase()) &&
    (eventType.length === 0 || eventType.includes(event.eventType)) &&
    tag.every((one) => event.tags.includes(one)) &&
    (since === undefined || Date.parse(event.timestamp) >= Date.parse(since))
  );
}

const descending = (one: string, other: string): number => (one === other ? 0 : one < other ? 1 : -1);

/** Merges events without duplicates, newest first. */
export function merge(log: readonly Event[], arrived: readonly Event[]): Event[] {
  const byId = new Map([...log, ...arrived].map((event) => [event.eventId, event]));
  return [...byId.values()].sort(
    (one, other) => descending(one.timestamp, other.timestamp) || descending(one.eventId, other.eventId),
  );
}
