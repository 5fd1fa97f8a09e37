/**
 * Draws the lines of a chart (uPlot). Colors are read from the theme's variables at each drawing, so it follows light and dark mode; it
 * fills the width of its container.
 */
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { ticksUpTo } from './chart-scale.ts';
import { formatOf } from './time.tsx';

export interface Series {
  name: string;
  /** A variable of theme.css, for example --good. */
  color: string;
  /** One for each time; null if there is none. */
  values: readonly (number | null)[];
  /** Shown in the legend while no time is selected. */
  summary: string;
  stroke?: 'solid' | 'dashed' | 'dotted';
  isFilled?: boolean;
}

export interface ChartProps {
  /** For screen readers. */
  label: string;
  /** Start of each hour or day, Unix ms, oldest first. */
  times: readonly number[];
  /** Days are in UTC; hours are shown in the user's time zone. */
  unit: 'hour' | 'day';
  series: readonly Series[];
  format(value: number): string;
  /** Integer values: no ticks between whole numbers. */
  isCount?: boolean;
  /** The period of the summaries, for example "In 7 days". */
  span: string;
}

interface CanvasProps extends ChartProps {
  hidden: ReadonlySet<string>;
  /** Called with the time under the pointer. */
  onPoint(index: number | undefined): void;
}

const DASHES: Record<NonNullable<Series['stroke']>, number[]> = { solid: [], dashed: [6, 4], dotted: [2, 3] };
const FONT = '11px system-ui, sans-serif';
/** A value without neighbors is drawn as a point. */
const hasGaps = ({ values }: Series): boolean => values.includes(null);

const variable = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const day = formatOf({ month: 'short', day: 'numeric', timeZone: 'UTC' });
const hour = formatOf({ hour: '2-digit', minute: '2-digit' });
const midnight = formatOf({ month: 'short', day: 'numeric' });

function mark(unit: ChartProps['unit'], seconds: number): string {
  const at = new Date(seconds * 1_000);
  if (unit === 'day') return day.format(at);
  return at.getHours() === 0 ? midnight.format(at) : hour.format(at);
}

function lineOf(series: Series): uPlot.Series {
  const { name, color, stroke = 'solid', isFilled } = series;
  return {
    label: name,
    stroke: () => variable(color),
    // The variables are #rrggbb.
    ...(isFilled && { fill: () => `${variable(color)}1a` }),
    width: 1.75,
    dash: DASHES[stroke],
    spanGaps: true,
    points: { show: hasGaps(series), size: 5, fill: () => variable(color) },
  };
}

function optionsOf(props: CanvasProps, width: number, height: number): uPlot.Options {
  const { unit, series, format, isCount = false } = props;
  const kind = isCount ? 'count' : 'seconds';
  const dimmed = (): string => variable('--mantine-color-dimmed');
  return {
    width,
    height,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { size: 7 } },
    ...(unit === 'day' && { tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'UTC') }),
    scales: { y: { range: (_, __, largest) => [0, ticksUpTo(largest, kind).at(-1)!] } },
    axes: [
      {
        stroke: dimmed,
        font: FONT,
        grid: { show: false },
        ticks: { show: false },
        space: 64,
        size: 24,
        incrs: (unit === 'day' ? [1, 2, 7, 14] : [1 / 24, 1 / 8, 1 / 4, 1 / 2, 1, 2]).map((days) => days * 86_400),
        values: (_, splits) => splits.map((seconds) => mark(unit, seconds)),
      },
      {
        stroke: dimmed,
        font: FONT,
        ticks: { show: false },
        space: 36,
        grid: { stroke: () => variable('--line'), width: 1 },
        splits: (_, __, ___, top) => ticksUpTo(top, kind),
        values: (_, splits) => splits.map(format),
        size: (_, values) => 14 + 6.5 * Math.max(2, ...(values ?? []).map((one) => one.length)),
      },
    ],
    series: [{}, ...series.map(lineOf)],
  };
}

const dataOf = ({ times, series }: ChartProps): uPlot.AlignedData => [
  times.map((at) => at / 1_000),
  ...series.map(({ values }) => [...values]),
];

export default function ChartCanvas(props: CanvasProps) {
  const { unit, times, series, hidden } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const latest = useRef(props.onPoint);
  latest.current = props.onPoint;
  const shape = `${unit} ${series.map((one) => `${one.name} ${hasGaps(one)}`)}`;

  useEffect(() => {
    const element = place.current!;
    const drawn = new uPlot(optionsOf(props, element.clientWidth, element.clientHeight), dataOf(props), element);
    plot.current = drawn;
    const point = (): void => latest.current(drawn.cursor.idx ?? undefined);
    drawn.hooks.setCursor = [point];
    const sizes = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: element.clientHeight }));
    sizes.observe(element);
    const schemes = new MutationObserver(() => drawn.redraw(false, true));
    schemes.observe(document.documentElement, { attributeFilter: ['data-mantine-color-scheme'] });
    return () => {
      sizes.disconnect();
      schemes.disconnect();
      drawn.destroy();
      latest.current(undefined);
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(dataOf(props)), [times, series]);
  useEffect(() => {
    for (const [at, { name }] of series.entries()) plot.current?.setSeries(at + 1, { show: !hidden.has(name) });
  }, [hidden, shape]);
  return <div ref={place} style={{ height: '100%', minWidth: 0 }} />;
}
