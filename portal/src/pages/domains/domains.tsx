/** The sending domains, each with its next step. */
import { Button } from '@mantine/core';
import { useState } from 'react';
import { type Answer, usePages } from '../../api.ts';
import { IconPlus } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { LiveOnly } from '../../parts/notice.tsx';
import { useRemoval } from '../../parts/removal.ts';
import { type Column, Second } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { domains } from '../../texts/domains.ts';
import { AddDomain } from './add-domain.tsx';
import { DomainStatus, nextStepOf, SendingStops, statusText } from './domain-status.tsx';

type Domain = Answer<'listDomains'>[number];

const COLUMNS: readonly Column<Domain>[] = [
  { name: domains.name, cell: ({ domain }) => domain, text: ({ domain }) => domain, phone: 'title' },
  {
    name: domains.status,
    phone: 'badge',
    width: '11rem',
    cell: (domain) => <DomainStatus domain={domain} />,
    text: statusText,
  },
  {
    name: domains.next,
    phone: 'detail',
    cell: (domain) => (
      <>
        {nextStepOf(domain)}
        {domain.sendingStopsAt !== null && (
          <Second>
            <SendingStops at={domain.sendingStopsAt} />
          </Second>
        )}
      </>
    ),
    text: nextStepOf,
  },
  {
    name: domains.checked,
    phone: 'time',
    width: '9rem',
    cell: ({ checkedAt }) => (checkedAt === null ? domains.never : <Time at={checkedAt} />),
    text: ({ checkedAt }) => checkedAt,
  },
  {
    name: domains.added,
    width: '9rem',
    atEnd: true,
    cell: ({ createdAt }) => <Time at={createdAt} exact />,
    text: ({ createdAt }) => createdAt,
  },
];

export function DomainsPage() {
  const { mode, mayWrite } = useScope();
  const [isAdding, setAdding] = useState(false);
  const list = usePages('listDomains');
  const { isRemoved } = useRemoval('deleteDomain', ['listDomains']);
  const add = mayWrite && mode === 'live' && (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setAdding(true)}>
      {domains.add}
    </Button>
  );
  return (
    <ListPage
      title={domains.title}
      lead={domains.lead}
      primary={add}
      code={<AsCode operation="listDomains" />}
      notice={<LiveOnly>{domains.sandbox}</LiveOnly>}
      label={domains.list}
      columns={COLUMNS}
      list={list}
      rows={list.items?.filter(({ domainId }) => !isRemoved(domainId))}
      keyOf={({ domainId }) => domainId}
      href={({ domainId }) => `/app/${mode}/domains/${domainId}`}
      csvName="domains"
      empty={{
        title: domains.emptyTitle,
        hint: mayWrite ? domains.emptyHint : domains.emptyViewer,
        action: add,
      }}
    >
      {isAdding && <AddDomain onClose={() => setAdding(false)} />}
    </ListPage>
  );
}
