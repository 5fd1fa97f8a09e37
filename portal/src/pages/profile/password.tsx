/** Changes the password, with the current one. */
import { Button, Group, PasswordInput, Stack, Text } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { useChange } from '../../api.ts';
import { Panel } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { done } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { password as texts } from '../../texts/profile.ts';

const SHORTEST = 12;
const EMPTY = { currentPassword: '', password: '' };

export function PasswordPanel() {
  const { person } = useScope();
  const [given, setGiven] = useState(EMPTY);
  const change = useChange('setPassword', ['listSessions']);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    change.mutate(
      { body: given },
      {
        onSuccess() {
          setGiven(EMPTY);
          done(texts.changed);
        },
      },
    );
  };
  return (
    <Panel title={texts.title}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          <Text size="sm" c="dimmed">
            {texts.lead}
          </Text>
          <Problem error={change.error} />
          <input type="text" autoComplete="username" value={person.email} hidden readOnly />
          <PasswordInput
            label={texts.current}
            autoComplete="current-password"
            required
            value={given.currentPassword}
            onChange={({ currentTarget }) => setGiven({ ...given, currentPassword: currentTarget.value })}
          />
          <PasswordInput
            label={texts.next}
            description={texts.hint}
            autoComplete="new-password"
            required
            minLength={SHORTEST}
            value={given.password}
            onChange={({ currentTarget }) => setGiven({ ...given, password: currentTarget.value })}
          />
          <Group>
            <Button
              type="submit"
              loading={change.isPending}
              disabled={given.currentPassword === '' || given.password.length < SHORTEST}
            >
              {texts.submit}
            </Button>
          </Group>
        </Stack>
      </form>
    </Panel>
  );
}
