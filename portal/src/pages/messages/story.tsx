/** The timeline of a message, oldest first: its events, and the delivery attempts, each of which opens its SMTP dialogue. */
import { Anchor, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Panel } from '../../parts/page.tsx';
import { duration } from '../../parts/time.tsx';
import type { Tone } from '../../parts/tone.ts';
import { visible } from '../../parts/visible.ts';
import { eventTexts } from '../../texts/event-types.ts';
import { messagePage, timeline as texts } from '../../texts/messages.ts';
import type { Answered, TimelineEvent } from './answer.ts';
import { Attempt } from './attempt.tsx';
import classes from './messages.module.css';
import { StepTime } from './step-time.tsx';
import { useSay } from './use-say.ts';

export function Step({ tone = 'calm', solid = false, children }: StepProps) {
  return (
    <li className={classes.step} data-tone={tone} data-solid={solid || undefined}>
      {children}
    </li>
  );
}

interface StepProps {
  tone?: Tone;
  solid?: boolean;
  children: ReactNode;
}

/** An attempt comes before the event that it caused. */
function stepsOf({ timeline, attempts }: Answered): { at: number; step: ReactNode }[] {
  const tried = attempts.map((attempt, index) => ({
    at: Date.parse(attempt.time),
    step: <Attempt key={attempt.time} number={index + 1} attempt={attempt} />,
  }));
  const events = timeline.map((event) => ({
    at: Date.parse(event.timestamp),
    step: <EventStep key={event.eventId} event={event} />,
  }));
  const [first, ...others] = events;
  const rest = [...tried, ...others].sort((one, other) => one.at - other.at);
  return first === undefined ? rest : [first, ...rest];
}

export function Story({ message }: { message: Answered }) {
  const steps = stepsOf(message);
  return (
    <Panel title={messagePage.happened}>
      {steps.length === 0 && <Text c="dimmed">{texts.waiting}</Text>}
      <ol className={classes.steps}>
        {steps.map(({ step }) => step)}
        <Ahead message={message} />
      </ol>
    </Panel>
  );
}

/** The next steps. */
function Ahead({ message: { status, sendAt, nextAttemptAt, expiresAt } }: { message: Answered }) {
  const say = useSay();
  const words = (): string | undefined => {
    if (status === 'scheduled' && sendAt !== undefined) return texts.begins(say.at(sendAt));
    if (status === 'delayed' && nextAttemptAt !== undefined)
      return texts.next(say.at(nextAttemptAt), say.from(nextAttemptAt), say.at(expiresAt));
    return undefined;
  };
  const shown = words();
  if (shown === undefined) return null;
  return (
    <Step>
      <span className={classes.quiet}>{shown}</span>
    </Step>
  );
}

function EventStep({ event }: { event: TimelineEvent }) {
  return (
    <Step tone={eventTexts[event.eventType].tone} solid>
      <div className={classes.stepHead}>
        <strong>{eventTexts[event.eventType].step}</strong>
        <StepTime at={event.timestamp} />
      </div>
      <EventWords event={event} />
    </Step>
  );
}

function EventWords({ event }: { event: TimelineEvent }) {
  const { delivery, deliveryDelay, bounce, complaint, reject, open, click, unsubscribe } = event;
  const failed = deliveryDelay ?? bounce;
  const words =
    failed?.advice ??
    complaint?.advice ??
    reject?.advice ??
    (delivery && texts.took250(delivery.remoteHost ?? '', duration(delivery.latencyMs / 1_000)).trimStart()) ??
    (unsubscribe && texts.unsubscribed[unsubscribe.method]);
  const reader = open ?? click;
  return (
    <>
      {words !== undefined && <div>{words}</div>}
      {failed?.late && <div className={classes.quiet}>{texts.late}</div>}
      {(failed?.reply ?? delivery?.reply) && (
        <div className={`mono ${classes.quiet}`}>{visible(failed?.reply ?? delivery?.reply ?? '')}</div>
      )}
      {click !== undefined && <ClickedLink url={click.url} />}
      {reader !== undefined && (
        <div className={classes.quiet}>
          {reader.machine && `${texts.byMachine} · `}
          {reader.userAgent}
        </div>
      )}
    </>
  );
}

/** An untrusted text: only web URLs become links. */
function ClickedLink({ url }: { url: string }) {
  if (!/^https?:\/\//i.test(url)) return <div>{url}</div>;
  return (
    <Anchor href={url} target="_blank" rel="noopener noreferrer">
      {url}
    </Anchor>
  );
}
