/** One entry: the author, the origin, and the fields before and after. */
import { Button, Group, Stack } from '@mantine/core';
import { Changes } from '../../parts/changes.tsx';
import { Copyable } from '../../parts/copy.tsx';
import { Facts } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { audit } from '../../texts/audit.ts';
import { type AuditEntry, actorOf } from './entry.ts';

const texts = audit.detail;

interface AuditDetailProps {
  of: AuditEntry;
  onFilter(filter: { actorId?: string; resourceId?: string }): void;
}

export function AuditDetail({ of: one, onFilter }: AuditDetailProps) {
  const { actor, resourceId } = one;
  return (
    <Stack gap="md">
      <Facts
        of={[
          [texts.who, `${audit.kinds[actor.kind]}: ${actorOf(one)}`],
          [texts.when, <Time key="when" at={one.time} exact />],
          [texts.from, one.address ?? undefined],
          [texts.resource, <Copyable key="resource" value={resourceId ?? one.resource} />],
          [texts.mode, one.mode ?? texts.bothModes],
          [texts.request, one.requestId === null ? undefined : <Copyable key="request" value={one.requestId} />],
        ]}
      />
      <Changes of={one} />
      <Group gap="xs">
        {actor.id !== null && (
          <Button variant="default" onClick={() => onFilter({ actorId: actor.id! })}>
            {texts.sameActor}
          </Button>
        )}
        {resourceId !== null && (
          <Button variant="default" onClick={() => onFilter({ resourceId })}>
            {texts.sameResource}
          </Button>
        )}
      </Group>
    </Stack>
  );
}
