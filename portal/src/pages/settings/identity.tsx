/** Name, time zone, and logo of the account, as its notices show them. */
import { Button, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import type { FormEvent } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { useEdits } from '../../parts/edits.ts';
import { Panel } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { done } from '../../parts/undo.tsx';
import { settings, identity as texts } from '../../texts/settings.ts';
import { Logo } from './logo.tsx';

type Account = Pick<Answer<'getAccount'>, 'name' | 'timeZone' | 'logo'>;

/** The zones that the browser knows, and the account's own, which may have another name there. */
function zonesWith(own: string): string[] {
  return [...new Set([own, 'UTC', ...Intl.supportedValuesOf('timeZone')])];
}

export function IdentityPanel({ account, mayChange }: { account: Account; mayChange: boolean }) {
  const { values: given, edit, saved } = useEdits({ name: account.name, timeZone: account.timeZone });
  const save = useChange('updateAccount', ['getAccount', 'getSession']);
  const name = given.name.trim();
  const body = {
    ...(name !== account.name && { name }),
    ...(given.timeZone !== account.timeZone && { timeZone: given.timeZone }),
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate(
      { body },
      {
        onSuccess() {
          saved();
          done(settings.saved);
        },
      },
    );
  };
  return (
    <Panel title={texts.title}>
      <Stack gap="md">
        <Text size="sm" c="dimmed">
          {texts.lead}
        </Text>
        <form onSubmit={submit}>
          <Stack gap="md" maw="32rem">
            <Problem error={save.error} />
            <TextInput
              label={texts.name}
              required
              maxLength={200}
              disabled={!mayChange}
              value={given.name}
              onChange={({ currentTarget }) => edit({ name: currentTarget.value })}
            />
            <Select
              label={texts.timeZone}
              description={texts.timeZoneHint}
              data={zonesWith(account.timeZone)}
              searchable
              limit={100}
              nothingFoundMessage={texts.noTimeZone}
              allowDeselect={false}
              disabled={!mayChange}
              value={given.timeZone}
              onChange={(timeZone) => timeZone !== null && edit({ timeZone })}
            />
            {mayChange && (
              <Group>
                <Button type="submit" loading={save.isPending} disabled={name === '' || Object.keys(body).length === 0}>
                  {settings.save}
                </Button>
              </Group>
            )}
          </Stack>
        </form>
        <Logo hasLogo={account.logo !== null} mayChange={mayChange} />
      </Stack>
    </Panel>
  );
}
