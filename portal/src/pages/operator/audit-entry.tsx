/** One audit log entry: the author, the origin, and each field before and after. */
import { Stack, Text } from '@mantine/core';
import type { Answer } from '../../api.ts';
import { Facts } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { audit } from '../../texts/operator.ts';
import classes from './operator.module.css';

type AuditEntry = Answer<'listServiceAuditEntries'>[number];

export function Who({ of: { kind, name, id } }: { of: AuditEntry['actor'] }) {
  const who = name ?? id;
  if (!who) return audit.kinds[kind];
  return (
    <>
      {who}
      <Text size="xs" c="dimmed">
        {audit.kinds[kind]}
      </Text>
    </>
  );
}

export function Entry({ of: entry }: { of: AuditEntry }) {
  return (
    <Stack gap="md">
      <Facts
        of={[
          [audit.who, <Who key="who" of={entry.actor} />],
          [audit.time, <Time key="time" at={entry.time} exact />],
          [audit.of, entry.resourceId ?? undefined],
          [audit.from, entry.address ?? undefined],
          [audit.request, entry.requestId ?? undefined],
        ]}
      />
      <Changes before={entry.before ?? {}} after={entry.after ?? {}} />
    </Stack>
  );
}

type Shown = Readonly<Record<string, unknown>>;

function shownValue(value: unknown): string {
  if (value === undefined || value === null) return '–';
  return typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value);
}

function Changes({ before, after }: { before: Shown; after: Shown }) {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  if (fields.length === 0) return null;
  return (
    <table className={classes.diff}>
      <thead>
        <tr>
          <th scope="col">{audit.field}</th>
          <th scope="col">{audit.before}</th>
          <th scope="col">{audit.after}</th>
        </tr>
      </thead>
      <tbody>
        {fields.map((field) => {
          const [was, is] = [shownValue(before[field]), shownValue(after[field])];
          return (
            <tr key={field} className={was === is ? undefined : classes.changed}>
              <th scope="row">{field}</th>
              <td className="mono">{was}</td>
              <td className="mono">{is}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
