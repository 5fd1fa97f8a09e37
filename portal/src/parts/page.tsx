/** The frame of a page: its title, actions, and panels. */
import { Anchor, Group, Text, Title } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect } from 'react';
import classes from './parts.module.css';

export interface PageProps {
  title: string;
  /** Next to the title, for example a status. */
  badge?: ReactNode;
  /** A sentence below the title. */
  lead?: ReactNode;
  /** The parent page: a path and its name. */
  parent?: { href: string; name: string };
  /** The button that most visitors look for; it comes first. */
  primary?: ReactNode;
  actions?: ReactNode;
  /** The icon with the API request of the page; it comes last. */
  code?: ReactNode;
  children?: ReactNode;
}

export function Page({ title, badge, lead, parent, primary, actions, code, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Postrider`;
  }, [title]);
  return (
    <div className={classes.page}>
      <div className={classes.head}>
        <div>
          {parent !== undefined && (
            <Text size="xs">
              <Anchor component={Link} to={parent.href}>
                {parent.name}
              </Anchor>
            </Text>
          )}
          <Group gap="xs">
            <Title order={1}>{title}</Title>
            {badge}
          </Group>
          {lead !== undefined && (
            <Text c="dimmed" component="div" maw="46rem">
              {lead}
            </Text>
          )}
        </div>
        <div className={classes.actions}>
          {primary}
          {actions}
        </div>
        <div>{code}</div>
      </div>
      {children}
    </div>
  );
}

export function Panel({ title, actions, children }: { title?: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className={classes.panel} aria-label={title}>
      {(title !== undefined || actions !== undefined) && (
        <header>
          <Title order={2} size="h3">
            {title}
          </Title>
          {actions !== undefined && <Group gap="xs">{actions}</Group>}
        </header>
      )}
      {children}
    </section>
  );
}

/** A list of names and values. Undefined values are omitted. */
export function Facts({ of }: { of: readonly (readonly [string, ReactNode | undefined])[] }) {
  return (
    <dl className={classes.facts}>
      {of.map(
        ([name, value]) =>
          value !== undefined && (
            <div key={name} style={{ display: 'contents' }}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
