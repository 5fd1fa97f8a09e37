/** Text to copy: a copy button, a code block, one block in several languages, and an API call as code. */
import { ActionIcon, Button, CopyButton, SegmentedControl, Select, Stack, Tooltip } from '@mantine/core';
import { useState } from 'react';
import { IconCheck, IconCopy } from '../icons.ts';
import { copying } from '../texts/parts.ts';
import classes from './parts.module.css';

export function Copy({ value, label = copying.copy }: { value: string; label?: string }) {
  return (
    <CopyButton value={value} timeout={1500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? copying.copied : label}>
          <ActionIcon onClick={copy} size="sm" aria-label={copied ? copying.copied : label}>
            {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** An id or address in a monospaced font, with a copy button. */
export function Copyable({ value }: { value: string }) {
  return (
    <span>
      <span className="mono">{value}</span> <Copy value={value} />
    </span>
  );
}

export function Code({ code, label }: { code: string; label: string }) {
  return (
    <div className={classes.snippet}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (WCAG 2.1.1) */}
      <section className={classes.pre} tabIndex={0} aria-label={label}>
        <pre>{code}</pre>
      </section>
      <Copy value={code} />
    </div>
  );
}

/** More would not fit side by side on a phone. */
const SIDE_BY_SIDE = 4;

/** The same snippet in several languages; the choice is remembered for all blocks. */
export function Snippets({ of, label }: { of: Readonly<Record<string, string>>; label: string }) {
  const names = Object.keys(of);
  const [chosen, choose] = useState(() => localStorage.getItem('postrider.language'));
  const name = chosen !== null && chosen in of ? chosen : names[0]!;
  const chosenBy = {
    data: names,
    value: name,
    'aria-label': copying.language,
    onChange(value: string | null) {
      localStorage.setItem('postrider.language', value ?? '');
      choose(value);
    },
    style: { alignSelf: 'flex-start' },
  };
  return (
    <Stack gap="xs">
      {names.length > SIDE_BY_SIDE ? <Select {...chosenBy} /> : <SegmentedControl {...chosenBy} />}
      <Code code={of[name]!} label={`${label}, ${name}`} />
    </Stack>
  );
}

export function CopyText({ value, children }: { value: string; children: string }) {
  return (
    <CopyButton value={value} timeout={1500}>
      {({ copied, copy }) => (
        <Button
          variant="default"
          onClick={copy}
          leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
        >
          {copied ? copying.copied : children}
        </Button>
      )}
    </CopyButton>
  );
}
