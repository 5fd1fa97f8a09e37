/** One inbound route: which addresses it matches, where it forwards mail, and its MX record. */
import { Anchor, Button, Text } from '@mantine/core';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { lazy, Suspense, useState } from 'react';
import { useCall, useChange } from '../../api.ts';
import { IconMailDown, IconPencil, IconPlayerPlay, IconRefresh, IconTrash } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { StatusBadge } from '../../parts/badge.tsx';
import { Copy, Copyable } from '../../parts/copy.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Facts, Page, Panel } from '../../parts/page.tsx';
import { useRemoval } from '../../parts/removal.ts';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { size, Time } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { simulateInbound, routePage as texts } from '../../texts/inbound.ts';
import classes from '../domains/domains.module.css';
import { EVERY_MS, useWatch } from '../domains/verification.ts';
import { SecretShown } from '../webhooks/secret-shown.tsx';
import { type InboundRoute, RouteForm } from './route-form.tsx';

const SimulateInbound = lazy(async () => ({ default: (await import('./simulate.tsx')).SimulateInbound }));

export function InboundRoutePage() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const { mode } = useScope();
  // Results of checks by others and by the service.
  const found = useCall('getInboundRoute', { path: { id } }, { everyMs: mode === 'live' ? EVERY_MS : undefined });
  if (found.data !== undefined) return <Shown key={id} route={found.data} />;
  return found.isError ? <ErrorState error={found.error} onRetry={found.refetch} isPage /> : <Loading />;
}

function Shown({ route }: { route: InboundRoute }) {
  const { mode, mayWrite } = useScope();
  const [isEditing, setEditing] = useState(false);
  const [isSimulating, setSimulating] = useState(false);
  const [secret, setSecret] = useState<string>();
  const watch = useMxWatch(route);
  const simulated = { to: exampleOf(route), from: 'ann@example.com', subject: 'Hello', text: 'It came, thank you.' };
  return (
    <Page
      title={route.match}
      badge={mode === 'live' && <StatusBadge status={route.status} />}
      parent={{ href: `/app/${mode}/inbound-routes`, name: texts.parent }}
      primary={mayWrite && <Primary watch={watch} onSimulate={() => setSimulating(true)} />}
      actions={<Actions route={route} onEdit={() => setEditing(true)} />}
      code={
        mode === 'sandbox' ? (
          <AsCode operation="simulateInboundMail" input={{ body: simulated }} />
        ) : (
          <AsCode operation="verifyInboundRoute" input={{ path: { id: route.inboundRouteId } }} />
        )
      }
    >
      {mode === 'sandbox' && <Notice>{texts.sandbox}</Notice>}
      {watch.error !== null && <Notice tone="bad">{watch.error.message}</Notice>}
      <div className={classes.stack}>
        {mode === 'live' && <MxRecord route={route} isWatching={watch.isWatching} />}
        <About route={route} />
      </div>
      {mayWrite && isEditing && (
        <RouteForm route={route} onClose={() => setEditing(false)} onWritten={(written) => setSecret(written.secret)} />
      )}
      <Suspense>
        {isSimulating && <SimulateInbound to={exampleOf(route)} onClose={() => setSimulating(false)} />}
      </Suspense>
      {secret !== undefined && <SecretShown secret={secret} onClose={() => setSecret(undefined)} />}
    </Page>
  );
}

/** Checks the DNS automatically while the route is pending. */
function useMxWatch({ inboundRouteId, status, checkedAt }: InboundRoute) {
  const { mode, mayWrite } = useScope();
  const { mutate, isPending, error } = useChange('verifyInboundRoute', ['getInboundRoute', 'listInboundRoutes']);
  const isWatching = mayWrite && mode === 'live' && status === 'pending';
  const verify = (): void => mutate({ path: { id: inboundRouteId } });
  return { check: useWatch({ checkedAt, isWatching, verify }), isWatching, isChecking: isPending, error };
}

/** Returns an example address of the route. */
const exampleOf = ({ match }: InboundRoute): string => match.replace('*', 'anything');

interface PrimaryProps {
  watch: ReturnType<typeof useMxWatch>;
  onSimulate(): void;
}

