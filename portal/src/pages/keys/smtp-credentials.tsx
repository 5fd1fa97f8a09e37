/** The SMTP credentials: create, rotate, revoke; and a hint for plans without SMTP. */
import { usePages } from '../../api.ts';
import { useRemoval } from '../../parts/removal.ts';
import { type Column, Rows } from '../../parts/rows.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { useScope } from '../../scope.ts';
import { keys } from '../../texts/keys.ts';
import { credentialOfSmtp, type SmtpCredential } from './credentials.ts';
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

const COLUMNS: readonly Column<SmtpCredential>[] = [
  {
    name: keys.username,
    phone: 'title',
    cell: ({ username }) => <span className="mono">{username}</span>,
    text: ({ username }) => username,
  },
  modeColumn(),
  {
    name: keys.restrictions,
    phone: 'detail',
    cell: (one) => <Restrictions of={one} />,
    text: ({ allowedSenders, allowedNetworks }) => [...allowedSenders, ...allowedNetworks].join(' '),
  },
  createdColumn(),
  lastUseColumn(),
];

export function SmtpCredentials() {
  const { account } = useScope();
  const list = usePages('listSmtpCredentials');
  const removal = useRemoval('revokeSmtpCredential', ['listSmtpCredentials']);
  const flow = useFlow('smtp', ({ id, label }) => removal.remove(id, { path: { id } }, keys.revoked(label)));
  const hasSmtp = account?.plan !== 'free';
  if (!hasSmtp && (list.items === undefined || list.items.length === 0))
    return <EmptyState title={keys.noSmtp}>{keys.noSmtpHint}</EmptyState>;
  return (
    <>
      <Toolbar flow={flow} label={hasSmtp ? keys.makeSmtp : undefined} operation="listSmtpCredentials" />
      <Rows
        label={keys.smtpList}
        columns={COLUMNS}
        rowActions={(one) => <RowActions credential={credentialOfSmtp(one)} flow={flow} mayRotate={hasSmtp} />}
        list={list}
        rows={list.items?.filter(({ smtpCredentialId }) => !removal.isRemoved(smtpCredentialId))}
        keyOf={({ smtpCredentialId }) => smtpCredentialId}
        csvColumns={[...COLUMNS, expiresColumn<SmtpCredential>()]}
        csvName="smtp-credentials"
        empty={{ title: keys.emptySmtp, hint: keys.emptySmtpHint }}
      />
      {flow.dialog}
    </>
  );
}
