/** The form that requests a larger limit. */
import { Button, NumberInput, Stack, Text, Textarea } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { useChange } from '../../api.ts';
import { size } from '../../parts/time.tsx';
import { done } from '../../parts/undo.tsx';
import { approvals } from '../../texts/approvals.ts';
import classes from './approvals.module.css';

const MEGABYTE = 1_000_000;
const USUAL_MEGABYTES = 20;
const REASON_CHARACTERS = 2_000;

interface AskForMoreProps {
  leastBytes: number;
  mostBytes: number;
}

export function AskForMore({ leastBytes, mostBytes }: AskForMoreProps) {
  const usual = USUAL_MEGABYTES * MEGABYTE > leastBytes ? USUAL_MEGABYTES : mostBytes / MEGABYTE;
  const [megabytes, setMegabytes] = useState<number | string>(usual);
  const [reason, setReason] = useState('');
  const ask = useChange('requestApproval', ['listApprovals']);
  const bytes = Math.round(Number(megabytes) * MEGABYTE);
  const isPossible = bytes > leastBytes && bytes <= mostBytes;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    ask.mutate(
      { body: { requestedEmailBytes: bytes, reason: reason.trim() } },
      {
        onSuccess() {
          setReason('');
          done(approvals.sent);
        },
      },
    );
  };
  return (
    <form onSubmit={submit} className={classes.form}>
      <Stack gap="sm">
        <NumberInput
          label={approvals.size}
          description={approvals.sizeHint(size(leastBytes), size(mostBytes))}
          suffix=" MB"
          min={0}
          max={mostBytes / MEGABYTE}
          decimalScale={1}
          clampBehavior="none"
          required
          value={megabytes}
          onChange={setMegabytes}
          error={!isPossible}
        />
        <Textarea
          label={approvals.reason}
          description={approvals.reasonHint}
          autosize
          minRows={3}
          maxRows={10}
          maxLength={REASON_CHARACTERS}
          required
          value={reason}
          onChange={({ currentTarget }) => setReason(currentTarget.value)}
        />
        {ask.error !== null && (
          <Text c="red" role="alert">
            {ask.error.message}
          </Text>
        )}
        <Button
          type="submit"
          loading={ask.isPending}
          disabled={!isPossible || reason.trim() === ''}
          style={{ alignSelf: 'flex-start' }}
        >
          {approvals.submit}
        </Button>
      </Stack>
    </form>
  );
}
