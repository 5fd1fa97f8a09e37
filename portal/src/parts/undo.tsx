/** Undo instead of a confirmation: an action runs after six seconds unless it is undone; immediately when the user leaves the page. */
import { Button, Group } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { undoing } from '../texts/parts.ts';

const UNDO_MS = 6_000;

export function failed(error: unknown): void {
  notifications.show({ color: 'red', title: undoing.failed, message: (error as Error).message, autoClose: 10_000 });
}

export function done(message: string): void {
  notifications.show({ message });
}

interface Undoable {
  /** The action in the past tense, for example "Suppression lifted". */
  message: string;
  run(): Promise<unknown>;
  onUndo(): void;
}

/** The page hides the item before it calls this, and shows it again in onUndo, which is also called after a failure. */
export function withUndo({ message, run, onUndo }: Undoable): void {
  let isOver = false;
  const finish = (): void => {
    if (isOver) return;
    isOver = true;
    removeEventListener('pagehide', finish);
    notifications.hide(id);
    run().catch((error: unknown) => {
      onUndo();
      failed(error);
    });
  };
  const undo = (): void => {
    isOver = true;
    clearTimeout(timer);
    removeEventListener('pagehide', finish);
    notifications.hide(id);
    onUndo();
  };
  const timer = setTimeout(finish, UNDO_MS);
  addEventListener('pagehide', finish);
  const id = notifications.show({
    autoClose: UNDO_MS,
    withCloseButton: false,
    message: (
      <Group justify="space-between" wrap="nowrap">
        <span>{message}</span>
        <Button variant="light" onClick={undo} flex="none">
          {undoing.undo}
        </Button>
      </Group>
    ),
  });
}
