/** The page that the links of the first start, of invitations and of resets open: sets a password and logs the user in. */
import { Alert, Anchor, Button, PasswordInput, Stack } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { callerOf, PostriderError } from '../../api.ts';
import { basePath } from '../../base-path.ts';
import { setPerson } from '../../session.tsx';
import { newPassword } from '../../texts/sign-in.ts';
import { Card } from './card.tsx';

const SHORTEST = 12;

/** The token of the link that was opened. React may start to render the page more than once. */
let opened: string | undefined;

/** Removes the token from the URL, so that neither history nor screenshots keep it. */
function takeToken(): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get('token') ?? undefined;
  if (token === undefined) return opened;
  opened = token;
  history.replaceState(history.state, '', location.pathname);
  return token;
}

export function WelcomePage() {
  return <SetPassword title={newPassword.welcome} lead={newPassword.welcomeLead} next="/app/sandbox/start" />;
}

export function ResetPage() {
  return <SetPassword title={newPassword.reset} lead={newPassword.resetLead} next="/" />;
}

function SetPassword({ title, lead, next }: { title: string; lead: string; next: string }) {
  const [token] = useState(takeToken);
  const [password, setPassword] = useState('');
  const queries = useQueryClient();
  const navigate = useNavigate();
  const change = useMutation({
    mutationFn: () => callerOf().call('setPassword', { body: { token, password } }),
    async onSuccess() {
      opened = undefined;
      // With a second factor, the response does not log the user in.
      const person = await callerOf()
        .call('getSession')
        .catch(() => null);
      setPerson(queries, person);
      void navigate({ to: person === null ? '/sign-in' : next, replace: true });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    change.mutate();
  };
  if (token === undefined)
    return (
      <Card title={newPassword.noToken} lead={newPassword.noTokenHint}>
        <Anchor href={`${basePath}/sign-in`}>{newPassword.toSignIn}</Anchor>
      </Card>
    );
  const problem = change.error;
  if (problem instanceof PostriderError && problem.status === 401)
    return (
      <Card title={newPassword.used} lead={newPassword.usedHint}>
        <Stack gap="sm">
          <Button component="a" href={`${basePath}/sign-in`} size="sm" fullWidth>
            {newPassword.toSignIn}
          </Button>
          <Button component="a" href={`${basePath}/sign-in?forgot=yes`} variant="default" size="sm" fullWidth>
            {newPassword.toReset}
          </Button>
        </Stack>
      </Card>
    );
  return (
    <Card title={title} lead={lead}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          {problem !== null && (
            <Alert color="red" role="alert" p="xs">
              {problem.message}
            </Alert>
          )}
          <input type="text" name="username" autoComplete="username" hidden readOnly />
          <PasswordInput
            label={newPassword.password}
            description={newPassword.hint}
            autoComplete="new-password"
            required
            autoFocus
            minLength={SHORTEST}
            value={password}
            onChange={({ currentTarget }) => setPassword(currentTarget.value)}
          />
          <Button type="submit" size="sm" fullWidth loading={change.isPending} disabled={password.length < SHORTEST}>
            {newPassword.submit}
          </Button>
        </Stack>
      </form>
    </Card>
  );
}
