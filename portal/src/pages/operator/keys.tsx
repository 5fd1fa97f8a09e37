/** The operator keys: create, list, revoke. */
import { Button, Text } from '@mantine/core';
import { useState } from 'react';
import { type Answer, useChange, usePages } from '../../api.ts';
import { IconPlus, IconTrash } from '../../icons.ts';
import { Badge } from '../../parts/badge.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { networkText } from '../../parts/networks.tsx';
import { RowAction } from '../../parts/row-action.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { done } from '../../parts/undo.tsx';
import { operatorKeys as texts } from '../../texts/operator.ts';
import { forOperators } from './for-operators.tsx';
import { NewOperatorKey } from './new-key.tsx';

type OperatorKey = Answer<'listOperatorKeys'>[number];

export const OperatorKeysPage = forOperators(texts.title, OperatorKeysContent);

function OperatorKeysContent() {
  const list = usePages('listOperatorKeys');
  const [isCreating, setCreating] = useState(false);
  const [revoked, setRevoked] = useState<OperatorKey>();
  return (
    <ListPage
      title={texts.title}
      lead={texts.lead}
      primary={
        <Button leftSection={<IconPlus size={14} />} onClick={() => setCreating(true)}>
          {texts.create}
        </Button>
      }
      columns={COLUMNS}
      rowActions={(key) => (
        <RowAction label={texts.revokeOf(key.name)} icon={<IconTrash size={15} />} onClick={() => setRevoked(key)} />
      )}
      list={list}
      keyOf={({ operatorKeyId }) => operatorKeyId}
      csvName="operator-keys"
      empty={{ title: texts.none, hint: texts.noneHint }}
    >
      {isCreating && <NewOperatorKey onClose={() => setCreating(false)} />}
      {revoked !== undefined && <Revocation of={revoked} onClose={() => setRevoked(undefined)} />}
    </ListPage>
  );
}

const COLUMNS: readonly Column<OperatorKey>[] = [
  { name: texts.name, phone: 'title', cell: ({ name }) => name, text: ({ name }) => name },
  {
    name: texts.scopes,
    phone: 'badge',
    width: '8rem',
    cell: ({ scopes }) => scopes.map((scope) => texts.scopeNames[scope]).join(', '),
    text: ({ scopes }) => scopes.join(' '),
  },
  {
    name: texts.networks,
    phone: 'detail',
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
    phone: 'time',
    width: '9rem',
    cell: ({ expiresAt }) => <Expiry at={expiresAt} />,
    text: ({ expiresAt }) => expiresAt,
  },
];

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
    <FormModal
      title={texts.revokeTitle(name)}
      submit={texts.revoke}
      color="red.9"
      isBusy={revoke.isPending}
      error={revoke.error}
      onSubmit={run}
      onClose={onClose}
    >
      <Text>{texts.revokeLead}</Text>
    </FormModal>
  );
}
