/** Next to the title of a page: whether the page updates automatically. */
import { shell } from '../texts/shell.ts';
import classes from './parts.module.css';

export type ConnectionState = keyof typeof shell.connection;

export function Connection({ state, title }: { state: ConnectionState; title?: string }) {
  return (
    <span className={classes.connection} data-live={state === 'live' || undefined} title={title}>
      {shell.connection[state]}
    </span>
  );
}
