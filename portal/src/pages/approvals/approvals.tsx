/** The message size limit of the account, requests for a larger one, and the operator's decisions. */
import { Anchor, Text } from '@mantine/core';
import { type Answer, useCall, usePages } from '../../api.ts';
import { basePath } from '../../base-path.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { LiveOnly } from '../../parts/notice.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { size, Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { approvals } from '../../texts/approvals.ts';
import classes from './approvals.module.css';
import { AskForMore } from './ask-for-more.tsx';

type Approval = Answer<'listApprovals'>[number];
type Limits = Answer<'getAccount'>['limits'];

/** Shows the operator's decision without a reload. */
const EVERY_MS = 10_000;
const DOCS = `${basePath}/docs#/attachments/registerAttachments`;

const COLUMNS: readonly Column<Approval>[] = [
  {
    name: approvals.asked,
    phone: 'title',
    width: '7rem',
    cell: ({ requestedEmailBytes }) => size(requestedEmailBytes),
  },
  {
    name: approvals.status,
    phone: 'badge',
    width: '7rem',
    cell: ({ status }) => <StatusBadge status={status} />,
  },
  {
    name: approvals.answer,
    cell: (approval) => <Meaning {...approval} />,
  },
  { name: approvals.why, phone: 'detail', cell: ({ reason }) => reason },
  {
    name: approvals.when,
    phone: 'time',
    width: '8rem',
    atEnd: true,
    cell: ({ createdAt }) => <Time at={createdAt} exact />,
  },
];

function Meaning({ status, requestedEmailBytes, decisionReason }: Approval) {
  const { meanings, words } = approvals;
  return (
    <>
      {status === 'approved' ? meanings.approved(size(requestedEmailBytes)) : meanings[status]}
      {decisionReason !== undefined && (
        <Text inherit fs="italic">
          {words(decisionReason)}
        </Text>
      )}
    </>
  );
}

export function ApprovalsPage() {
  const list = usePages('listApprovals', {}, { everyMs: EVERY_MS });
  const account = useCall('getAccount', {}, { everyMs: EVERY_MS });
  return (
    <Page title={approvals.title} lead={approvals.lead} code={<AsCode operation="listApprovals" />}>
      <LiveOnly>{approvals.sandbox}</LiveOnly>
      <div className={classes.stack}>
        {account.data === undefined && !account.error && <Loading />}
        {account.data === undefined && account.error && <ErrorState error={account.error} onRetry={account.refetch} />}
        {account.data !== undefined && <Limit limits={account.data.limits} />}
        <Panel title={approvals.list}>
          <Rows
            label={approvals.list}
            columns={COLUMNS}
            list={list}
            keyOf={({ approvalId }) => approvalId}
            empty={{ title: approvals.emptyTitle, hint: approvals.emptyHint }}
          />
        </Panel>
      </div>
    </Page>
  );
}

function Limit({ limits }: { limits: Limits }) {
  const { mode, mayOwn } = useScope();
  const { approvedEmailBytes: approved, maximumEmailBytes: standard, maximumFinalMimeBytes: most } = limits;
  return (
    <>
      <Panel title={approvals.now}>
        <Facts
          of={[
            [approvals.withFiles, <strong key="approved">{size(Math.max(approved, standard))}</strong>],
            [approvals.withoutFiles, size(standard)],
            [approvals.most, size(most)],
          ]}
        />
        <Text c="dimmed" mt="sm" maw="46rem">
          {approvals.meaning(size(standard))}{' '}
          <Anchor href={DOCS} target="_blank" rel="noopener noreferrer">
            {approvals.docs}
          </Anchor>
        </Text>
      </Panel>
      {mode === 'live' && (
        <Panel title={approvals.ask}>
          {approved >= most && <Text>{approvals.whole}</Text>}
          {approved < most && !mayOwn && <Text>{approvals.ownersOnly}</Text>}
          {approved < most && mayOwn && <AskForMore leastBytes={Math.max(approved, standard)} mostBytes={most} />}
        </Panel>
      )}
    </>
  );
}
