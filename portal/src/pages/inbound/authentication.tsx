/** The authentication results of a message: SPF, DKIM, DMARC and ARC, each as a word and a sentence. */
import { Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Answer } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { Facts, Panel } from '../../parts/page.tsx';
import type { Tone } from '../../parts/tone.ts';
import { authentication as texts } from '../../texts/inbound.ts';

type Results = NonNullable<Answer<'getInboundMail'>['content']['authentication']>;

const TONES: Partial<Record<string, Tone>> = {
  pass: 'good',
  fail: 'bad',
  softfail: 'wait',
  policy: 'wait',
  temperror: 'wait',
  permerror: 'wait',
};

interface Shown {
  result: string;
  /** For non-experts. */
  meaning: string;
  reason: string | null;
}

function Result({ result, meaning, reason }: Shown): ReactNode {
  return (
    <>
      <Badge tone={TONES[result] ?? 'calm'}>{texts.words[result as keyof typeof texts.words]}</Badge>{' '}
      <span style={{ overflowWrap: 'anywhere' }}>{meaning}</span>
      {reason !== null && (
        <Text c="dimmed" size="xs" style={{ overflowWrap: 'anywhere' }}>
          {reason}
        </Text>
      )}
    </>
  );
}

export function Authentication({ results: { spf, dkim, dmarc, arc } }: { results: Results }) {
  const signatures = dkim.map(
    (one, index) =>
      [
        texts.signature(index + 1, dkim.length),
        <Result key={texts.signature(index + 1, dkim.length)} {...one} meaning={texts.dkim(one.result, one.domain)} />,
      ] as const,
  );
  return (
    <Panel title={texts.title}>
      <Facts
        of={[
          [texts.names.dmarc, <Result key="dmarc" {...dmarc} meaning={texts.dmarc(dmarc)} />],
          [texts.names.spf, <Result key="spf" {...spf} meaning={texts.spf(spf.result, spf.domain)} />],
          ...(signatures.length > 0
            ? signatures
            : [
                [
                  texts.signature(1, 1),
                  <Result key="dkim" result="none" meaning={texts.unsigned} reason={null} />,
                ] as const,
              ]),
          [
            texts.names.arc,
            arc.result === 'none' && arc.reason === null ? undefined : (
              <Result key="arc" {...arc} meaning={texts.arc[arc.result]} />
            ),
          ],
        ]}
      />
      <Text c="dimmed" size="xs" mt="xs">
        {texts.hint}
      </Text>
    </Panel>
  );
}
