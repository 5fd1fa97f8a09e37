/** The result of an import: lines imported, skipped and rejected with reasons, and those not processed. */
import { Button, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Badge } from '../../parts/badge.tsx';
import { count } from '../../parts/time.tsx';
import type { Tone } from '../../parts/tone.ts';
import { importing } from '../../texts/suppressions.ts';
import type { ImportState } from './import-run.ts';
import classes from './suppressions.module.css';

const SHOWN_LINES = 100;

function Outcome({ tone, title, children }: { tone: Tone; title: string; children: ReactNode }) {
  return (
    <div>
      <Badge tone={tone}>{title}</Badge>
      <Text c="dimmed" component="div" mt={2}>
        {children}
      </Text>
    </div>
  );
}

export function ImportResult({ state, onClose }: { state: ImportState; onClose(): void }) {
  const { imported, skipped, faulty, total, finished, error } = state;
  const left = total - finished;
  return (
    <Stack gap="sm" role="status">
      {left > 0 && (
        <Outcome tone="bad" title={importing.unsent(count(left))}>
          {error === undefined ? importing.stopped : `${error.message} ${importing.broken}`}
        </Outcome>
      )}
      <Outcome tone="good" title={importing.imported(count(imported))}>
        {importing.importedHint}
      </Outcome>
      {skipped > 0 && (
        <Outcome tone="calm" title={importing.skipped(count(skipped))}>
          {importing.skippedHint}
        </Outcome>
      )}
      {faulty.length > 0 && (
        <Outcome tone="wait" title={importing.faulty(count(faulty.length))}>
          {importing.faultyHint}
          <ul className={classes.faulty}>
            {faulty.slice(0, SHOWN_LINES).map(({ number, message }) => (
              <li key={number}>{importing.line(number, message)}</li>
            ))}
            {faulty.length > SHOWN_LINES && <li>{importing.more(count(faulty.length - SHOWN_LINES))}</li>}
          </ul>
        </Outcome>
      )}
      <Button onClick={onClose} style={{ alignSelf: 'flex-end' }}>
        {importing.close}
      </Button>
    </Stack>
  );
}
