/** Creates an account; its keys are shown once, until the operator confirms that they are saved. */
import { Alert, Button, Group, Modal, Select, Stack, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { Copyable } from '../../parts/copy.tsx';
import { Facts } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { accounts } from '../../texts/operator.ts';
import { secrets } from '../../texts/parts.ts';

type Plan = Answer<'listAccounts'>[number]['plan'];

interface CreateAccountProps {
  isOpen: boolean;
  plans: readonly { value: Plan; label: string }[];
  onClose(): void;
}

export function CreateAccount({ isOpen, plans, onClose }: CreateAccountProps) {
  const [name, setName] = useState('');
  const create = useChange('createAccount', ['listAccounts']);
  const navigate = useNavigate();
  const made = create.data;
  const close = (): void => {
    onClose();
    setName('');
    create.reset();
  };
  if (made !== undefined)
    return (
      <Modal
        opened={isOpen}
        onClose={close}
        title={accounts.keysTitle(name)}
        size="lg"
        withCloseButton={false}
        closeOnClickOutside={false}
        closeOnEscape={false}
      >
        <NewKeys
          of={made}
          onKept={() => {
            close();
            void navigate({ to: `/app/operator/accounts/${made.accountId}` });
          }}
        />
      </Modal>
    );
  return (
    <Modal opened={isOpen} onClose={close} title={accounts.createTitle}>
      <NewAccountForm name={name} setName={setName} plans={plans} create={create} onCancel={close} />
    </Modal>
  );
}

interface NewAccountFormProps {
  name: string;
  setName(name: string): void;
  plans: CreateAccountProps['plans'];
  create: ReturnType<typeof useChange<'createAccount'>>;
  onCancel(): void;
}

function NewAccountForm({ name, setName, plans, create, onCancel }: NewAccountFormProps) {
  const [plan, setPlan] = useState<Plan>('paid');
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    create.mutate({ body: { name: name.trim(), plan } });
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <Text size="sm" c="dimmed">
          {accounts.createHint}
        </Text>
        <Problem error={create.error} />
        <TextInput
          label={accounts.nameOf}
          required
          data-autofocus
          maxLength={200}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <Select label={accounts.plan} data={plans} value={plan} onChange={(chosen) => chosen && setPlan(chosen)} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onCancel}>
            {accounts.cancel}
          </Button>
          <Button type="submit" loading={create.isPending} disabled={name.trim() === ''}>
            {accounts.submit}
          </Button>
        </Group>
      </Stack>
    </form>
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
