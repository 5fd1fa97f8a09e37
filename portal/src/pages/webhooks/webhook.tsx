/** One webhook: its health, its actions, and every delivery. */
import { Anchor } from '@mantine/core';
import { Link, useParams } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import { useCall } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Copyable } from '../../parts/copy.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { sentence } from '../../parts/sentence.ts';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { useSearchState } from '../../search-state.ts';
import { health, webhookPage } from '../../texts/webhooks.ts';
import { Deliveries } from './deliveries.tsx';
import { HealthMarks, useLastDeliveries, type WebhookDelivery } from './health-strip.tsx';
import type { AskedReplay } from './replay.tsx';
import { type NewSecret, SecretShown } from './secret-shown.tsx';
import { WebhookActions } from './webhook-actions.tsx';
import { eventsOf, nameOf, type Webhook, WebhookState } from './webhook-state.tsx';
import classes from './webhooks.module.css';

const WebhookForm = lazy(async () => ({ default: (await import('./webhook-form.tsx')).WebhookForm }));
const ReplayDialog = lazy(async () => ({ default: (await import('./replay-dialog.tsx')).ReplayDialog }));
const ReplayProgress = lazy(async () => ({ default: (await import('./replay.tsx')).ReplayProgress }));
const RotationDialog = lazy(async () => ({ default: (await import('./rotation.tsx')).RotationDialog }));
const TestEventDialog = lazy(async () => ({ default: (await import('./test-event.tsx')).TestEventDialog }));
const SignatureChecker = lazy(async () => ({ default: (await import('./signature-checker.tsx')).SignatureChecker }));

/** The page polls, because attempts create no events. */
const LIVE_EVERY_MS = 3_000;

export function WebhookPage() {
  const { id = '' }: { id?: string } = useParams({ strict: false });
  const found = useCall('getWebhook', { path: { id } }, { everyMs: LIVE_EVERY_MS });
  if (found.data !== undefined) return <Loaded key={id} webhook={found.data} />;
  return found.isError ? <ErrorState error={found.error} onRetry={found.refetch} isPage /> : <Loading />;
}

function Loaded({ webhook }: { webhook: Webhook }) {
  const { webhookId: id } = webhook;
  const { mode, mayWrite } = useScope();
  const [{ panel, delivery }, setSearch] = useSearchState();
  const [secret, setSecret] = useState<NewSecret>();
  const [replay, setReplay] = useState<AskedReplay>();
  const last = useLastDeliveries(id, LIVE_EVERY_MS);
  const close = (): void => setSearch({ panel: undefined });
  const openDelivery = (deliveryId: string | undefined): void => setSearch({ delivery: deliveryId });
  const dialog = mayWrite ? panel : undefined;
  return (
    <Page
      title={nameOf(webhook)}
      badge={<WebhookState webhook={webhook} />}
      parent={{ href: `/app/${mode}/webhooks`, name: webhookPage.parent }}
      code={<AsCode operation="listWebhookDeliveries" input={{ path: { id } }} />}
      actions={<WebhookActions webhook={webhook} onOpen={(name) => setSearch({ panel: name })} />}
    >
      <div className={classes.stack}>
        {!webhook.enabled && <Disabled webhook={webhook} />}
        {webhook.enabled && webhook.failingSince !== undefined && (
          <Failing since={webhook.failingSince} next={webhook.nextAttemptAt} deliveries={last.data} />
        )}
        <Suspense>
          {replay !== undefined && <ReplayProgress {...replay} webhookId={id} onClose={() => setReplay(undefined)} />}
        </Suspense>
        <div className={classes.beside}>
          {last.data !== undefined && last.data.length > 0 && (
            <Panel title={health.title}>
              <HealthMarks deliveries={last.data} onOpen={openDelivery} />
            </Panel>
          )}
          <About webhook={webhook} />
        </div>
        <Deliveries webhook={webhook} newest={last.data} chosen={delivery} onOpen={openDelivery} />
      </div>
      <Suspense>
        {dialog === 'test' && <TestEventDialog webhook={webhook} onClose={close} />}
        {dialog === 'replay' && <ReplayDialog webhook={webhook} onClose={close} onStarted={setReplay} />}
        {panel === 'signature' && <SignatureChecker onClose={close} />}
        {dialog === 'secret' && <RotationDialog webhookId={id} onClose={close} onRotated={setSecret} />}
      </Suspense>
      {dialog === 'edit' && (
        <Suspense>
          <WebhookForm webhook={webhook} onClose={close} />
        </Suspense>
      )}
      {secret !== undefined && <SecretShown {...secret} onClose={() => setSecret(undefined)} />}
    </Page>
  );
}

function Disabled({ webhook: { disabledReason } }: { webhook: Webhook }) {
  if (disabledReason === undefined)
    return (
      <Notice role="status" tone="calm" title={webhookPage.disabledTitle}>
        {webhookPage.disabledByHand}
      </Notice>
    );
  return (
    <Notice role="status" tone="bad" title={webhookPage.disabledTitle}>
      {sentence(disabledReason)} {webhookPage.disabledTurn}
    </Notice>
  );
}

interface FailingProps {
  since: string;
  /** The soonest retry of a delivery. */
  next: string | undefined;
  deliveries: readonly WebhookDelivery[] | undefined;
}

function Failing({ since, next, deliveries }: FailingProps) {
  const error = deliveries?.find((one) => one.error !== null)?.error;
  return (
    <Notice role="status" tone="bad" title={webhookPage.failingTitle}>
      {webhookPage.failingSince} <Time at={since} exact />. {error != null && sentence(error)} {webhookPage.failingTurn}{' '}
      {next !== undefined && (
        <>
          {webhookPage.nextAttempt} <Time at={next} />.
        </>
      )}
    </Notice>
  );
}

function About({ webhook }: { webhook: Webhook }) {
  const { facts } = webhookPage;
  const { inboundRouteId } = webhook;
  const headerNames = Object.keys(webhook.headers);
  const { mode } = useScope();
  return (
    <Panel title={webhookPage.about}>
      <Facts
        of={[
          [facts.url, <Copyable key="url" value={webhook.url} />],
          [facts.events, eventsOf(webhook)],
          [facts.retries, webhookPage.schedule],
          [facts.headers, headerNames.length === 0 ? undefined : headerNames.join(', ')],
          [facts.order, webhook.ordered ? webhookPage.inOrder : undefined],
          [facts.batch, webhook.maxBatch > 1 ? webhook.maxBatch : undefined],
          [
            facts.route,
            inboundRouteId && (
              <Anchor component={Link} to={`/app/${mode}/inbound-routes/${inboundRouteId}`}>
                {webhookPage.toRoute}
              </Anchor>
            ),
          ],
          [facts.id, <Copyable key="id" value={webhook.webhookId} />],
          [facts.created, <Time key="created" at={webhook.createdAt} exact />],
          [facts.updated, <Time key="updated" at={webhook.updatedAt} exact />],
        ]}
      />
    </Panel>
  );
}
