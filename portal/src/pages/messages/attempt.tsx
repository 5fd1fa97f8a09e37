/** One delivery attempt: the server, the result, and the complete SMTP dialogue when opened. */
import { ActionIcon, Group, Text, Tooltip } from '@mantine/core';
import { IconDownload } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { Copy } from '../../parts/copy.tsx';
import { saveFile } from '../../parts/csv.ts';
import { Facts } from '../../parts/page.tsx';
import { duration } from '../../parts/time.tsx';
import type { Tone } from '../../parts/tone.ts';
import { visible } from '../../parts/visible.ts';
import { timeline as texts } from '../../texts/messages.ts';
import type { Answered } from './answer.ts';
import classes from './messages.module.css';
import { StepTime } from './step-time.tsx';

type AttemptRecord = Answered['attempts'][number];

const TONES = { delivered: 'good', delayed: 'wait', bounced: 'bad' } as const satisfies Record<string, Tone>;

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

function encryption(attempt: AttemptRecord): string {
  const { tls, tlsFallback, host, tlsCipher, tlsKeyExchange, tlsPeerName } = attempt;
  if (tls !== null) return [tls, tlsKeyExchange, tlsCipher, tlsPeerName].filter(Boolean).join(', ');
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
      {dialogue.length === 0 ? (
        <Text c="dimmed">{texts.noDialogue}</Text>
      ) : (
        <>
          <Group gap={4} justify="space-between">
            <Text fw={550}>{texts.dialogue}</Text>
            <SaveDialogue attempt={attempt} />
          </Group>
          <Dialogue lines={dialogue} />
        </>
      )}
    </div>
  );
}

/** Copies or saves the dialogue, for a report to the operator of the other server. */
function SaveDialogue({ attempt }: { attempt: AttemptRecord }) {
  const text = dialogueText(attempt);
  const name = `smtp-${attempt.time.replace(/[:.]/g, '-')}.txt`;
  return (
    <Group gap={4}>
      <Copy value={text} label={texts.copyDialogue} />
      <Tooltip label={texts.saveDialogue}>
        <ActionIcon
          size="sm"
          aria-label={texts.saveDialogue}
          onClick={() => saveFile(name, new Blob([text], { type: 'text/plain;charset=utf-8' }))}
        >
          <IconDownload size={14} />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}

/** Formats one line per line of the dialogue: milliseconds since the start, C for the client or S for the server, and the text. */
function dialogueText({ time, host, address, tls, dialogue }: AttemptRecord): string {
  const head = [time, host, address && `[${address}]`, tls].filter(Boolean).join(' ');
  const lines = dialogue.map(({ atMs, direction, text }) => `${String(atMs).padStart(7)} ms  ${direction}: ${text}`);
  return `${[head, ...lines].join('\n')}\n`;
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
