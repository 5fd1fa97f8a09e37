/** The fields that a change recorded in an audit log, before and after it. */
import { Text, Title } from '@mantine/core';
import { audit } from '../texts/audit.ts';
import { changedFields, type Fields } from './changed-fields.ts';
import classes from './changes.module.css';

const texts = audit.detail;

interface ChangesProps {
  of: { before: Fields; after: Fields };
}

export function Changes({ of: { before, after } }: ChangesProps) {
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
