/** Why a change was refused, above its form. */
import { Alert } from '@mantine/core';
import { PostriderError } from '../api.ts';

export function Problem({ error }: { error: unknown }) {
  if (error === null || error === undefined) return null;
  const details = error instanceof PostriderError ? error.details : [];
  return (
    <Alert color="red" role="alert" p="xs">
      {(error as Error).message}
      {details.map(({ field, message }) => (
        <div key={`${field} ${message}`}>
          {field} {message}
        </div>
      ))}
    </Alert>
  );
}
