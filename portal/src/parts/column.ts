/** What a list shows of its rows: columns, the position of each on a phone, and the drawer of a row. */
import type { ReactNode } from 'react';
import type { Cell } from './csv.ts';

export interface Column<T> {
  name: string;
  /** The displayed content. */
  cell(row: T): ReactNode;
  /** The value in the CSV file; a column without this function is omitted there. */
  text?(row: T): Cell;
  /** CSS width, for example '9rem'. */
  width?: string;
  atEnd?: boolean;
  /** Position on a phone, where a row has two lines: title and time, then detail and badge. Columns without one are hidden there. */
  phone?: 'title' | 'time' | 'detail' | 'badge';
}

/** A list as usePages returns it; the response of a list without pages has only some of it. */
export interface Listed<T> {
  /** Undefined while loading for the first time. */
  items: readonly T[] | undefined;
  error?: unknown;
  refetch?(): unknown;
  hasNextPage?: boolean;
  isFetchingNextPage?: boolean;
  fetchNextPage?(): unknown;
}

/** The drawer that a row opens. */
export interface Details<T> {
  title(row: T): ReactNode;
  size?: 'lg' | 'xl';
  content(row: T, close: () => void): ReactNode;
}
