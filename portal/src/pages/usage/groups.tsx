/** Outcomes by tag, template or recipient domain, largest first. */
import { Anchor, SegmentedControl, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useMemo } from 'react';
import { useCall } from '../../api.ts';
import { Panel } from '../../parts/page.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { count, percent } from '../../parts/time.tsx';
import { useSearchState } from '../../router.tsx';
import { useScope } from '../../scope.ts';
import { usage } from '../../texts/usage.ts';
import { RangeControl, useRange } from '../overview/range.tsx';
import { type GroupBy, type GroupTotal, isGroupBy, totalsOf } from './totals.ts';
import classes from './usage.module.css';

const { columns: names } = usage;

const share = (part: number, of: number): string => (of === 0 ? '' : percent(part / of));

/** A number and its share of the total. */
function Part({ part, of }: { part: number; of: number }): ReactNode {
  return (
    <>
      {count(part)}{' '}
      <Text span c="dimmed" size="xs">
        {part > 0 && share(part, of)}
      </Text>
    </>
  );
}

const answered = ({ delivered, bounced }: GroupTotal): number => delivered + bounced;

function numbers(all: number): readonly Column<GroupTotal>[] {
  const column = (
    name: keyof typeof names & keyof GroupTotal,
    of: (one: GroupTotal) => number,
  ): Column<GroupTotal> => ({
    name: names[name],
    cell: (one) => <Part part={one[name]} of={of(one)} />,
    text: (one) => one[name],
    atEnd: true,
  });
  return [
    { name: names.accepted, cell: ({ accepted }) => count(accepted), text: ({ accepted }) => accepted, atEnd: true },
    {
      name: names.share,
      cell: ({ accepted }) => share(accepted, all),
      text: ({ accepted }) => share(accepted, all),
      atEnd: true,
    },
    column('delivered', answered),
    column('bounced', answered),
    column('complained', ({ delivered }) => delivered),
    column('opened', ({ delivered }) => delivered),
    column('clicked', ({ delivered }) => delivered),
  ];
}

export function Groups() {
  const [{ by }, setSearch] = useSearchState();
  const groupBy = isGroupBy(by) ? by : 'tag';
  const range = useRange(true);
  const statistics = useCall('getStatistics', { query: { ...range.query, groupBy } }, { keepsLast: true });
  const totals = useMemo(() => statistics.data && totalsOf(statistics.data.buckets), [statistics.data]);
  const nameOf = useNames(groupBy);
  const all = totals?.reduce((sum, { accepted }) => sum + accepted, 0) ?? 0;
  const first: Column<GroupTotal> = {
    name: usage.groups[groupBy],
    cell: ({ group }) => (
      <GroupLink groupBy={groupBy} group={group}>
        {nameOf(group)}
      </GroupLink>
    ),
    text: ({ group }) => nameOf(group),
  };
  return (
    <Panel
      title={usage.mail}
      actions={
        <div className={classes.controls}>
          <SegmentedControl
            aria-label={usage.groupBy}
            value={groupBy}
            onChange={(value) => setSearch({ by: value === 'tag' ? undefined : value })}
            data={Object.entries(usage.groups).map(([value, label]) => ({ value, label }))}
          />
          <RangeControl range={range} />
        </div>
      }
    >
      {groupBy === 'tag' && (
        <Text c="dimmed" size="xs" mb="xs">
          {usage.severalTags}
        </Text>
      )}
      <Rows
        label={usage.mail}
        columns={[first, ...numbers(all)]}
        rows={totals}
        keyOf={({ group }) => JSON.stringify(group)}
        error={statistics.error}
        onRetry={statistics.refetch}
        empty={{ title: usage.none, hint: usage.noneHint }}
        csvName={`usage-by-${groupBy}`}
      />
    </Panel>
  );
}

/** Returns the display name of a group; templates have a name. */
function useNames(groupBy: GroupBy): (group: string | null) => string {
  const templates = useCall('listTemplates', { query: { limit: 100 } }, { enabled: groupBy === 'template' }).data;
  return (group) => {
    if (group === null) return usage.others;
    if (group === '') return usage.noGroup[groupBy];
    return (groupBy === 'template' && templates?.find(({ templateId }) => templateId === group)?.name) || group;
  };
}

/** Links to the messages of the group; a domain is searched in the addresses. */
function GroupLink({ groupBy, group, children }: { groupBy: GroupBy; group: string | null; children: ReactNode }) {
  const { mode } = useScope();
  if (!group) return children;
  const filter = { tag: { tags: group }, template: { template: group }, recipientDomain: { to: `@${group}` } }[groupBy];
  return (
    <Anchor component={Link} to={`/app/${mode}/messages`} search={filter as never} inherit c="inherit">
      {children}
    </Anchor>
  );
}
