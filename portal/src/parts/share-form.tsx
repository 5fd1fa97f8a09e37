/** Creates a link that shows something to anyone who has it, and then displays the link: its URL cannot be displayed again later. */
import { Button, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Answer } from '../api.ts';
import { sharing as texts } from '../texts/share.ts';
import { CopyText } from './copy.tsx';
import { exactTime } from './time.tsx';
import { failed } from './undo.tsx';

const WEEK = '604800';

type Link = Answer<'shareMessage'>;

interface ShareFormProps {
  lead: string;
  isBusy: boolean;
  /** Creates the link. */
  create(expiresInSeconds: number): Promise<Link>;
  onDone(): void;
  /** Further fields. */
  children: ReactNode;
}

export function ShareForm({ lead, isBusy, create, onDone, children }: ShareFormProps) {
  const [seconds, setSeconds] = useState(WEEK);
  const [link, setLink] = useState<Link>();
  if (link !== undefined) return <Created link={link} onDone={onDone} />;
  return (
    <Stack gap="md">
      <Text>{lead}</Text>
      <Select
        label={texts.valid}
        value={seconds}
        onChange={(value) => setSeconds(value ?? WEEK)}
        data={Object.entries(texts.durations).map(([value, label]) => ({ value, label }))}
      />
      {children}
      <Group justify="flex-end">
        <Button loading={isBusy} onClick={() => void create(Number(seconds)).then(setLink, failed)}>
          {texts.make}
        </Button>
      </Group>
    </Stack>
  );
}

function Created({ link: { url, expiresAt }, onDone }: { link: Link; onDone(): void }) {
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
