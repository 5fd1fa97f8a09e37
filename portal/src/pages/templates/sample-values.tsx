/** The sample sets: one click to switch, a field for each variable of the template, or all values as JSON. */
import '@mantine/core/styles/Chip.layer.css';
import { Button, Chip, Group, SegmentedControl, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { type FormEvent, useEffect, useState } from 'react';
import { IconPlus, IconTrash } from '../../icons.ts';
import { Panel } from '../../parts/page.tsx';
import { withUndo } from '../../parts/undo.tsx';
import { samples as texts } from '../../texts/templates.ts';
import type { Variable, VariableType } from './content.ts';
import { type Found, rootOf } from './found.ts';
import type { Mistakes } from './previewing.ts';
import type { Samples } from './samples.ts';
import { ValueField } from './value-field.tsx';
import { type Values as AllValues, valueAt, valuesIn, withValueAt } from './values.ts';

interface ValuesProps {
  samples: Samples;
  found: readonly Found[];
  declared: readonly Variable[];
  /** As the service names them. */
  missing: readonly string[];
  mistakes: Mistakes;
  mayChange: boolean;
}

const WAYS = [
  { value: 'fields', label: texts.fields },
  { value: 'json', label: texts.json },
];

export function Values(props: ValuesProps) {
  const { samples, mayChange } = props;
  const [way, setWay] = useState('fields');
  return (
    <Panel
      title={texts.title}
      actions={<SegmentedControl data={WAYS} value={way} onChange={setWay} aria-label={texts.as} />}
    >
      <Sets samples={samples} />
      {way === 'fields' ? (
        <Fields {...props} key={samples.chosen.name} />
      ) : (
        <Json key={samples.chosen.name} values={samples.chosen.values} onChange={samples.change} />
      )}
      <Text size="xs" c="dimmed" mt="sm">
        {mayChange ? texts.kept : texts.keptHere}
      </Text>
    </Panel>
  );
}

function Sets({ samples }: { samples: Samples }) {
  const { sets, chosen } = samples;
  const [isNaming, setNaming] = useState(false);
  const remove = (): void => {
    samples.remove();
    withUndo({
      message: texts.removed(chosen.name),
      run: () => Promise.resolve(),
      onUndo: () => samples.putBack(chosen),
    });
  };
  return (
    <Stack gap="xs" mb="sm">
      <Group gap="xs" justify="space-between">
        <Chip.Group value={chosen.name} onChange={samples.choose}>
          <Group gap="xs" role="radiogroup" aria-label={texts.set}>
            {sets.map(({ name }) => (
              <Chip key={name} value={name} size="xs" variant="outline">
                {name}
              </Chip>
            ))}
          </Group>
        </Chip.Group>
        <Group gap="xs">
          <Button
            variant="subtle"
            leftSection={<IconPlus size={14} />}
            disabled={isNaming}
            onClick={() => setNaming(true)}
          >
            {texts.add}
          </Button>
          {(sets.length > 1 || Object.keys(chosen.values).length > 0) && (
            <Button variant="subtle" color="gray" px={6} aria-label={texts.remove(chosen.name)} onClick={remove}>
              <IconTrash size={14} />
            </Button>
          )}
        </Group>
      </Group>
      {isNaming && <NewSet samples={samples} onDone={() => setNaming(false)} />}
    </Stack>
  );
}

function NewSet({ samples, onDone }: { samples: Samples; onDone(): void }) {
  const [name, setName] = useState('');
  const isTaken = samples.sets.some((one) => one.name === name.trim());
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (isTaken || name.trim() === '') return;
    samples.add(name.trim());
    onDone();
  };
  return (
    <form onSubmit={submit}>
      <Group gap="xs" align="flex-end">
        <TextInput
          label={texts.name}
          description={texts.addHint}
          value={name}
          maxLength={60}
          style={{ flex: 1 }}
          ref={(field) => field?.focus()}
          error={isTaken && texts.taken}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <Button type="submit" disabled={name.trim() === '' || isTaken}>
          {texts.addSubmit}
        </Button>
      </Group>
    </form>
  );
}

interface Field {
  path: string;
  type: VariableType;
  hint?: string | undefined;
}

/** Returns the variables in the text, then other declared ones, then others that the service reports as missing. */
function fieldsOf({ found, declared, missing }: Pick<ValuesProps, 'found' | 'declared' | 'missing'>): Field[] {
  const fields = new Map<string, Field>();
  const typeOf = new Map(declared.map((one) => [one.name, one]));
  for (const { path, type } of found) {
    const known = typeOf.get(path);
    fields.set(path, { path, type: known?.type ?? (type === 'boolean' ? 'string' : type) });
  }
  const roots = new Set(found.map(({ path }) => rootOf(path)));
  for (const { name, type } of declared) if (!roots.has(name) && name !== '') fields.set(name, { path: name, type });
  for (const path of missing)
    if (/^[\w.-]+$/.test(path) && !roots.has(rootOf(path)) && !fields.has(path))
      fields.set(path, { path, type: 'string' });
  return [...fields.values()];
}

function Fields({ samples, found, declared, missing, mistakes }: ValuesProps) {
  const { chosen } = samples;
  const fields = fieldsOf({ found, declared, missing });
  if (fields.length === 0) return <Text c="dimmed">{texts.noFields}</Text>;
  const defaults = new Map(declared.map((one) => [one.name, one.default]));
  const isMissing = (path: string): boolean => missing.includes(path) || missing.includes(rootOf(path));
  return (
    <Stack gap="xs">
      {fields.map(({ path, type }) => {
        const wrong = mistakes.find(({ field }) => field === `templateVariables.${path}`);
        const [byDefault, value] = [defaults.get(path), valueAt(chosen.values, path)];
        return (
          <ValueField
            key={`${path} ${type}`}
            label={path}
            type={type}
            value={value}
            hint={byDefault === undefined ? undefined : texts.byDefault(byDefault)}
            error={wrong?.message ?? (value === undefined && isMissing(path) ? texts.missing : undefined)}
            onChange={(typed) => samples.change(withValueAt(chosen.values, path, typed))}
          />
        );
      })}
    </Stack>
  );
}

function Json({ values, onChange }: { values: AllValues; onChange(values: AllValues): void }) {
  const [text, setText] = useState(JSON.stringify(values, null, 2));
  const typed = valuesIn(text);
  const given = JSON.stringify(values);
  useEffect(() => {
    if (JSON.stringify(typed) !== given) setText(JSON.stringify(values, null, 2));
  }, [given]);
  const changed = (next: string): void => {
    setText(next);
    const read = valuesIn(next);
    if (read !== undefined) onChange(read);
  };
  return (
    <Textarea
      label={texts.jsonLabel}
      value={text}
      autosize={true}
      minRows={6}
      maxRows={20}
      spellCheck={false}
      styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
      error={typed === undefined && texts.jsonWrong}
      onChange={({ currentTarget }) => changed(currentTarget.value)}
    />
  );
}
