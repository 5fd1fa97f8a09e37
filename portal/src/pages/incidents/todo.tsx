/** What to do about an incident: the advice, and the portal's actions with their effect. */
import { Button, Progress, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useChange } from '../../api.ts';
import { IconRefresh } from '../../icons.ts';
import { Panel } from '../../parts/page.tsx';
import { done, failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { incident as texts } from '../../texts/incidents.ts';
import classes from './incidents.module.css';
import { adviceOf, type Incident } from './labels.ts';

export function Todo({ incident }: { incident: Incident }) {
  const { mode } = useScope();
  const base = `/app/${mode}`;
  return (
    <Panel title={texts.advice}>
      <Text size="sm" mb="sm">
        {adviceOf(incident)}
      </Text>
      {incident.kind === 'delivery' &&
        (incident.state === 'delayed' ? (
          <TryAgain incident={incident} number={incident.messages} />
        ) : (
          texts.bouncedHint
        ))}
      {incident.kind === 'webhook' && (
        <>
          {incident.state === 'failing' ? (
            <TryAgain incident={incident} number={incident.deliveries} />
          ) : (
            <Text size="sm" mb="sm">
              {texts.disabledHint}
            </Text>
          )}
          <PageButton to={`${base}/webhooks/${incident.webhookId}`}>{texts.toWebhook}</PageButton>
        </>
      )}
      {incident.kind === 'reputation' && incident.state === 'held' && <Resume />}
      {incident.kind === 'domain' && (
        <PageButton to={`${base}/domains/${incident.domainId}`}>{texts.toDomain}</PageButton>
      )}
    </Panel>
  );
}

/** The confirmation is in the text of the button. */
function Resume() {
  const { mayOwn } = useScope();
  const release = useChange('resumeSending', ['getIncident', 'listIncidents', 'getAccountHealth']);
  if (!mayOwn)
    return (
      <Text c="dimmed" size="sm">
        {texts.ownerOnly}
      </Text>
    );
  const onRelease = (): void =>
    release.mutate({ body: { confirm: true } }, { onSuccess: () => done(texts.released), onError: failed });
  return (
    <div className={classes.todo}>
      <div>{texts.releaseHint}</div>
      <Button loading={release.isPending} onClick={onRelease}>
        {texts.release}
      </Button>
    </div>
  );
}

function PageButton({ to, children }: { to: string; children: ReactNode }) {
  return (
    <Button component={Link} to={to} variant="default" mt="xs">
      {children}
    </Button>
  );
}

function TryAgain({ incident, number }: { incident: Incident; number: number }) {
  const { mayWrite } = useScope();
  /** The number of messages before the retry. */
  const [before, setBefore] = useState<number>();
  const retry = useChange('retryIncident', ['getIncident', 'listIncidents']);
  if (!mayWrite)
    return (
      <Text c="dimmed" size="sm">
        {texts.mayNot}
      </Text>
    );
  const isWebhook = incident.kind === 'webhook';
  const tryAgain = (): void => {
    setBefore(number);
    retry.mutate({ path: { id: incident.incidentId } }, { onError: failed });
  };
  return (
    <>
      <div className={classes.todo}>
        <div>{(isWebhook ? texts.tryDeliveriesHint : texts.tryMessagesHint)(number)}</div>
        <Button leftSection={<IconRefresh size={14} />} loading={retry.isPending} onClick={tryAgain}>
          {(isWebhook ? texts.tryDeliveries : texts.tryMessages)(number)}
        </Button>
      </div>
      {retry.data !== undefined && before !== undefined && (
        <div role="status">
          <Text size="sm" mt="sm" mb="xs">
            {retry.data.message}
          </Text>
          <Progress value={Math.max(0, 100 * (1 - number / before))} aria-label={texts.progress(number, before)} />
          <Text size="xs" c="dimmed" mt={4}>
            {texts.progress(number, before)}
          </Text>
        </div>
      )}
    </>
  );
}
