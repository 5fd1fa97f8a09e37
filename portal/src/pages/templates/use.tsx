/** What was sent with a template in the last 30 days, and which templates use it. */
import { Anchor, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, useCall, usePages } from '../../api.ts';
import { Facts, Panel } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { count } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { use as texts } from '../../texts/templates.ts';
import { bouncesOf } from '../overview/comparison.ts';
import { isLayout, type Template } from './content.ts';

const DAYS = 30;
type Bucket = Answer<'getStatistics'>['buckets'][number];

export function UseView({ template }: { template: Template }) {
  return (
    <Stack gap="md">
      <Sent template={template} />
      {isLayout(template) && <AsLayout template={template} />}
    </Stack>
  );
}

function Sent({ template: { templateId } }: { template: Template }) {
  const { mode } = useScope();
  // Rounded to a day, so that requests of one day share the cache.
  const [since] = useState(() => new Date(Date.now() - DAYS * 86_400_000).toISOString().slice(0, 10));
  const statistics = useCall('getStatistics', {
    query: { since: `${since}T00:00:00.000Z`, interval: 'day', groupBy: 'template' },
  });
  if (statistics.data === undefined)
    return statistics.isError ? <ErrorState error={statistics.error} onRetry={statistics.refetch} /> : <Loading />;
  const buckets = statistics.data.buckets.filter(({ group }) => group === templateId);
  const sum = (of: (bucket: Bucket) => number): number => buckets.reduce((total, one) => total + of(one), 0);
  const accepted = sum((one) => one.accepted);
  return (
    <Panel title={texts.title}>
      <Text c="dimmed" size="xs" mb="sm">
        {texts.lead}
      </Text>
      {buckets.length === 0 ? (
        <Text>{texts.none}</Text>
      ) : (
        <>
          <Facts
            of={[
              [texts.accepted, count(accepted)],
              [texts.delivered, count(sum((one) => one.delivered))],
              [texts.bounced, count(sum(bouncesOf))],
              [texts.delayed, count(sum((one) => one.delayed))],
              [texts.suppressed, count(sum((one) => one.suppressed))],
              [texts.complained, count(sum((one) => one.complained))],
            ]}
          />
          <Text mt="sm">
            <Anchor
              component={Link}
              to={`/app/${mode}/messages`}
              search={{ template: templateId, range: '30d' } as never}
            >
              {texts.messages(count(accepted))}
            </Anchor>
          </Text>
        </>
      )}
    </Panel>
  );
}

function AsLayout({ template }: { template: Template }) {
  const { mode } = useScope();
  const templates = usePages('listTemplates', {}, { pageSize: 100 });
  if (templates.hasNextPage && !templates.isFetching) void templates.fetchNextPage();
  const inside = (templates.items ?? []).filter((one) => one.layoutTemplateId === template.templateId);
  return (
    <Panel title={texts.layout}>
      <Text c="dimmed" size="xs" mb="xs">
        {inside.length === 0 ? texts.layoutNone : texts.layoutOf}
      </Text>
      <ul>
        {inside.map(({ templateId, name }) => (
          <li key={templateId}>
            <Anchor component={Link} to={`/app/${mode}/templates/${templateId}`}>
              {name}
            </Anchor>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
