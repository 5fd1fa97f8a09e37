/** Sends the saved template with the selected sample values to up to ten addresses, and links to the messages. */
import { Anchor, Select, Text, TextInput } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, useCall, useChange } from '../../api.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { Notice } from '../../parts/notice.tsx';
import { useScope } from '../../scope.ts';
import { confirming } from '../../texts/parts.ts';
import { test } from '../../texts/templates.ts';
import type { Template } from './content.ts';
import type { Draft } from './draft.ts';
import type { Samples } from './samples.ts';

interface SendTestProps {
  template: Template;
  draft: Draft;
  samples: Samples;
  onClose(): void;
}

/** The sandbox sends nothing and accepts any sender. */
const SANDBOX_SENDER = 'test@example.com';

/** The sender of the last test, for accounts without a default sender. */
function useSender(): [string, (from: string) => void] {
  const { account, mode } = useScope();
  const key = `postrider.testFrom.${account?.accountId}`;
  const defaultFrom = useCall('getAccount').data?.settings.defaultFrom ?? '';
  const [typed, setTyped] = useState(() => localStorage.getItem(key));
  const setFrom = (from: string): void => {
    localStorage.setItem(key, from);
    setTyped(from);
  };
  return [typed ?? (defaultFrom || (mode === 'sandbox' ? SANDBOX_SENDER : '')), setFrom];
}

/** More addresses than this are a mailing, not a test. */
const MOST = 10;

function addressesIn(typed: string): string[] {
  const addresses = typed.split(',').map((one) => one.trim());
  return [...new Set(addresses.filter((one) => one !== ''))];
}

export function SendTest({ template, draft, samples, onClose }: SendTestProps) {
  const { mode, person } = useScope();
  const [to, setTo] = useState(person.email);
  const [from, setFrom] = useSender();
  const send = useChange('sendEmailBatch', ['listMessages', 'listSandboxInbox']);
  const addresses = addressesIn(to);
  const sentTo = send.variables?.body?.messages.map((message) => String(message.to)) ?? [];
  const isTooMany = addresses.length > MOST;
  const isSandbox = mode === 'sandbox';
  const submit = (): void => {
    const { templateId, subject } = template;
    const templateVariables = { ...samples.chosen.values };
    // Each message of a template without a subject needs its own.
    const common = { from, templateId, templateVariables, ...(subject === null && { subject: template.name }) };
    if (!isTooMany) send.mutate({ body: { messages: addresses.map((address) => ({ ...common, to: address })) } });
  };
  return (
    <FormModal
      title={test.title}
      submit={test.submit}
      cancel={confirming.close}
      isBusy={send.isPending}
      error={send.error}
      onSubmit={submit}
      onClose={onClose}
    >
      <Text c="dimmed" size="sm">
        {isSandbox ? test.sandbox : test.live}
      </Text>
      {draft.isDirty && <Notice tone="wait">{test.unsaved(template.version)}</Notice>}
      <TextInput
        label={test.to}
        description={test.toHint}
        error={isTooMany && test.tooMany}
        type={'email'}
        multiple
        value={to}
        required={true}
        data-autofocus
        onChange={({ currentTarget }) => setTo(currentTarget.value)}
      />
      <TextInput
        label={test.from}
        description={isSandbox ? test.fromSandbox : test.fromHint}
        required={true}
        value={from}
        onChange={({ currentTarget }) => setFrom(currentTarget.value)}
      />
      <Select
        label={test.set}
        value={samples.chosen.name}
        data={samples.sets.map(({ name }) => name)}
        onChange={(name) => samples.choose(name!)}
      />
      {send.data?.results.map((result, index) => (
        <Result key={sentTo[index]} to={sentTo[index] ?? ''} {...result} />
      ))}
    </FormModal>
  );
}

/** Shows the result of the test to one address. */
function Result({ to, data, error }: Answer<'sendEmailBatch'>['results'][number] & { to: string }) {
  const { mode } = useScope();
  if (data === undefined)
    return (
      <Notice tone="bad" role="alert">
        {to}: {error?.message}
      </Notice>
    );
  const { messageId, status } = data;
  const isSandbox = mode === 'sandbox';
  return (
    <Notice tone={status === 'suppressed' ? 'wait' : 'good'} role="status">
      {status === 'suppressed' ? test.suppressed(to) : test.sent(to)}{' '}
      <Anchor component={Link} to={`/app/${mode}/${isSandbox ? 'inbox' : 'messages'}/${messageId}`} size="sm">
        {isSandbox ? test.toInbox : test.toMessage}
      </Anchor>
    </Notice>
  );
}
