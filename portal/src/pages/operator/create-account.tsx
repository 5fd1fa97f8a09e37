/** Creates an account; its keys are shown once, until the operator confirms that they are saved. */
import { Alert, Button, Group, Modal, Select, Stack, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { Copyable } from '../../parts/copy.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { Facts } from '../../parts/page.tsx';
import { accounts } from '../../texts/operator.ts';
import { secrets } from '../../texts/parts.ts';

type Plan = Answer<'listAccounts'>[number]['plan'];

interface CreateAccountProps {
  plans: readonly { value: Plan; label: string }[];
  onClose(): void;
}

export function CreateAccount({ plans, onClose }: CreateAccountProps) {
  const [name, setName] = useState('');
  const [plan, setPlan] = useState<Plan>('paid');
  const create = useChange('createAccount', ['listAccounts']);
  const navigate = useNavigate();
  const made = create.data;
  if (made !== undefined)
    return (
      <Modal
        opened
        onClose={onClose}
        title={accounts.keysTitle(name)}
        size="lg"
        withCloseButton={false}
        closeOnClickOutside={false}
        closeOnEscape={false}
      >
        <NewKeys
          of={made}
          onKept={() => {
            onClose();
            void navigate({ to: `/app/operator/accounts/${made.accountId}` });
          }}
        />
      </Modal>
    );
  return (
    <FormModal
      title={accounts.createTitle}
      submit={accounts.submit}
      isBusy={create.isPending}
      isDisabled={name.trim() === ''}
      error={create.error}
      onSubmit={() => create.mutate({ body: { name: name.trim(), plan } })}
      onClose={onClose}
    >
      <Text c="dimmed">{accounts.createHint}</Text>
      <TextInput
        label={accounts.nameOf}
        required
        data-autofocus
        maxLength={200}
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
      <Select label={accounts.plan} data={plans} value={plan} onChange={(chosen) => chosen && setPlan(chosen)} />
    </FormModal>
  );
}

function NewKeys({ of: made, onKept }: { of: Answer<'createAccount'>; onKept(): void }) {
  return (
    <Stack gap="md">
      <Alert color="yellow" p="xs">
        {secrets.once}
      </Alert>
      <Facts
        of={[
          [accounts.accountId, <Copyable key="id" value={made.accountId} />],
          [accounts.liveKey, <Copyable key="live" value={made.apiKey} />],
          [accounts.sandboxKey, <Copyable key="sandbox" value={made.sandboxApiKey} />],
        ]}
      />
      <Group justify="flex-end">
        <Button onClick={onKept}>{secrets.done}</Button>
      </Group>
    </Stack>
  );
}
