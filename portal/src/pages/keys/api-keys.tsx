/** The API keys: create, rotate, revoke. */
import { usePages } from '../../api.ts';
import { useRemoval } from '../../parts/removal.ts';
import { type Column, Rows } from '../../parts/rows.tsx';
import { keys } from '../../texts/keys.ts';
import { type ApiKey, credentialOfKey } from './credentials.ts';
import {
  createdColumn,
  expiresColumn,
  lastUseColumn,
  modeColumn,
  Restrictions,
  RowActions,
  Toolbar,
  useFlow,
} from './manage.tsx';

const COLUMNS: readonly Column<ApiKey>[] = [
  { name: keys.name, phone: 'title', width: '9rem', cell: ({ name }) => name ?? keys.noName, text: ({ name }) => name },
  modeColumn(),
  { name: keys.scope, width: '7rem', cell: ({ scope }) => keys.scopes[scope], text: ({ scope }) => scope },
  {
    name: keys.restrictions,
    cell: (key) => <Restrictions of={key} />,
    text: ({ allowedSenders, allowedNetworks }) => [...allowedSenders, ...allowedNetworks].join(' '),
  },
  {
    name: keys.prefix,
    phone: 'detail',
    width: '9.5rem',
    text: ({ prefix }) => prefix,
    cell: ({ prefix, keyId }) => (
      <span className="mono" title={keyId}>
        {prefix}…
      </span>
    ),
  },
  createdColumn(),
  lastUseColumn(),
];

export function ApiKeys() {
  const list = usePages('listApiKeys');
  const removal = useRemoval('revokeApiKey', ['listApiKeys']);
  const flow = useFlow('key', ({ id, label }) => removal.remove(id, { path: { keyId: id } }, keys.revoked(label)));
  return (
    <>
      <Toolbar flow={flow} label={keys.makeKey} operation="listApiKeys" />
      <Rows
        label={keys.keyList}
        columns={COLUMNS}
        rowActions={(key) => (
          <RowActions credential={credentialOfKey(key)} flow={flow} mayRotate={key.kind !== 'sigv4'} />
        )}
        list={list}
        rows={list.items?.filter(({ keyId }) => !removal.isRemoved(keyId))}
        keyOf={({ keyId }) => keyId}
        csvColumns={[...COLUMNS, expiresColumn<ApiKey>()]}
        csvName="api-keys"
        empty={{ title: keys.emptyKeys, hint: keys.emptyKeysHint }}
      />
      {flow.dialog}
    </>
  );
}
