/** One audit log entry: the author, the origin, and each field before and after. */
import { Stack } from '@mantine/core';
import type { Answer } from '../../api.ts';
import { Changes } from '../../parts/changes.tsx';
import { Facts } from '../../parts/page.tsx';
import { type Details, Second } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { audit } from '../../texts/operator.ts';

type AuditEntry = Answer<'listServiceAuditEntries'>[number];

export function Who({ of: { kind, name, id } }: { of: AuditEntry['actor'] }) {
  const who = name ?? id;
  if (!who) return audit.kinds[kind];
  return (
    <>
      {who}
      <Second>{audit.kinds[kind]}</Second>
    </>
  );
}

function Entry({ of: entry }: { of: AuditEntry }) {
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
      <Changes of={entry} />
    </Stack>
  );
}

export const ENTRY_DETAILS: Details<AuditEntry> = {
  title: ({ action }) => audit.details(action),
  size: 'xl',
  content: (entry) => <Entry of={entry} />,
};
