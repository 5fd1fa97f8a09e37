/** Creates or edits a webhook: its URL, event types, description, order, batches, and headers. */
import { Checkbox, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useChange } from '../../api.ts';
import { differing } from '../../parts/edits.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { issuesOf } from '../../parts/issues.ts';
import { done } from '../../parts/undo.tsx';
import { EVENT_TYPES, type EventType, eventTexts } from '../../texts/event-types.ts';
import { webhookForm } from '../../texts/webhooks.ts';
import { headersOf, OwnHeaders, ownHeadersOf } from './own-headers.tsx';
import type { Webhook } from './webhook-state.tsx';

interface WebhookFormProps {
  /** The webhook to edit; creates one if absent. */
  webhook?: Webhook;
  onClose(): void;
  onCreated?(made: { webhookId: string; secret: string }): void;
}

const AT_FIRST: EventType[] = ['Delivery', 'Bounce', 'Complaint'];

const FIELDS = ['url', 'events', 'description', 'ordered', 'maxBatch', 'headers'];

interface WebhookFields {
  url: string;
  events: EventType[];
  description: string;
  ordered: boolean;
  maxBatch: number;
  headers: Record<string, string>;
}

/** The order of the form: the order in which the types were checked means nothing. */
const inOrder = (events: readonly string[]): EventType[] => EVENT_TYPES.filter((type) => events.includes(type));

const fieldsOf = ({ url, events, description, ordered, maxBatch, headers }: Webhook): WebhookFields => ({
  url,
  events: inOrder(events),
  description: description ?? '',
  ordered,
  maxBatch,
  headers,
});

/** Creates or updates the webhook, then closes the form. */
function useSave({ webhook, onClose, onCreated }: WebhookFormProps) {
  // The page reloads the webhook while the form is open. The user has changed what differs from the webhook as the form first showed it.
  const [shown] = useState(() => webhook && fieldsOf(webhook));
  const create = useChange('createWebhook', ['listWebhooks']);
  const update = useChange('updateWebhook', ['listWebhooks', 'getWebhook']);
  const save = (fields: WebhookFields): void => {
    if (webhook === undefined || shown === undefined)
      create.mutate(
        { body: { ...fields, description: fields.description || null } },
        {
          onSuccess({ webhookId, secret }) {
            onClose();
            onCreated?.({ webhookId, secret });
          },
        },
      );
    else
      update.mutate(
        { path: { id: webhook.webhookId }, body: differing(shown, fields) },
        {
          onSuccess() {
            onClose();
            done(webhookForm.saved);
          },
        },
      );
  };
  return {
    save,
    isSaving: create.isPending || update.isPending,
    issues: issuesOf(create.error ?? update.error, FIELDS),
  };
}

export function WebhookForm(props: WebhookFormProps) {
  const { webhook, onClose } = props;
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [events, setEvents] = useState<string[]>(webhook?.events ?? AT_FIRST);
  const [description, setDescription] = useState(webhook?.description ?? '');
  const [ordered, setOrdered] = useState(webhook?.ordered ?? false);
  const [maxBatch, setMaxBatch] = useState(String(webhook?.maxBatch ?? 1));
  const [headers, setHeaders] = useState(() => ownHeadersOf(webhook?.headers));
  const { save, isSaving, issues } = useSave(props);
  const submit = (): void =>
    save({
      url: url.trim(),
      events: inOrder(events),
      description: description.trim(),
      ordered,
      maxBatch: Number(maxBatch),
      headers: headersOf(headers),
    });
  return (
    <FormModal
      title={webhook === undefined ? webhookForm.createTitle : webhookForm.editTitle}
      size="lg"
      submit={webhook === undefined ? webhookForm.create : webhookForm.save}
      isBusy={isSaving}
      isDisabled={events.length === 0}
      error={issues.general}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextInput
        label={webhookForm.url}
        description={webhookForm.urlHint}
        error={issues.of('url')}
        type={'url'}
        required={true}
        maxLength={2_048}
        placeholder={'https://shop.example/hooks/mail'}
        data-autofocus
        value={url}
        onChange={({ currentTarget }) => setUrl(currentTarget.value)}
      />
      <EventChoice value={events} onChange={setEvents} error={issues.of('events')} />
      <TextInput
        label={webhookForm.description}
        description={webhookForm.descriptionHint}
        maxLength={500}
        error={issues.of('description')}
        value={description}
        onChange={({ currentTarget }) => setDescription(currentTarget.value)}
      />
      <Checkbox
        label={webhookForm.ordered}
        description={webhookForm.orderedHint}
        error={issues.of('ordered')}
        checked={ordered}
        onChange={({ currentTarget }) => setOrdered(currentTarget.checked)}
      />
      {webhook?.format === undefined && (
        <TextInput
          label={webhookForm.maxBatch}
          description={webhookForm.maxBatchHint}
          error={issues.of('maxBatch')}
          type="number"
          min={1}
          max={100}
          required
          withAsterisk={false}
          value={maxBatch}
          onChange={({ currentTarget }) => setMaxBatch(currentTarget.value)}
        />
      )}
      <OwnHeaders value={headers} onChange={setHeaders} error={issues.of('headers')} />
    </FormModal>
  );
}

interface EventChoiceProps {
  value: string[];
  onChange(value: string[]): void;
  error: string | undefined;
}

function EventChoice({ value, onChange, error }: EventChoiceProps) {
  return (
    <Checkbox.Group
      label={webhookForm.events}
      description={webhookForm.eventsHint}
      error={error}
      value={value}
      onChange={onChange}
      withAsterisk
    >
      <Stack gap="xs" mt="xs">
        {EVENT_TYPES.map((type) => (
          <Checkbox key={type} value={type} label={type} description={eventTexts[type].sentence} size="sm" />
        ))}
      </Stack>
    </Checkbox.Group>
  );
}
