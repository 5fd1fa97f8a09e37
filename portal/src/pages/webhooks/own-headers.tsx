/** The headers that Postrider adds to the requests of a webhook: a row for each, with stored values masked. */
import { ActionIcon, Button, Group, Input, Stack, TextInput } from '@mantine/core';
import { IconPlus, IconTrash } from '../../icons.ts';
import { webhookForm as texts } from '../../texts/webhooks.ts';

export interface OwnHeader {
  /** Identifies the row while its name is edited. */
  key: number;
  name: string;
  value: string;
}

const MOST = 10;

/** Returns the rows of a webhook's headers. */
export function ownHeadersOf(headers: Readonly<Record<string, string>> = {}): OwnHeader[] {
  return Object.entries(headers).map(([name, value], key) => ({ key, name, value }));
}

/** Returns the headers of a request; rows without a name are omitted. */
export function headersOf(rows: readonly OwnHeader[]): Record<string, string> {
  return Object.fromEntries(
    rows.filter(({ name }) => name.trim() !== '').map(({ name, value }) => [name.trim(), value.trim()]),
  );
}

interface OwnHeadersProps {
  value: readonly OwnHeader[];
  onChange(value: OwnHeader[]): void;
  error: string | undefined;
}

export function OwnHeaders({ value, onChange, error }: OwnHeadersProps) {
  const change = (key: number, changed: Partial<OwnHeader>): void =>
    onChange(value.map((row) => (row.key === key ? { ...row, ...changed } : row)));
  const add = (): void =>
    onChange([...value, { key: Math.max(-1, ...value.map((row) => row.key)) + 1, name: '', value: '' }]);
  return (
    <Input.Wrapper label={texts.headers} description={texts.headersHint} error={error}>
      <Stack gap="xs" mt={6}>
        {value.map(({ key, name, value: content }) => (
          <Group key={key} gap="xs" wrap="nowrap" align="center">
            <TextInput
              aria-label={texts.headerName}
              placeholder={texts.headerNameExample}
              maxLength={100}
              value={name}
              style={{ flex: '2 1 0' }}
              onChange={({ currentTarget }) => change(key, { name: currentTarget.value })}
            />
            <TextInput
              aria-label={texts.headerValue}
              placeholder={texts.headerValueExample}
              maxLength={2_000}
              value={content}
              style={{ flex: '3 1 0' }}
              onChange={({ currentTarget }) => change(key, { value: currentTarget.value })}
            />
            <ActionIcon
              aria-label={texts.removeHeader(name)}
              onClick={() => onChange(value.filter((row) => row.key !== key))}
            >
              <IconTrash size={14} />
            </ActionIcon>
          </Group>
        ))}
        {value.length < MOST && (
          <div>
            <Button variant="subtle" leftSection={<IconPlus size={14} />} onClick={add}>
              {texts.addHeader}
            </Button>
          </div>
        )}
      </Stack>
    </Input.Wrapper>
  );
}
