/** Explains the effect of a new secret before creating it. */
import { Text } from '@mantine/core';
import { useChange } from '../../api.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { rotation } from '../../texts/webhooks.ts';
import type { NewSecret } from './secret-shown.tsx';

interface RotationProps {
  webhookId: string;
  onClose(): void;
  onRotated(secret: NewSecret): void;
}

export function RotationDialog({ webhookId, onClose, onRotated }: RotationProps) {
  const rotate = useChange('rotateWebhookSecret', ['getWebhook', 'listWebhooks']);
  const submit = (): void =>
    rotate.mutate(
      { path: { id: webhookId } },
      {
        onSuccess({ secret, previousSecretUntil }) {
          onClose();
          onRotated({ secret, previousSecretUntil });
        },
      },
    );
  return (
    <FormModal
      title={rotation.title}
      submit={rotation.submit}
      isBusy={rotate.isPending}
      error={rotate.error}
      onSubmit={submit}
      onClose={onClose}
    >
      <Text>{rotation.explanation}</Text>
      <Text c="dimmed">{rotation.warning}</Text>
    </FormModal>
  );
}
