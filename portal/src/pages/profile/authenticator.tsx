/** The authenticator app: set up with a QR code, confirm with a code, remove; its recovery codes are shown once. */
import { Alert, Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { useChange } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { CopyText } from '../../parts/copy.tsx';
import { saveFile } from '../../parts/csv.ts';
import { Panel } from '../../parts/page.tsx';
import { withUndo } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { secrets } from '../../texts/parts.ts';
import { authenticator as texts } from '../../texts/profile.ts';
import { ConfirmAuthenticator } from './confirm-authenticator.tsx';
import classes from './profile.module.css';
import { SignInProblem } from './sign-in-again.tsx';

const FEW_CODES = 3;

export function AuthenticatorPanel() {
  const { person } = useScope();
  const { recoveryCodes } = person.twoFactor;
  const [isRemoved, setRemoved] = useState(false);
  const [codes, setCodes] = useState<readonly string[]>();
  const offer = useChange('offerTotp');
  const remove = useChange('removeTotp', ['getSession']);
  const isOn = person.twoFactor.totp && !isRemoved;
  const askRemoval = (): void => {
    setRemoved(true);
    withUndo({
      message: texts.removed,
      run: () => remove.mutateAsync({}).finally(() => setRemoved(false)),
      onUndo: () => setRemoved(false),
    });
  };
  return (
    <Panel title={texts.title} actions={isOn && <Badge tone="good">{texts.title}</Badge>}>
      <Stack gap="sm">
        <Text size="sm">{isOn ? texts.on(recoveryCodes) : texts.off}</Text>
        {isOn && recoveryCodes <= FEW_CODES && <Alert p="xs">{texts.few}</Alert>}
        <SignInProblem error={offer.error ?? remove.error} />
        <Group>
          {isOn ? (
            <Button variant="default" onClick={askRemoval}>
              {texts.remove}
            </Button>
          ) : (
            <Button loading={offer.isPending} disabled={isRemoved} onClick={() => offer.mutate({})}>
              {texts.begin}
            </Button>
          )}
        </Group>
      </Stack>
      <Modal
        opened={offer.data !== undefined && codes === undefined}
        onClose={offer.reset}
        title={texts.confirmTitle}
        closeOnClickOutside={false}
      >
        {offer.data !== undefined && (
          <ConfirmAuthenticator offer={offer.data} onConfirmed={setCodes} onCancel={offer.reset} />
        )}
      </Modal>
      <RecoveryCodes
        codes={codes}
        onKept={() => {
          offer.reset();
          setCodes(undefined);
        }}
      />
    </Panel>
  );
}

function RecoveryCodes({ codes, onKept }: { codes: readonly string[] | undefined; onKept(): void }) {
  const text = codes?.join('\n') ?? '';
  return (
    <Modal
      opened={codes !== undefined}
      onClose={onKept}
      title={texts.codesTitle}
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      <Stack gap="sm">
        <Text size="sm">{texts.codesLead}</Text>
        <Alert color="yellow" p="xs">
          {secrets.once}
        </Alert>
        <ul className={`mono ${classes.codes}`} aria-label={texts.codes}>
          {codes?.map((code) => (
            <li key={code}>{code}</li>
          ))}
        </ul>
        <Group justify="space-between">
          <Group gap="xs">
            <CopyText value={text}>{texts.codes}</CopyText>
            <Button
              variant="default"
              onClick={() => saveFile(texts.fileName, new Blob([`${text}\n`], { type: 'text/plain' }))}
            >
              {texts.download}
            </Button>
          </Group>
          <Button onClick={onKept}>{secrets.done}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
