/** The progress of a replay. */
import { Button, Progress, Text } from '@mantine/core';
import { useState } from 'react';
import { type Body, useCall } from '../../api.ts';
import { Panel } from '../../parts/page.tsx';
import { replay } from '../../texts/webhooks.ts';

export type Asked = Body<'replayWebhookEvents'>;

export interface AskedReplay {
  asked: Asked;
  /** Number of queued events. */
  events: number;
}

const PROGRESS_EVERY_MS = 2_000;

/** A dry run excludes waiting events, so its count returns to the total as they are sent. */
export function ReplayProgress({
  asked,
  events,
  webhookId,
  onClose,
}: AskedReplay & { webhookId: string; onClose(): void }) {
  const [isOver, setOver] = useState(events === 0);
  const left = useCall(
    'replayWebhookEvents',
    { path: { id: webhookId }, query: { dryRun: true }, body: asked },
    { enabled: !isOver, everyMs: PROGRESS_EVERY_MS, keepsLast: true },
  );
  // The count from before the replay is also the total; only a count loaded since then shows progress.
  const isFresh = left.isFetchedAfterMount;
  const done = isFresh ? Math.min(left.data?.events ?? 0, events) : 0;
  if (!isOver && isFresh && (done === events || left.isError)) setOver(true);
  return (
    <div role="status">
      <Panel
        title={replay.title}
        actions={
          <Button variant="default" onClick={onClose}>
            {replay.hide}
          </Button>
        }
      >
        <Text mb="xs">{sentenceOf({ done, events, error: left.error })}</Text>
        <Progress value={events === 0 ? 100 : (100 * done) / events} aria-label={replay.progressLabel} />
      </Panel>
    </div>
  );
}

function sentenceOf({ done, events, error }: { done: number; events: number; error: Error | null }): string {
  if (error !== null) return `${replay.unknown(events)}. ${error.message}`;
  return done === events ? `${replay.finished(events)}. ${replay.finishedHint}` : replay.progress(done, events);
}
