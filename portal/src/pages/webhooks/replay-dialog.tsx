/** Replays the events of a period, after showing their number. */
import { Group, MultiSelect, Select, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useCall, useChange } from '../../api.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { Notice } from '../../parts/notice.tsx';
import { EVENT_TYPES, type EventType } from '../../texts/event-types.ts';
import { replay } from '../../texts/webhooks.ts';
import type { Asked, AskedReplay } from './replay.tsx';
import { type ReplayDraft, SPANS, type Span, useReplayDraft } from './replay-draft.ts';
import type { Webhook } from './webhook-state.tsx';

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
    <FormModal
      title={replay.title}
      size="lg"
      submit={replay.submit(events)}
      isBusy={send.isPending}
      isDisabled={!events}
      error={problem}
      onSubmit={start}
      onClose={onClose}
    >
      <Text>{replay.explanation}</Text>
      {!webhook.enabled && (
        <Notice role="status" tone="wait">
          {replay.disabled}
        </Notice>
      )}
      <Fields draft={draft} />
      <Text fw={550} role="status" mih="1.5em">
        {webhook.enabled &&
          problem === null &&
          (draft.fault ?? (events === undefined ? replay.counting : replay.willBeSent(events)))}
      </Text>
    </FormModal>
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
