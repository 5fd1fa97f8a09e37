/** One delivery attempt: the server, the result, and the complete SMTP dialogue when opened. */
import { Text } from '@mantine/core';
import { Badge } from '../../parts/badge.tsx';
import { Facts } from '../../parts/page.tsx';
import { duration } from '../../parts/time.tsx';
import { visible } from '../../parts/visible.ts';
import { timeline as texts } from '../../texts/messages.ts';
import type { Answered, AnswerTone } from './answer.ts';
import classes from './messages.module.css';
import { StepTime } from './step-time.tsx';

type AttemptRecord = Answered['attempts'][number];

const TONES = { delivered: 'good', delayed: 'wait', bounced: 'bad' } as const satisfies Record<string, AnswerTone>;

export function Attempt({ number, attempt }: { number: number; attempt: AttemptRecord }) {
  const { host, outcome, time } = attempt;
  const tone = TONES[outcome];
  return (
    <li className={classes.step} data-tone={tone}>
      <details>
        <summary>
          <span className={classes.stepHead}>
            <strong>{texts.attempt(number)}</strong>
            <span>{host === null ? texts.noHost : texts.at(host)}</span>
            <Badge tone={tone}>{texts.outcomes[outcome]}</Badge>
            <StepTime at={time} />
          </span>
        </summary>
        <AttemptDetail attempt={attempt} />
      </details>
    </li>
  );
}

function encryption({ tls, tlsFallback, host, tlsCipher, tlsPeerName }: AttemptRecord): string {
  if (tls !== null) return [tls, tlsCipher, tlsPeerName].filter(Boolean).join(', ');
  if (tlsFallback !== undefined) return texts.tlsBecause(tlsFallback);
  return host === null ? texts.tlsUnknown : texts.tlsNone;
}

function AttemptDetail({ attempt }: { attempt: AttemptRecord }) {
  const { host, address, reply, durationMs, dialogue, tlsPolicy } = attempt;
  return (
    <div className={classes.attempt}>
      <Facts
        of={[
          [texts.host, host ?? undefined],
          [texts.address, address ?? undefined],
          [texts.tls, encryption(attempt)],
          [texts.tlsPolicy, tlsPolicy && texts.tlsPolicies[tlsPolicy]],
          [texts.took, duration(durationMs / 1_000)],
          [texts.reply, reply === null ? undefined : <code key="reply">{visible(reply)}</code>],
        ]}
      />
      {dialogue.length === 0 ? <Text c="dimmed">{texts.noDialogue}</Text> : <Dialogue lines={dialogue} />}
    </div>
  );
}

function Dialogue({ lines }: { lines: AttemptRecord['dialogue'] }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1)
    <ol className={classes.dialogue} aria-label={texts.dialogue} tabIndex={0}>
      {lines.map(({ atMs, direction, text }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines of a record that does not change, some of them alike
        <li key={index} data-who={direction}>
          <span className={classes.who}>{direction === 'C' ? texts.client : texts.server}</span>
          <span>{visible(text)}</span>
          <span className={classes.after}>{texts.atMs(atMs)}</span>
        </li>
      ))}
    </ol>
  );
}
