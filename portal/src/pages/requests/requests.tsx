/** Requests refused in the last seven days, over HTTP and SMTP; each row opens next to the list. */
import { Button, Drawer, Group, Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { type Answer, type Query, useCall, usePages } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { useSearchState } from '../../router.tsx';
import { requests } from '../../texts/requests.ts';
import { RequestDetail } from './detail.tsx';

export type RefusedRequest = Answer<'listRefusedRequests'>[number];

const EVERY_MS = 10_000;
const NAMED = { query: { limit: 100 } };

export const callOfRequest = ({ endpoint, verb }: RefusedRequest): string => endpoint ?? verb ?? requests.unknownVerb;

/** Returns the caller's name, if it has one. */
function useCallers(): (one: RefusedRequest) => string {
  const keys = useCall('listApiKeys', NAMED).data ?? [];
  return ({ keyId, smtpCredentialId }) => {
    const key = keys.find((one) => one.keyId === keyId)?.name;
    return key ?? keyId ?? smtpCredentialId ?? '';
  };
}

const columnsOf = (callerOf: (one: RefusedRequest) => string): readonly Column<RefusedRequest>[] => [
  { name: requests.columns.why, cell: ({ message }) => message, text: ({ message }) => message, width: '42%' },
  {
    name: requests.columns.code,
    cell: ({ status, code }) => (
      <span className="mono">
        {status} {code}
      </span>
    ),
    text: ({ status, code }) => `${status} ${code}`,
  },
  {
    name: requests.columns.call,
    cell: (one) => <span className="mono">{callOfRequest(one)}</span>,
    text: callOfRequest,
  },
  {
    name: requests.columns.who,
    cell: callerOf,
    text: callerOf,
  },
  { name: requests.columns.when, cell: ({ time }) => <Time at={time} />, text: ({ time }) => time, width: '7rem' },
];

/** Dates of date fields are in the user's time zone. */
const beginOf = (day: string | undefined): string | undefined => {
  const at = new Date(`${day}T00:00:00`);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
};

export function RequestsPage() {
  const [{ source, code, since }, setSearch] = useSearchState();
  const [opened, open] = useState<RefusedRequest>();
  const query: Query<'listRefusedRequests'> = {
    source: source === 'api' || source === 'smtp' ? source : undefined,
    code,
    since: beginOf(since),
  };
  const list = usePages('listRefusedRequests', { query }, { everyMs: EVERY_MS });
  const isFiltered = Boolean(source || code || since);
  return (
    <Page
      title={requests.title}
      lead={requests.lead}
      actions={<AsCode operation="listRefusedRequests" input={{ query }} />}
    >
      <Filters isFiltered={isFiltered} />
      <Rows
        label={requests.title}
        columns={columnsOf(useCallers())}
        rows={list.items}
        keyOf={keyOf(list.items ?? [])}
        onOpen={(one) => open(one)}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={{ title: requests.none, hint: isFiltered ? requests.noneFiltered : requests.noneHint }}
        csvName="refused-requests"
      />
      <Drawer
        opened={opened !== undefined}
        onClose={() => open(undefined)}
        position="right"
        size="lg"
        title={opened?.code}
      >
        {opened !== undefined && (
          <RequestDetail
            of={opened}
            onSame={() => {
              setSearch({ code: opened.code });
              open(undefined);
            }}
          />
        )}
      </Drawer>
    </Page>
  );
}

/** The refused messages of a batch share one id. */
function keyOf(items: readonly RefusedRequest[]): (one: RefusedRequest) => string {
  const numbers = new Map(items.map((one, at) => [one, items.length - at]));
  return (one) => `${one.requestId} ${numbers.get(one)}`;
}

function Filters({ isFiltered }: { isFiltered: boolean }) {
  const [{ source = '', code = '', since = '' }, setSearch] = useSearchState();
  return (
    <Group gap="sm" align="end" mb="sm">
      <Select
        label={requests.source}
        w="10rem"
        value={source}
        data={Object.entries(requests.sources).map(([value, label]) => ({ value, label }))}
        onChange={(value) => setSearch({ source: value ?? undefined })}
      />
      <TextInput
        label={requests.code}
        placeholder={requests.codePlaceholder}
        w="16rem"
        value={code}
        onChange={({ currentTarget }) => setSearch({ code: currentTarget.value.trim() }, { typed: true })}
      />
      <TextInput
        label={requests.since}
        type="date"
        value={since}
        onChange={({ currentTarget }) => setSearch({ since: currentTarget.value })}
      />
      {isFiltered && (
        <Button
          variant="subtle"
          onClick={() => setSearch({ source: undefined, code: undefined, since: undefined })}
          size="sm"
        >
          {requests.clear}
        </Button>
      )}
    </Group>
  );
}
