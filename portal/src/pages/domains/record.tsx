/** One DNS record: its purpose, its state in the DNS, the next step, and what to enter at the provider. */
import { Text, Title } from '@mantine/core';
import { Badge, StatusBadge } from '../../parts/badge.tsx';
import { Copy } from '../../parts/copy.tsx';
import { domainPage, found, purposes, statuses } from '../../texts/domains.ts';
import classes from './domains.module.css';
import { entryOf, type ProviderId } from './providers.ts';
import type { DnsRecord } from './zone.ts';

function purposeOf({ purpose, value }: DnsRecord): (typeof purposes)[keyof typeof purposes] {
  if (purpose === 'dkim') return value.includes('k=ed25519') ? purposes.ed25519 : purposes.rsa;
  return purposes[purpose];
}

/** The note of the service is more specific than its status; for a missing record, the portal's own text is shorter. */
function adviceOf({ purpose, status, note, found: published, keyState = 'active' }: DnsRecord): string {
  const isPlainlyMissing =
    status === 'missing' && (published ?? []).length === 0 && purpose !== 'spf' && keyState === 'active';
  return note === null || isPlainlyMissing ? found[status] : note;
}

/** A recommended record is not an error. */
function RecordStatus({ record: { status, required } }: { record: DnsRecord }) {
  const isAlarm = required || status === 'verified' || status === 'unknown' || status === 'pending';
  return isAlarm ? <StatusBadge status={status} /> : <Badge tone="wait">{statuses[status]}</Badge>;
}

export function Record({ record, provider, zone }: { record: DnsRecord; provider: ProviderId; zone: string }) {
  const { name: title, why } = purposeOf(record);
  const entry = entryOf(provider, record, zone);
  return (
    <section className={classes.record} aria-label={title}>
      <div className={classes.recordHead}>
        <Title order={3}>{title}</Title>
        <RecordStatus record={record} />
        <Badge tone="calm">{record.required ? domainPage.required : domainPage.optional}</Badge>
      </div>
      <Text>{adviceOf(record)}</Text>
      <Text c="dimmed" size="xs">
        {why}
      </Text>
      <dl className={classes.entry}>
        <dt>{domainPage.type}</dt>
        <dd>{record.type}</dd>
        <dt>{domainPage.recordName}</dt>
        <dd>
          <span className="mono">{entry.name || domainPage.empty}</span>{' '}
          {entry.name !== '' && <Copy value={entry.name} label={domainPage.copyName(title)} />}
          {entry.name !== record.name && (
            <Text c="dimmed" size="xs">
              {domainPage.fullName(record.name)}
            </Text>
          )}
        </dd>
        <dt>{domainPage.value}</dt>
        <dd className={classes.value}>
          <span className="mono">{entry.value}</span>
          <Copy value={entry.value} label={domainPage.copyValue(title)} />
        </dd>
        {record.status !== 'verified' && record.found !== null && record.found.length > 0 && (
          <>
            <dt>{domainPage.published}</dt>
            <dd className={classes.value}>
              {record.found.map((text) => (
                <Text key={text} className="mono" size="xs">
                  {text}
                </Text>
              ))}
            </dd>
          </>
        )}
        <dt>{domainPage.ttl}</dt>
        <dd>{domainPage.ttlValue}</dd>
      </dl>
    </section>
  );
}
