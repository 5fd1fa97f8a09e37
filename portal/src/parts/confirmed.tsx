/** A button that explains the effect of an action first; a second one confirms it. */
import { ActionIcon, Button, Group, Popover, Stack, Text } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { confirming } from '../texts/parts.ts';

/** Escape with the focus on such a button closes the explanation, but not the dialog or drawer that it is in. */
const ESCAPE = { 'data-mantine-stop-propagation': true };

interface ConfirmedProps {
  label: string;
  icon: ReactNode;
  effect: string;
  confirm: string;
  isBusy: boolean;
  run(): Promise<unknown>;
  /** Whether it is shown as an icon, as in the rows of lists. */
  isIcon?: boolean;
  children?: ReactNode;
}

export function Confirmed({ label, icon, effect, confirm, run, isBusy, isIcon = false, children }: ConfirmedProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Popover opened={isOpen} onChange={setOpen} width={300} position="bottom-end" trapFocus returnFocus shadow="md">
      <Popover.Target>
        {isIcon ? (
          <ActionIcon size="sm" aria-label={label} title={label} onClick={() => setOpen(!isOpen)}>
            {icon}
          </ActionIcon>
        ) : (
          <Button variant="default" leftSection={icon} onClick={() => setOpen(!isOpen)}>
            {label}
          </Button>
        )}
      </Popover.Target>
      <Popover.Dropdown aria-label={label}>
        <Stack gap="sm">
          <Text>{effect}</Text>
          {children}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" {...ESCAPE} onClick={() => setOpen(false)}>
              {confirming.close}
            </Button>
            <Button {...ESCAPE} loading={isBusy} onClick={() => void run().finally(() => setOpen(false))}>
              {confirm}
            </Button>
          </Group>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
