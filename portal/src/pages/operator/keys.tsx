/** The operator keys: create, list, revoke. */
import { ActionIcon, Button, Group, Modal, Stack, Text, Tooltip } from '@mantine/core';
import { useState } from 'react';
import { type Answer, useChange, usePages } from '../../api.ts';
import { IconPlus, IconTrash } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { Page } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { type Column, Rows } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { done } from '../../parts/undo.tsx';
import { operatorKeys as texts } from '../../texts/operator.ts';
import { networkText } from '../keys/credentials.ts';
import { forOperators } from './for-operators.tsx';
import { NewOperatorKey } from './new-key.tsx';

type OperatorKey = Answer<'listOperatorKeys'>[number];

export const OperatorKeysPage = forOperators(texts.title, OperatorKeysContent);

function OperatorKeysContent() {
  const list = usePages('listOperatorKeys');
  const [isCreating, setCreating] = useState(false);
  const [revoked, setRevoked] = useState<OperatorKey>();
  return (
    <Page
      title={texts.title}
      lead={texts.lead}
      actions={
        <Button leftSection={<IconPlus size={14} />} onClick={() => setCreating(true)}>
          {texts.create}
        </Button>
      }
    >
      <Rows
        label={texts.title}
        columns={columnsOf(setRevoked)}
        rows={list.items}
        keyOf={({ operatorKeyId }) => operatorKeyId}
        error={list.error}
        onRetry={list.refetch}
        hasMore={list.hasNextPage}
        isLoadingMore={list.isFetchingNextPage}
        onMore={list.fetchNextPage}
        csvName="operator-keys"
        empty={{ title: texts.none, hint: texts.noneHint }}
      />
      {isCreating && <NewOperatorKey onClose={() => setCreating(false)} />}
      {revoked !== undefined && <Revocation of={revoked} onClose={() => setRevoked(undefined)} />}
    </Page>
  );
}

function columnsOf(onRevoke: (key: OperatorKey) => void): readonly Column<OperatorKey>[] {
  return [
    { name: texts.name, cell: ({ name }) => name, text: ({ name }) => name },
    {
      name: texts.scopes,
      width: '8rem',
      cell: ({ scopes }) => scopes.map((scope) => texts.scopeNames[scope]).join(', '),
      text: ({ scopes }) => scopes.join(' '),
    },
    {
      name: texts.networks,
      cell: ({ allowedNetworks }) => networkText(allowedNetworks),
      text: ({ allowedNetworks }) => allowedNetworks.join(' '),
    },
    {
      name: texts.id,
      width: '13rem',
      cell: ({ operatorKeyId }) => <span className="mono">{operatorKeyId}</span>,
      text: ({ operatorKeyId }) => operatorKeyId,
    },
    {
      name: texts.created,
      width: '8rem',
      cell: ({ createdAt }) => <Time at={createdAt} />,
      text: ({ createdAt }) => createdAt,
    },
    {
      name: texts.expires,
      width: '9rem',
      cell: ({ expiresAt }) => <Expiry at={expiresAt} />,
      text: ({ expiresAt }) => expiresAt,
    },
    {
      name: texts.actions,
      width: '5rem',
      atEnd: true,
      cell: (key) => (
        <Tooltip label={texts.revokeOf(key.name)}>
          <ActionIcon size="sm" aria-label={texts.revokeOf(key.name)} onClick={() => onRevoke(key)}>
            <IconTrash size={15} />
          </ActionIcon>
        </Tooltip>
      ),
    },
  ];
}

function Expiry({ at }: { at: string | null }) {
  if (at === null)
    return (
      <Text span inherit c="dimmed">
        {texts.never}
      </Text>
    );
  if (Date.parse(at) <= Date.now()) return <Badge tone="calm">{texts.expired}</Badge>;
  return <Time at={at} />;
}

function Revocation({ of: { operatorKeyId, name }, onClose }: { of: OperatorKey; onClose(): void }) {
  const revoke = useChange('revokeOperatorKey', ['listOperatorKeys']);
  const run = (): void =>
    revoke.mutate(
      { path: { id: operatorKeyId } },
      {
        onSuccess() {
          done(texts.revoked(name));
          onClose();
        },
      },
    );
  return (
    <Modal opened onClose={onClose} title={texts.revokeTitle(name)}>
      <Stack gap="sm">
        <Text size="sm">{texts.revokeLead}</Text>
        <Problem error={revoke.error} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {texts.cancel}
          </Button>
          <Button color="red.9" loading={revoke.isPending} onClick={run}>
            {texts.revoke}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
