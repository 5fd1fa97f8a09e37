/** Something that can be done with one row of a list: an icon in the row, a button with its name in the drawer of the row. */
import { ActionIcon, Button, Tooltip } from '@mantine/core';
import { createContext, type ReactNode, useContext } from 'react';

/** Closes the drawer of the row, then calls the function; undefined for an action in the row itself. */
export const InDetails = createContext<((then?: () => void) => void) | undefined>(undefined);

interface RowActionProps {
  /** Names the row, for example "Revoke Backend". */
  label: string;
  icon: ReactNode;
  isBusy?: boolean;
  /** The drawer stays open, to show the row after the action. Otherwise it closes first, so that no dialog opens above it. */
  staysOpen?: boolean;
  onClick(): void;
}

export function RowAction({ label, icon, isBusy, staysOpen = false, onClick }: RowActionProps) {
  const close = useContext(InDetails);
  if (close !== undefined)
    return (
      <Button
        variant="default"
        leftSection={icon}
        loading={isBusy}
        onClick={() => (staysOpen ? onClick() : close(onClick))}
      >
        {label}
      </Button>
    );
  return (
    <Tooltip label={label}>
      <ActionIcon size="sm" aria-label={label} loading={isBusy} onClick={onClick}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}
