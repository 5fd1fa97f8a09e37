/** Advances the sandbox clock, and shows beforehand what will happen. */
import { Alert, Button, Modal, SegmentedControl, Stack, Text } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, type Caller, useCall } from '../../api.ts';
import { IconClock } from '../../icons.ts';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { exactTime } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { clock } from '../../texts/inbox.ts';
import { forecastOf, type Waiting } from './forecast.ts';

const MOST = 100;
const SPANS = Object.entries(clock.spans);
const CHANGED = ['listSandboxInbox', 'getSandboxMessage', 'listMessages', 'getMessage'] as const;

/** One call runs for up to 30 s; the rest is requested again. */
async function advance(caller: Caller, seconds: number): Promise<Answer<'advanceSandboxClock'>> {
  let ran = 0;
  for (let left = seconds; ; ) {
    const answer = await caller.call('advanceSandboxClock', { body: { seconds: left } });
    ran += answer.ran;
    if (!answer.remainingSeconds) return { now: answer.now, ran };
    left = Math.ceil(answer.remainingSeconds);
  }
}

export function ClockButton() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button variant="default" leftSection={<IconClock size={14} />} onClick={() => setOpen(true)}>
        {clock.open}
      </Button>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={clock.title}>
        <Clock />
      </Modal>
    </>
  );
}

function useWaiting(): { waiting: Waiting[] | undefined; isMore: boolean } {
  const query = (status: 'scheduled' | 'queued' | 'delayed') => ({ query: { status, limit: MOST } });
  const lists = [
    useCall('listMessages', query('scheduled')),
    useCall('listMessages', query('queued')),
    useCall('listMessages', query('delayed')),
  ];
  const known = lists.every(({ data }) => data !== undefined);
  return {
    waiting: known ? lists.flatMap(({ data }) => data!) : undefined,
    isMore: lists.some(({ data }) => data?.length === MOST),
  };
}

function Clock() {
  const { caller } = useScope();
  const queries = useQueryClient();
  const [span, setSpan] = useState('3600');
  // Advancing by 0 s is the only call that returns the time.
  const time = useCall('advanceSandboxClock', { body: { seconds: 0 } });
  const move = useMutation({
    mutationFn: (seconds: number) => advance(caller, seconds),
    onSuccess: () =>
      Promise.all([...CHANGED, 'advanceSandboxClock'].map((one) => queries.invalidateQueries({ queryKey: [one] }))),
  });
  if (time.isError) return <ErrorState error={time.error} onRetry={time.refetch} />;
  if (time.data === undefined) return <Loading />;
  return (
    <Stack gap="md">
      <Text c="dimmed">{clock.hint}</Text>
      <Text>
        {clock.stands} <b>{exactTime(time.data.now)}</b>
      </Text>
      <SegmentedControl
        fullWidth
        aria-label={clock.by}
        value={span}
        onChange={setSpan}
        data={SPANS.map(([value, label]) => ({ value, label }))}
      />
      <Due nowMs={Date.parse(time.data.now)} seconds={Number(span)} />
      <Button
        size="sm"
        loading={move.isPending}
        leftSection={<IconClock size={16} />}
        onClick={() => move.mutate(Number(span))}
      >
        {clock.move(clock.spans[Number(span) as keyof typeof clock.spans])}
      </Button>
      <div role="status">
        {move.isSuccess && <Alert p="xs">{clock.ran(move.data.ran)}</Alert>}
        {move.isError && (
          <Alert p="xs" color="red">
            {move.error.message}
          </Alert>
        )}
      </div>
    </Stack>
  );
}

function Due({ nowMs, seconds }: { nowMs: number; seconds: number }) {
  const { waiting, isMore } = useWaiting();
  if (waiting === undefined) return <Loading />;
  const { attempts, scheduled, expiries } = forecastOf(waiting, nowMs, seconds);
  const due = [
    attempts > 0 && clock.attempts(attempts),
    scheduled > 0 && clock.scheduled(scheduled),
    expiries > 0 && clock.expiries(expiries),
  ].filter((one) => one !== false);
  return (
    <section aria-label={clock.due} aria-live="polite">
      <Text fw={600}>{due.length === 0 ? clock.nothing : `${clock.due}: ${due.join(', ')}`}</Text>
      <Text size="xs" c="dimmed">
        {expiries > 0 || attempts > 0 ? `${clock.expiryHint} ` : ''}
        {clock.webhookHint} {isMore && clock.atLeast}
      </Text>
    </section>
  );
}
