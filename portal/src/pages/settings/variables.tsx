/** Variables for all templates of the account: predefined ones, and the account's own. */
import { Button, Group, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { useChange } from '../../api.ts';
import { IconPlus } from '../../icons.ts';
import { useEdits } from '../../parts/edits.ts';
import { Panel } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { done } from '../../parts/undo.tsx';
import { settings, variables as texts } from '../../texts/settings.ts';

type Values = Readonly<Record<string, string>>;
type Known = keyof typeof texts.known;

const KNOWN = Object.keys(texts.known) as Known[];

/** Returns the changes to merge: null removes, unchanged values are omitted. */
function changesOf(before: Values, after: Values): Record<string, string | null> {
  const removed = Object.keys(before).filter((name) => !(name in after));
  const set = Object.entries(after).filter(([name, value]) => value !== (before[name] ?? ''));
  const emptied = set.map(([name, value]) => [name, value === '' && name in texts.known ? null : value] as const);
  return Object.fromEntries([...removed.map((name) => [name, null] as const), ...emptied]);
}

export function VariablesPanel({ variables, mayChange }: { variables: Values; mayChange: boolean }) {
  // A variable that the user has removed is undefined.
  const { values, edit, saved } = useEdits<Readonly<Record<string, string | undefined>>>(variables);
  const isPresent = (one: [string, string | undefined]): one is [string, string] => one[1] !== undefined;
  const given: Values = Object.fromEntries(Object.entries(values).filter(isPresent));
  const save = useChange('updateAccount', ['getAccount']);
  const changed = changesOf(variables, given);
  const own = Object.keys(given).filter((name) => !(name in texts.known));
  const set = (name: string, value: string): void => edit({ [name]: value });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    save.mutate(
      { body: { variables: changed } },
      {
        onSuccess() {
          saved();
          done(settings.saved);
        },
      },
    );
  };
  const remove = (name: string): void => edit({ [name]: undefined });
  return (
    <Panel title={texts.title}>
      <Stack gap="md">
        <Text size="sm" c="dimmed">
          {texts.lead} {texts.unsubscribe}
        </Text>
        <form onSubmit={submit} id="variables">
          <Stack gap="md">
            <Problem error={save.error} />
            {KNOWN.map((name) => (
              <Value
                key={name}
                name={name}
                mayChange={mayChange}
                label={texts.known[name].name}
                hint={texts.known[name].does}
                value={given[name] ?? ''}
                onChange={(value) => set(name, value)}
              />
            ))}
            <Text size="sm" fw={550}>
              {texts.own}
            </Text>
            {own.length === 0 && (
              <Text size="sm" c="dimmed">
                {texts.ownNone}
              </Text>
            )}
            {own.map((name) => (
              <Value
                key={name}
                name={name}
                mayChange={mayChange}
                value={given[name] ?? ''}
                onChange={(value) => set(name, value)}
                onRemove={() => remove(name)}
              />
            ))}
          </Stack>
        </form>
        {mayChange && (
          <>
            <NewVariable taken={given} onAdd={(name) => set(name, '')} />
            <Group>
              <Button
                type="submit"
                form="variables"
                loading={save.isPending}
                disabled={Object.keys(changed).length === 0}
              >
                {settings.save}
              </Button>
            </Group>
          </>
        )}
      </Stack>
    </Panel>
  );
}

interface ValueProps {
  name: string;
  label?: string;
  hint?: string;
  value: string;
  mayChange: boolean;
  onChange(value: string): void;
  onRemove?(): void;
}

function Value({ name, label, hint, value, mayChange, onChange, onRemove }: ValueProps) {
  return (
    <Group align="flex-end" gap="xs" maw="42rem">
      <Textarea
        label={
          <>
            {label} <span className="mono">{name}</span>
          </>
        }
        description={hint}
        autosize
        minRows={1}
        maxRows={8}
        flex="1 1 14rem"
        disabled={!mayChange}
        value={value}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
      {mayChange && onRemove !== undefined && (
        <Button variant="default" mb={4} onClick={onRemove} aria-label={texts.removeOf(name)}>
          {texts.remove}
        </Button>
      )}
    </Group>
  );
}

function NewVariable({ taken, onAdd }: { taken: Values; onAdd(name: string): void }) {
  const [name, setName] = useState('');
  const isTaken = name in taken || name in texts.known;
  const isWrong = name !== '' && !/^[A-Za-z_]\w*$/.test(name);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onAdd(name);
    setName('');
  };
  return (
    <form onSubmit={submit}>
      <Group align="flex-start" gap="xs">
        <TextInput
          label={texts.nameOf}
          placeholder={texts.nameHint}
          error={isTaken ? texts.nameTaken : isWrong ? texts.nameWrong : undefined}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value.trim())}
        />
        <Button
          type="submit"
          variant="default"
          mt="1.5rem"
          leftSection={<IconPlus size={14} />}
          disabled={name === '' || isTaken || isWrong}
        >
          {texts.addNow}
        </Button>
      </Group>
    </form>
  );
}
