/** The filters of the requests, stored in the page's URL. */
import { Button, Group, SegmentedControl, Select, TextInput } from '@mantine/core';
import { useMemo } from 'react';
import { type Answer, type Query, useCall } from '../../api.ts';
import { FilterField } from '../../parts/filter-field.tsx';
import { SavedFilters } from '../../parts/saved-filters.tsx';
import { useSearchState } from '../../search-state.ts';
import { requests } from '../../texts/requests.ts';

type RequestFilter = Query<'listRequests'>;

const NAMED = { query: { limit: 100 } };
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
/** Instead of a method: commands of SMTP sessions. */
const SMTP = 'SMTP';
const NONE = {
  status: undefined,
  method: undefined,
  key: undefined,
  code: undefined,
  message: undefined,
  since: undefined,
};

export const useKeys = (): Answer<'listApiKeys'> => useCall('listApiKeys', NAMED).data ?? [];

/** Dates of date fields are in the user's time zone. */
function beginOf(day: string | undefined): string | undefined {
  const at = new Date(`${day}T00:00:00`);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

export function useFilter(): RequestFilter {
  const [{ status, method, key, code, message, since }] = useSearchState();
  return useMemo(
    () => ({
      status: status !== undefined && status in requests.statuses && status !== '' ? status : 'all',
      method: METHODS.find((one) => one === method),
      source: method === SMTP ? ('smtp' as const) : undefined,
      keyId: key || undefined,
      code: code || undefined,
      messageId: message || undefined,
      since: beginOf(since),
    }),
    [status, method, key, code, message, since],
  );
}

export function Filters({ isFiltered }: { isFiltered: boolean }) {
  const [{ key, since = '' }, setSearch] = useSearchState();
  const { status: chosen, method, source } = useFilter();
  const status = chosen === 'all' ? '' : (chosen ?? '');
  const keys = useKeys().map(({ keyId, name }) => ({ value: keyId, label: name ?? keyId }));
  const unknownKey = key && !keys.some(({ value }) => value === key) ? [key] : [];
  return (
    <search aria-label={requests.filters}>
      <Group gap="sm" align="flex-end" mb="sm">
        <SegmentedControl
          size="xs"
          aria-label={requests.status}
          data={Object.entries(requests.statuses).map(([value, label]) => ({ value, label }))}
          value={status}
          onChange={(value) => setSearch({ status: value || undefined })}
        />
        <Select
          size="xs"
          label={requests.method}
          data={[{ value: '', label: requests.anyMethod }, ...METHODS, { value: SMTP, label: requests.smtp }]}
          value={source === undefined ? (method ?? '') : SMTP}
          onChange={(value) => setSearch({ method: value || undefined })}
          style={{ flex: '1 1 7rem' }}
        />
        <Select
          size="xs"
          label={requests.key}
          data={[{ value: '', label: requests.anyKey }, ...keys, ...unknownKey]}
          value={key ?? ''}
          onChange={(value) => setSearch({ key: value || undefined })}
          style={{ flex: '1 1 9rem' }}
        />
        <FilterField name="code" label={requests.code} width="9rem" />
        <FilterField name="message" label={requests.message} width="11rem" />
        <TextInput
          size="xs"
          label={requests.since}
          type="date"
          value={since}
          onChange={({ currentTarget }) => setSearch({ since: currentTarget.value || undefined })}
          style={{ flex: '1 1 8rem' }}
        />
        <SavedFilters list="requests" size="xs" />
        {isFiltered && (
          <Button variant="subtle" onClick={() => setSearch(NONE)}>
            {requests.clear}
          </Button>
        )}
      </Group>
    </search>
  );
}
