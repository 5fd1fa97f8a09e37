/**
 * The sandbox key and the SMTP credential of the first steps. They are returned once, so the tab keeps them until it is closed, and the
 * examples stay usable. Neither can send live email.
 */
import { useState } from 'react';
import { useChange } from '../../api.ts';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { start } from '../../texts/start.ts';

function useKept<T>(name: string): [T | undefined, (value: T) => void] {
  const { account } = useScope();
  const place = `postrider.${name}.${account?.accountId}`;
  const [, setChanges] = useState(0);
  const text = sessionStorage.getItem(place);
  const keep = (value: T): void => {
    sessionStorage.setItem(place, JSON.stringify(value));
    setChanges((changes) => changes + 1);
  };
  return [text === null ? undefined : (JSON.parse(text) as T), keep];
}

export function useFirstKey() {
  const [key, keep] = useKept<string>('first-key');
  const create = useChange('createApiKey', ['listApiKeys']);
  const make = (): void =>
    create.mutate(
      { body: { mode: 'sandbox', name: start.keyName } },
      { onSuccess: ({ apiKey }) => apiKey !== undefined && keep(apiKey), onError: failed },
    );
  return { key, make, isMaking: create.isPending };
}

interface Credential {
  username: string;
  password: string;
}

export function useFirstCredential() {
  const [credential, keep] = useKept<Credential>('first-credential');
  const create = useChange('createSmtpCredential', ['listSmtpCredentials']);
  const make = (): void =>
    create.mutate(
      { body: { mode: 'sandbox' } },
      { onSuccess: ({ username, password }) => keep({ username, password }), onError: failed },
    );
  return { credential, make, isMaking: create.isPending };
}
