/** Every attempt of a delivery with its response, and when the next one is due. */
import { Text } from '@mantine/core';
import { Badge } from '../../parts/badge.tsx';
import { sentence } from '../../parts/sentence.ts';
import { duration, Time } from '../../parts/time.tsx';
import { delivery as texts } from '../../texts/webhooks.ts';
import { AnswerStart } from './answer.tsx';
import type { WebhookDelivery } from './health-strip.tsx';
import classes from './webhooks.module.css';

type LoggedAttempt = WebhookDelivery['attemptLog'][number];

export function Attempts({ delivery: { attemptLog, attempts, nextAttemptAt } }: { delivery: WebhookDelivery }) {
  // Deliveries that were made before attempts were recorded have some without a record.
  const unlisted = attempts - attemptLog.length;
  return (
    <>
      <ol className={classes.attempts} aria-label={texts.attemptList} start={unlisted + 1}>
        {attemptLog.map((attempt, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: attempts are only appended
          <Attempt key={index} number={unlisted + index + 1} attempt={attempt} />
        ))}
      </ol>
      {nextAttemptAt !== null && (
        <Text c="dimmed">
          {texts.facts.next}: <Time at={nextAttemptAt} exact />
        </Text>
      )}
    </>
  );
}

function Attempt({ number, attempt }: { number: number; attempt: LoggedAttempt }) {
  const { time, responseStatus, responseStart, error, latencyMs } = attempt;
  return (
    <li>
      <details>
        <summary>
          <strong>{texts.attempt(number)}</strong>
          <Badge tone={error === null ? 'good' : 'bad'}>{responseStatus ?? texts.noResponse}</Badge>
          <span>{latencyMs !== null && duration(latencyMs / 1_000)}</span>
          <Time at={time} exact />
        </summary>
        {error !== null && responseStatus === null && <Text mb="xs">{sentence(error)}</Text>}
        {responseStart ? (
          <AnswerStart text={responseStart} label={texts.answerOf(number)} />
        ) : (
          responseStatus !== null && <Text c="dimmed">{texts.answerEmpty}</Text>
        )}
      </details>
    </li>
  );
}
