/** Adds a domain by name and opens its records. */
import { Button, Modal, Stack, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { useChange } from '../../api.ts';
import { domains } from '../../texts/domains.ts';

export function AddDomain({ isOpen, onClose }: { isOpen: boolean; onClose(): void }) {
  return (
    <Modal opened={isOpen} onClose={onClose} title={domains.add}>
      <AddForm />
    </Modal>
  );
}

function AddForm() {
  const [domain, setDomain] = useState('');
  const navigate = useNavigate();
  const add = useChange('addDomain', ['listDomains']);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    add.mutate(
      { body: { domain: domain.trim() } },
      {
        onSuccess: ({ domainId }) =>
          void navigate({ to: '/app/$mode/domains/$id', params: { mode: 'live', id: domainId } }),
      },
    );
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <TextInput
          label={domains.name}
          description={domains.nameHint}
          placeholder="shop.example"
          autoCapitalize="none"
          spellCheck={false}
          required
          data-autofocus
          maxLength={253}
          value={domain}
          onChange={({ currentTarget }) => setDomain(currentTarget.value)}
          error={add.error?.message}
        />
        <Button type="submit" loading={add.isPending} disabled={domain.trim() === ''}>
          {domains.submit}
        </Button>
      </Stack>
    </form>
  );
}
