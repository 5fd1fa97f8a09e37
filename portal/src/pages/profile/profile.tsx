/** Settings of the user: login methods, sessions, and appearance. */
import { Group, SegmentedControl, Stack, Text, useMantineColorScheme } from '@mantine/core';
import { Badge } from '../../parts/badge.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { useScope } from '../../scope.ts';
import { profile } from '../../texts/profile.ts';
import { shell } from '../../texts/shell.ts';
import { roles } from '../../texts/team.ts';
import { AuthenticatorPanel } from './authenticator.tsx';
import { PasskeysPanel } from './passkeys.tsx';
import { PasswordPanel } from './password.tsx';
import classes from './profile.module.css';
import { SessionsPanel } from './sessions.tsx';

export function ProfilePage() {
  return (
    <Page title={profile.title}>
      <Stack gap="md">
        <div className={classes.columns}>
          <You />
          <Appearance />
          <PasswordPanel />
          <Stack gap="md">
            <AuthenticatorPanel />
            <PasskeysPanel />
          </Stack>
        </div>
        <SessionsPanel />
      </Stack>
    </Page>
  );
}

function You() {
  const { person } = useScope();
  return (
    <Panel title={profile.you}>
      <Facts
        of={[
          [
            profile.email,
            <Group key="email" gap="xs">
              {person.email}
              {person.isOperator && <Badge tone="note">{profile.operator}</Badge>}
            </Group>,
          ],
          [
            profile.accounts,
            person.accounts.length === 0
              ? profile.noAccounts
              : person.accounts.map(({ accountId, name, role }) => (
                  <div key={accountId}>
                    {name}{' '}
                    <Text span inherit c="dimmed">
                      {roles[role].name}
                    </Text>
                  </div>
                )),
          ],
        ]}
      />
    </Panel>
  );
}

function Appearance() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <Panel title={profile.appearance}>
      <Stack gap="xs" align="flex-start">
        <Text size="sm" c="dimmed">
          {profile.appearanceHint}
        </Text>
        <SegmentedControl
          aria-label={profile.appearance}
          value={colorScheme}
          onChange={(value) => setColorScheme(value as typeof colorScheme)}
          data={[
            { value: 'light', label: shell.light },
            { value: 'dark', label: shell.dark },
            { value: 'auto', label: shell.auto },
          ]}
        />
      </Stack>
    </Panel>
  );
}
