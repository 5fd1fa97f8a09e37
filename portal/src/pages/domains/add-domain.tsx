/** Adds a domain by name and opens its records. */
import { TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useChange } from '../../api.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { domains } from '../../texts/domains.ts';

export function AddDomain({ onClose }: { onClose(): void }) {
  const [domain, setDomain] = useState('');
  const navigate = useNavigate();
  const add = useChange('addDomain', ['listDomains']);
  const submit = (): void =>
    add.mutate(
      { body: { domain: domain.trim() } },
      {
        onSuccess: ({ domainId }) =>
          void navigate({ to: '/app/$mode/domains/$id', params: { mode: 'live', id: domainId } }),
      },
    );
  return (
    <FormModal
      title={domains.add}
      submit={domains.submit}
      isBusy={add.isPending}
      isDisabled={domain.trim() === ''}
      onSubmit={submit}
      onClose={onClose}
    >
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
    </FormModal>
  );
}
