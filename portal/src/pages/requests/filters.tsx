/** The filters of the requests, stored in the page's URL. */
import { SegmentedControl } from '@mantine/core';
import { useMemo } from 'react';
import { type Answer, type Query, useCall } from '../../api.ts';
import { timeOfDay } from '../../parts/days.ts';
import { FilterChoice, FilterDate, Filters } from '../../parts/filters.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { useSearchState } from '../../search-state.ts';
import { requests } from '../../texts/requests.ts';

type RequestFilter = Query<'listRequests'>;

const NAMED = { query: { limit: 100 } };
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
/** Instead of a method: commands of SMTP sessions. */
const SMTP = 'SMTP';

export const useKeys = (): Answer<'listApiKeys'> => useCall('listApiKeys', NAMED).data ?? [];

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
      since: timeOfDay(since, '00:00:00'),
    }),
    [status, method, key, code, message, since],
  );
}

export function RequestFilters() {
  const [{ status = '' }, setSearch] = useSearchState();
  const keys = useKeys().map(({ keyId, name }) => ({ value: keyId, label: name ?? keyId }));
  return (
    <Filters
      label={requests.filters}
      of="requests"
      isLong
      rare={{
        fields: ['code', 'message', 'since'],
        content: (
          <>
            <SearchField name="code" label={requests.code} />
            <SearchField name="message" label={requests.message} />
            <FilterDate name="since" label={requests.since} />
          </>
        ),
      }}
    >
      <SegmentedControl
        aria-label={requests.status}
        data={Object.entries(requests.statuses).map(([value, label]) => ({ value, label }))}
        value={status in requests.statuses ? status : ''}
        onChange={(value) => setSearch({ status: value || undefined })}
      />
      <FilterChoice
        name="method"
        label={requests.method}
        width="8rem"
        any={requests.anyMethod}
        data={[...METHODS, { value: SMTP, label: requests.smtp }]}
      />
      <FilterChoice name="key" width="8.5rem" label={requests.key} any={requests.anyKey} data={keys} hasOthers />
    </Filters>
  );
}
