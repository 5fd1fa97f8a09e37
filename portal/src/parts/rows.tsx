/**
 * Displays a list as a table with virtual scrolling, so hundreds of thousands of rows scroll smoothly. On a phone, each row has two lines.
 * A row opens its page, or a drawer with all its columns. The next page loads before the user reaches the end.
 */
import { Button, Group, Skeleton, Stack, Text } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { lazy, type ReactNode, type RefObject, Suspense, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { basePath } from '../base-path.ts';
import { IconDownload } from '../icons.ts';
import { bulk as bulkTexts, lists } from '../texts/parts.ts';
import type { BulkAction } from './bulk.tsx';
import type { Column, Details, Listed } from './column.ts';
import { saveCsv } from './csv.ts';
import { useFocusNext } from './focus-next.ts';
import classes from './parts.module.css';
import { PathLink } from './path-link.tsx';
import { EmptyState, ErrorState } from './states.tsx';

export type { Column, Details, Listed } from './column.ts';

export interface RowsProps<T> {
  /** Names the table for screen readers. */
  label: string;
  columns: readonly Column<T>[];
  list: Listed<T>;
  /** The displayed rows, if they are not all items of the list. */
  rows?: readonly T[] | undefined;
  keyOf(row: T): string;
  /** The path that a row links to, with a query if needed; its first cell becomes the link. Other rows open a drawer. */
  href?(row: T): string | undefined;
  /**
   * Names the link to that path in the drawer of a row. If set, a row opens its drawer on a phone, where a tap would otherwise skip the columns
   * and actions that only the list has.
   */
  hrefName?: string;
  /** Opens a row in a drawer of the page. */
  onOpen?(row: T): void;
  /** The drawer of a row without a page, if it is not the list of all columns. */
  details?: Details<T>;
  /** What can be done with a row, as `RowAction`: icons at its end, and named buttons in its drawer. */
  rowActions?: ((row: T) => ReactNode) | undefined;
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
/** The bar and the drawer are loaded on demand, since most visits to a list select and open nothing. */
const BulkBar = lazy(() => import('./bulk.tsx'));
const RowDetails = lazy(() => import('./row-details.tsx'));

/** Where a row has two lines, as in parts.module.css. */
const PHONE = '(max-width: 640px)';

/** The drawer of a row stays open if the row is no longer among the loaded ones, which newer rows can cause at any time. */
export function Rows<T>(props: RowsProps<T>) {
  const { columns, href, hrefName, keyOf, details, rowActions } = props;
  const rows = props.rows ?? props.list.items;
  const isPhone = useMediaQuery(PHONE, undefined, { getInitialValueInEffect: false });
  const [opened, setOpened] = useState<{ key: string; row: T }>();
  const focusNext = useFocusNext(rows, keyOf);
  return (
    <>
      <div {...focusNext}>
        <Content
          {...props}
          rows={rows}
          href={isPhone && hrefName !== undefined ? undefined : href}
          onOpen={props.onOpen ?? ((row) => setOpened({ key: keyOf(row), row }))}
        />
      </div>
      {opened !== undefined && (
        <Suspense>
          <RowDetails
            key={opened.key}
            opened={opened.row}
            current={rows?.find((row) => keyOf(row) === opened.key)}
            columns={columns as readonly Column<unknown>[]}
            details={details as Details<unknown> | undefined}
            actions={rowActions as ((row: unknown) => ReactNode) | undefined}
            href={href as ((row: unknown) => string | undefined) | undefined}
            hrefName={hrefName}
            onClosed={() => setOpened(undefined)}
          />
        </Suspense>
      )}
    </>
  );
}

type ContentProps<T> = RowsProps<T> & { onOpen(row: T): void };

function Content<T>(props: ContentProps<T>) {
  const { list, empty, rows } = props;
  if (rows === undefined && list.error) return <ErrorState error={list.error} onRetry={list.refetch} />;
  if (rows === undefined) return <LoadingRows />;
  if (rows.length === 0 && !list.hasNextPage)
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

/** The distance of the list from the start of the page, which changes with the height of everything above it. */
function useTop(list: RefObject<HTMLElement | null>): number {
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const measure = (): void => setTop(Math.round((list.current?.getBoundingClientRect().top ?? 0) + scrollY));
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(document.body);
    return () => sizes.disconnect();
  }, [list]);
  return top;
}

function Table<T>({
  rows,
  list,
  label,
  keyOf,
  href,
  onOpen,
  bulk,
  ...props
}: ContentProps<T> & { rows: readonly T[] }) {
  const { rowActions, csvName } = props;
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  const columns = rowActions === undefined ? props.columns : [...props.columns, actionColumn(rowActions)];
  const body = useRef<HTMLTableElement>(null);
  const selection = useSelection(rows, keyOf);
  const { chosen } = selection;
  const columnCount = columns.length + (bulk ? 1 : 0);
  const isLong = rows.length > 15;
  const top = useTop(body);
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
    if (hasNextPage && !isFetchingNextPage && last >= rows.length - OVERSCAN) fetchNextPage?.();
  }, [hasNextPage, isFetchingNextPage, last, rows.length, fetchNextPage]);
  const before = (items[0]?.start ?? top) - top;
  const after = virtual.getTotalSize() - ((items.at(-1)?.end ?? top) - top);
  return (
    <>
      {bulk !== undefined && chosen.length > 0 && (
        <Suspense>
          <BulkBar chosen={chosen} actions={bulk as BulkAction<unknown>[]} onClear={() => selection.chooseAll(false)} />
        </Suspense>
      )}
      <table className={classes.list} ref={body} aria-label={label} aria-rowcount={hasNextPage ? -1 : rows.length}>
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
      {(hasNextPage || isLong || csvName !== undefined) && (
        <Group justify="space-between" mt="sm" mih={28}>
          <Text c="dimmed" size="xs" role="status">
            {isFetchingNextPage ? lists.loadingMore : isLong && !hasNextPage ? lists.end : ''}
          </Text>
          <Group gap="xs">
            {hasNextPage && !isFetchingNextPage && (
              <Button variant="default" onClick={() => void fetchNextPage?.()}>
                {lists.more}
              </Button>
            )}
            {csvName !== undefined && (
              <CsvButton {...props} rows={rows} columns={props.csvColumns ?? props.columns} csvName={csvName} />
            )}
          </Group>
        </Group>
      )}
    </>
  );
}

