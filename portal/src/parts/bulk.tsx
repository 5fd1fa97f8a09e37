/** Actions on the selected rows of a list: each runs for the rows that it applies to, a few at a time, and reports what failed. */
import { Button, Group, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Caller, OperationId } from '../api.ts';
import { useScope } from '../scope.ts';
import { bulk } from '../texts/parts.ts';
import { Confirmed } from './confirmed.tsx';
import classes from './parts.module.css';
import { localTime } from './time.tsx';
import { done, failed } from './undo.tsx';

export interface BulkAction<T> {
  /** For example "Resend". */
  name: string;
  icon: ReactNode;
  /** The button that confirms it, for example "Resend 3 messages". */
  confirm(rows: number): string;
  /** For example "Sends 3 messages again". */
  effect(rows: number): string;
  /** For example "3 messages resent". */
  finished(rows: number): string;
  appliesTo(row: T): boolean;
  /** Asks for a time before it runs: the label of the field. */
  timeLabel?: string;
  /** `time` is ISO 8601, of actions that ask for one. */
  run(caller: Caller, row: T, time: string): Promise<unknown>;
  /** The lists to reload afterwards. */
  stale: readonly OperationId[];
}

/** Calls at a time: few enough that other users of the account notice nothing. */
const CALLS_AT_ONCE = 4;

/** Runs the action for each row, and returns the errors. */
async function runForAll<T>(rows: readonly T[], run: (row: T) => Promise<unknown>, onProgress: () => void) {
  const waiting = [...rows];
  const errors: Error[] = [];
  const lane = async (): Promise<void> => {
    for (let row = waiting.shift(); row !== undefined; row = waiting.shift()) {
      await run(row).catch((error: Error) => errors.push(error));
      onProgress();
    }
  };
  await Promise.all(Array.from({ length: CALLS_AT_ONCE }, lane));
  return errors;
}

interface BulkBarProps<T> {
  chosen: readonly T[];
  actions: readonly BulkAction<T>[];
  onClear(): void;
}

export default function BulkBar<T>({ chosen, actions, onClear }: BulkBarProps<T>) {
  const { caller } = useScope();
  const queries = useQueryClient();
  const [progress, setProgress] = useState<{ finished: number; total: number }>();
  const [time, setTime] = useState(() => localTime(new Date(Date.now() + 3_600_000).toISOString()));
  const runAction = async (action: BulkAction<T>, rows: readonly T[]): Promise<void> => {
    const at = new Date(time);
    if (action.timeLabel !== undefined && Number.isNaN(at.getTime())) return;
    let finished = 0;
    setProgress({ finished, total: rows.length });
    const errors = await runForAll(
      rows,
      (row) => action.run(caller, row, action.timeLabel === undefined ? '' : at.toISOString()),
      () => {
        finished += 1;
        setProgress({ finished, total: rows.length });
      },
    );
    setProgress(undefined);
    if (errors.length < rows.length) done(action.finished(rows.length - errors.length));
    if (errors.length > 0) failed(new Error(bulk.failed(errors.length, rows.length, errors[0]!.message)));
    onClear();
    await Promise.all(action.stale.map((operation) => queries.invalidateQueries({ queryKey: [operation] })));
  };
  return (
    <section className={classes.bulk} aria-label={bulk.label}>
      <Text role="status">
        {progress === undefined ? bulk.selected(chosen.length) : bulk.progress(progress.finished, progress.total)}
      </Text>
      <Group gap="xs">
        {actions.map((action) => {
          const rows = chosen.filter(action.appliesTo);
          if (rows.length === 0) return null;
          const label = rows.length === chosen.length ? action.name : bulk.some(action.name, rows.length);
          return (
            <Confirmed
              key={action.name}
              label={label}
              icon={action.icon}
              effect={action.effect(rows.length)}
              confirm={action.confirm(rows.length)}
              isBusy={progress !== undefined}
              run={() => runAction(action, rows)}
            >
              {action.timeLabel !== undefined && (
                <TextInput
                  type="datetime-local"
                  label={action.timeLabel}
                  value={time}
                  onChange={({ currentTarget }) => setTime(currentTarget.value)}
                />
              )}
            </Confirmed>
          );
        })}
        <Button variant="subtle" onClick={onClear}>
          {bulk.clear}
        </Button>
      </Group>
    </section>
  );
}
