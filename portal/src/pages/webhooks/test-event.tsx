/** Sends a sample event of a chosen type immediately, and shows the response and its duration. */
import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { type Answer, useCall, useChange } from '../../api.ts';
import { IconSend } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { Code } from '../../parts/copy.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { sentence } from '../../parts/sentence.ts';
import { duration } from '../../parts/time.tsx';
import { eventTypes, testEvent as texts } from '../../texts/webhooks.ts';
import { AnswerStart } from './answer.tsx';
import { EventTypeSelect } from './event-types.tsx';
import type { EventType, Webhook } from './webhook-state.tsx';

export function TestEventDialog({ webhook, onClose }: { webhook: Webhook; onClose(): void }) {
  const [eventType, setEventType] = useState<EventType>(webhook.events[0] ?? 'Delivery');
  const { mutate, isPending, data: result, error } = useChange('testWebhook');
  const sample = useCall('listEventTypes').data?.find((one) => one.eventType === eventType)?.sample;
  return (
    <Modal opened onClose={onClose} title={texts.action} size="lg">
      <Stack>
        <Text c="dimmed">{texts.lead}</Text>
        <EventTypeSelect value={eventType} onChange={setEventType} />
        {sample !== undefined && (
          <details>
            <summary>{texts.payload}</summary>
            <Code code={JSON.stringify({ ...sample, test: true }, null, 2)} label={eventTypes.sampleOf(eventType)} />
          </details>
        )}
        <Problem error={error} />
        {result !== undefined && <TestResult result={result} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {texts.close}
          </Button>
          <Button
            leftSection={<IconSend size={14} />}
            loading={isPending}
            onClick={() => mutate({ path: { id: webhook.webhookId }, body: { eventType } })}
          >
            {texts.submit}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}

function TestResult({ result }: { result: Answer<'testWebhook'> }) {
  return (
    <div role="status">
      <Panel title={texts.title}>
        <Text mb="xs">
          <Badge tone={result.success ? 'good' : 'bad'}>{result.success ? texts.succeeded : texts.failed}</Badge>
        </Text>
        <Facts
          of={[
            [texts.error, result.error === null ? undefined : sentence(result.error)],
            [texts.status, result.responseStatus ?? undefined],
            [texts.took, duration(result.latencyMs / 1_000)],
            [texts.answer, answerOf(result)],
          ]}
        />
      </Panel>
    </div>
  );
}

function answerOf({ responseStatus, responseStart }: Answer<'testWebhook'>) {
  if (responseStatus === null) return undefined;
  return responseStart ? <AnswerStart text={responseStart} label={texts.answerLabel} /> : texts.noAnswer;
}
