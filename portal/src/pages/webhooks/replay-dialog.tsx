/** Replays the events of a period, after showing their number. */
import { Button, Group, Modal, MultiSelect, Select, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useCall, useChange } from '../../api.ts';
import { Notice } from '../../parts/notice.tsx';
import { Problem } from '../../parts/problem.tsx';
import { replay, webhookForm } from '../../texts/webhooks.ts';
import type { Asked, AskedReplay } from './replay.tsx';
import { type ReplayDraft, SPANS, type Span, useReplayDraft } from './replay-draft.ts';
import { EVENT_TYPES, type EventType, type Webhook } from './webhook-state.tsx';

interface ReplayDialogProps {
  webhook: Webhook;
  onClose(): void;
  onStarted(replay: AskedReplay): void;
}

const TYPING_MS = 300;

/** Returns how many events a replay would send; requested when the choice has not changed for a moment. */
function useEventCount(webhook: Webhook, asked: Asked | undefined) {
  const [settled] = useDebouncedValue(asked === undefined ? undefined : JSON.stringify(asked), TYPING_MS);
  const isSettled = asked !== undefined && settled === JSON.stringify(asked);
  const body = settled === undefined ? { since: '', until: '' } : (JSON.parse(settled) as Asked);
  const query = useCall(
    'replayWebhookEvents',
    { path: { id: webhook.webhookId }, query: { dryRun: true }, body },
    { enabled: isSettled && webhook.enabled },
  );
  const isKnown = isSettled && !query.isFetching;
  return { events: isKnown ? query.data?.events : undefined, error: isKnown ? query.error : null };
}

export function ReplayDialog({ webhook, onClose, onStarted }: ReplayDialogProps) {
  const draft = useReplayDraft(webhook);
  const { asked } = draft;
  const { events, error } = useEventCount(webhook, asked);
  const send = useChange('replayWebhookEvents', ['listWebhookDeliveries']);
  const start = (): void => {
    if (asked === undefined) return;
    send.mutate(
      { path: { id: webhook.webhookId }, body: asked },
      {
        onSuccess(answer) {
          onClose();
          onStarted({ asked, events: answer.events });
        },
      },
    );
  };
  const problem = send.error ?? error;
  return (
    <Modal opened onClose={onClose} title={replay.title} size="lg">
      <Stack>
        <Text>{replay.explanation}</Text>
        {!webhook.enabled && (
          <Notice role="status" tone="wait">
            {replay.disabled}
          </Notice>
        )}
        <Fields draft={draft} />
        <Problem error={problem} />
        <Text fw={550} role="status" mih="1.5em">
          {webhook.enabled &&
            problem === null &&
            (draft.fault ?? (events === undefined ? replay.counting : replay.willBeSent(events)))}
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {webhookForm.cancel}
          </Button>
          <Button loading={send.isPending} disabled={!events} onClick={start}>
            {replay.submit(events)}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}

function Fields({ draft }: { draft: ReplayDraft }) {
  const time = (name: 'since' | 'until') => ({
    label: replay[name],
    type: 'datetime-local',
    step: 1,
    value: draft[name],
    onChange: ({ currentTarget }: { currentTarget: { value: string } }) =>
      draft.change({ [name]: currentTarget.value }),
  });
  return (
    <>
      <Select
        label={replay.span}
        data={SPANS.map((span) => ({ value: span, label: replay.spans[span] }))}
        value={draft.span}
        onChange={(span) => span !== null && draft.choose(span as Span)}
      />
      {draft.span === 'own' && (
        <Group grow preventGrowOverflow={false} align="flex-start">
          <TextInput {...time('since')} />
          <TextInput {...time('until')} />
        </Group>
      )}
      <MultiSelect
        label={replay.eventTypes}
        data={EVENT_TYPES}
        value={draft.eventTypes}
        onChange={(eventTypes) => draft.change({ eventTypes: eventTypes as EventType[] })}
        clearable={false}
      />
    </>
  );
}
