/** All accounts: search by name, status and plan, and create. */
import { Button, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useState } from 'react';
import { type Answer, type Query, usePages } from '../../api.ts';
import { IconPlus, IconSearch } from '../../icons.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { Page } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { size, Time } from '../../parts/time.tsx';
import { useSearchState } from '../../search-state.ts';
import { accounts, operators } from '../../texts/operator.ts';
import { CreateAccount } from './create-account.tsx';
import { forOperators } from './for-operators.tsx';
import classes from './operator.module.css';

type Account = Answer<'listAccounts'>[number];

const PLANS = (['free', 'paid', 'enterprise'] as const).map((value) => ({ value, label: operators.plans[value] }));

export const AccountsPage = forOperators(accounts.title, AccountsContent);

function AccountsContent() {
  const [{ name, plan, status }] = useSearchState();
  const [isCreating, setCreating] = useState(false);
  const list = usePages('listAccounts', { query: { name, plan, status } as Query<'listAccounts'> });
  const isFiltered = Boolean(name || plan || status);
  const create = (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setCreating(true)}>
      {accounts.create}
    </Button>
  );
  return (
    <Page title={accounts.title} actions={create}>
      <Filters />
      <Rows
        label={accounts.title}
        columns={COLUMNS}
        rows={list.items}
        keyOf={({ accountId }) => accountId}
        href={({ accountId }) => `/app/operator/accounts/${accountId}`}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={
          isFiltered
            ? { title: accounts.noneFound, hint: accounts.noneFoundHint }
            : { title: accounts.none, action: create }
        }
        csvName="accounts"
      />
      <CreateAccount isOpen={isCreating} onClose={() => setCreating(false)} plans={PLANS} />
    </Page>
  );
}

function Filters() {
  const [{ name = '', plan = '', status = '' }, search] = useSearchState();
  const [typed, setTyped] = useState(name);
  const find = useDebouncedCallback((text: string) => search({ name: text.trim() }, { typed: true }), 250);
  return (
    <search className={classes.filters}>
      <TextInput
        label={accounts.search}
        placeholder={accounts.searchHint}
        leftSection={<IconSearch size={14} aria-hidden />}
        value={typed}
        onChange={({ currentTarget }) => {
          setTyped(currentTarget.value);
          find(currentTarget.value);
        }}
      />
      <Select
        label={accounts.status}
        value={status}
        data={[
          { value: '', label: accounts.anyStatus },
          { value: 'active', label: accounts.active },
          { value: 'suspended', label: accounts.suspended },
        ]}
        onChange={(value) => search({ status: value ?? '' })}
      />
      <Select
        label={accounts.plan}
        value={plan}
        data={[{ value: '', label: accounts.anyPlan }, ...PLANS]}
        onChange={(value) => search({ plan: value ?? '' })}
      />
    </search>
  );
}

const COLUMNS: readonly Column<Account>[] = [
  { name: accounts.name, cell: ({ name }) => name, text: ({ name }) => name },
  {
    name: accounts.status,
    cell: ({ status }) => <StatusBadge status={status} />,
    text: ({ status }) => status,
    width: '8rem',
  },
  {
    name: accounts.plan,
    cell: ({ plan }) => operators.plans[plan],
    text: ({ plan }) => plan,
    width: '8rem',
  },
  {
    name: accounts.size,
    cell: ({ approvedEmailBytes }) => size(approvedEmailBytes),
    text: ({ approvedEmailBytes }) => approvedEmailBytes,
    width: '7rem',
    atEnd: true,
  },
  {
    name: accounts.id,
    cell: ({ accountId }) => <span className="mono">{accountId}</span>,
    text: ({ accountId }) => accountId,
    width: '16rem',
  },
  {
    name: accounts.made,
    cell: ({ createdAt }) => <Time at={createdAt} />,
    text: ({ createdAt }) => createdAt,
    width: '8rem',
    atEnd: true,
  },
];
