/** The webhooks of an account and mode: URLs, event types, and the last deliveries. */
import { Button, Stack, Text } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import { usePages } from '../../api.ts';
import { IconFileCode, IconPlus, IconShieldCheck } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Page } from '../../parts/page.tsx';
import { useRemoval } from '../../parts/removal.ts';
import { type Column, Rows } from '../../parts/rows.tsx';
import { sentence } from '../../parts/sentence.ts';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { eventTypes, webhooks } from '../../texts/webhooks.ts';
import { HealthStrip } from './health-strip.tsx';
import { type NewSecret, SecretShown } from './secret-shown.tsx';
import { eventsOf, type Webhook, WebhookState } from './webhook-state.tsx';

const WebhookForm = lazy(async () => ({ default: (await import('./webhook-form.tsx')).WebhookForm }));

const { columns: names } = webhooks;
const COLUMNS: readonly Column<Webhook>[] = [
  {
    name: names.url,
    phone: 'title',
    cell: ({ url, description }) => (
      <>
        {url}
        {description !== null && description !== '' && (
          <Text size="xs" c="dimmed" component="span" display="block" fw={400}>
            {description}
          </Text>
        )}
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
      <Stack gap={2} align="flex-start">
        <WebhookState webhook={webhook} />
        {!webhook.enabled && (
          <Text size="xs" c="dimmed" span>
            {webhook.disabledReason === undefined ? webhooks.byHand : sentence(webhook.disabledReason)}
          </Text>
        )}
      </Stack>
    ),
    text: ({ enabled, disabledReason }) => (enabled ? webhooks.enabled : (disabledReason ?? webhooks.disabled)),
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
  const list = usePages('listWebhooks');
  const rows = list.items?.filter(({ webhookId }) => !isRemoved(webhookId));
  const close = (): void => setSearch({ panel: undefined });
  const create = mayWrite && (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setSearch({ panel: 'new' })}>
      {webhooks.create}
    </Button>
  );
  return (
    <Page
      title={webhooks.title}
      lead={webhooks.lead}
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
          {create}
          <AsCode operation="listWebhooks" />
        </>
      }
    >
      <Rows
        label={webhooks.list}
        columns={COLUMNS}
        rows={rows}
        csvName={'webhooks'}
        keyOf={({ webhookId }) => webhookId}
        href={({ webhookId }) => `/app/${mode}/webhooks/${webhookId}`}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        empty={{ title: webhooks.empty, hint: webhooks.emptyHint, action: create }}
      />
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
    </Page>
  );
}
