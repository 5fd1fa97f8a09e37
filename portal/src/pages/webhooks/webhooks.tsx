/** The webhooks of an account and mode: URLs, event types, and the last deliveries. */
import { Button } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import { usePages } from '../../api.ts';
import { IconFileCode, IconPlus, IconShieldCheck } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { useRemoval } from '../../parts/removal.ts';
import { type Column, Second } from '../../parts/rows.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { eventTypes, webhooks } from '../../texts/webhooks.ts';
import { HealthStrip, LIST_EVERY_MS } from './health-strip.tsx';
import { type NewSecret, SecretShown } from './secret-shown.tsx';
import { eventsOf, nameOf, StateReason, stateOf, type Webhook, WebhookState } from './webhook-state.tsx';

const WebhookForm = lazy(async () => ({ default: (await import('./webhook-form.tsx')).WebhookForm }));

const { columns: names } = webhooks;
const COLUMNS: readonly Column<Webhook>[] = [
  {
    name: names.url,
    phone: 'title',
    cell: (webhook) => (
      <>
        {nameOf(webhook)}
        {webhook.description && <Second>{webhook.url}</Second>}
      </>
    ),
    text: ({ url }) => url,
  },
  { name: names.events, phone: 'detail', cell: eventsOf, text: ({ events }) => events.join(' '), width: '24%' },
  { name: names.health, cell: ({ webhookId }) => <HealthStrip webhookId={webhookId} />, width: '11rem' },
  {
    name: names.state,
    phone: 'badge',
    cell: (webhook) => (
      <>
        <WebhookState webhook={webhook} />
        <StateReason webhook={webhook} />
      </>
    ),
    text: (webhook) =>
      [stateOf(webhook), webhook.enabled ? webhook.failingSince : webhook.disabledReason].filter(Boolean).join(': '),
    width: '18%',
  },
];

const EventTypesDrawer = lazy(async () => ({ default: (await import('./event-types.tsx')).EventTypesDrawer }));
const SignatureChecker = lazy(async () => ({ default: (await import('./signature-checker.tsx')).SignatureChecker }));

export function WebhooksPage() {
  const { mode, mayWrite } = useScope();
  const navigate = useNavigate();
  const [{ panel }, setSearch] = useSearchState();
  const [made, setMade] = useState<NewSecret & { webhookId: string }>();
  const { isRemoved } = useRemoval('deleteWebhook', ['listWebhooks']);
  const list = usePages('listWebhooks', {}, { everyMs: LIST_EVERY_MS });
  const close = (): void => setSearch({ panel: undefined });
  const create = mayWrite && (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setSearch({ panel: 'new' })}>
      {webhooks.create}
    </Button>
  );
  return (
    <ListPage
      title={webhooks.title}
      lead={webhooks.lead}
      primary={create}
      actions={
        <>
          <Button
            variant="default"
            leftSection={<IconShieldCheck size={14} />}
            onClick={() => setSearch({ panel: 'signature' })}
          >
            {webhooks.check}
          </Button>
          <Button
            variant="default"
            leftSection={<IconFileCode size={14} />}
            onClick={() => setSearch({ panel: 'event-types' })}
          >
            {eventTypes.title}
          </Button>
        </>
      }
      code={<AsCode operation="listWebhooks" />}
      label={webhooks.list}
      columns={COLUMNS}
      list={list}
      rows={list.items?.filter(({ webhookId }) => !isRemoved(webhookId))}
      keyOf={({ webhookId }) => webhookId}
      href={({ webhookId }) => `/app/${mode}/webhooks/${webhookId}`}
      csvName="webhooks"
      empty={{ title: webhooks.empty, hint: webhooks.emptyHint, action: create }}
    >
      {mayWrite && panel === 'new' && (
        <Suspense>
          <WebhookForm onClose={close} onCreated={setMade} />
        </Suspense>
      )}
      <Suspense>
        {panel === 'signature' && <SignatureChecker onClose={close} />}
        {panel === 'event-types' && <EventTypesDrawer onClose={close} />}
      </Suspense>
      {made !== undefined && (
        <SecretShown {...made} onClose={() => void navigate({ to: `/app/${mode}/webhooks/${made.webhookId}` })} />
      )}
    </ListPage>
  );
}
