/** Something that can be done with one row of a list: an icon in the row, a button with its name in the drawer of the row. */
import { ActionIcon, Button, Tooltip } from '@mantine/core';
import { createContext, type ReactNode, useContext } from 'react';

/** Closes the drawer of the row; undefined for an action in the row itself. */
export const InDetails = createContext<(() => void) | undefined>(undefined);

interface RowActionProps {
  /** Names the row, for example "Revoke Backend". */
  label: string;
  icon: ReactNode;
  onClick(): void;
}

export function RowAction({ label, icon, onClick }: RowActionProps) {
  if (useContext(InDetails) !== undefined)
    return (
      <Button variant="default" leftSection={icon} onClick={onClick}>
        {label}
      </Button>
    );
  return (
    <Tooltip label={label}>
      <ActionIcon size="sm" aria-label={label} onClick={onClick}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}