function actionColumn<T>(actions: (row: T) => ReactNode): Column<T> {
  return {
    name: lists.actions,
    width: '5rem',
    atEnd: true,
    cell: (row) => (
      <Group gap={4} wrap="nowrap" display="inline-flex">
        {actions(row)}
      </Group>
    ),
  };
}

function Space({ height, columns }: { height: number; columns: number }) {
  return (
    <tr style={{ height, border: 0, padding: 0 }}>
      <td colSpan={columns} style={{ padding: 0, border: 0 }} />
    </tr>
  );
}

interface RowProps<T> {
  row: T;
  index: number;
  columns: readonly Column<T>[];
  href: string | undefined;
  onOpen(row: T): void;
  /** Undefined in a list without actions on several rows. */
  selection: Selection<T> | undefined;
  measure(element: Element | null): void;
}

function Row<T>({ row, index, columns, href, onOpen, selection, measure }: RowProps<T>) {
  const link = useRef<HTMLAnchorElement & HTMLButtonElement>(null);
  const linkTo = (content: ReactNode): ReactNode => {
    if (href === undefined)
      return (
        <button ref={link} type="button" className={classes.rowLink} onClick={() => onOpen(row)}>
          <span>{content}</span>
        </button>
      );
    return (
      <PathLink ref={link} href={href} className={classes.rowLink}>
        {content}
      </PathLink>
    );
  };
  return (
    // A click anywhere in the row activates its link or button, which also make the row accessible from the keyboard.
    <tr
      ref={measure}
      data-index={index}
      onClick={({ target, currentTarget, ctrlKey, metaKey }) => {
        // Menus and dialogs of a cell are elsewhere in the document.
        if (!currentTarget.contains(target as Element)) return;
        if ((target as Element).closest('a,button,input,label') || getSelection()?.isCollapsed === false) return;
        if (href !== undefined && (ctrlKey || metaKey)) window.open(`${basePath}${href}`, '_blank', 'noopener');
        else {
          link.current?.focus({ preventScroll: true });
          link.current?.click();
        }
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
        <td key={column.name} data-phone={column.phone} className={column.atEnd ? classes.end : undefined}>
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

/** A second line of a cell; hidden on a phone, where each row has two lines. */
export function Second({ children }: { children: ReactNode }) {
  return (
    <Text size="xs" c="dimmed" fw={400} component="span" className={classes.second}>
      {children}
    </Text>
  );
}
