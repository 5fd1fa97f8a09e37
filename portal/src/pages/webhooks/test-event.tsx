/** Sends a sample event of a chosen type immediately, and shows the response and its duration. */
import { Text } from '@mantine/core';
import { useState } from 'react';
import { type Answer, useCall, useChange } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { Code } from '../../parts/copy.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { sentence } from '../../parts/sentence.ts';
import { duration } from '../../parts/time.tsx';
import type { EventType } from '../../texts/event-types.ts';
import { eventTypes, testEvent as texts } from '../../texts/webhooks.ts';
import { AnswerStart } from './answer.tsx';
import { EventTypeSelect } from './event-types.tsx';
import type { Webhook } from './webhook-state.tsx';

export function TestEventDialog({ webhook, onClose }: { webhook: Webhook; onClose(): void }) {
  const [eventType, setEventType] = useState<EventType>(webhook.events[0] ?? 'Delivery');
  const { mutate, isPending, data: result, error } = useChange('testWebhook');
  const sample = useCall('listEventTypes').data?.find((one) => one.eventType === eventType)?.sample;
  return (
    <FormModal
      title={texts.action}
      size="lg"
      submit={texts.submit}
      cancel={texts.close}
      isBusy={isPending}
      error={error}
      onSubmit={() => mutate({ path: { id: webhook.webhookId }, body: { eventType } })}
      onClose={onClose}
    >
      <Text c="dimmed">{texts.lead}</Text>
      <EventTypeSelect value={eventType} onChange={setEventType} />
      {sample !== undefined && (
        <details>
          <summary>{texts.payload}</summary>
          <Code code={JSON.stringify({ ...sample, test: true }, null, 2)} label={eventTypes.sampleOf(eventType)} />
        </details>
      )}
      {result !== undefined && <TestResult result={result} />}
    </FormModal>
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
