/** The inbound routes of an account and mode: what each matches, where it forwards mail, and the state of its MX record. */
import { Button } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { usePages } from '../../api.ts';
import { IconPlus } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { useRemoval } from '../../parts/removal.ts';
import type { Column } from '../../parts/rows.tsx';
import { size, Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { inboundRoutes as texts } from '../../texts/inbound.ts';
import { SecretShown } from '../webhooks/secret-shown.tsx';
import { type InboundRoute, RouteForm } from './route-form.tsx';

const { columns: names } = texts;
const targetOf = ({ url, events }: InboundRoute): string =>
  [url, events && texts.webhooks].filter(Boolean).join(', ') || texts.nowhere;

const OF_BOTH: readonly Column<InboundRoute>[] = [
  { name: names.match, phone: 'title', cell: ({ match }) => match, text: ({ match }) => match },
  {
    name: names.target,
    phone: 'detail',
    width: '34%',
    text: targetOf,
    cell: (route) => <span style={{ overflowWrap: 'anywhere' }}>{targetOf(route)}</span>,
  },
  {
    name: names.size,
    phone: 'time',
    width: '8rem',
    cell: ({ maxBytes }) => size(maxBytes),
    text: ({ maxBytes }) => maxBytes,
  },
];
/** Sandbox routes have no DNS records. */
const OF_LIVE: readonly Column<InboundRoute>[] = [
  ...OF_BOTH,
  {
    name: names.mx,
    phone: 'badge',
    width: '8rem',
    cell: ({ dnsRecord }) => <StatusBadge status={dnsRecord.status} />,
    text: ({ dnsRecord }) => dnsRecord.status,
  },
  {
    name: names.checked,
    width: '9rem',
    cell: ({ checkedAt }) => (checkedAt === null ? texts.never : <Time at={checkedAt} />),
    text: ({ checkedAt }) => checkedAt,
  },
];

export function InboundRoutesPage() {
  const { mode, mayWrite } = useScope();
  const navigate = useNavigate();
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<{ inboundRouteId: string; secret: string }>();
  const { isRemoved } = useRemoval('deleteInboundRoute', ['listInboundRoutes']);
  const list = usePages('listInboundRoutes');
  const show = (id: string): void => void navigate({ to: `/app/${mode}/inbound-routes/${id}` });
  const create = mayWrite && (
    <Button leftSection={<IconPlus size={14} />} onClick={() => setMaking(true)}>
      {texts.create}
    </Button>
  );
  return (
    <ListPage
      title={texts.title}
      lead={texts.lead}
      primary={create}
      code={<AsCode operation="listInboundRoutes" />}
      label={texts.list}
      columns={mode === 'live' ? OF_LIVE : OF_BOTH}
      list={list}
      rows={list.items?.filter(({ inboundRouteId }) => !isRemoved(inboundRouteId))}
      keyOf={({ inboundRouteId }) => inboundRouteId}
      href={({ inboundRouteId }) => `/app/${mode}/inbound-routes/${inboundRouteId}`}
      csvName="inbound-routes"
      empty={{ title: texts.empty, hint: texts.emptyHint, action: create }}
    >
      {mayWrite && isMaking && (
        <RouteForm
          onClose={() => setMaking(false)}
          onWritten={({ inboundRouteId, secret }) =>
            secret === undefined ? show(inboundRouteId) : setMade({ inboundRouteId, secret })
          }
        />
      )}
      {made !== undefined && <SecretShown secret={made.secret} onClose={() => show(made.inboundRouteId)} />}
    </ListPage>
  );
}
