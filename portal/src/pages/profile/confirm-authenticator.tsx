/** A QR code and a secret for the authenticator app, and the field for its first code. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { encode } from 'uqr';
import { type Answer, useChange } from '../../api.ts';
import { Copyable } from '../../parts/copy.tsx';
import { authenticator as texts } from '../../texts/profile.ts';
import classes from './profile.module.css';
import { SignInProblem } from './sign-in-again.tsx';

interface ConfirmAuthenticatorProps {
  offer: Answer<'offerTotp'>;
  onConfirmed(recoveryCodes: readonly string[]): void;
  onCancel(): void;
}

export function ConfirmAuthenticator({ offer, onConfirmed, onCancel }: ConfirmAuthenticatorProps) {
  const [code, setCode] = useState('');
  const confirm = useChange('confirmTotp', ['getSession']);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    confirm.mutate(
      { body: { code: code.replaceAll(' ', '') } },
      { onSuccess: ({ recoveryCodes }) => onConfirmed(recoveryCodes) },
    );
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <Text size="sm">{texts.scan}</Text>
        <QrCode text={offer.otpauthUrl} />
        <div>
          <Text size="sm">{texts.type}</Text>
          <Copyable value={offer.secret} />
        </div>
        <SignInProblem error={confirm.error} />
        <TextInput
          label={texts.code}
          inputMode="numeric"
          autoComplete="one-time-code"
          required
          data-autofocus
          value={code}
          onChange={({ currentTarget }) => setCode(currentTarget.value)}
        />
        <Group justify="flex-end">
          <Button variant="default" onClick={onCancel}>
            {texts.cancel}
          </Button>
          <Button type="submit" loading={confirm.isPending} disabled={code.replaceAll(' ', '').length < 6}>
            {texts.confirm}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** Dark on white, also in dark mode, so that cameras can read it. */
function QrCode({ text }: { text: string }) {
  const { data, size } = encode(text, { border: 2 });
  const squares = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x} ${y}h1v1h-1z`] : [])));
  return (
    <svg
      className={classes.qr}
      viewBox={`0 0 ${size} ${size}`}
      width={208}
      height={208}
      shapeRendering="crispEdges"
      role="img"
      aria-label={texts.qr}
    >
      <path d={squares.join('')} fill="#000" />
    </svg>
  );
}
