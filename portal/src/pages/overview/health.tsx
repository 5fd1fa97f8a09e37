/**
 * Bounce and complaint rates compared with the thresholds of mailbox providers. A few messages are not enough: one bounce in ten would look
 * like a disaster.
 */
import { Progress, Skeleton, Text } from '@mantine/core';
import { type Answer, useCall } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { Panel } from '../../parts/page.tsx';
import { ErrorState } from '../../parts/states.tsx';
import { percent } from '../../parts/time.tsx';
import type { Tone } from '../../parts/tone.ts';
import { useScope } from '../../scope.ts';
import { health } from '../../texts/overview.ts';
import classes from './overview.module.css';

const TONES: Record<Answer<'getAccountHealth'>['status'], Tone> = { good: 'good', warning: 'wait', critical: 'bad' };

export function Health() {
  const { data, error, refetch } = useCall('getAccountHealth', {}, { everyMs: 60_000 });
  return (
    <Panel title={health.title} actions={data && answered(data) >= leastOf(data) && <Status of={data.status} />}>
      {data !== undefined && <Rates of={data} />}
      {data === undefined && (error ? <ErrorState error={error} onRetry={refetch} /> : <Skeleton height={120} />)}
    </Panel>
  );
}

type Data = Answer<'getAccountHealth'>;
type Threshold = Data['thresholds']['bounceRate'];
const answered = ({ delivered, bounced, complained }: Data): number => delivered + bounced + complained;
/** Below this number no rate is shown. */
const leastOf = ({ thresholds: { bounceRate, complaintRate } }: Data): number =>
  Math.min(bounceRate.minimumMessages, complaintRate.minimumMessages);

function Status({ of }: { of: Data['status'] }) {
  return <Badge tone={TONES[of]}>{health[of]}</Badge>;
}

function Rates({ of: data }: { of: Data }) {
  const { mode } = useScope();
  const lead = mode === 'sandbox' ? health.sandboxLead(data.periodDays) : health.lead(data.periodDays);
  const total = answered(data);
  const { bounceRate, complaintRate } = data.thresholds;
  return (
    <>
      <Text c="dimmed" size="xs" mb="sm">
        {lead}
      </Text>
      {total < leastOf(data) ? (
        <Text size="sm">{health.few(total, leastOf(data))}</Text>
      ) : (
        <>
          <Rate name={health.bounces} rate={data.bounceRate} total={total} threshold={bounceRate} />
          <Rate name={health.complaints} rate={data.complaintRate} total={total} threshold={complaintRate} />
        </>
      )}
      {data.advice.map((advice) => (
        <Text key={advice} size="sm" mt="sm">
          {advice}
        </Text>
      ))}
    </>
  );
}

interface RateProps {
  name: string;
  rate: number;
  /** Messages in the denominator. */
  total: number;
  threshold: Threshold;
}

function Rate({ name, rate, total, threshold: { warning, critical, minimumMessages } }: RateProps) {
  if (total < minimumMessages)
    return (
      <Text size="sm" mt="sm">
        {name}: {health.few(total, minimumMessages)}
      </Text>
    );
  const status = rate >= critical ? 'critical' : rate >= warning ? 'warning' : 'good';
  const hint = health.bounds(percent(warning), percent(critical));
  return (
    <div className={classes.rate}>
      <span>{name}</span>
      <b>{percent(rate)}</b>
      <Progress.Root size="sm">
        <Progress.Section
          value={Math.min(100, (rate / critical) * 100)}
          color={`var(--${TONES[status]})`}
          aria-label={`${name}: ${percent(rate)}. ${hint}`}
        />
      </Progress.Root>
      <small>{hint}</small>
    </div>
  );
}
