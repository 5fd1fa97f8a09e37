/** One request for a larger size limit: the limit and reason, who requests it, and the operator's decision. */
import { Anchor, Button, Group, Textarea } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { count, percent, size, Time } from '../../parts/time.tsx';
import { withUndo } from '../../parts/undo.tsx';
import { operators, approvals as texts } from '../../texts/operator.ts';
import classes from './operator.module.css';

type Request = Answer<'listApprovalRequests'>[number];

interface ApprovalRequestProps {
  request: Request;
  /** Called with false when the decision is undone. */
  onDecided(isDecided: boolean): void;
}

export function ApprovalRequest({ request, onDecided }: ApprovalRequestProps) {
  const { sender, status } = request;
  const asked = size(request.requestedEmailBytes);
  return (
    <Panel
      title={texts.asks(sender.name, asked)}
      actions={
        status === 'pending' ? <Decision request={request} onDecided={onDecided} /> : <StatusBadge status={status} />
      }
    >
      <div className={classes.columns}>
        <Facts
          of={[
            [texts.reason, request.reason],
            [texts.asked, <Time key="asked" at={request.createdAt} />],
            [texts.decided, request.decidedAt === null ? undefined : <Time key="decided" at={request.decidedAt} />],
            [texts.answer, request.decisionReason ?? undefined],
          ]}
        />
        <Facts
          of={[
            [
              texts.sender,
              <Group key="sender" gap="xs">
                <Anchor component={Link} to={`/app/operator/accounts/${request.accountId}`} inherit>
                  {sender.name}
                </Anchor>
                {operators.plans[sender.plan]}
                {sender.status === 'suspended' && <StatusBadge status={sender.status} />}
              </Group>,
            ],
            [texts.now, size(sender.approvedEmailBytes)],
            [texts.since, <Time key="since" at={sender.createdAt} />],
            [texts.messages, count(sender.messagesLast30Days)],
            [texts.bounces, percent(sender.bounceRate)],
            [texts.complaints, percent(sender.complaintRate)],
            [texts.earlier, texts.earlierOf(sender.approvedBefore, sender.rejectedBefore)],
          ]}
        />
      </div>
    </Panel>
  );
}

function Decision({ request, onDecided }: ApprovalRequestProps) {
  const [isRejecting, setRejecting] = useState(false);
  const approve = useChange('approveRequest', ['listApprovalRequests', 'getOperatorAccount']);
  const reject = useChange('rejectRequest', ['listApprovalRequests']);
  const { sender, approvalId: id } = request;
  const asked = size(request.requestedEmailBytes);
  const decide = (message: string, run: () => Promise<unknown>): void => {
    onDecided(true);
    withUndo({ message, run: () => run().then(() => onDecided(false)), onUndo: () => onDecided(false) });
  };
  return (
    <>
      <Button
        onClick={() => decide(texts.approvedMessage(sender.name, asked), () => approve.mutateAsync({ path: { id } }))}
      >
        {texts.approve(asked)}
      </Button>
      <Button variant="default" onClick={() => setRejecting(true)}>
        {texts.reject}
      </Button>
      {isRejecting && (
        <Rejection
          name={sender.name}
          onClose={() => setRejecting(false)}
          onReject={(reason) => {
            setRejecting(false);
            decide(texts.rejectedMessage(sender.name), () => reject.mutateAsync({ path: { id }, body: { reason } }));
          }}
        />
      )}
    </>
  );
}

interface RejectionProps {
  name: string;
  onClose(): void;
  onReject(reason: string): void;
}

function Rejection({ name, onClose, onReject }: RejectionProps) {
  const [reason, setReason] = useState('');
  return (
    <FormModal
      title={texts.rejectTitle(name)}
      submit={texts.rejectNow}
      isDisabled={reason.trim() === ''}
      onSubmit={() => onReject(reason.trim())}
      onClose={onClose}
    >
      <Textarea
        label={texts.rejectReason}
        description={texts.rejectHint}
        required
        data-autofocus
        autosize
        minRows={3}
        maxLength={1_000}
        value={reason}
        onChange={({ currentTarget }) => setReason(currentTarget.value)}
      />
    </FormModal>
  );
}
