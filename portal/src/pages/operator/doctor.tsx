/** The results of `postrider doctor`: failures first, each with what to do. */
import { Button, Stack, Text } from '@mantine/core';
import { type Answer, useCall } from '../../api.ts';
import { IconRefresh } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { Page, Panel } from '../../parts/page.tsx';
import { capitalized, sentence } from '../../parts/sentence.ts';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import type { Tone } from '../../parts/tone.ts';
import { doctor } from '../../texts/operator.ts';
import { forOperators } from './for-operators.tsx';
import classes from './operator.module.css';

const TONES: Record<Check['status'], Tone> = { fail: 'bad', warn: 'wait', skip: 'calm', ok: 'good' };

type Check = Answer<'examineService'>['checks'][number];

export const DoctorPage = forOperators(doctor.title, DoctorContent);

function DoctorContent() {
  const { data, error, refetch, isFetching, dataUpdatedAt } = useCall('examineService');
  const of = (status: Check['status']): Check[] => data?.checks.filter((check) => check.status === status) ?? [];
  return (
    <Page
      title={doctor.title}
      lead={doctor.lead}
      badge={data && <Health failed={of('fail').length} warned={of('warn').length} />}
      actions={
        <Button
          variant="default"
          leftSection={<IconRefresh size={14} />}
          loading={isFetching}
          onClick={() => void refetch()}
        >
          {doctor.again}
        </Button>
      }
    >
      {data === undefined && (error === null ? <Loading /> : <ErrorState error={error} onRetry={refetch} />)}
      {data !== undefined && (
        <Stack gap="md">
          {(['fail', 'warn', 'skip', 'ok'] as const).map((status) => (
            <Checks key={status} title={doctor.groups[status]} checks={of(status)} />
          ))}
          <Text c="dimmed" size="xs" role="status">
            {doctor.ranAt} <Time at={new Date(dataUpdatedAt).toISOString()} exact />
          </Text>
        </Stack>
      )}
    </Page>
  );
}

function Health({ failed, warned }: { failed: number; warned: number }) {
  return (
    <>
      <Badge tone={failed > 0 ? 'bad' : 'good'}>{failed > 0 ? doctor.broken(failed) : doctor.healthy}</Badge>
      {warned > 0 && <Badge tone="wait">{doctor.watch(warned)}</Badge>}
    </>
  );
}

function Checks({ title, checks }: { title: string; checks: readonly Check[] }) {
  if (checks.length === 0) return null;
  return (
    <Panel title={title}>
      <ul className={classes.checks}>
        {checks.map(({ name, status, message, remedy }) => (
          <li key={`${name} ${message}`}>
            <div>
              <Badge tone={TONES[status]}>{doctor.states[status]}</Badge> {capitalized(name)}
            </div>
            <div>
              {sentence(message)}
              {remedy !== undefined && (
                <div className={classes.remedy}>
                  <Text size="xs" c="dimmed">
                    {doctor.remedy}
                  </Text>
                  {sentence(remedy)}
                </div>
              )}
            </div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
