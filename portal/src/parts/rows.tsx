/**
 * Displays a list as a table with virtual scrolling, so hundreds of thousands of rows scroll smoothly. On a phone, each row has two lines
 * or becomes a card. The next page loads before the user reaches the end.
 */
import { Button, Group, Skeleton, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { lazy, type ReactNode, Suspense, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { basePath } from '../base-path.ts';
import { IconDownload } from '../icons.ts';
import { bulk as bulkTexts, lists } from '../texts/parts.ts';
import type { BulkAction } from './bulk.tsx';
import { type Cell, saveCsv } from './csv.ts';
import classes from './parts.module.css';
import { EmptyState, ErrorState } from './states.tsx';

export interface Column<T> {
  name: string;
  /** The displayed content. */
  cell(row: T): ReactNode;
  /** The value in the CSV file; a column without this function is omitted there. */
  text?(row: T): Cell;
  /** CSS width, for example '9rem'. */
  width?: string;
  atEnd?: boolean;
  /**
   * Position on a phone, where a row has two lines: title and time, then detail and badge. If any column of a list has a position, columns
   * without one are hidden on a phone. If none has one, each column is shown on a line with its name.
   */
  phone?: 'title' | 'time' | 'detail' | 'badge';
}

export interface RowsProps<T> {
  /** Names the table for screen readers. */
  label: string;
  columns: readonly Column<T>[];
  /** Undefined while loading for the first time. */
  rows: readonly T[] | undefined;
  keyOf(row: T): string;
  /** The path that a row links to; its first cell becomes the link. */
  href?(row: T): string;
  /** Opens a row next to the list if the row has no page; its first cell becomes the button. */
  onOpen?(row: T): void;
  error?: unknown;
  onRetry?(): unknown;
  hasMore?: boolean;
  isLoadingMore?: boolean;
  onMore?(): unknown;
  empty: { title: string; hint?: ReactNode; action?: ReactNode };
  /** Columns of the CSV file, if they differ from those of the table. */
  csvColumns?: readonly Column<T>[];
  /** Name of the CSV file without its extension; if absent, there is no export button. */
  csvName?: string;
  /** Actions on several rows; if set, each row has a checkbox, except on a phone. */
  bulk?: readonly BulkAction<T>[] | undefined;
  /** Returns all rows for the CSV file, including pages that are not loaded; if absent, the file has the loaded rows. */
  csvRows?(): AsyncIterable<T>;
}

const OVERSCAN = 20;
/** The bar is loaded on demand, since most visits to a list select nothing. */
const BulkBar = lazy(() => import('./bulk.tsx'));

export function Rows<T>(props: RowsProps<T>) {
  const { rows, error, empty } = props;
  if (rows === undefined && error) return <ErrorState error={error} onRetry={props.onRetry} />;
  if (rows === undefined) return <LoadingRows />;
  if (rows.length === 0 && !props.hasMore)
    return (
      <EmptyState title={empty.title} action={empty.action}>
        {empty.hint}
      </EmptyState>
    );
  return <Table {...props} rows={rows} />;
}

function LoadingRows() {
  return (
    <Stack gap={10} py="sm" aria-busy="true">
      {[90, 70, 85, 60, 75, 80].map((width) => (
        <Skeleton key={width} height={14} width={`${width}%`} />
      ))}
    </Stack>
  );
}

interface Selection<T> {
  chosen: readonly T[];
  isChosen(row: T): boolean;
  choose(row: T, isChosen: boolean): void;
  chooseAll(isChosen: boolean): void;
}

/** The selected rows; a row that is no longer in the list is no longer selected. */
function useSelection<T>(rows: readonly T[], keyOf: (row: T) => string): Selection<T> {
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  return {
    chosen: keys.size === 0 ? [] : rows.filter((row) => keys.has(keyOf(row))),
    isChosen: (row) => keys.has(keyOf(row)),
    choose(row, isChosen) {
      const next = new Set(keys);
      if (isChosen) next.add(keyOf(row));
      else next.delete(keyOf(row));
      setKeys(next);
    },
    chooseAll: (isChosen) => setKeys(new Set(isChosen ? rows.map(keyOf) : [])),
  };
}

function Table<T>({
  rows,
  columns,
  label,
  keyOf,
  href,
  onOpen,
  bulk,
  ...props
}: RowsProps<T> & { rows: readonly T[] }) {
  const { hasMore, isLoadingMore, onMore, csvName } = props;
  const body = useRef<HTMLTableElement>(null);
  const selection = useSelection(rows, keyOf);
  const { chosen } = selection;
  const columnCount = columns.length + (bulk ? 1 : 0);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(body.current?.offsetTop ?? 0), []);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => 34,
    overscan: OVERSCAN,
    scrollMargin: top,
    getItemKey: (index) => keyOf(rows[index]!),
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && !isLoadingMore && last >= rows.length - OVERSCAN) onMore?.();
  }, [hasMore, isLoadingMore, last, rows.length, onMore]);
  const before = (items[0]?.start ?? top) - top;
  const after = virtual.getTotalSize() - ((items.at(-1)?.end ?? top) - top);
  return (
    <>
      {bulk !== undefined && chosen.length > 0 && (
        <Suspense>
          <BulkBar chosen={chosen} actions={bulk as BulkAction<unknown>[]} onClear={() => selection.chooseAll(false)} />
        </Suspense>
      )}
      <table
        className={classes.list}
        data-lines={columns.some(({ phone }) => phone !== undefined) || undefined}
        ref={body}
        aria-label={label}
        aria-rowcount={hasMore ? -1 : rows.length}
      >
        <thead>
          <tr>
            {bulk && (
              <th className={classes.choice}>
                <input
                  type="checkbox"
                  aria-label={bulkTexts.all}
                  checked={chosen.length === rows.length}
                  ref={(box) => {
                    if (box) box.indeterminate = chosen.length > 0 && chosen.length < rows.length;
                  }}
                  onChange={({ currentTarget }) => selection.chooseAll(currentTarget.checked)}
                />
              </th>
            )}
            {columns.map(({ name, width, atEnd }) => (
              <th key={name} scope="col" style={{ width }} className={atEnd ? classes.end : undefined}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <Space height={before} columns={columnCount} />}
          {items.map(({ index, key }) => (
            <Row
              key={key}
              index={index}
              columns={columns}
              row={rows[index]!}
              href={href?.(rows[index]!)}
              onOpen={onOpen}
              selection={bulk && selection}
              measure={virtual.measureElement}
            />
          ))}
          {after > 0 && <Space height={after} columns={columnCount} />}
        </tbody>
      </table>
      <Group justify="space-between" mt="sm" mih={28}>
        <Text c="dimmed" size="xs" role="status">
          {isLoadingMore ? lists.loadingMore : hasMore ? '' : rows.length > 15 ? lists.end : ''}
        </Text>
        <Group gap="xs">
          {hasMore && !isLoadingMore && (
            <Button variant="default" onClick={() => void onMore?.()}>
              {lists.more}
            </Button>
          )}
          {csvName !== undefined && (
            <CsvButton {...props} rows={rows} columns={props.csvColumns ?? columns} csvName={csvName} />
          )}
        </Group>
      </Group>
    </>
  );
}

function Space({ height, columns }: { height: number; columns: number }) {
  return (
    <tr style={{ height, border: 0 }}>
      <td colSpan={columns} style={{ padding: 0, border: 0 }} />
    </tr>
  );
}

interface RowProps<T> {
  row: T;
  index: number;
  columns: readonly Column<T>[];
  href: string | undefined;
  onOpen: ((row: T) => void) | undefined;
  /** Undefined in a list without actions on several rows. */
  selection: Selection<T> | undefined;
  measure(element: Element | null): void;
}

function Row<T>({ row, index, columns, href, onOpen, selection, measure }: RowProps<T>) {
  const link = useRef<HTMLAnchorElement & HTMLButtonElement>(null);
  const open = (): void => onOpen?.(row);
  const linkTo = (content: ReactNode): ReactNode => {
    if (href !== undefined)
      return (
        <Link ref={link} to={href} className={classes.rowLink}>
          {content}
        </Link>
      );
    if (onOpen === undefined) return content;
    return (
      <button ref={link} type="button" className={classes.rowLink} onClick={open}>
        {content}
      </button>
    );
  };
  return (
    // A click anywhere in the row activates its link or button, which also make the row accessible from the keyboard.
    <tr
      ref={measure}
      data-index={index}
      data-linked={href !== undefined || onOpen !== undefined || undefined}
      onClick={({ target, ctrlKey, metaKey }) => {
        if ((target as Element).closest('a,button,input,label') || getSelection()?.isCollapsed === false) return;
        if (href !== undefined && (ctrlKey || metaKey)) window.open(`${basePath}${href}`, '_blank', 'noopener');
        else link.current?.click();
      }}
    >
      {selection && (
        <td className={classes.choice}>
          <input
            type="checkbox"
            aria-label={bulkTexts.one}
            checked={selection.isChosen(row)}
            onChange={({ currentTarget }) => selection.choose(row, currentTarget.checked)}
          />
        </td>
      )}
      {columns.map((column, at) => (
        <td
          key={column.name}
          data-label={at === 0 ? undefined : column.name}
          data-phone={column.phone}
          className={column.atEnd ? classes.end : undefined}
        >
          {at === 0 ? linkTo(column.cell(row)) : column.cell(row)}
        </td>
      ))}
    </tr>
  );
}

function CsvButton<T>({
  rows,
  columns,
  csvName,
  csvRows,
}: Pick<RowsProps<T>, 'columns' | 'csvRows'> & { rows: readonly T[]; csvName: string }) {
  const [isBusy, setBusy] = useState(false);
  const save = async (): Promise<void> => {
    setBusy(true);
    await saveCsv(csvName, columns, csvRows?.() ?? rows).finally(() => setBusy(false));
  };
  return (
    <Button variant="default" loading={isBusy} leftSection={<IconDownload size={14} />} onClick={() => void save()}>
      {lists.csv}
    </Button>
  );
}
