/** The page of a list: its title, with the primary action first, then filters, rows with their drawer, and the dialogs of the page. */
import type { ReactNode } from 'react';
import { Page, type PageProps } from './page.tsx';
import { Rows, type RowsProps } from './rows.tsx';

interface ListPageProps<T> extends PageProps, Omit<RowsProps<T>, 'label'> {
  /** Names the table for screen readers, if the title does not. */
  label?: string;
  /** Above the filters. */
  notice?: ReactNode;
  filters?: ReactNode;
  /** Below the list: dialogs, and panels about the same subject. */
  children?: ReactNode;
}

export function ListPage<T>(props: ListPageProps<T>) {
  const { title, badge, lead, parent, primary, actions, code, notice, filters, children, ...rows } = props;
  return (
    <Page title={title} badge={badge} lead={lead} parent={parent} primary={primary} actions={actions} code={code}>
      {notice}
      {filters}
      <Rows {...rows} label={rows.label ?? title} />
      {children}
    </Page>
  );
}
