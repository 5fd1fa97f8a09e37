/** Sends the first message, by a click or from code, always in the sandbox. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useCall, useChange } from '../../api.ts';
import { IconKey, IconSend } from '../../icons.ts';
import { callOf, snippetsOf } from '../../parts/as-code.tsx';
import { Snippets } from '../../parts/copy.tsx';
import { Panel } from '../../parts/page.tsx';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { start } from '../../texts/start.ts';
import { useFirstCredential, useFirstKey } from './first-secrets.ts';
import { smtpSnippets } from './smtp-snippets.ts';

export function SendOne() {
  const { mayWrite } = useScope();
  const send = useChange('sendEmail', ['listSandboxInbox']);
  return (
    <Panel title={start.send}>
      {mayWrite ? (
        <Group gap="sm">
          <Button
            size="sm"
            leftSection={<IconSend size={16} />}
            loading={send.isPending}
            onClick={() => send.mutate({ body: start.mail }, { onError: failed })}
          >
            {start.sendHere}
          </Button>
          <Text c="dimmed" style={{ flex: '1 1 14rem' }}>
            {start.sendHereHint}
          </Text>
        </Group>
      ) : (
        <Text c="dimmed">{start.mayNotSend}</Text>
      )}
    </Panel>
  );
}

export function Examples() {
  const { account, mayOwn } = useScope();
  const first = useFirstKey();
  const smtp = useFirstCredential();
  const port = useCall('getAccount').data?.smtp.port ?? 587;
  const call = callOf('sendEmail', { body: start.mail }, account?.accountId ?? '');
  const snippets = {
    ...snippetsOf(call, first.key),
    ...smtpSnippets({ host: location.hostname, port }, start.mail, smtp.credential),
  };
  return (
    <Panel title={start.byCode}>
      <Stack gap="sm">
        {mayOwn ? (
          <>
            <Secret
              isReal={first.key !== undefined}
              label={start.makeKey}
              hint={start.makeKeyHint}
              real={start.keyIsReal}
              {...first}
            />
            {account?.plan !== 'free' && (
              <Secret
                isReal={smtp.credential !== undefined}
                label={start.makeCredential}
                hint={start.makeCredentialHint}
                real={start.credentialIsReal}
                {...smtp}
              />
            )}
          </>
        ) : (
          <Text c="dimmed">{start.askOwner}</Text>
        )}
        <Snippets of={snippets} label={start.examples} />
      </Stack>
    </Panel>
  );
}

interface SecretProps {
  isReal: boolean;
  label: string;
  hint: string;
  /** Shown once it is filled in. */
  real: string;
  isMaking: boolean;
  make(): void;
}

function Secret({ isReal, label, hint, real, isMaking, make }: SecretProps) {
  if (isReal) return <Text role="status">{real}</Text>;
  return (
    <Group gap="sm">
      <Button variant="default" leftSection={<IconKey size={14} />} loading={isMaking} onClick={make}>
        {label}
      </Button>
      <Text c="dimmed" size="xs" style={{ flex: '1 1 14rem' }}>
        {hint}
      </Text>
    </Group>
  );
}
