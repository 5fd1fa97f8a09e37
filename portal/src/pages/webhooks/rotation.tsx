/** Explains the effect of a new secret before creating it. */
import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useChange } from '../../api.ts';
import { Problem } from '../../parts/problem.tsx';
import { rotation, webhookForm } from '../../texts/webhooks.ts';
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
    <Modal opened onClose={onClose} title={rotation.title}>
      <Stack>
        <Problem error={rotate.error} />
        <Text>{rotation.explanation}</Text>
        <Text c="dimmed">{rotation.warning}</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {webhookForm.cancel}
          </Button>
          <Button loading={rotate.isPending} onClick={submit}>
            {rotation.submit}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
