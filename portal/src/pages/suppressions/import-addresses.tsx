/** Imports a list: a file, a preview, progress, and the result of each line. */
import { Alert, Button, FileButton, Group, Modal, Progress, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { IconUpload } from '../../icons.ts';
import { count } from '../../parts/time.tsx';
import { importing } from '../../texts/suppressions.ts';
import { type ImportLine, linesOf, partsOf } from './import-file.ts';
import { ImportResult } from './import-result.tsx';
import { useImport } from './import-run.ts';
import classes from './suppressions.module.css';

const FILE_BYTES = 100_000_000;
const SHOWN_ROWS = 5;

export function ImportAddresses({ isOpen, onClose }: { isOpen: boolean; onClose(): void }) {
  const { state, run, stop, forget } = useImport();
  const isRunning = state?.state === 'running';
  const close = (): void => {
    stop();
    forget();
    onClose();
  };
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      title={importing.title}
      size="lg"
      closeOnClickOutside={!isRunning}
      closeOnEscape={!isRunning}
    >
      {state === undefined && <Choice onImport={run} />}
      {state !== undefined && isRunning && (
        <Stack gap="sm">
          <Progress value={(state.finished / state.total) * 100} aria-label={importing.progress} animated />
          <Group justify="space-between">
            <Text role="status">
              {importing.progress}: {count(state.finished)} / {count(state.total)}
            </Text>
            <Button variant="default" onClick={stop}>
              {importing.stop}
            </Button>
          </Group>
        </Stack>
      )}
      {state !== undefined && !isRunning && <ImportResult state={state} onClose={close} />}
    </Modal>
  );
}

type Read = { lines: ImportLine[] } | { problem: string };

async function readFile(file: File): Promise<Read> {
  if (file.size > FILE_BYTES) return { problem: importing.tooLarge };
  try {
    const lines = linesOf(await file.text());
    return lines.length === 0 ? { problem: importing.nothing } : { lines };
  } catch (error) {
    return { problem: `${importing.unreadable}: ${(error as Error).message}` };
  }
}

function Choice({ onImport }: { onImport(lines: readonly ImportLine[]): unknown }) {
  const [read, setRead] = useState<Read & { name: string }>();
  const choose = async (file: File | null): Promise<void> => {
    if (file !== null) setRead({ ...(await readFile(file)), name: file.name });
  };
  const lines = read !== undefined && 'lines' in read ? read.lines : undefined;
  return (
    <Stack gap="sm">
      <Text c="dimmed">{importing.lead}</Text>
      {read !== undefined && 'problem' in read && (
        <Alert color="red" role="alert" p="xs">
          {read.problem}
        </Alert>
      )}
      {lines !== undefined && <Preview name={read!.name} lines={lines} />}
      <Group justify="flex-end" gap="xs">
        <FileButton onChange={(file) => void choose(file)} accept=".csv,.txt,.tsv,text/csv,text/plain">
          {(props) => (
            <Button {...props} variant="default" leftSection={<IconUpload size={14} />}>
              {read === undefined ? importing.choose : importing.another}
            </Button>
          )}
        </FileButton>
        {lines !== undefined && <Button onClick={() => void onImport(lines)}>{importing.start}</Button>}
      </Group>
    </Stack>
  );
}

function Preview({ name, lines }: { name: string; lines: readonly ImportLine[] }) {
  const [shown, parts] = [importing.lines(lines.length, count(lines.length)), importing.parts(partsOf(lines).length)];
  return (
    <>
      <Text fw={550}>{name}</Text>
      <table className={classes.preview}>
        <caption>{importing.firstRows}</caption>
        <thead>
          <tr>
            <th scope="col">{importing.emailColumn}</th>
            <th scope="col">{importing.reasonColumn}</th>
            <th scope="col">{importing.expiryColumn}</th>
          </tr>
        </thead>
        <tbody>
          {lines.slice(0, SHOWN_ROWS).map(({ number, email, reason, expiresAt }) => (
            <tr key={number}>
              <td>{email}</td>
              <td>{reason || importing.byDefault}</td>
              <td>{expiresAt}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Text role="status">{importing.what(shown, parts)}</Text>
    </>
  );
}
