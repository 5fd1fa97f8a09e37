/** The drawer of a row: by default all columns of its list, by name; then a link to its page, if it has one, and its actions. */
import { Button, Drawer, Group, Stack } from '@mantine/core';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import type { Column, Details } from './column.ts';
import { useFocusBack } from './focus-back.ts';
import { Facts } from './page.tsx';
import { PathLink } from './path-link.tsx';
import { InDetails } from './row-action.tsx';

interface RowDetailsProps<T> {
  /** The row as it was when it was opened. */
  opened: T;
  /** The row as it is in the list now; undefined if it is not there, and the drawer shows what it showed before. */
  current: T | undefined;
  columns: readonly Column<T>[];
  details: Details<T> | undefined;
  actions: ((row: T) => ReactNode) | undefined;
  href: ((row: T) => string | undefined) | undefined;
  hrefName: string | undefined;
  onClosed(): void;
}

/** A name without a value is omitted; zero is a value. */
function shownOrNothing(content: ReactNode): ReactNode {
  return content === null || content === false || content === '' ? undefined : content;
}

export default function RowDetails<T>({ opened, current, columns, details, actions, ...props }: RowDetailsProps<T>) {
  useFocusBack();
  // Opens after the first rendering, which animates it, and keeps its content while it closes.
  const [isOpen, setOpen] = useState(false);
  const [shown, setShown] = useState(opened);
  const next = useRef<() => void>(undefined);
  useEffect(() => setOpen(true), []);
  useEffect(() => {
    if (current !== undefined) setShown(current);
  }, [current]);
  const close = (then?: () => void): void => {
    next.current = then;
    setOpen(false);
  };
  const closed = (): void => {
    props.onClosed();
    next.current?.();
  };
  const title = columns.find(({ phone }) => phone === 'title') ?? columns[0];
  const href = props.hrefName === undefined ? undefined : props.href?.(shown);
  return (
    <Drawer
      opened={isOpen}
      onClose={() => close()}
      onExitTransitionEnd={closed}
      returnFocus={false}
      position="right"
      size={details?.size ?? 'lg'}
      title={details === undefined ? title?.cell(shown) : details.title(shown)}
    >
      <InDetails value={close}>
        <Stack gap="md">
          {details === undefined ? (
            <Facts
              of={columns
                .filter((column) => column !== title)
                .map(({ name, cell }) => [name, shownOrNothing(cell(shown))] as const)}
            />
          ) : (
            details.content(shown, () => close())
          )}
          {(href !== undefined || actions !== undefined) && (
            <Group gap="xs">
              {href !== undefined && (
                <Button variant="default" component={PathLink} href={href}>
                  {props.hrefName}
                </Button>
              )}
              {actions?.(shown)}
            </Group>
          )}
        </Stack>
      </InDetails>
    </Drawer>
  );
}
