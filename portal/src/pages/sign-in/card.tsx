/** The frame of the pages before login. */
import { Text, Title } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';
import { basePath } from '../../base-path.ts';
import classes from './sign-in.module.css';

export function Card({ title, lead, children }: { title: string; lead?: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Postrider`;
  }, [title]);
  return (
    <main className={classes.outer}>
      <div className={classes.card}>
        <div className={classes.brand}>
          <img src={`${basePath}/icon.svg`} alt="" width={24} height={24} />
          Postrider
        </div>
        <Title order={1} mb={lead === undefined ? 'md' : 4}>
          {title}
        </Title>
        {lead !== undefined && (
          <Text c="dimmed" mb="md">
            {lead}
          </Text>
        )}
        {children}
      </div>
    </main>
  );
}
