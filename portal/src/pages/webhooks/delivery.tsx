/** One delivery: the request, the response or why there was none, and a button to resend it. */
import { Anchor, Button, Drawer, Group, Stack, Text, Title } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import { useChange } from '../../api.ts';
import { IconRefresh } from '../../icons.ts';
import { StatusBadge } from '../../parts/badge.tsx';
import { Code, Copyable, CopyText } from '../../parts/copy.tsx';
import { pathOfMail } from '../../parts/mail-path.ts';
import { Notice } from '../../parts/notice.tsx';
import { Facts } from '../../parts/page.tsx';
import { sentence } from '../../parts/sentence.ts';
import { EmptyState, Loading } from '../../parts/states.tsx';
import { duration, Time } from '../../parts/time.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { delivery as texts } from '../../texts/webhooks.ts';
import { AnswerStart } from './answer.tsx';
import { Attempts } from './attempts.tsx';
import { eventIn } from './event-body.ts';
import type { WebhookDelivery } from './health-strip.tsx';
import type { Webhook } from './webhook-state.tsx';

const { facts } = texts;

interface DeliveryDrawerProps {
  webhook: Webhook;
  delivery: WebhookDelivery | undefined;
  isOpen: boolean;
  isLoading: boolean;
  onClose(): void;
}

export function DeliveryDrawer({ webhook, delivery, isOpen, isLoading, onClose }: DeliveryDrawerProps) {
  // Opens after the first rendering, which animates it and remembers the element that gets the focus back.
  const [isReady, setReady] = useState(false);
  useEffect(() => setReady(true), []);
  return (
    <Drawer opened={isOpen && isReady} onClose={onClose} title={texts.title} position="right" size="xl">
      {delivery !== undefined && <Shown webhook={webhook} delivery={delivery} />}
      {delivery === undefined && isLoading && <Loading />}
      {delivery === undefined && !isLoading && <EmptyState title={texts.gone}>{texts.goneHint}</EmptyState>}
    </Drawer>
  );
}

function Shown({ webhook, delivery }: { webhook: Webhook; delivery: WebhookDelivery }) {
  return (
    <Stack>
      <Group justify="space-between">
        <Group gap="xs">
          <Text fw={600}>{delivery.eventType}</Text>
          <StatusBadge status={delivery.status} />
        </Group>
        <Retry webhook={webhook} delivery={delivery} />
      </Group>
      <Outcome delivery={delivery} />
      <Facts
        of={[
          [facts.message, <MessageLink key="message" delivery={delivery} />],
          [facts.event, <Copyable key="event" value={delivery.eventId} />],
          [facts.attempts, delivery.attempts],
          [facts.created, <Time key="created" at={delivery.createdAt} exact />],
        ]}
      />
      {delivery.attemptLog.length > 0 ? (
        <Part title={texts.attemptList} note={texts.attemptsNote}>
          <Attempts delivery={delivery} />
        </Part>
      ) : (
        <Reply delivery={delivery} />
      )}
      <Request delivery={delivery} />
    </Stack>
  );
}

function Outcome({ delivery: { status, error, nextAttemptAt } }: { delivery: WebhookDelivery }) {
  const title = error === null ? undefined : sentence(error);
  if (status === 'succeeded')
    return (
      <Notice role="status" tone="good">
        {texts.succeeded}
      </Notice>
    );
  if (status === 'failed')
    return (
      <Notice role="status" tone={'bad'} title={title}>
        {texts.failed}
      </Notice>
    );
  const isWaiting = nextAttemptAt !== null && Date.parse(nextAttemptAt) > Date.now();
  return (
    <Notice role="status" tone={'wait'} title={title}>
      {isWaiting ? texts.waits : texts.underWay}
      {isWaiting && (
        <div>
          {facts.next}: <Time at={nextAttemptAt} />
        </div>
      )}
    </Notice>
  );
}

function Retry({ webhook, delivery: { deliveryId } }: { webhook: Webhook; delivery: WebhookDelivery }) {
  const { mayWrite } = useScope();
  const retry = useChange('retryWebhookDelivery', ['listWebhookDeliveries']);
  if (!mayWrite) return null;
  const send = (): void =>
    retry.mutate(
      { path: { id: webhook.webhookId, deliveryId } },
      { onSuccess: () => done(texts.retried), onError: failed },
    );
  return (
    <Stack gap={2} align="flex-end">
      <Button
        variant="default"
        leftSection={<IconRefresh size={14} />}
        loading={retry.isPending}
        disabled={!webhook.enabled}
        onClick={send}
      >
        {texts.retry}
      </Button>
      {!webhook.enabled && (
        <Text c="dimmed" size="xs">
          {texts.retryDisabled}
        </Text>
      )}
    </Stack>
  );
}

function MessageLink({ delivery: { request } }: { delivery: WebhookDelivery }): ReactNode {
  const { mode } = useScope();
  const messageId = eventIn(request?.body)?.messageId;
  if (typeof messageId !== 'string') return '–';
  return (
    <Anchor component={Link} to={pathOfMail(mode, messageId)} className="mono">
      {messageId}
    </Anchor>
  );
}

function Reply({ delivery: { responseStatus, responseStart, latencyMs } }: { delivery: WebhookDelivery }) {
  if (responseStatus === null) return null;
  const took = latencyMs === null ? '' : ` · ${duration(latencyMs / 1_000)}`;
  return (
    <Part title={texts.answer} note={`${responseStatus}${took}`}>
      {responseStart ? (
        <AnswerStart text={responseStart} label={texts.answerStart} />
      ) : (
        <Text>{texts.answerEmpty}</Text>
      )}
    </Part>
  );
}

function Request({ delivery: { request } }: { delivery: WebhookDelivery }) {
  if (request === null) return <Text c="dimmed">{texts.neverSent}</Text>;
  const { method, url, headers, body } = request;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return (
    <Part title={texts.request} note={texts.changing}>
      <Code code={[`${method} ${url}`, ...lines].join('\n')} label={texts.headers} />
      {body === null ? (
        <Text c="dimmed">{texts.bodyGone}</Text>
      ) : (
        <>
          <Code code={readable(body)} label={texts.body} />
          <div>
            <CopyText value={body}>{texts.copyBody}</CopyText>
          </div>
        </>
      )}
    </Part>
  );
}

function readable(body: string): string {
  const event = eventIn(body);
  return event === undefined ? body : JSON.stringify(event, null, 2);
}

function Part({ title, note, children }: { title: string; note: string; children: ReactNode }) {
  return (
    <Stack gap="xs">
      <div>
        <Title order={3} size="h3">
          {title}
        </Title>
        <Text c="dimmed" size="xs">
          {note}
        </Text>
      </div>
      {children}
    </Stack>
  );
}
