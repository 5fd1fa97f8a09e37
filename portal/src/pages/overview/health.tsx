/**
 * The rates that mailbox providers watch, against the bounds that they publish. Of a few messages nothing can be said: one bounce of
 * ten would look like a disaster.
 */
import { Progress, Skeleton, Text } from '@mantine/core';
import { type Answer, useCall } from '../../api.ts';
import { Badge, type Tone } from '../../parts/badge.tsx';
import { Panel } from '../../parts/page.tsx';
import { ErrorState } from '../../parts/states.tsx';
import { percent } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { health } from '../../texts/overview.ts';
import classes from './overview.module.css';

/** Those of the service (src/accounts/usage.ts), which says the status of both together. */
const BOUNDS = { bounces: { high: 0.05, tooHigh: 0.1 }, complaints: { high: 0.001, tooHigh: 0.003 } };
const LEAST_MESSAGES = 100;
const TONES: Record<Answer<'getAccountHealth'>['status'], Tone> = { good: 'good', warning: 'wait', critical: 'bad' };

export function Health() {
  const { data, error, refetch } = useCall('getAccountHealth', {}, { everyMs: 60_000 });
  return (
    <Panel title={health.title} actions={data && answered(data) >= LEAST_MESSAGES && <Status of={data.status} />}>
      {data !== undefined && <Rates of={data} />}
      {data === undefined && (error ? <ErrorState error={error} onRetry={refetch} /> : <Skeleton height={120} />)}
    </Panel>
  );
}

type Data = Answer<'getAccountHealth'>;
const answered = ({ delivered, bounced, complained }: Data): number => delivered + bounced + complained;

function Status({ of }: { of: Data['status'] }) {
  return <Badge tone={TONES[of]}>{health[of]}</Badge>;
}

function Rates({ of: data }: { of: Data }) {
  const { mode } = useScope();
  const lead = mode === 'sandbox' ? health.sandboxLead(data.periodDays) : health.lead(data.periodDays);
  const total = answered(data);
  if (total < LEAST_MESSAGES)
    return (
      <>
        <Text c="dimmed" size="xs" mb="sm">
          {lead}
        </Text>
        <Text size="sm">{health.few(total, LEAST_MESSAGES)}</Text>
      </>
    );
  return (
    <>
      <Text c="dimmed" size="xs" mb="sm">
        {lead}
      </Text>
      <Rate name={health.bounces} rate={data.bounceRate} {...BOUNDS.bounces} />
      <Rate name={health.complaints} rate={data.complaintRate} {...BOUNDS.complaints} />
      {data.advice.map((advice) => (
        <Text key={advice} size="sm" mt="sm">
          {advice}
        </Text>
      ))}
    </>
  );
}

function Rate({ name, rate, high, tooHigh }: { name: string; rate: number; high: number; tooHigh: number }) {
  const status = rate >= tooHigh ? 'critical' : rate >= high ? 'warning' : 'good';
  const hint = health.bounds(percent(high), percent(tooHigh));
  return (
    <div className={classes.rate}>
      <span>{name}</span>
      <b>{percent(rate)}</b>
      <Progress.Root size="sm">
        <Progress.Section
          value={Math.min(100, (rate / tooHigh) * 100)}
          color={`var(--${TONES[status]})`}
          aria-label={`${name}: ${percent(rate)}. ${hint}`}
        />
      </Progress.Root>
      <small>{hint}</small>
    </div>
  );
}
