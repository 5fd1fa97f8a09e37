/** The user's passkeys: list, add, remove. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { type Answer, PostriderError, useCall, useChange } from '../../api.ts';
import { IconFingerprint } from '../../icons.ts';
import { Panel } from '../../parts/page.tsx';
import { ErrorState } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { done, withUndo } from '../../parts/undo.tsx';
import { hasPasskeys, makePasskey } from '../../passkeys.ts';
import { passkeys as texts } from '../../texts/profile.ts';
import classes from './profile.module.css';
import { SignInProblem } from './sign-in-again.tsx';

type Passkey = Answer<'listPasskeys'>[number];

export function PasskeysPanel() {
  const { data, error, refetch } = useCall('listPasskeys', { query: { limit: 100 } });
  const [removed, setRemoved] = useState<string>();
  const remove = useChange('removePasskey', ['listPasskeys', 'getSession']);
  const shown = data?.filter(({ passkeyId }) => passkeyId !== removed);
  const askRemoval = ({ passkeyId, name }: Passkey): void => {
    setRemoved(passkeyId);
    withUndo({
      message: texts.removed(name),
      run: () => remove.mutateAsync({ path: { id: passkeyId } }),
      onUndo: () => setRemoved(undefined),
    });
  };
  return (
    <Panel title={texts.title}>
      <Stack gap="sm">
        <Text size="sm" c="dimmed">
          {texts.lead}
        </Text>
        {data === undefined && error !== null && <ErrorState error={error} onRetry={refetch} />}
        {shown?.length === 0 && <Text size="sm">{texts.none}</Text>}
        {shown !== undefined && shown.length > 0 && (
          <ul className={classes.passkeys}>
            {shown.map((passkey) => (
              <li key={passkey.passkeyId}>
                <PasskeyFacts of={passkey} />
                <Button
                  variant="default"
                  size="compact-sm"
                  aria-label={texts.removeOf(passkey.name)}
                  onClick={() => askRemoval(passkey)}
                >
                  {texts.remove}
                </Button>
              </li>
            ))}
          </ul>
        )}
        <SignInProblem error={remove.error} />
        {hasPasskeys() ? (
          <NewPasskey />
        ) : (
          <Text size="sm" c="dimmed">
            {texts.unavailable}
          </Text>
        )}
      </Stack>
    </Panel>
  );
}

function PasskeyFacts({ of: { name, createdAt, lastUsedAt } }: { of: Passkey }) {
  return (
    <div>
      <Text size="sm" fw={550}>
        {name}
      </Text>
      <Text size="xs" c="dimmed" component="div">
        {texts.made} <Time at={createdAt} /> · {texts.used}{' '}
        {lastUsedAt === null ? texts.never : <Time at={lastUsedAt} />}
      </Text>
    </div>
  );
}

function NewPasskey() {
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const make = useMutation({
    mutationFn: makePasskey,
    async onSuccess() {
      setName('');
      done(texts.added);
      await Promise.all(
        ['listPasskeys', 'getSession'].map((operation) => queries.invalidateQueries({ queryKey: [operation] })),
      );
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    make.mutate(name.trim());
  };
  // If the user cancels, the browser's error is not a readable message.
  const problem = make.error instanceof PostriderError || make.error === null ? make.error : new Error(texts.notMade);
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <SignInProblem error={problem} />
        <Group align="flex-end" gap="xs">
          <TextInput
            label={texts.name}
            placeholder={texts.nameHint}
            maxLength={100}
            flex="1 1 10rem"
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
          />
          <Button
            type="submit"
            variant="default"
            mb={4}
            leftSection={<IconFingerprint size={14} />}
            loading={make.isPending}
            disabled={name.trim() === ''}
          >
            {texts.add}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
