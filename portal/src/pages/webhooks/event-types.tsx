/** Every type of event with its description and a sample of the request body. */
import { Drawer, Select, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { type Answer, useCall } from '../../api.ts';
import { Code } from '../../parts/copy.tsx';
import { useFocusBack } from '../../parts/focus-back.ts';
import { ErrorState, Loading } from '../../parts/states.tsx';
import type { EventType } from '../../texts/event-types.ts';
import { eventTypes as texts } from '../../texts/webhooks.ts';

type Described = Answer<'listEventTypes'>[number];

export function EventTypesDrawer({ onClose }: { onClose(): void }) {
  useFocusBack();
  const { data, error, refetch } = useCall('listEventTypes');
  return (
    <Drawer opened onClose={onClose} title={texts.title} position="right" size="xl">
      {data !== undefined && <EventTypes of={data} />}
      {data === undefined && (error === null ? <Loading /> : <ErrorState error={error} onRetry={refetch} />)}
    </Drawer>
  );
}

function EventTypes({ of }: { of: readonly Described[] }) {
  const [chosen, choose] = useState<EventType>('Send');
  const { description, sample } = of.find(({ eventType }) => eventType === chosen)!;
  return (
    <Stack>
      <Text c="dimmed">{texts.lead}</Text>
      <EventTypeSelect value={chosen} onChange={choose} />
      <Text>{description}</Text>
      <Code code={JSON.stringify(sample, null, 2)} label={texts.sampleOf(chosen)} />
    </Stack>
  );
}

interface EventTypeSelectProps {
  value: EventType;
  onChange(value: EventType): void;
}

export function EventTypeSelect({ value, onChange }: EventTypeSelectProps) {
  const { data = [] } = useCall('listEventTypes');
  return (
    <Select
      label={texts.type}
      data={data.map(({ eventType }) => eventType)}
      value={value}
      onChange={(next) => onChange(next as EventType)}
    />
  );
}
