/** All accounts: search by name, status and plan, and create. */
import { Button } from '@mantine/core';
import { useState } from 'react';
import { type Answer, usePages } from '../../api.ts';
import { IconPlus } from '../../icons.ts';
import { FilterChoice, Filters } from '../../parts/filters.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import type { Column } from '../../parts/rows.tsx';
import { SearchField } from '../../parts/search-field.tsx';
import { size, Time } from '../../parts/time.tsx';
import { useSearchState } from '../../search-state.ts';
import { accounts, operators } from '../../texts/operator.ts';
import { AccountStatus, type ShownStatus, shownStatusOf } from './account-status.tsx';
import { CreateAccount } from './create-account.tsx';
import { forOperators } from './for-operators.tsx';

type Account = Answer<'listAccounts'>[number];

const PLANS = (['free', 'paid', 'enterprise'] as const).map((value) => ({ value, label: operators.plans[value] }));
const STATUSES = (['active', 'warned', 'held', 'suspended'] as const).map((value) => ({
  value,
  label: accounts.statuses[value],
}));

export const AccountsPage = forOperators(accounts.title, AccountsContent);

function AccountsContent() {
  const [{ name, ...search }] = useSearchState();
  const plan = PLANS.find(({ value }) => value === search.plan)?.value;
  const status = STATUSES.find(({ value }) => value === search.status)?.value;
  const [isCreating, setCreating] = useState(false);
  const list = usePages('listAccounts', { query: { name, plan, ...queryOf(status) } });
  const isFiltered = Boolean(name || plan || status);
  const create = (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setCreating(true)}>
      {accounts.create}
    </Button>
  );
  return (
    <ListPage
      title={accounts.title}
      primary={create}
      filters={
        <Filters of={['name', 'status', 'plan']}>
          <SearchField name="name" label={accounts.search} width="15rem" isMain />
          <FilterChoice name="status" label={accounts.status} any={accounts.anyStatus} data={STATUSES} />
          <FilterChoice name="plan" label={accounts.plan} any={accounts.anyPlan} data={PLANS} />
        </Filters>
      }
      columns={COLUMNS}
      list={list}
      keyOf={({ accountId }) => accountId}
      href={({ accountId }) => `/app/operator/accounts/${accountId}`}
      empty={
        isFiltered
          ? { title: accounts.noneFound, hint: accounts.noneFoundHint }
          : { title: accounts.none, action: create }
      }
      csvName="accounts"
    >
      {isCreating && <CreateAccount onClose={() => setCreating(false)} plans={PLANS} />}
    </ListPage>
  );
}

/** For the API, warned and held accounts are active ones in this state of sending protection. */
function queryOf(status: ShownStatus | undefined) {
  return status === 'warned' || status === 'held' ? { sendingProtection: status } : { status };
}

const COLUMNS: readonly Column<Account>[] = [
  { name: accounts.name, phone: 'title', cell: ({ name }) => name, text: ({ name }) => name },
  {
    name: accounts.status,
    phone: 'badge',
    cell: (one) => <AccountStatus account={one} />,
    text: shownStatusOf,
    width: '9rem',
  },
  {
    name: accounts.plan,
    phone: 'detail',
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
    phone: 'time',
    cell: ({ createdAt }) => <Time at={createdAt} />,
    text: ({ createdAt }) => createdAt,
    width: '8rem',
    atEnd: true,
  },
];
