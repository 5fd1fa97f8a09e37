/** Actions on a message. Each explains its effect first. */
import { Anchor, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type MessageDetail, useChange } from '../../api.ts';
import { basePath } from '../../base-path.ts';
import { IconCalendarTime, IconMailForward, IconShield, IconX } from '../../icons.ts';
import { Confirmed } from '../../parts/confirmed.tsx';
import { localTime, shortTime } from '../../parts/time.tsx';
import { done, failed, withUndo } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { actions as texts } from '../../texts/messages.ts';

export const SETTLED: ReadonlySet<string> = new Set(['delivered', 'bounced', 'complained', 'suppressed', 'cancelled']);
export const CANCELLABLE: ReadonlySet<string> = new Set(['scheduled', 'queued', 'delayed']);

interface Props {
  message: MessageDetail;
}

export function MessageActions({ message, isSuppressed }: Props & { isSuppressed: boolean | undefined }) {
  const { mayWrite } = useScope();
  if (!mayWrite) return null;
  return (
    <>
      {message.status === 'scheduled' && <Move message={message} />}
      {CANCELLABLE.has(message.status) && <Cancel message={message} />}
      {isSuppressed && <Lift message={message} />}
      {SETTLED.has(message.status) && <Resend message={message} />}
    </>
  );
}

function Resend({ message: { messageId, to, mode } }: Props) {
  const navigate = useNavigate();
  const resend = useChange('resendMessage', ['listMessages']);
  const run = async (): Promise<void> => {
    try {
      const { data } = await resend.mutateAsync({ path: { id: messageId } });
      const href = `/app/${mode}/messages/${data.messageId}`;
      const open = (): void => {
        notifications.hide(shown);
        void navigate({ to: href });
      };
      const shown = notifications.show({
        autoClose: 12_000,
        message: (
          <>
            {data.status === 'suppressed' ? texts.resentSuppressed : texts.resent}{' '}
            <Anchor
              href={`${basePath}${href}`}
              onClick={(event) => {
                event.preventDefault();
                open();
              }}
            >
              {texts.resentOpen}
            </Anchor>
          </>
        ),
      });
    } catch (error) {
      failed(error);
    }
  };
  return (
    <Confirmed
      label={texts.resend}
      effect={texts.resendEffect(to)}
      confirm={texts.resend}
      run={run}
      icon={<IconMailForward size={14} aria-hidden />}
      isBusy={resend.isPending}
    />
  );
}

function Cancel({ message: { messageId } }: Props) {
  const cancel = useChange('cancelMessage', ['getMessage', 'listMessages']);
  const run = (): Promise<void> =>
    cancel.mutateAsync({ path: { id: messageId } }).then(() => done(texts.cancelled), failed);
  return (
    <Confirmed
      label={texts.cancel}
      effect={texts.cancelEffect}
      confirm={texts.cancelConfirm}
      run={run}
      icon={<IconX size={14} aria-hidden />}
      isBusy={cancel.isPending}
    />
  );
}

function Move({ message: { messageId, sendAt } }: Props) {
  const move = useChange('rescheduleMessage', ['getMessage', 'listMessages']);
  const [at, setAt] = useState(() => localTime(sendAt ?? new Date().toISOString()));
  const run = async (): Promise<void> => {
    const time = new Date(at);
    if (Number.isNaN(time.getTime())) return;
    await move
      .mutateAsync({ path: { id: messageId }, body: { sendAt: time.toISOString() } })
      .then(({ sendAt: moved }) => done(texts.moved(shortTime(moved ?? time.toISOString(), Date.now()))), failed);
  };
  return (
    <Confirmed
      label={texts.move}
      effect={texts.moveEffect}
      confirm={texts.moveConfirm}
      run={run}
      icon={<IconCalendarTime size={14} aria-hidden />}
      isBusy={move.isPending}
    >
      <TextInput
        type={'datetime-local'}
        label={texts.moveLabel}
        value={at}
        onChange={({ currentTarget }) => setAt(currentTarget.value)}
      />
    </Confirmed>
  );
}

function Lift({ message: { to } }: Props) {
  const [isHidden, setHidden] = useState(false);
  const lift = useChange('deleteSuppression', ['getSuppression', 'getMessage', 'listSuppressions']);
  if (isHidden) return null;
  const run = async (): Promise<void> => {
    setHidden(true);
    withUndo({
      message: texts.lifted,
      run: () => lift.mutateAsync({ path: { email: to } }),
      onUndo: () => setHidden(false),
    });
  };
  return (
    <Confirmed
      label={texts.lift}
      effect={texts.liftEffect(to)}
      confirm={texts.lift}
      run={run}
      icon={<IconShield size={14} aria-hidden />}
      isBusy={false}
    />
  );
}
