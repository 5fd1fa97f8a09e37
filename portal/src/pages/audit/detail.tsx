/** One entry: the author, the origin, and the fields before and after. */
import { Button, Group, Stack, Text, Title } from '@mantine/core';
import { Copyable } from '../../parts/copy.tsx';
import { Facts } from '../../parts/page.tsx';
import { Time } from '../../parts/time.tsx';
import { audit } from '../../texts/audit.ts';
import classes from './audit.module.css';
import { changedFields } from './changed-fields.ts';
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

function Changes({ of: { before, after } }: { of: AuditEntry }) {
  const fields = changedFields(before, after);
  const shown = fields.filter(({ isChanged }) => isChanged);
  const unchanged = fields.length - shown.length;
  return (
    <div>
      <Title order={3} size="h3" mb="xs">
        {texts.changes}
      </Title>
      {shown.length === 0 && (
        <Text c="dimmed" size="sm">
          {texts.nothing}
        </Text>
      )}
      {shown.length > 0 && (
        <table className={classes.changes}>
          <thead>
            <tr>
              <th scope="col">{texts.field}</th>
              <th scope="col">{texts.before}</th>
              <th scope="col">{texts.after}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((field) => (
              <tr key={field.name}>
                <th scope="row">{field.name}</th>
                <td data-label={texts.before}>
                  {field.before === undefined ? texts.empty : <del>{field.before}</del>}
                </td>
                <td data-label={texts.after}>{field.after === undefined ? texts.empty : <ins>{field.after}</ins>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {unchanged > 0 && (
        <Text size="xs" c="dimmed" mt="xs">
          {texts.unchanged(unchanged)}
        </Text>
      )}
    </div>
  );
}
