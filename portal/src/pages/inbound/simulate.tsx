/** Simulates an inbound email of a sandbox route, and opens it. */
import { Text, Textarea, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useChange } from '../../api.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { issuesOf } from '../../parts/issues.ts';
import { useScope } from '../../scope.ts';
import { simulateInbound as texts } from '../../texts/inbound.ts';

const FIELDS = ['to', 'from', 'subject', 'text'];

export function SimulateInbound({ to: suggested, onClose }: { to: string; onClose(): void }) {
  const { mode } = useScope();
  const navigate = useNavigate();
  const [to, setTo] = useState(suggested);
  const [from, setFrom] = useState('ann@example.com');
  const [subject, setSubject] = useState<string>(texts.exampleSubject);
  const [text, setText] = useState<string>(texts.exampleText);
  const simulate = useChange('simulateInboundMail', ['listInboundMail']);
  const issues = issuesOf(simulate.error, FIELDS);
  const submit = (): void =>
    simulate.mutate(
      { body: { to: to.trim(), from: from.trim(), subject, text } },
      { onSuccess: ({ inboundId }) => void navigate({ to: `/app/${mode}/inbound/${inboundId}` as string }) },
    );
  return (
    <FormModal
      title={texts.title}
      size="lg"
      submit={texts.submit}
      isBusy={simulate.isPending}
      error={issues.general}
      onSubmit={submit}
      onClose={onClose}
    >
      <Text c="dimmed">{texts.lead}</Text>
      <TextInput
        label={texts.to}
        description={texts.toHint}
        error={issues.of('to')}
        required
        maxLength={320}
        data-autofocus
        value={to}
        onChange={({ currentTarget }) => setTo(currentTarget.value)}
      />
      <TextInput
        label={texts.from}
        error={issues.of('from')}
        required
        maxLength={320}
        value={from}
        onChange={({ currentTarget }) => setFrom(currentTarget.value)}
      />
      <TextInput
        label={texts.subject}
        error={issues.of('subject')}
        maxLength={998}
        value={subject}
        onChange={({ currentTarget }) => setSubject(currentTarget.value)}
      />
      <Textarea
        label={texts.text}
        error={issues.of('text')}
        autosize
        minRows={4}
        maxRows={14}
        value={text}
        onChange={({ currentTarget }) => setText(currentTarget.value)}
      />
    </FormModal>
  );
}
