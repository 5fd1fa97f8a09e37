/**
 * Defines which counter an event increments, and for which groups: for the stored rows and for the part of the log that is not stored in
 * them yet. An event counts in the hour and in the day of its own time.
 */

import { asciiLower } from '../base/ascii-lower.ts';
import type { EventType } from '../events/events.ts';
import { domainToAscii } from '../mail/address.ts';
import { type Histogram, merge, observe } from './histogram.ts';

export const COUNTERS = [
  'accepted',
  'delivered',
  'bouncedHard',
  'bouncedSoft',
  'bouncedBlock',
  'delayed',
  'suppressed',
  'complained',
  'opened',
  'clicked',
  'unsubscribed',
] as const;
export type Counter = (typeof COUNTERS)[number];

export const DIMENSIONS = ['none', 'tag', 'template', 'recipientDomain'] as const;
export type Dimension = (typeof DIMENSIONS)[number];

/** How a call can group the counts: by a dimension, or by the mailbox provider, which is computed from the recipients' domains. */
export const GROUPINGS = [...DIMENSIONS, 'mailboxProvider'] as const;
export type GroupBy = (typeof GROUPINGS)[number];

/** Lengths in milliseconds, in UTC, so that every period starts at a multiple of its length. */
export const PERIODS = { hour: 3_600_000, day: 86_400_000 } as const;
export type Period = keyof typeof PERIODS;

/** Replaces a group name for all groups that are not kept by name. No tag, template, or domain has this name. */
export const OTHERS = '*';

/** Counters of one group in one period. */
export interface Counted extends Record<Counter, number> {
  dimension: Dimension;
  period: Period;
  /** Unix ms. */
  start: number;
  /** Empty for dimension none, and for mail without a tag or template. */
  groupValue: string;
  deliveryMs: Histogram;
}

/** An event with what is counted of its message; null if that is no longer stored. */
export interface CountedEvent {
  type: EventType;
  at: number;
  /** JSON; only for the types in DETAILED. */
  detail: string | null;
  recipient: string | null;
  /** JSON array. */
  tags: string | null;
  template_id: string | null;
}

/** Types whose detail decides the counter. */
export const DETAILED: readonly EventType[] = ['Delivery', 'Bounce', 'Reject'];

interface Detail {
  delivery?: { latencyMs?: number };
  bounce?: { kind: keyof typeof BOUNCED };
  reject?: { reason: 'suppressed' | 'cancelled' };
}

const BOUNCED = { hard: 'bouncedHard', soft: 'bouncedSoft', block: 'bouncedBlock' } as const;

/** Null: the detail decides, or the type is not counted. */
const PLAIN: Readonly<Record<EventType, Counter | null>> = {
  Send: 'accepted',
  Delivery: 'delivered',
  DeliveryDelay: 'delayed',
  Bounce: null,
  Complaint: 'complained',
  Reject: null,
  Open: 'opened',
  Click: 'clicked',
  Unsubscribe: 'unsubscribed',
  Inbound: null,
};

/** Returns undefined for what is not counted: a canceled message. */
function counterOf(type: EventType, detail: Detail): Counter | undefined {
  if (type === 'Bounce') return BOUNCED[detail.bounce?.kind ?? 'soft'];
  if (type === 'Reject') return detail.reject?.reason === 'suppressed' ? 'suppressed' : undefined;
  return PLAIN[type] ?? undefined;
}

/** Returns the groups of an event: a message has one template and one domain, and any number of tags. */
function groupsOf(event: CountedEvent, dimension: Dimension): string[] {
  if (dimension === 'none') return [''];
  if (dimension === 'template') return [event.template_id ?? ''];
  if (dimension === 'recipientDomain') return [domainOf(event.recipient!)];
  const tags = new Set<string>(JSON.parse(event.tags ?? '[]'));
  return tags.size === 0 ? [''] : [...tags];
}

function domainOf(recipient: string): string {
  const domain = recipient.slice(recipient.lastIndexOf('@') + 1).normalize('NFC');
  return domainToAscii(domain) ?? asciiLower(domain);
}

export const ZEROS = Object.fromEntries(COUNTERS.map((counter) => [counter, 0])) as Readonly<Record<Counter, number>>;

/** Identifies the counters of a group in a period, within an account and mode. */
export type Key = Pick<Counted, 'dimension' | 'period' | 'start' | 'groupValue'>;

export function emptyCounted({ dimension, period, start, groupValue }: Key): Counted {
  return { dimension, period, start, groupValue, ...ZEROS, deliveryMs: new Map() };
}

/** Adds the second counters to the first. */
export function addCounted(into: Counted, other: Counted): void {
  for (const counter of COUNTERS) into[counter] += other[counter];
  merge(into.deliveryMs, other.deliveryMs);
}

export function keyOf({ dimension, period, start, groupValue }: Key): string {
  return `${dimension} ${period} ${start} ${groupValue}`;
}

export interface Counting {
  dimensions: readonly Dimension[];
  periods: readonly Period[];
  /** Stop after this many counters. */
  countersAtMost?: number;
}

/** Counts the events; also returns how many it processed. Events of messages that are no longer stored are not counted. */
export function count(
  events: readonly CountedEvent[],
  { dimensions, periods, countersAtMost = Number.POSITIVE_INFINITY }: Counting,
): { counted: Counted[]; events: number } {
  const all = new Map<string, Counted>();
  let done = 0;
  for (; done < events.length && all.size < countersAtMost; done += 1) {
    const event = events[done]!;
    const detail = event.detail === null ? {} : (JSON.parse(event.detail) as Detail);
    const counter = event.recipient === null ? undefined : counterOf(event.type, detail);
    if (counter === undefined) continue;
    for (const dimension of dimensions) {
      for (const groupValue of groupsOf(event, dimension)) {
        for (const period of periods) {
          const start = Math.floor(event.at / PERIODS[period]) * PERIODS[period];
          const key = keyOf({ dimension, period, start, groupValue });
          let counted = all.get(key);
          if (!counted) {
            counted = emptyCounted({ dimension, period, start, groupValue });
            all.set(key, counted);
          }
          counted[counter] += 1;
          if (detail.delivery?.latencyMs !== undefined) observe(counted.deliveryMs, detail.delivery.latencyMs);
        }
      }
    }
  }
  return { counted: [...all.values()], events: done };
}
