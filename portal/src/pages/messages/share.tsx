/** Creates a share link to this message, explains what it shows beforehand, and lists the valid links. */
import { Button, Checkbox, Modal, Stack } from '@mantine/core';
import { useState } from 'react';
import { type MessageDetail, useChange } from '../../api.ts';
import { IconShare } from '../../icons.ts';
import { ShareForm } from '../../parts/share-form.tsx';
import { useScope } from '../../scope.ts';
import { sharing as texts } from '../../texts/messages.ts';
import { SHARE_LISTS, ShareLinks } from './share-links.tsx';

export function ShareButton({ message }: { message: MessageDetail }) {
  const { mayWrite } = useScope();
  const [isOpen, setOpen] = useState(false);
  if (!mayWrite) return null;
  return (
    <>
      <Button variant="default" leftSection={<IconShare size={14} aria-hidden />} onClick={() => setOpen(true)}>
        {texts.share}
      </Button>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={texts.title}>
        <Stack gap="lg">
          <ShareMessage messageId={message.messageId} onDone={() => setOpen(false)} />
          <ShareLinks messageId={message.messageId} />
        </Stack>
      </Modal>
    </>
  );
}

function ShareMessage({ messageId, onDone }: { messageId: string; onDone(): void }) {
  const [hideSubject, setHideSubject] = useState(false);
  const [hideContent, setHideContent] = useState(false);
  const share = useChange('shareMessage', SHARE_LISTS);
  return (
    <ShareForm
      lead={texts.lead}
      isBusy={share.isPending}
      create={(expiresInSeconds) =>
        share.mutateAsync({ path: { id: messageId }, body: { expiresInSeconds, hideSubject, hideContent } })
      }
      onDone={onDone}
    >
      <Checkbox
        label={texts.hideContent}
        checked={hideContent || hideSubject}
        disabled={hideSubject}
        onChange={({ currentTarget }) => setHideContent(currentTarget.checked)}
      />
      <Checkbox
        label={texts.hideSubject}
        description={texts.hideSubjectHint}
        checked={hideSubject}
        onChange={({ currentTarget }) => setHideSubject(currentTarget.checked)}
      />
    </ShareForm>
  );
}
