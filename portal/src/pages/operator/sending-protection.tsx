/** Sending protection of an account: the warning or hold of its live mail, and the button that releases held mail. */
import { Button } from '@mantine/core';
import { type Answer, useChange } from '../../api.ts';
import { Notice } from '../../parts/notice.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { sendingProtection as texts } from '../../texts/operator.ts';

export function ProtectionNotice({ account }: { account: Answer<'getOperatorAccount'> }) {
  const { accountId, sendingProtection: protection } = account;
  const release = useChange('resumeSendingOfAccount', ['getOperatorAccount', 'listAccounts']);
  if (protection.status === 'good') return null;
  const isHeld = protection.status === 'held';
  const onRelease = (): void =>
    release.mutate({ path: { id: accountId } }, { onSuccess: () => done(texts.released), onError: failed });
  return (
    <Notice
      tone={isHeld ? 'bad' : 'wait'}
      title={isHeld ? texts.held : texts.warned}
      actions={
        isHeld && (
          <Button variant="default" loading={release.isPending} onClick={onRelease}>
            {texts.release}
          </Button>
        )
      }
    >
      {protection.reason} {isHeld ? texts.heldHint : texts.warnedHint}
    </Notice>
  );
}
