/** The filters of the events, stored in the page's URL. */
import { useMemo } from 'react';
import { FilterChoice, Filters } from '../../parts/filters.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { useSearchState } from '../../search-state.ts';
import { EVENT_TYPES, eventTypeOf } from '../../texts/event-types.ts';
import { events } from '../../texts/events.ts';
import type { EventFilter } from './feed.ts';

const DAY_MS = 86_400_000;
const SINCE_MS: Readonly<Record<string, number>> = {
  '1h': DAY_MS / 24,
  '1d': DAY_MS,
  '7d': 7 * DAY_MS,
  '30d': 30 * DAY_MS,
};
/** A time in the URL is absolute, so a link shows the same events tomorrow; a span starts when the page was opened. */
function sinceOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (text in SINCE_MS) return new Date(Date.now() - SINCE_MS[text]!).toISOString();
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? undefined : new Date(atMs).toISOString();
}

export function useFilter(): EventFilter {
  const [{ type, recipient, tag, message, since }] = useSearchState();
  return useMemo(() => {
    const eventType = eventTypeOf(type);
    return {
      eventType: eventType && [eventType],
      recipient: recipient || undefined,
      tag: tag ? [tag] : undefined,
      messageId: message || undefined,
      since: sinceOf(since),
    };
  }, [type, recipient, tag, message, since]);
}

export function EventFilters() {
  const [{ since }] = useSearchState();
  const spans = Object.entries(events.sinceChoices).map(([value, label]) => ({ value, label }));
  return (
    <Filters
      label={events.filters}
      of="events"
      isLong
      rare={{
        fields: ['tag', 'message'],
        content: (
          <>
            <SearchField name="tag" label={events.tag} />
            <SearchField name="message" label={events.message} />
          </>
        ),
      }}
    >
      <FilterChoice name="type" width="9rem" label={events.type} any={events.allTypes} data={EVENT_TYPES} />
      <SearchField name="recipient" label={events.recipient} width="13rem" />
      <FilterChoice
        name="since"
        width="8.5rem"
        label={events.since}
        any={events.anyTime}
        data={spans}
        hasOthers={sinceOf(since) !== undefined}
      />
    </Filters>
  );
}
