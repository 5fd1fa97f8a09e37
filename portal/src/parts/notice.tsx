/** A colored notice with actions; and the notice for resources shared by live and sandbox that only Live can change. */
import { Anchor, Group } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useScope } from '../scope.ts';
import { shared } from '../texts/parts.ts';
import classes from './parts.module.css';
import type { Tone } from './tone.ts';

interface NoticeProps {
  tone?: Tone;
  /** For notices that screen readers announce immediately. */
  role?: 'alert' | 'status';
  title?: string;
  children?: ReactNode;
  actions?: ReactNode;
}

export function Notice({ tone = 'note', role, title, children, actions }: NoticeProps) {
  return (
    <div className={`${classes.notice} ${classes[tone]}`} role={role}>
      <div>
        {title !== undefined && <strong>{title}</strong>} {children}
      </div>
      {actions !== undefined && <Group gap="xs">{actions}</Group>}
    </div>
  );
}

/** Explains in the sandbox that these resources are changed in Live, with a link. */
export function LiveOnly({ children }: { children: string }) {
  const { mode } = useScope();
  const { pathname } = useLocation();
  if (mode === 'live') return null;
  return (
    <Notice>
      {children}{' '}
      <Anchor
        component={Link}
        to={pathname.replace('/app/sandbox', '/app/live')}
        inherit
        c="inherit"
        underline="always"
      >
        {shared.toLive}
      </Anchor>
    </Notice>
  );
}
