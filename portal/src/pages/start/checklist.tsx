/** What is still missing before live email, for the account, and for operators of the service. */
import { Anchor, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useCall } from '../../api.ts';
import { IconAlertCircle, IconCircleCheck, IconCircleDashed, IconInfoCircle } from '../../icons.ts';
import { Panel } from '../../parts/page.tsx';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { useScope } from '../../scope.ts';
import { checklist } from '../../texts/start.ts';
import { type Check, doctorChecks, domainCheck, healthCheck, keyCheck, smtpCheck, webhookCheck } from './checks.ts';
import classes from './start.module.css';

const MOST = { query: { limit: 100 } } as const;
const EVERY_MS = 30_000;

export function AccountChecklist() {
  const { account } = useScope();
  const domains = useCall('listDomains', MOST, { everyMs: EVERY_MS });
  const keys = useCall('listApiKeys', MOST, { everyMs: EVERY_MS });
  const credentials = useCall('listSmtpCredentials', MOST, { everyMs: EVERY_MS });
  const webhooks = useCall('listWebhooks', MOST, { everyMs: EVERY_MS });
  const health = useCall('getAccountHealth', {}, { everyMs: EVERY_MS });
  const checks = [
    domainCheck(domains),
    keyCheck(keys),
    webhookCheck(webhooks),
    smtpCheck(credentials, account?.plan),
    healthCheck(health),
  ];
  return (
    <Panel title={checklist.account} actions={<Progress checks={checks} />}>
      <Text c="dimmed" size="xs">
        {checklist.accountHint}
      </Text>
      <Checks checks={checks} />
    </Panel>
  );
}

export function ServiceChecklist() {
  const doctor = useCall('examineService', {}, { everyMs: EVERY_MS });
  const checks = doctor.data && doctorChecks(doctor.data);
  return (
    <Panel title={checklist.service} actions={checks && <Progress checks={checks} />}>
      <Text c="dimmed" size="xs">
        {checklist.serviceHint}{' '}
        <Anchor component={Link} to="/app/operator/doctor" size="xs" underline="always">
          {checklist.toDoctor}
        </Anchor>
      </Text>
      {doctor.isPending && <Loading />}
      {doctor.isError && checks === undefined && <ErrorState error={doctor.error} onRetry={doctor.refetch} />}
      {checks !== undefined && (
        <details className={classes.doctor}>
          <summary>
            {checklist.attention(checks.filter(({ state }) => state === 'broken' || state === 'todo').length)}
          </summary>
          <Checks checks={checks} />
        </details>
      )}
    </Panel>
  );
}

function Progress({ checks }: { checks: readonly Check[] }) {
  return (
    <Text size="xs" c="dimmed">
      {checklist.progress(checks.filter(({ state }) => state === 'done').length, checks.length)}
    </Text>
  );
}

const LOOKS = {
  done: { Icon: IconCircleCheck, name: checklist.states.done },
  todo: { Icon: IconCircleDashed, name: checklist.states.todo },
  broken: { Icon: IconAlertCircle, name: checklist.states.todo },
  unknown: { Icon: IconInfoCircle, name: checklist.states.unknown },
} as const;

function Checks({ checks }: { checks: readonly Check[] }) {
  return (
    <ul className={classes.checks}>
      {checks.map((check) => (
        <OneCheck key={`${check.name} ${check.message}`} {...check} />
      ))}
    </ul>
  );
}

function OneCheck({ name, state, message, remedy, link }: Check) {
  const { Icon, name: word } = LOOKS[state];
  return (
    <li>
      <Icon size={18} aria-hidden className={classes[state]} />
      <div>
        <b>{name}</b>{' '}
        <Text span size="xs" className={classes[state]}>
          {word}
        </Text>
        <div>{message}</div>
        {remedy !== undefined && <Text c="dimmed">{remedy}</Text>}
        {link !== undefined && state !== 'done' && (
          <Anchor component={Link} to={`/app/live${link.path}`}>
            {link.name}
          </Anchor>
        )}
      </div>
    </li>
  );
}
