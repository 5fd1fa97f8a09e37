/** What the reputation guard has decided of an account's live mail, and letting mail leave that rests for it. */
import { Button } from '@mantine/core';
import { type Answer, useChange } from '../../api.ts';
import { Notice } from '../../parts/notice.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { guard as texts } from '../../texts/operator.ts';

export function GuardNotice({ account: { accountId, guard } }: { account: Answer<'getOperatorAccount'> }) {
  const resume = useChange('resumeSendingOfAccount', ['getOperatorAccount', 'listAccounts']);
  if (guard.status === 'good') return null;
  const isResting = guard.status === 'resting';
  const letLeave = (): void =>
    resume.mutate({ path: { id: accountId } }, { onSuccess: () => done(texts.resumed), onError: failed });
  return (
    <Notice
      tone={isResting ? 'bad' : 'wait'}
      title={isResting ? texts.resting : texts.warned}
      actions={
        isResting && (
          <Button variant="default" loading={resume.isPending} onClick={letLeave}>
            {texts.resume}
          </Button>
        )
      }
    >
      {guard.reason} {isResting ? texts.restingHint : texts.warnedHint}
    </Notice>
  );
}
