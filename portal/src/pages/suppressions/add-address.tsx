/** Suppresses an address manually. */
import { Button, Modal, Select, Stack, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { type Body, PostriderError, useChange } from '../../api.ts';
import { done } from '../../parts/undo.tsx';
import { adding, REASONS, reasons, suppressions } from '../../texts/suppressions.ts';

type Reason = NonNullable<Body<'suppressAddress'>['reason']>;

export const REASON_CHOICES = REASONS.map((value) => ({ value, label: reasons[value].name }));

export function AddAddress({ isOpen, onClose }: { isOpen: boolean; onClose(): void }) {
  return (
    <Modal opened={isOpen} onClose={onClose} title={adding.title}>
      <AddForm onClose={onClose} />
    </Modal>
  );
}

/** Returns the API's message about a field, if any. */
function issueOf(error: Error | null, field: string): string | undefined {
  if (!(error instanceof PostriderError)) return undefined;
  return error.details.find((detail) => detail.field === field)?.message;
}

function AddForm({ onClose }: { onClose(): void }) {
  const [email, setEmail] = useState('');
  const [reason, setReason] = useState<Reason>('manual');
  const [until, setUntil] = useState('');
  const add = useChange('suppressAddress', ['listSuppressions']);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
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
  const other = issueOf(add.error, 'email') ?? issueOf(add.error, 'expiresAt');
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
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
          error={issueOf(add.error, 'email') ?? (other === undefined ? add.error?.message : undefined)}
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
          error={issueOf(add.error, 'expiresAt')}
        />
        <Button type="submit" loading={add.isPending} disabled={email.trim() === ''}>
          {adding.submit}
        </Button>
      </Stack>
    </form>
  );
}
