/** The filters of the events, stored in the page's URL. */
import { Button, Group, Select } from '@mantine/core';
import { useMemo } from 'react';
import { FilterField } from '../../parts/filter-field.tsx';
import { SavedFilters } from '../../parts/saved-filters.tsx';
import { useSearchState } from '../../search-state.ts';
import { events } from '../../texts/events.ts';
import type { EventFilter } from './feed.ts';

const TYPES = ['Send', 'Delivery', 'DeliveryDelay', 'Bounce', 'Complaint', 'Reject', 'Open', 'Click', 'Unsubscribe'];
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
  return useMemo(
    () => ({
      eventType: TYPES.includes(type ?? '') ? ([type] as EventFilter['eventType']) : undefined,
      recipient: recipient || undefined,
      tag: tag ? [tag] : undefined,
      messageId: message || undefined,
      since: sinceOf(since),
    }),
    [type, recipient, tag, message, since],
  );
}

export function Filters({ isFiltered }: { isFiltered: boolean }) {
  const [{ type, since }, setSearch] = useSearchState();
  const spans = Object.entries(events.sinceChoices).map(([value, label]) => ({ value, label }));
  const isTime = since !== undefined && !(since in SINCE_MS) && sinceOf(since) !== undefined;
  return (
    <search aria-label={events.filters}>
      <Group gap="sm" align="flex-end" mb="sm">
        <Select
          size="xs"
          label={events.type}
          data={[{ value: '', label: events.allTypes }, ...TYPES]}
          value={TYPES.includes(type ?? '') ? type! : ''}
          onChange={(value) => setSearch({ type: value ?? undefined })}
          style={{ flex: '1 1 8rem' }}
        />
        <FilterField name="recipient" label={events.recipient} width="13rem" />
        <FilterField name="tag" label={events.tag} width="7rem" />
        <FilterField name="message" label={events.message} width="11rem" />
        <Select
          size="xs"
          label={events.since}
          data={[{ value: '', label: events.anyTime }, ...spans, ...(isTime ? [since] : [])]}
          value={since !== undefined && (since in SINCE_MS || isTime) ? since : ''}
          onChange={(value) => setSearch({ since: value ?? undefined })}
          style={{ flex: '1 1 8rem' }}
        />
        <SavedFilters list="events" size="xs" />
        {isFiltered && (
          <Button
            variant="subtle"
            onClick={() =>
              setSearch({
                type: undefined,
                recipient: undefined,
                tag: undefined,
                message: undefined,
                since: undefined,
              })
            }
          >
            {events.clear}
          </Button>
        )}
      </Group>
    </search>
  );
}
