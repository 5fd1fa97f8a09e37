/** Explains why an endpoint rejects a request: headers, clock, secret and body, each with its result. Nothing leaves the browser. */
import { Drawer, Stack, Text, Textarea, TextInput, Title } from '@mantine/core';
import { useEffect, useState } from 'react';
import { IconCircleCheck, IconCircleDashed, IconCircleX } from '../../icons.ts';
import { Copyable } from '../../parts/copy.tsx';
import { useFocusBack } from '../../parts/focus-back.ts';
import { Notice } from '../../parts/notice.tsx';
import type { Tone } from '../../parts/tone.ts';
import { checker, findings } from '../../texts/webhooks.ts';
import { type Check, checkSignature, type GivenRequest } from './check-signature.ts';
import classes from './webhooks.module.css';

const ICONS = { right: IconCircleCheck, wrong: IconCircleX, unknown: IconCircleDashed };
const PARTS = ['headers', 'clock', 'secret', 'body'] as const;

/** Returns the results for the current fields; results for earlier text are dropped. */
function useCheck(given: GivenRequest): Check | undefined {
  const [check, setCheck] = useState<Check>();
  const { headers, body, secret } = given;
  useEffect(() => {
    let isLatest = true;
    void checkSignature({ headers, body, secret }, Date.now() / 1000).then((found) => isLatest && setCheck(found));
    return () => {
      isLatest = false;
    };
  }, [headers, body, secret]);
  return check;
}

export function SignatureChecker({ onClose }: { onClose(): void }) {
  useFocusBack();
  return (
    <Drawer opened onClose={onClose} title={checker.title} position="right" size="xl">
      {globalThis.isSecureContext ? (
        <Form />
      ) : (
        <Notice role="status" tone="wait">
          {checker.noCrypto}
        </Notice>
      )}
    </Drawer>
  );
}

function Form() {
  const [given, setGiven] = useState<GivenRequest>({ headers: '', body: '', secret: '' });
  const check = useCheck(given);
  const field = (name: keyof GivenRequest) => ({
    value: given[name],
    onChange: (event: { currentTarget: { value: string } }) =>
      setGiven({ ...given, [name]: event.currentTarget.value }),
    autoComplete: 'off',
    spellCheck: false,
    classNames: { input: 'mono' },
  });
  return (
    <Stack>
      <Text c="dimmed">{checker.lead}</Text>
      <Textarea
        label={checker.headers}
        data-autofocus
        description={checker.headersHint}
        autosize={true}
        minRows={3}
        maxRows={6}
        placeholder={'webhook-id: evt_…\nwebhook-timestamp: 1795167840\nwebhook-signature: v1,…'}
        {...field('headers')}
      />
      <Textarea
        label={checker.body}
        description={checker.bodyHint}
        autosize={true}
        minRows={3}
        maxRows={8}
        placeholder={'{"eventId":"evt_…"'}
        {...field('body')}
      />
      <TextInput label={checker.secret} description={checker.secretHint} placeholder={'whsec_…'} {...field('secret')} />
      {check !== undefined && <Findings check={check} />}
    </Stack>
  );
}

const TONES: Partial<Record<Check['finding'], Tone>> = { genuine: 'good', stale: 'wait', incomplete: 'calm' };

function Findings({ check }: { check: Check }) {
  const { finding } = check;
  const rank = (part: (typeof PARTS)[number]): number => (check[part].state === 'wrong' ? 0 : 1);
  return (
    <section aria-label={checker.findings[finding]}>
      <Notice role="status" tone={TONES[finding] ?? 'bad'}>
        <Title order={3} size="h3">
          {checker.findings[finding]}
        </Title>
      </Notice>
      {PARTS.toSorted((a, b) => rank(a) - rank(b)).map((part) => (
        <Finding key={part} part={part} of={check} />
      ))}
      {check.expected !== undefined && (
        <div className={classes.finding}>
          <span />
          <div>
            <Text fw={550}>{checker.expected}</Text>
            <Copyable value={check.expected} />
            <Text c="dimmed" size="xs">
              {checker.expectedHint}
            </Text>
          </div>
        </div>
      )}
    </section>
  );
}

function Finding({ part, of }: { part: (typeof PARTS)[number]; of: Check }) {
  const { state, code, about } = of[part];
  const Icon = ICONS[state];
  return (
    <div className={classes.finding}>
      <Icon size={18} className={classes[state]} role="img" aria-label={checker.states[state]} />
      <div>
        <Text fw={550}>{checker.parts[part]}</Text>
        <Text>{findings[code]!(about)}</Text>
      </div>
    </div>
  );
}
