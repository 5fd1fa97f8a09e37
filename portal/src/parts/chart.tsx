/**
 * A chart over time: lines, a legend with values that toggles lines, and a table for screen readers and exact figures. The drawing code is
 * loaded on demand.
 */
import { Skeleton, Switch, Table } from '@mantine/core';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import { charts } from '../texts/parts.ts';
import classes from './chart.module.css';
import type { ChartProps } from './chart-canvas.tsx';
import { formatOf } from './time.tsx';

export type { ChartProps, Series } from './chart-canvas.tsx';

const ChartCanvas = lazy(() => import('./chart-canvas.tsx'));

const dayName = formatOf({ dateStyle: 'medium', timeZone: 'UTC' });
const hourName = formatOf({ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' });

const nameOf = (unit: ChartProps['unit'], at: number): string => (unit === 'day' ? dayName : hourName).format(at);

export function Chart(props: ChartProps) {
  const { label, times, unit, series, format, span } = props;
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [pointed, setPointed] = useState<number>();
  const [isTable, setTable] = useState(false);
  const at = pointed !== undefined && pointed < times.length ? pointed : undefined;
  const toggle = (name: string): void => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
  };
  return (
    <div>
      <div className={classes.head}>
        <span className={classes.span}>{at === undefined ? span : nameOf(unit, times[at]!)}</span>
        <Switch
          size="xs"
          label={charts.asTable}
          checked={isTable}
          onChange={({ currentTarget }) => setTable(currentTarget.checked)}
        />
      </div>
      <ul className={classes.legend} aria-label={label}>
        {series.map(({ name, color, stroke = 'solid', values, summary }) => (
          <li key={name}>
            <button type="button" aria-pressed={!hidden.has(name)} onClick={() => toggle(name)}>
              <i style={{ borderTopColor: `var(${color})`, borderTopStyle: stroke }} />
              <span>{name}</span>
              <b>{at === undefined ? summary : shown(values[at], format)}</b>
            </button>
          </li>
        ))}
      </ul>
      {isTable ? (
        <AsTable {...props} />
      ) : (
        <div className={classes.canvas} aria-hidden>
          <Suspense fallback={<Skeleton height="100%" />}>
            <ChartCanvas {...props} hidden={hidden} onPoint={setPointed} />
          </Suspense>
        </div>
      )}
    </div>
  );
}

const shown = (value: number | null | undefined, format: (value: number) => string): string =>
  value === null || value === undefined ? charts.none : format(value);

function AsTable({ label, times, unit, series, format }: ChartProps): ReactNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1)
    <section className={classes.table} tabIndex={0} aria-label={label}>
      <Table stickyHeader verticalSpacing={3}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">{charts.time}</Table.Th>
            {series.map(({ name }) => (
              <Table.Th key={name} scope="col" ta="right">
                {name}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {times
            .map((time, at) => (
              <Table.Tr key={time}>
                <Table.Th scope="row" fw={400} style={{ whiteSpace: 'nowrap' }}>
                  {nameOf(unit, time)}
                </Table.Th>
                {series.map(({ name, values }) => (
                  <Table.Td key={name} ta="right">
                    {shown(values[at], format)}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))
            .reverse()}
        </Table.Tbody>
      </Table>
    </section>
  );
}
