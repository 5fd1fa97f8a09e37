/** Creates a share link to this message, explains what it shows beforehand, and lists the valid links. */
import { Button, Checkbox, Group, Modal, Select, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { type Answer, type MessageDetail, useChange } from '../../api.ts';
import { IconShare } from '../../icons.ts';
import { CopyText } from '../../parts/copy.tsx';
import { exactTime } from '../../parts/time.tsx';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { sharing as texts } from '../../texts/messages.ts';
import { SHARE_LISTS, ShareLinks } from './share-links.tsx';

const WEEK = '604800';

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
          <ShareForm messageId={message.messageId} onDone={() => setOpen(false)} />
          <ShareLinks messageId={message.messageId} />
        </Stack>
      </Modal>
    </>
  );
}

function ShareForm({ messageId, onDone }: { messageId: string; onDone(): void }) {
  const [expiresInSeconds, setSeconds] = useState(WEEK);
  const [hideSubject, setHideSubject] = useState(false);
  const [hideContent, setHideContent] = useState(false);
  const [link, setLink] = useState<Answer<'shareMessage'>>();
  const share = useChange('shareMessage', SHARE_LISTS);
  if (link !== undefined) return <Link link={link} onDone={onDone} />;
  const make = (): void => {
    const body = { expiresInSeconds: Number(expiresInSeconds), hideSubject, hideContent };
    share.mutateAsync({ path: { id: messageId }, body }).then(setLink, failed);
  };
  return (
    <Stack gap="md">
      <Text>{texts.lead}</Text>
      <Select
        label={texts.valid}
        value={expiresInSeconds}
        onChange={(value) => setSeconds(value ?? WEEK)}
        data={Object.entries(texts.durations).map(([value, label]) => ({ value, label }))}
      />
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
      <Group justify="flex-end">
        <Button loading={share.isPending} onClick={make}>
          {texts.make}
        </Button>
      </Group>
    </Stack>
  );
}

function Link({ link: { url, expiresAt }, onDone }: { link: Answer<'shareMessage'>; onDone(): void }) {
  return (
    <Stack gap="md">
      <TextInput
        label={texts.link}
        value={url}
        readOnly={true}
        data-autofocus={true}
        onFocus={({ currentTarget }) => currentTarget.select()}
      />
      <Text c="dimmed">{texts.madeUntil(exactTime(expiresAt))}</Text>
      <Group justify="flex-end" gap="xs">
        <CopyText value={url}>{texts.copyLink}</CopyText>
        <Button onClick={onDone}>{texts.done}</Button>
      </Group>
    </Stack>
  );
}
