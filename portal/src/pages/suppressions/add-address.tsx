/** Suppresses an address manually. */
import { Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { type Body, useChange } from '../../api.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { issuesOf } from '../../parts/issues.ts';
import { done } from '../../parts/undo.tsx';
import { adding, REASONS, reasons, suppressions } from '../../texts/suppressions.ts';

type Reason = NonNullable<Body<'suppressAddress'>['reason']>;

export const REASON_CHOICES = REASONS.map((value) => ({ value, label: reasons[value].name }));

const FIELDS = ['email', 'expiresAt'];

export function AddAddress({ onClose }: { onClose(): void }) {
  const [email, setEmail] = useState('');
  const [reason, setReason] = useState<Reason>('manual');
  const [until, setUntil] = useState('');
  const add = useChange('suppressAddress', ['listSuppressions']);
  const issues = issuesOf(add.error, FIELDS);
  const submit = (): void => {
    // The date includes the entire day in the user's time zone.
    const expiresAt = until === '' ? undefined : new Date(`${until}T23:59:59`).toISOString();
    add.mutate(
      { body: { email: email.trim(), reason, expiresAt } },
      {
        onSuccess(kept) {
          done(adding.done(kept.email));
          onClose();
        },
      },
    );
  };
  return (
    <FormModal
      title={adding.title}
      submit={adding.submit}
      isBusy={add.isPending}
      isDisabled={email.trim() === ''}
      error={issues.general}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextInput
        label={suppressions.email}
        description={adding.hint}
        type="text"
        inputMode="email"
        autoComplete="off"
        required
        data-autofocus
        value={email}
        onChange={({ currentTarget }) => setEmail(currentTarget.value)}
        error={issues.of('email')}
      />
      <Select
        label={suppressions.reason}
        description={reasons[reason].meaning}
        data={REASON_CHOICES}
        value={reason}
        onChange={(value) => setReason((value ?? 'manual') as Reason)}
      />
      <TextInput
        label={adding.until}
        description={adding.untilHint}
        type="date"
        value={until}
        onChange={({ currentTarget }) => setUntil(currentTarget.value)}
        error={issues.of('expiresAt')}
      />
    </FormModal>
  );
}
