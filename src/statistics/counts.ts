/**
 * What an event counts as, and for whom: the one place where the log becomes numbers, for the rows that are stored and for what of the
 * log is not in them yet. An event counts in the hour and in the day of its own time.
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

/** Lengths in milliseconds; all of UTC, so that every period begins at a multiple of its length. */
export const PERIODS = { hour: 3_600_000, day: 86_400_000 } as const;
export type Period = keyof typeof PERIODS;

/** In the place of a group: all whose names are not kept. No tag, template or domain is called so. */
export const OTHERS = '*';

/** Counters of one group in one period. */
export interface Counted extends Record<Counter, number> {
  dimension: Dimension;
  period: Period;
  /** Unix ms. */
  start: number;
  /** Empty for dimension none, and for mail that has no tag or no template. */
  groupValue: string;
  deliveryMs: Histogram;
}

/** An event with what is counted of its message; null where that is not kept any more. */
export interface CountedEvent {
  type: EventType;
  at: number;
  /** JSON; only of the types in DETAILED. */
  detail: string | null;
  recipient: string | null;
  /** JSON array. */
  tags: string | null;
  template_id: string | null;
}

/** The types whose detail says what they count as. */
export const DETAILED: readonly EventType[] = ['Delivery', 'Bounce', 'Reject'];

interface Detail {
  delivery?: { latencyMs?: number };
  bounce?: { kind: keyof typeof BOUNCED };
  reject?: { reason: 'suppressed' | 'cancelled' };
}

const BOUNCED = { hard: 'bouncedHard', soft: 'bouncedSoft', block: 'bouncedBlock' } as const;

const PLAIN: Partial<Record<EventType, Counter>> = {
  Send: 'accepted',
  Delivery: 'delivered',
  DeliveryDelay: 'delayed',
  Complaint: 'complained',
  Open: 'opened',
  Click: 'clicked',
  Unsubscribe: 'unsubscribed',
};

/** Undefined of what is not counted: a message that was cancelled. */
function counterOf(type: EventType, detail: Detail): Counter | undefined {
  if (type === 'Bounce') return BOUNCED[detail.bounce?.kind ?? 'soft'];
  if (type === 'Reject') return detail.reject?.reason === 'suppressed' ? 'suppressed' : undefined;
  return PLAIN[type];
}

/** The groups that an event is counted in: a mail has one template and one domain, and any number of tags. */
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

/** What names the counters of a group in a period, within an account and mode. */
export type Key = Pick<Counted, 'dimension' | 'period' | 'start' | 'groupValue'>;

export function emptyCounted({ dimension, period, start, groupValue }: Key): Counted {
  return { dimension, period, start, groupValue, ...ZEROS, deliveryMs: new Map() };
}

/** Adds what the second has counted to the first. */
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
  /** Counters after which no further event is looked at. */
  countersAtMost?: number;
}

/** Counts the events; answers how many it has looked at, too. Those of a message that is not kept any more count nowhere. */
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
