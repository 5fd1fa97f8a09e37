/** One domain: its status, its DNS records in the form that the DNS provider expects, and automatic verification. */
import { Button, Select, Text } from '@mantine/core';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, useCall, useChange } from '../../api.ts';
import { IconRefresh, IconTrash } from '../../icons.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { LiveOnly, Notice } from '../../parts/notice.tsx';
import { Page, Panel } from '../../parts/page.tsx';
import { useRemoval } from '../../parts/removal.ts';
import { ErrorState, Loading } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { failed } from '../../parts/undo.tsx';
import { useScope } from '../../scope.ts';
import { domainPage, domains } from '../../texts/domains.ts';
import { DomainStatus, SendingStops } from './domain-status.tsx';
import classes from './domains.module.css';
import { ExportRecords } from './export-records.tsx';
import { PROVIDERS, type ProviderId, providerOf } from './providers.ts';
import { Record } from './record.tsx';
import { useVerification } from './verification.ts';
import { type DnsRecord, zonesOf } from './zone.ts';

type Domain = Answer<'getDomain'>;

const EVERY_MS = 30_000;

export function DomainPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const { mode, mayWrite } = useScope();
  const mayVerify = mayWrite && mode === 'live';
  // Users who may not verify see the results of others' checks.
  const domain = useCall('getDomain', { path: { id } }, { everyMs: mayVerify ? undefined : EVERY_MS });
  if (domain.data === undefined)
    return domain.error ? <ErrorState error={domain.error} onRetry={domain.refetch} isPage /> : <Loading />;
  return <Shown domain={domain.data} />;
}

function Shown({ domain }: { domain: Domain }) {
  const { mode } = useScope();
  const watch = useVerification(domain);
  const records = watch.records.data ?? domain.dnsRecords;
  return (
    <Page
      title={domain.domain}
      badge={<DomainStatus domain={domain} />}
      parent={{ href: `/app/${mode}/domains`, name: domains.title }}
      primary={
        watch.mayVerify && (
          <Button leftSection={<IconRefresh size={14} />} loading={watch.isChecking} onClick={watch.check}>
            {domainPage.checkNow}
          </Button>
        )
      }
      actions={
        watch.mayVerify && (
          <>
            <Rotate domain={domain} />
            <Remove domain={domain} />
          </>
        )
      }
      code={<AsCode operation="verifyDomain" input={{ path: { id: domain.domainId } }} />}
    >
      <LiveOnly>{domains.sandbox}</LiveOnly>
      {watch.error !== null && <Notice tone="bad">{watch.error.message}</Notice>}
      <div className={classes.stack}>
        <State {...watch} domain={domain} records={records} />
        <Records domain={domain} records={records} />
      </div>
    </Page>
  );
}

function Rotate({ domain: { domainId, dnsRecords } }: { domain: Domain }) {
  const { mutate, isPending } = useChange('rotateDomainKeys', ['getDomain', 'getDomainDnsRecords']);
  if (dnsRecords.some(({ keyState }) => keyState === 'next')) return null;
  return (
    <Button
      variant="default"
      title={domainPage.rotateHint}
      loading={isPending}
      onClick={() => mutate({ path: { id: domainId } }, { onError: failed })}
    >
      {domainPage.rotate}
    </Button>
  );
}

function Remove({ domain }: { domain: Domain }) {
  const navigate = useNavigate();
  const { remove } = useRemoval('deleteDomain', ['listDomains']);
  const removeIt = (): void => {
    remove(domain.domainId, { path: { id: domain.domainId } }, domainPage.removed(domain.domain));
    void navigate({ to: '/app/$mode/domains', params: { mode: 'live' } });
  };
  return (
    <Button variant="default" leftSection={<IconTrash size={14} />} onClick={removeIt}>
      {domainPage.remove}
    </Button>
  );
}

interface StateProps {
  domain: Domain;
  records: readonly DnsRecord[];
  mayVerify: boolean;
  isWaiting: boolean;
  isChecking: boolean;
}

function sentenceOf({ domain: { domain, status, verifiedBy }, records, mayVerify }: StateProps): string {
  const isFound = records.some((record) => record.required && record.status === 'verified');
  if (status !== 'verified') return isFound && !mayVerify ? domainPage.foundElsewhere : domainPage[status];
  if (verifiedBy === 'operator' && !isFound) return domainPage.verifiedByOperator;
  const isWhole = records.every((record) => record.status === 'verified');
  return isWhole ? domainPage.verified(domain) : `${domainPage.verified(domain)} ${domainPage.recommended}`;
}

function State(props: StateProps) {
  const { domain, mayVerify, isWaiting, isChecking } = props;
  const { checkedAt } = domain;
  return (
    <Panel title={domainPage.panel}>
      <div role="status">
        <Text>{sentenceOf(props)}</Text>
        {domain.sendingStopsAt !== null && (
          <Text>
            <SendingStops at={domain.sendingStopsAt} />.
          </Text>
        )}
        {isWaiting && mayVerify && <Text>{domainPage.every}</Text>}
      </div>
      <Text c="dimmed" size="xs" mt={4}>
        {isChecking && domainPage.checking}
        {!isChecking && checkedAt === null && domainPage.notChecked}
        {!isChecking && checkedAt !== null && (
          <>
            {domainPage.lastCheck}: <Time at={checkedAt} />
          </>
        )}
      </Text>
    </Panel>
  );
}

const CHOSEN = 'postrider.dns-provider';

function storedProvider(): ProviderId {
  const stored = localStorage.getItem(CHOSEN) ?? '';
  return stored in PROVIDERS ? (stored as ProviderId) : 'other';
}

function Records({ domain: { domain }, records }: { domain: Domain; records: readonly DnsRecord[] }) {
  const zones = zonesOf(domain);
  const [provider, setProvider] = useState(storedProvider);
  const [zone, setZone] = useState(zones[0]!);
  const choose = (value: string | null): void => {
    localStorage.setItem(CHOSEN, value ?? '');
    setProvider((value ?? 'other') as ProviderId);
  };
  return (
    <Panel title={domainPage.records} actions={<ExportRecords domain={domain} records={records} />}>
      <div className={classes.choices}>
        <Select
          label={domainPage.provider}
          description={domainPage.providerHint}
          data={Object.entries(PROVIDERS).map(([value, { name }]) => ({ value, label: name }))}
          value={provider}
          onChange={choose}
          maxDropdownHeight={360}
        />
        {zones.length > 1 && (
          <Select
            label={domainPage.zone}
            description={domainPage.zoneHint}
            data={zones}
            value={zone}
            onChange={(value) => setZone(value ?? zones[0]!)}
          />
        )}
      </div>
      <ol className={classes.steps} aria-label={domainPage.steps}>
        {providerOf(provider).steps.map((step) => (
          <li key={step}>{step}</li>
        ))}
      </ol>
      {records.map((record) => (
        <Record key={`${record.purpose} ${record.name}`} record={record} provider={provider} zone={zone} />
      ))}
    </Panel>
  );
}
