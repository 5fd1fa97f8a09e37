/** Shown above an action that requires a recent login, after it was refused: a link to log in and return here. */
import { Alert, Button, Group, Text } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import { PostriderError } from '../../api.ts';
import { Problem } from '../../parts/problem.tsx';
import { useScope } from '../../scope.ts';
import { again } from '../../texts/profile.ts';

/** The refusal of a change to login methods; 403 means that the session is not recent. */
export function SignInProblem({ error }: { error: unknown }) {
  const { pathname } = useLocation();
  const { person } = useScope();
  if (!(error instanceof PostriderError) || error.status !== 403) return <Problem error={error} />;
  return (
    <Alert color="yellow" role="alert" title={again.title}>
      <Group gap="sm">
        <Text inherit>{person.twoFactor.missing === 'sign-in' ? again.factorHint : again.hint}</Text>
        <Button component={Link} to="/sign-in" search={{ next: pathname } as never}>
          {again.action}
        </Button>
      </Group>
    </Alert>
  );
}
