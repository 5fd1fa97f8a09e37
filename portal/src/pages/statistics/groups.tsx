/** Outcomes by tag, template, recipient domain, or mailbox provider, largest first: rates, each compared with the period before. */
import { SegmentedControl, Text } from '@mantine/core';
import { useMemo } from 'react';
import { type Mode, useCall } from '../../api.ts';
import { Panel } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { count, percent } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { statistics as texts } from '../../texts/statistics.ts';
import { growth, pointsBetween } from '../overview/comparison.ts';
import type { Range } from '../overview/range.tsx';
import classes from './statistics.module.css';
import { comparedTotals, type GroupBy, type GroupTotal, isGroupBy, type Rate, rateOf } from './totals.ts';

const { columns: names } = texts;

/** Formats with a sign; U+2212 is as wide as the plus. */
const signed = (value: number, unit: string): string => `${value < 0 ? '−' : '+'}${Math.abs(value)}${unit}`;

interface FigureProps {
  value: string;
  /** Undefined if there is nothing to compare with. */
  change: number | undefined;
  unit: string;
  isWorse?: boolean;
}

function Figure({ value, change, unit, isWorse = false }: FigureProps) {
  return (
    <span className={classes.figure}>
      {value}
      {change !== undefined && (
        <small data-bad={isWorse || undefined}>{change === 0 ? texts.same : signed(change, unit)}</small>
      )}
    </span>
  );
}

/** The direction of each rate that is marked as bad; opens and clicks are not judged. */
const WORSE: Partial<Record<Rate, 'lower' | 'higher'>> = {
  deliveryRate: 'lower',
  bounceRate: 'higher',
  complaintRate: 'higher',
};

function rateColumn(rate: Rate): Column<GroupTotal> {
  const digits = rate === 'complaintRate' ? 2 : 1;
  return {
    name: names[rate],
    phone: rate === 'deliveryRate' ? 'badge' : undefined,
    cell: (one) => {
      const value = rateOf(one, rate);
      const change = pointsBetween(value, one.before && rateOf(one.before, rate), digits);
      const isWorse =
        change !== undefined && (WORSE[rate] === 'lower' ? change < 0 : WORSE[rate] === 'higher' && change > 0);
      return (
        <Figure
          value={value === undefined ? texts.noRate : percent(value)}
          change={change}
          unit={texts.points}
          isWorse={isWorse}
        />
      );
    },
    text: (one) => rateOf(one, rate)?.toFixed(5),
    atEnd: true,
  };
}

/** Columns of the file only: the counts that the rates are computed from. */
const COUNTS = (['delivered', 'bounced', 'complained', 'opened', 'clicked'] as const).map(
  (name): Column<GroupTotal> => ({ name, cell: () => null, text: (one) => one[name] }),
);

const COLUMNS: readonly Column<GroupTotal>[] = [
  {
    name: names.accepted,
    phone: 'detail',
    cell: ({ accepted, before }) => {
      const share = before && growth(accepted, before.accepted);
      return (
        <Figure
          value={count(accepted)}
          change={share === undefined ? share : Math.round(share * 100)}
          unit={texts.percent}
        />
      );
    },
    text: ({ accepted }) => accepted,
    atEnd: true,
  },
  ...(['deliveryRate', 'bounceRate', 'complaintRate', 'openRate', 'clickRate'] as const).map(rateColumn),
];

export function Groups({ range }: { range: Range }) {
  const { mode } = useScope();
  const [{ group }, setSearch] = useSearchState();
  const groupBy = isGroupBy(group) ? group : 'tag';
  const query = { ...range.queryWithPrevious, groupBy };
  const statistics = useCall('getStatistics', { query }, { keepsLast: true });
  const totals = useMemo(
    () => statistics.data && comparedTotals(statistics.data.buckets, range.query.since),
    [statistics.data, range.query.since],
  );
  const nameOf = useNames(groupBy);
  const first: Column<GroupTotal> = {
    name: texts.groups[groupBy],
    phone: 'title',
    cell: (one) => nameOf(one.group),
    text: (one) => nameOf(one.group),
  };
  return (
    <Panel
      title={texts.breakdown}
      actions={
        <SegmentedControl
          aria-label={texts.groupBy}
          value={groupBy}
          onChange={(value) => setSearch({ group: value === 'tag' ? undefined : value })}
          data={Object.entries(texts.choices).map(([value, label]) => ({ value, label }))}
        />
      }
    >
      {texts.notes[groupBy] !== undefined && (
        <Text c="dimmed" size="xs" mb="xs">
          {texts.notes[groupBy]}
        </Text>
      )}
      <Rows
        label={texts.breakdown}
        columns={[first, ...COLUMNS]}
        csvColumns={[first, ...COLUMNS, ...COUNTS]}
        list={{ items: totals, error: statistics.error, refetch: statistics.refetch }}
        href={({ group: one }) => hrefOf(mode, groupBy, one)}
        hrefName={texts.openMessages}
        keyOf={(one) => JSON.stringify(one.group)}
        empty={{ title: texts.none, hint: texts.noneHint }}
        csvName={`statistics-by-${groupBy}`}
      />
    </Panel>
  );
}

/** Returns the display name of a group; templates and mailbox providers have a name. */
function useNames(groupBy: GroupBy): (group: string | null) => string {
  const templates = useCall('listTemplates', { query: { limit: 100 } }, { enabled: groupBy === 'template' }).data;
  return (group) => {
    if (group === null) return texts.others;
    if (group === '') return texts.noGroup[groupBy];
    if (groupBy === 'mailboxProvider') return texts.providers[group] ?? group;
    return (groupBy === 'template' && templates?.find(({ templateId }) => templateId === group)?.name) || group;
  };
}

/** The messages of the group; a domain is searched in the addresses. A mailbox provider has too many domains to search for. */
function hrefOf(mode: Mode, groupBy: GroupBy, group: string | null): string | undefined {
  if (!group || groupBy === 'mailboxProvider') return undefined;
  const filters: Record<typeof groupBy, Record<string, string>> = {
    tag: { tags: group },
    template: { template: group },
    recipientDomain: { to: `@${group}` },
  };
  return `/app/${mode}/messages?${new URLSearchParams(filters[groupBy])}`;
}
