/**
 * Opens the live messages of an account: recent, bounced, delayed, or found by a search. Members read them directly, other operators after
 * support access has started, which the account's audit log records.
 */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { type Answer, useChange } from '../../api.ts';
import { IconSearch } from '../../icons.ts';
import { Panel } from '../../parts/page.tsx';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { account as texts } from '../../texts/operator.ts';

type Account = Answer<'getOperatorAccount'>;

/** Returns whether the operator is a member, and a function that opens a page of the account, with support access if it is required. */
export function useOpenAccount({ accountId }: Account) {
  const { person, chooseAccount } = useScope();
  const navigate = useNavigate();
  const start = useChange('startSupportAccess', ['getSession', 'listServiceAuditEntries']);
  const isMember = person.accounts.some((one) => one.accountId === accountId);
  const go = (to: string, search: Record<string, string>): void => {
    chooseAccount(accountId);
    void navigate({ to, search: search as never });
  };
  return {
    isMember,
    isBusy: start.isPending,
    open(to: string, search: Record<string, string> = {}) {
      if (isMember) go(to, search);
      else start.mutate({ path: { id: accountId } }, { onSuccess: () => go(to, search), onError: failed });
    },
  };
}

export function AccountMessages({ account }: { account: Account }) {
  const [typed, setTyped] = useState('');
  const { open, isBusy, isMember } = useOpenAccount(account);
  const openList = (search: Record<string, string>): void => open('/app/live/messages', search);
  const find = (event: FormEvent): void => {
    event.preventDefault();
    openList({ q: typed.trim() });
  };
  return (
    <Panel title={texts.messages}>
      <Stack gap="sm">
        {!isMember && (
          <Text size="sm" c="dimmed">
            {texts.messagesHint}
          </Text>
        )}
        <form onSubmit={find}>
          <Group align="flex-end" gap="xs">
            <TextInput
              label={texts.searchMessages}
              value={typed}
              onChange={({ currentTarget }) => setTyped(currentTarget.value)}
            />
            <Button
              type="submit"
              variant="default"
              disabled={isBusy || typed.trim() === ''}
              leftSection={<IconSearch size={14} aria-hidden />}
            >
              {texts.search}
            </Button>
          </Group>
        </form>
        <Group gap="xs">
          <Button variant="default" disabled={isBusy} onClick={() => openList({})}>
            {texts.recentMessages}
          </Button>
          <Button variant="default" disabled={isBusy} onClick={() => openList({ status: 'bounced' })}>
            {texts.bouncedMessages}
          </Button>
          <Button variant="default" disabled={isBusy} onClick={() => openList({ status: 'delayed' })}>
            {texts.delayedMessages}
          </Button>
        </Group>
      </Stack>
    </Panel>
  );
}
