/** Requests for larger size limits, each with facts about the account, and the decision. */
import { Button, SegmentedControl, Stack } from '@mantine/core';
import { useState } from 'react';
import { usePages } from '../../api.ts';
import { Page } from '../../parts/page.tsx';
import { EmptyState, ErrorState, Loading } from '../../parts/states.tsx';
import { useSearchState } from '../../search-state.ts';
import { approvals } from '../../texts/operator.ts';
import { ApprovalRequest } from './approval-request.tsx';
import { forOperators } from './for-operators.tsx';

const STATUSES = (['pending', 'approved', 'rejected', 'all'] as const).map((value) => ({
  value,
  label: approvals[value],
}));

export const OperatorApprovalsPage = forOperators(approvals.title, ApprovalsContent);

function ApprovalsContent() {
  const [{ status: chosen }, search] = useSearchState();
  const status = STATUSES.find(({ value }) => value === chosen)?.value ?? 'pending';
  return (
    <Page title={approvals.title} lead={approvals.lead}>
      <Stack gap="md">
        <SegmentedControl
          aria-label={approvals.status}
          data={STATUSES}
          value={status}
          onChange={(value) => search({ status: value })}
          style={{ alignSelf: 'flex-start' }}
        />
        <Requests status={status} />
      </Stack>
    </Page>
  );
}

function Requests({ status }: { status: (typeof STATUSES)[number]['value'] }) {
  /** Requests whose decision can still be undone. */
  const [decided, setDecided] = useState<ReadonlySet<string>>(new Set());
  const query = { status: status === 'all' ? undefined : status };
  const list = usePages('listApprovalRequests', { query });
  const mark = (id: string, isDecided: boolean): void =>
    setDecided((before) => new Set(isDecided ? [...before, id] : [...before].filter((one) => one !== id)));
  if (list.items === undefined)
    return list.isError ? <ErrorState error={list.error} onRetry={list.refetch} /> : <Loading />;
  const shown = list.items.filter(({ approvalId }) => !decided.has(approvalId));
  if (shown.length === 0 && !list.hasNextPage)
    return (
      <EmptyState title={status === 'pending' ? approvals.none : approvals.noneOther}>
        {status === 'pending' ? approvals.noneHint : undefined}
      </EmptyState>
    );
  return (
    <Stack gap="md">
      {shown.map((request) => (
        <ApprovalRequest
          key={request.approvalId}
          request={request}
          onDecided={(isDecided) => mark(request.approvalId, isDecided)}
        />
      ))}
      {list.hasNextPage && (
        <Button
          variant="default"
          loading={list.isFetchingNextPage}
          onClick={() => void list.fetchNextPage()}
          style={{ alignSelf: 'flex-start' }}
        >
          {approvals.more}
        </Button>
      )}
    </Stack>
  );
}
