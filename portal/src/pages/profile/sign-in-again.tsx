/** Above what asks for a fresh session, once it was refused: the way to sign in that leads back here. */
import { Alert, Button, Group, Text } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import { PostriderError } from '../../api.ts';
import { Problem } from '../../parts/problem.tsx';
import { again } from '../../texts/profile.ts';

/** A refusal of a change of how one signs in; 403 is given there for a session that is not fresh. */
export function SignInProblem({ error }: { error: unknown }) {
  const { pathname } = useLocation();
  if (!(error instanceof PostriderError) || error.status !== 403) return <Problem error={error} />;
  return (
    <Alert color="yellow" role="alert" title={again.title}>
      <Group gap="sm">
        <Text inherit>{again.hint}</Text>
        <Button component={Link} to="/sign-in" search={{ next: pathname } as never}>
          {again.action}
        </Button>
      </Group>
    </Alert>
  );
}
