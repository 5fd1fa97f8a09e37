/** Delivery rate, volume, bounces and complaints of the period, each compared with the period before. */
import { count, percent } from '../../parts/time.tsx';
import { ranges, summary } from '../../texts/overview.ts';
import { type Counts, growth, type PeriodTotals, pointsBetween, totalsOf } from './comparison.ts';
import classes from './overview.module.css';
import type { Range } from './range.tsx';

interface SummaryProps {
  shown: readonly Counts[];
  before: readonly Counts[];
  range: Range;
}

export function Summary({ shown, before, range }: SummaryProps) {
  const now = totalsOf(shown);
  const earlier = totalsOf(before);
  const period = ranges.names[range.name];
  return (
    <ul className={classes.tiles} aria-label={summary.label(period)}>
      <RateFigure name="deliveryRate" now={now} earlier={earlier} period={period} worse="lower" />
      <li className={classes.tile}>
        <span>{summary.accepted}</span>
        <b>{count(now.accepted)}</b>
        <small>{changeText(growth(now.accepted, earlier.accepted), signedPercent, period)}</small>
      </li>
      <RateFigure name="bounceRate" now={now} earlier={earlier} period={period} worse="higher" />
      <RateFigure name="complaintRate" now={now} earlier={earlier} period={period} worse="higher" digits={2} />
    </ul>
  );
}

interface RateFigureProps {
  name: 'deliveryRate' | 'bounceRate' | 'complaintRate';
  now: PeriodTotals;
  earlier: PeriodTotals;
  period: string;
  /** The direction that is marked as bad. */
  worse: 'lower' | 'higher';
  /** Decimal places of the difference; 1 by default. */
  digits?: number;
}

function RateFigure({ name, now, earlier, period, worse, digits = 1 }: RateFigureProps) {
  const rate = now[name];
  const points = pointsBetween(rate, earlier[name], digits);
  const isWorse = points !== undefined && (worse === 'lower' ? points < 0 : points > 0);
  const formatted = (value: number): string => summary.points(signed(value, digits));
  return (
    <li className={classes.tile} title={name === 'deliveryRate' ? summary.deliveryRateHint : undefined}>
      <span>{summary[name]}</span>
      <b>{rate === undefined ? summary.none : percent(rate)}</b>
      <small data-bad={isWorse || undefined}>
        {rate === undefined ? summary.noneHint : changeText(points, formatted, period)}
      </small>
    </li>
  );
}

function changeText(change: number | undefined, formatted: (change: number) => string, period: string): string {
  if (change === undefined) return summary.noPrevious;
  return change === 0 ? summary.same(period) : summary.versus(formatted(change), period);
}

/** Formats with a sign; U+2212 is as wide as the plus. */
const signed = (value: number, digits: number): string => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(digits)}`;

const signedPercent = (share: number): string => `${signed(share * 100, 0)}%`;
