/** Suspends an account after showing the effect, and makes it active again. */
import { Button, Group, Stack, Text, Textarea } from '@mantine/core';
import { useState } from 'react';
import { type Answer, useCall, useChange } from '../../api.ts';
import { Facts, Panel } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { count } from '../../parts/time.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { account as texts } from '../../texts/operator.ts';

type Account = Answer<'getOperatorAccount'>;

export function SuspensionPanel({ account: { accountId, status, suspensionReason } }: { account: Account }) {
  const [reason, setReason] = useState('');
  const [isAsked, setAsked] = useState(false);
  const change = useChange('setAccount', [
    'getOperatorAccount',
    'previewSuspension',
    'listAccounts',
    'listServiceAuditEntries',
  ]);
  const isSuspended = status === 'suspended';
  const become = (next: Account['status']): void =>
    change.mutate(
      {
        path: { id: accountId },
        body: {
          status: next,
          ...(next === 'suspended' && reason.trim() !== '' && { suspensionReason: reason.trim() }),
        },
      },
      {
        onSuccess() {
          setAsked(false);
          setReason('');
          done(next === 'active' ? texts.activated : texts.suspendedNow);
        },
        onError: failed,
      },
    );
  if (!isAsked && !isSuspended)
    return (
      <Panel title={texts.suspension}>
        <Button variant="default" onClick={() => setAsked(true)}>
          {texts.suspend}
        </Button>
      </Panel>
    );
  return (
    <Panel title={texts.suspension}>
      <Stack gap="sm">
        <Text size="sm">{isSuspended ? texts.suspensionLive : texts.suspensionLead}</Text>
        {isSuspended && suspensionReason !== null && <Facts of={[[texts.reason, suspensionReason]]} />}
        <Preview accountId={accountId} />
        {!isSuspended && (
          <Textarea
            label={texts.reason}
            description={texts.reasonHint}
            maxLength={500}
            autosize
            minRows={2}
            value={reason}
            onChange={({ currentTarget }) => setReason(currentTarget.value.replace(/[\r\n]+/g, ' '))}
          />
        )}
        <Group>
          {isSuspended ? (
            <Button loading={change.isPending} onClick={() => become('active')}>
              {texts.activate}
            </Button>
          ) : (
            <>
              <Button color="red.9" loading={change.isPending} onClick={() => become('suspended')}>
                {texts.suspendNow}
              </Button>
              <Button variant="default" onClick={() => setAsked(false)}>
                {texts.keep}
              </Button>
            </>
          )}
        </Group>
      </Stack>
    </Panel>
  );
}

function Preview({ accountId }: { accountId: string }) {
  const { data, error, refetch } = useCall('previewSuspension', { path: { id: accountId } });
  if (data === undefined) return error === null ? <Loading /> : <ErrorState error={error} onRetry={refetch} />;
  const { queued, scheduled, delayed, sending, isComplete } = data.mail;
  const counted = (value: number): string => `${isComplete ? '' : `${texts.atLeast} `}${count(value)}`;
  const fact = (value: string, hint: string) => (
    <>
      {value}{' '}
      <Text span inherit c="dimmed">
        {hint}
      </Text>
    </>
  );
  return (
    <Facts
      of={[
        [
          texts.waiting,
          fact(
            counted(queued + scheduled + delayed),
            texts.waitingHint(count(queued), count(scheduled), count(delayed)),
          ),
        ],
        [texts.sending, fact(counted(sending), texts.sendingHint)],
        [texts.keys, fact(count(data.apiKeys), texts.keysHint)],
        [texts.credentials, fact(count(data.smtpCredentials), texts.credentialsHint)],
        [texts.sessions, fact(count(data.sessions), texts.sessionsHint)],
      ]}
    />
  );
}