/** The sandbox has no DNS to check; its mail is simulated. */
function Primary({ watch, onSimulate }: PrimaryProps) {
  const { mode } = useScope();
  if (mode === 'sandbox')
    return (
      <Button leftSection={<IconPlayerPlay size={14} aria-hidden />} onClick={onSimulate}>
        {simulateInbound.open}
      </Button>
    );
  return (
    <Button leftSection={<IconRefresh size={14} aria-hidden />} loading={watch.isChecking} onClick={watch.check}>
      {texts.verify}
    </Button>
  );
}

function Actions({ route, onEdit }: { route: InboundRoute; onEdit(): void }) {
  const { mode, mayWrite } = useScope();
  const navigate = useNavigate();
  const { remove } = useRemoval('deleteInboundRoute', ['listInboundRoutes', 'listWebhooks']);
  const removeIt = (): void => {
    remove(route.inboundRouteId, { path: { id: route.inboundRouteId } }, texts.removed(route.match));
    void navigate({ to: `/app/${mode}/inbound-routes` });
  };
  return (
    <>
      <Button
        component={Link}
        to={`/app/${mode}/inbound`}
        search={{ route: route.inboundRouteId } as never}
        variant="default"
        leftSection={<IconMailDown size={14} aria-hidden />}
      >
        {texts.mail}
      </Button>
      {mayWrite && (
        <>
          <Button variant="default" leftSection={<IconPencil size={14} aria-hidden />} onClick={onEdit}>
            {texts.edit}
          </Button>
          <Button variant="default" leftSection={<IconTrash size={14} aria-hidden />} onClick={removeIt}>
            {texts.remove}
          </Button>
        </>
      )}
    </>
  );
}

interface MxRecordProps {
  route: InboundRoute;
  isWatching: boolean;
}

function MxRecord({ route: { dnsRecord: record, checkedAt }, isWatching }: MxRecordProps) {
  const { record: names } = texts;
  const isFound = record.status === 'verified';
  return (
    <Panel title={texts.mx} actions={<StatusBadge status={record.status} />}>
      <div role="status">
        <Text>{isFound ? texts.found : (record.note ?? texts.ask)}</Text>
        {isWatching && <Text>{texts.every}</Text>}
      </div>
      {!isFound && (
        <Text c="dimmed" size="xs">
          {texts.caution}
        </Text>
      )}
      <dl className={classes.entry}>
        <dt>{names.type}</dt>
        <dd>{record.type}</dd>
        <dt>{names.name}</dt>
        <dd className={classes.value}>
          <span className="mono">{record.name}</span>
          <Copy value={record.name} label={texts.copyName} />
        </dd>
        <dt>{names.priority}</dt>
        <dd>{record.priority}</dd>
        <dt>{names.value}</dt>
        <dd className={classes.value}>
          <span className="mono">{record.value}</span>
          <Copy value={record.value} label={texts.copyValue} />
        </dd>
        {!isFound && record.found !== null && record.found.length > 0 && (
          <>
            <dt>{names.published}</dt>
            <dd className="mono">{record.found.join(', ')}</dd>
          </>
        )}
      </dl>
      <Text c="dimmed" size="xs" mt="xs">
        {checkedAt === null ? (
          texts.notChecked
        ) : (
          <>
            {texts.lastCheck}: <Time at={checkedAt} />
          </>
        )}
      </Text>
    </Panel>
  );
}

function About({ route }: { route: InboundRoute }) {
  const { mode } = useScope();
  const { names } = texts;
  return (
    <Panel title={texts.about}>
      <Facts
        of={[
          [names.match, <Copyable key="match" value={route.match} />],
          [names.url, route.url === null ? undefined : <Copyable key="url" value={route.url} />],
          [
            names.webhook,
            route.webhookId === null ? undefined : (
              <Anchor key="webhook" component={Link} to={`/app/${mode}/webhooks/${route.webhookId}`}>
                {texts.toWebhook}
              </Anchor>
            ),
          ],
          [names.events, route.events ? texts.getIt : route.url === null ? texts.listedOnly : texts.doNot],
          [names.size, size(route.maxBytes)],
          [names.id, <Copyable key="id" value={route.inboundRouteId} />],
          [names.created, <Time key="created" at={route.createdAt} exact />],
          [names.updated, <Time key="updated" at={route.updatedAt} exact />],
        ]}
      />
    </Panel>
  );
}
