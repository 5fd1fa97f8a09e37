/**
 * A menu of actions behind a button. Escape closes it and returns the focus to the button; Tab closes it and goes to what follows the
 * button. A disabled action can have the focus: a menu closes with Escape only if one of its items can.
 */
import { Menu } from '@mantine/core';
import { type KeyboardEvent, type ReactElement, type ReactNode, useState } from 'react';

interface ActionMenuProps {
  button: ReactElement;
  position?: 'bottom-start' | 'bottom-end';
  width?: number;
  children: ReactNode;
}

export function ActionMenu({ button, position = 'bottom-end', width, children }: ActionMenuProps) {
  const [isOpen, setOpen] = useState(false);
  const [isLeft, setLeft] = useState(false);
  const change = (opened: boolean): void => {
    setLeft(false);
    setOpen(opened);
  };
  const leave = (event: KeyboardEvent<HTMLDivElement>): void => {
    if (event.key !== 'Tab') return;
    // This keeps the event from the focus trap of the menu. The browser then moves the focus on from the button.
    event.stopPropagation();
    const button = event.currentTarget.closest('[role="menu"]')?.getAttribute('aria-labelledby');
    document.getElementById(button ?? '')?.focus();
    setLeft(true);
    setOpen(false);
  };
  return (
    <Menu opened={isOpen} onChange={change} position={position} width={width} returnFocus={!isLeft}>
      <Menu.Target>{button}</Menu.Target>
      <Menu.Dropdown mah="24rem" style={{ overflowY: 'auto' }}>
        <div role="presentation" onKeyDownCapture={leave}>
          {children}
        </div>
      </Menu.Dropdown>
    </Menu>
  );
}

interface MenuActionProps {
  icon?: ReactNode;
  /** At the end of the line. */
  mark?: ReactNode;
  isDisabled?: boolean;
  /** Whether it deletes something. */
  isDanger?: boolean;
  onClick(): void;
  children: ReactNode;
}

/** The component's own disabled state is not used: the arrow keys skip such an item, and throw an error if there is no other one. */
const DISABLED = { opacity: 0.5, cursor: 'default' };

export function MenuAction({ icon, mark, isDisabled = false, isDanger = false, onClick, children }: MenuActionProps) {
  return (
    <Menu.Item
      leftSection={icon}
      rightSection={mark}
      c={isDanger ? 'var(--mantine-color-error)' : undefined}
      aria-disabled={isDisabled || undefined}
      style={isDisabled ? DISABLED : undefined}
      closeMenuOnClick={!isDisabled}
      onClick={() => !isDisabled && onClick()}
    >
      {children}
    </Menu.Item>
  );
}
