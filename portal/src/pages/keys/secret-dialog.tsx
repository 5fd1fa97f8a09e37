/**
 * One dialog from the form to the secret: the permissions (for a rotation: same as before), the secret, shown once, and after a rotation
 * whether to revoke the old one. While the secret is shown, the dialog cannot be closed by accident.
 */
import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useFocusBack } from '../../parts/focus-back.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { useScope } from '../../scope.ts';
import { rotating, shown } from '../../texts/keys.ts';
import { type Credential, type Kind, type Made, make, type Wish } from './credentials.ts';
import { Secret } from './secret.tsx';
import { WishForm } from './wish-form.tsx';

interface SecretDialogProps {
  kind: Kind;
  /** The credential that is rotated. */
  old: Credential | undefined;
  onRevoke(old: Credential): void;
  onClose(): void;
}

export function SecretDialog({ kind, old, onRevoke, onClose }: SecretDialogProps) {
  useFocusBack();
  const { caller } = useScope();
  const queries = useQueryClient();
  const [made, setMade] = useState<Made>();
  const [isKept, setKept] = useState(false);
  const creation = useMutation({
    mutationFn: (wish: Wish) => make(caller, kind, wish),
    async onSuccess(answer) {
      setMade(answer);
      await queries.invalidateQueries({ queryKey: [kind === 'key' ? 'listApiKeys' : 'listSmtpCredentials'] });
    },
  });
  const form = { isBusy: creation.isPending, error: creation.error, onSubmit: creation.mutate, onClose };
  if (made === undefined)
    return old === undefined ? <WishForm kind={kind} {...form} /> : <Rotation kind={kind} old={old} {...form} />;
  const isSecretShown = !isKept;
  return (
    <Modal
      opened
      onClose={onClose}
      title={isSecretShown ? shown[kind] : rotating[kind]}
      size="lg"
      closeOnEscape={!isSecretShown}
      closeOnClickOutside={!isSecretShown}
      withCloseButton={!isSecretShown}
    >
      {isSecretShown && <Secret made={made} onKept={() => (old === undefined ? onClose() : setKept(true))} />}
      {isKept && old !== undefined && (
        <OldOne
          old={old}
          onKeep={onClose}
          onRevoke={() => {
            onRevoke(old);
            onClose();
          }}
        />
      )}
    </Modal>
  );
}

interface RotationProps {
  kind: Kind;
  old: Credential;
  isBusy: boolean;
  error: Error | null;
  onSubmit(wish: Wish): void;
  onClose(): void;
}

function Rotation({ kind, old, isBusy, error, onSubmit, onClose }: RotationProps) {
  return (
    <FormModal
      title={rotating[kind]}
      size="lg"
      submit={rotating.submit}
      isBusy={isBusy}
      error={error}
      onSubmit={() => onSubmit(old)}
      onClose={onClose}
    >
      <Text>{rotating.lead(old.label)}</Text>
    </FormModal>
  );
}

function OldOne({ old, onKeep, onRevoke }: { old: Credential; onKeep(): void; onRevoke(): void }) {
  return (
    <Stack gap="sm">
      <Text fw={550}>{rotating.question(old.label)}</Text>
      <Text>{rotating.answer}</Text>
      <Group justify="flex-end" gap="xs">
        <Button variant="default" onClick={onKeep}>
          {rotating.keep}
        </Button>
        <Button onClick={onRevoke}>{rotating.revoke}</Button>
      </Group>
    </Stack>
  );
}
