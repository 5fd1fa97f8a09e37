/** Login by password and code, by passkey, or at the organization's identity provider; and password resets. */
import { Alert, Anchor, Button, Divider, PasswordInput, Stack, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { callerOf, type Person, PostriderError } from '../../api.ts';
import { basePath } from '../../base-path.ts';
import { IconFingerprint } from '../../icons.ts';
import { hasPasskeys, signInWithPasskey } from '../../passkeys.ts';
import { useSearchState } from '../../search-state.ts';
import { setPerson } from '../../session.tsx';
import { signIn } from '../../texts/sign-in.ts';
import { Card } from './card.tsx';

/** The service writes into the page whether an identity provider is configured. */
const HAS_PROVIDER = document.querySelector<HTMLMetaElement>('meta[name="identity-provider"]')?.content === 'yes';

/** Returns the page to open after login: only a path of the portal is accepted. */
function nextPage(next: string | undefined): string {
  return next?.startsWith('/app') ? next : '/';
}

export function SignInPage() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [{ next, forgot }, setSearch] = useSearchState();
  const [given, setGiven] = useState({ email: '', password: '', code: '' });
  const [withCode, setWithCode] = useState(false);
  const signedIn = (person: Person): void => {
    setPerson(queries, person);
    void navigate({ to: nextPage(next), replace: true });
  };
  const enter = useMutation({
    mutationFn: () => {
      const { code, ...body } = given;
      return callerOf().call('signIn', { body: code === '' ? body : { ...body, code: code.replaceAll(' ', '') } });
    },
    onSuccess: signedIn,
  });
  const passkey = useMutation({ mutationFn: signInWithPasskey, onSuccess: signedIn });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    passkey.reset();
    enter.mutate();
  };
  const field = (name: keyof typeof given) => ({
    value: given[name],
    onChange: (event: { currentTarget: { value: string } }) =>
      setGiven({ ...given, [name]: event.currentTarget.value }),
  });
  const problem = enter.error ?? passkey.error;
  if (forgot !== undefined)
    return <Forgot email={given.email} onBack={() => setSearch({ forgot: undefined })} key="forgot" />;
  return (
    <Card title={signIn.title}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          {problem !== null && (
            <Alert color="red" role="alert" p="xs">
              {problem instanceof PostriderError ? problem.message : signIn.passkeyFailed}
            </Alert>
          )}
          <TextInput
            label={signIn.email}
            type="email"
            autoComplete="username"
            required
            withAsterisk={false}
            autoFocus
            {...field('email')}
          />
          <PasswordInput
            label={signIn.password}
            autoComplete="current-password"
            required
            withAsterisk={false}
            {...field('password')}
          />
          {withCode && (
            <TextInput
              label={signIn.code}
              description={signIn.codeHint}
              autoComplete="one-time-code"
              autoFocus
              {...field('code')}
            />
          )}
          <Button type="submit" size="sm" fullWidth loading={enter.isPending} mt="xs">
            {signIn.submit}
          </Button>
          {!withCode && (
            <Anchor component="button" type="button" size="sm" onClick={() => setWithCode(true)}>
              {signIn.withCode}
            </Anchor>
          )}
          <Anchor component="button" type="button" size="sm" onClick={() => setSearch({ forgot: 'yes' })}>
            {signIn.forgot}
          </Anchor>
          {(hasPasskeys() || HAS_PROVIDER) && <Divider label={signIn.or} />}
          {HAS_PROVIDER && (
            <Button component="a" href={`${basePath}/session/oidc`} variant="default" size="sm">
              {signIn.provider}
            </Button>
          )}
          {hasPasskeys() && (
            <Button
              variant="default"
              size="sm"
              leftSection={<IconFingerprint size={16} />}
              loading={passkey.isPending}
              onClick={() => {
                enter.reset();
                passkey.mutate();
              }}
            >
              {signIn.passkey}
            </Button>
          )}
        </Stack>
      </form>
    </Card>
  );
}

function Forgot({ email: typed, onBack }: { email: string; onBack(): void }) {
  const [email, setEmail] = useState(typed);
  const request = useMutation({
    mutationFn: () => callerOf().call('requestPasswordReset', { body: { email } }),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    request.mutate();
  };
  return (
    <Card title={signIn.forgotTitle} lead={signIn.forgotLead}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          {request.error !== null && (
            <Alert color="red" role="alert" p="xs">
              {request.error.message}
            </Alert>
          )}
          {request.isSuccess && (
            <Alert role="status" p="xs">
              {signIn.sent} {signIn.sentHint}
            </Alert>
          )}
          <TextInput
            label={signIn.email}
            type="email"
            autoComplete="username"
            required
            withAsterisk={false}
            autoFocus
            value={email}
            onChange={({ currentTarget }) => setEmail(currentTarget.value)}
          />
          <Button type="submit" size="sm" fullWidth loading={request.isPending} mt="xs">
            {signIn.forgotSubmit}
          </Button>
          <Anchor component="button" type="button" size="sm" onClick={onBack}>
            {signIn.back}
          </Anchor>
        </Stack>
      </form>
    </Card>
  );
}
