/** This table describes the types of events. A new type in the API does not compile without an entry; lists, filters, and badges follow. */
import type { Event } from '../../../clients/typescript/src/schema.ts';
import type { Tone } from '../parts/tone.ts';

export type EventType = Event['eventType'];

interface EventTypeTexts {
  /** The timeline of a message shows this. */
  step: string;
  /** The form of a webhook shows this. */
  sentence: string;
  tone: Tone;
}

/** The order is that of a message's life. */
export const eventTexts: Record<EventType, EventTypeTexts> = {
  Send: { step: 'Accepted', sentence: 'Accepted by Postrider', tone: 'note' },
  Delivery: { step: 'Delivered', sentence: 'Delivered to the recipient’s mail server', tone: 'good' },
  DeliveryDelay: { step: 'Delayed', sentence: 'Delayed for the first time; Postrider retries', tone: 'wait' },
  Bounce: { step: 'Bounced', sentence: 'Permanently rejected or expired', tone: 'bad' },
  Complaint: { step: 'Spam complaint', sentence: 'Marked as spam by the recipient', tone: 'bad' },
  Reject: { step: 'Not sent', sentence: 'Not sent: suppressed or canceled', tone: 'calm' },
  Open: { step: 'Opened', sentence: 'Opened by the recipient', tone: 'calm' },
  Click: { step: 'Clicked', sentence: 'Link clicked by the recipient', tone: 'calm' },
  Unsubscribe: { step: 'Unsubscribed', sentence: 'Recipient unsubscribed', tone: 'calm' },
  Inbound: { step: 'Received', sentence: 'Inbound email received', tone: 'note' },
};

export const EVENT_TYPES = Object.keys(eventTexts) as EventType[];

/** Returns the type with this name, for example from a URL. */
export function eventTypeOf(name: string | undefined): EventType | undefined {
  return EVENT_TYPES.find((one) => one === name);
}
