/** Sends a sample event immediately, and shows the response and its duration. */
import { ActionIcon, Text } from '@mantine/core';
import { type Answer, useChange } from '../../api.ts';
import { IconX } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { sentence } from '../../parts/sentence.ts';
import { duration } from '../../parts/time.tsx';
import { testEvent } from '../../texts/webhooks.ts';
import { AnswerStart } from './answer.tsx';

export interface TestEvent {
  send(): void;
  isPending: boolean;
  result: Answer<'testWebhook'> | undefined;
  error: Error | null;
  forget(): void;
}

export function useTestEvent(webhookId: string): TestEvent {
  const { mutate, isPending, data: result, error, reset: forget } = useChange('testWebhook');
  return { send: () => mutate({ path: { id: webhookId } }), isPending, result, error, forget };
}

export function TestResult({ of: { result, error, forget } }: { of: TestEvent }) {
  if (error !== null) return <Problem error={error} />;
  if (result === undefined) return null;
  return (
    <div role="status">
      <Panel title={testEvent.title} actions={<Close onClick={forget} />}>
        <Text mb="xs">
          <Badge tone={result.success ? 'good' : 'bad'}>
            {result.success ? testEvent.succeeded : testEvent.failed}
          </Badge>
        </Text>
        <Facts
          of={[
            [testEvent.error, result.error === null ? undefined : sentence(result.error)],
            [testEvent.status, result.responseStatus ?? undefined],
            [testEvent.took, duration(result.latencyMs / 1_000)],
            [testEvent.answer, answerOf(result)],
          ]}
        />
      </Panel>
    </div>
  );
}

function Close({ onClick }: { onClick(): void }) {
  return (
    <ActionIcon aria-label={testEvent.close} onClick={onClick}>
      <IconX size={14} />
    </ActionIcon>
  );
}

function answerOf({ responseStatus, responseStart }: Answer<'testWebhook'>) {
  if (responseStatus === null) return undefined;
  return responseStart ? <AnswerStart text={responseStart} label={testEvent.answerLabel} /> : testEvent.noAnswer;
}
