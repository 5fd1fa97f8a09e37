/** The time of a step in the timeline, to the second, since steps often follow closely. */
import { Text, Tooltip } from '@mantine/core';
import { ago, exactTime, shortTime, useNow } from '../../parts/time.tsx';

export function StepTime({ at }: { at: string }) {
  const nowMs = useNow();
  const seconds = new Date(at).getSeconds().toString().padStart(2, '0');
  return (
    <Tooltip label={`${exactTime(at)} (${ago(Date.parse(at), nowMs)})`}>
      <Text component="time" size="xs" c="dimmed" dateTime={at}>
        {shortTime(at, nowMs)}:{seconds}
      </Text>
    </Tooltip>
  );
}
