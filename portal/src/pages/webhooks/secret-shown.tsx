/** A secret, shown once, with code that verifies requests. It closes only with its button. */
import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { Copyable, Snippets } from '../../parts/copy.tsx';
import { useFocusBack } from '../../parts/focus-back.ts';
import { Notice } from '../../parts/notice.tsx';
import { Time } from '../../parts/time.tsx';
import { secrets } from '../../texts/parts.ts';
import { secretShown } from '../../texts/webhooks.ts';
import go from './verify/go.txt?raw';
import node from './verify/node.txt?raw';
import php from './verify/php.txt?raw';
import python from './verify/python.txt?raw';

export interface NewSecret {
  secret: string;
  /** Until when the previous secret also signs. */
  previousSecretUntil?: string;
}

/** The examples of docs/guides/webhooks.md, which tests run against real signatures. */
const VERIFY: Readonly<Record<string, string>> = { Node: node, Python: python, PHP: php, Go: go };

export function SecretShown({ secret, previousSecretUntil, onClose }: NewSecret & { onClose(): void }) {
  useFocusBack();
  return (
    <Modal
      opened
      size="xl"
      title={previousSecretUntil === undefined ? secretShown.title : secretShown.rotatedTitle}
      onClose={onClose}
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <Stack>
        <Notice role="status" tone="wait">
          {secrets.once}
        </Notice>
        <Copyable value={secret} />
        {previousSecretUntil !== undefined && (
          <Text>
            {secretShown.until} <Time at={previousSecretUntil} exact />. {secretShown.steps}
          </Text>
        )}
        <Text>{secretShown.next}</Text>
        <Snippets of={VERIFY} label={secretShown.snippets} />
        <Group justify="flex-end">
          <Button onClick={onClose}>{secrets.done}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
