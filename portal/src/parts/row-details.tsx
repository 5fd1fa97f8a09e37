/** The drawer of a row: by default all columns of its list, by name. It closes when the row is no longer in the list. */
import { Drawer, Group, Stack } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';
import type { Column, Details } from './column.ts';
import { useFocusBack } from './focus-back.ts';
import { Facts } from './page.tsx';
import { InDetails } from './row-action.tsx';

interface RowDetailsProps<T> {
  row: T | undefined;
  columns: readonly Column<T>[];
  details: Details<T> | undefined;
  actions: ((row: T) => ReactNode) | undefined;
  onClosed(): void;
}

/** A name without a value is omitted; zero is a value. */
function shownOrNothing(content: ReactNode): ReactNode {
  return content === null || content === false || content === '' ? undefined : content;
}

export default function RowDetails<T>({ row, columns, details, actions, onClosed }: RowDetailsProps<T>) {
  useFocusBack();
  // Opens after the first rendering, which animates it, and keeps its content while it closes.
  const [isOpen, setOpen] = useState(false);
  const [shown, setShown] = useState(row);
  useEffect(() => setOpen(row !== undefined), [row === undefined]);
  useEffect(() => {
    if (row !== undefined) setShown(row);
  }, [row]);
  const close = (): void => setOpen(false);
  const title = columns.find(({ phone }) => phone === 'title') ?? columns[0];
  return (
    <Drawer
      opened={isOpen}
      onClose={close}
      onExitTransitionEnd={onClosed}
      returnFocus={false}
      position="right"
      size={details?.size ?? 'lg'}
      title={shown !== undefined && (details === undefined ? title?.cell(shown) : details.title(shown))}
    >
      {shown !== undefined && (
        <InDetails value={close}>
          <Stack gap="md">
            {details === undefined ? (
              <Facts
                of={columns
                  .filter((column) => column !== title)
                  .map(({ name, cell }) => [name, shownOrNothing(cell(shown))] as const)}
              />
            ) : (
              details.content(shown, close)
            )}
            {actions !== undefined && <Group gap="xs">{actions(shown)}</Group>}
          </Stack>
        </InDetails>
      )}
    </Drawer>
  );
}
