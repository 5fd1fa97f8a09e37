/**
 * Shown instead of the pages of an account that requires two-factor authentication, until the session has it: the setup of a second factor,
 * or a link to sign in again with it. It stays open after the setup, so that the recovery codes can be stored first.
 */
import { Button, Group, Stack, Text } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import { Notice } from '../../parts/notice.tsx';
import { Page, Panel } from '../../parts/page.tsx';
import { useScope } from '../../scope.ts';
import { twoFactor as texts } from '../../texts/two-factor.ts';
import { AuthenticatorPanel } from '../profile/authenticator.tsx';
import { PasskeysPanel } from '../profile/passkeys.tsx';
import classes from '../profile/profile.module.css';

export default function TwoFactorPage({ onContinue }: { onContinue(): void }) {
  const { person, account } = useScope();
  const { missing } = person.twoFactor;
  const name = account?.name ?? '';
  if (missing === 'sign-in')
    return (
      <Page title={texts.title}>
        <SignInAgain name={name} />
      </Page>
    );
  return (
    <Page title={texts.title} lead={texts.lead(name)}>
      <Stack gap="md">
        {missing === undefined && (
          <Notice tone="good" role="status" actions={<Button onClick={onContinue}>{texts.next(name)}</Button>}>
            {texts.done}
          </Notice>
        )}
        <div className={classes.columns}>
          <AuthenticatorPanel />
          <PasskeysPanel />
        </div>
      </Stack>
    </Page>
  );
}

function SignInAgain({ name }: { name: string }) {
  const { pathname } = useLocation();
  return (
    <Panel title={texts.signInTitle}>
      <Stack gap="sm">
        <Text size="sm">{texts.signInLead(name)}</Text>
        <Group>
          <Button component={Link} to="/sign-in" search={{ next: pathname } as never}>
            {texts.signIn}
          </Button>
        </Group>
      </Stack>
    </Panel>
  );
}
