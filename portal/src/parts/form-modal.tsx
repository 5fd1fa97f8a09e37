/**
 * A dialog with a form: fields, the reason why it was refused, and its buttons, which stay in sight if the fields are long. It is open
 * while it is rendered, so its fields are empty each time; afterwards the focus returns to the button that opened it.
 */
import { Button, Group, Modal, Stack } from '@mantine/core';
import type { ReactNode } from 'react';
import { confirming } from '../texts/parts.ts';
import { useFocusBack } from './focus-back.ts';
import classes from './parts.module.css';
import { Problem } from './problem.tsx';

interface FormModalProps {
  title: string;
  size?: 'lg' | 'xl';
  /** The button that submits the form. */
  submit: ReactNode;
  color?: string;
  /** The other button, if it is not "Cancel". */
  cancel?: string;
  isBusy?: boolean;
  isDisabled?: boolean;
  /** Errors that no field displays. */
  error?: unknown;
  children: ReactNode;
  onSubmit(): void;
  onClose(): void;
}

/** The field that can be filled in first; the radio button that is chosen. */
const FIELD = ':is(input:not([type="hidden"], [type="radio"]:not(:checked)), select, textarea):enabled';

/** The dialog opens with the focus in its first field, or else on the button that closes it, unless it marks another element. */
function focusFirst(form: HTMLFormElement | null): void {
  if (form === null || form.querySelector('[data-autofocus]')) return;
  (form.querySelector(FIELD) ?? form.querySelector('button'))?.setAttribute('data-autofocus', '');
}

export function FormModal({ title, size, error, children, onSubmit, onClose, ...buttons }: FormModalProps) {
  const { submit, color, cancel = confirming.cancel, isBusy, isDisabled } = buttons;
  useFocusBack();
  return (
    <Modal opened onClose={onClose} title={title} size={size}>
      <form
        ref={focusFirst}
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        <Stack gap="md">
          <Problem error={error} />
          {children}
          <Group justify="flex-end" gap="xs" className={classes.formEnd}>
            <Button variant="default" onClick={onClose}>
              {cancel}
            </Button>
            <Button type="submit" color={color} loading={isBusy} disabled={isDisabled}>
              {submit}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
