/** The variables that the template declares, and undeclared ones in its text. */
import { ActionIcon, Button, Checkbox, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { IconPlus, IconTrash } from '../../icons.ts';
import { variables as texts, variableTypes } from '../../texts/templates.ts';
import { VARIABLE_TYPES, type Variable, type VariableType } from './content.ts';
import type { Draft } from './draft.ts';
import { type Found, rootOf, rootsFound } from './found.ts';
import type { Mistakes } from './previewing.ts';
import classes from './templates.module.css';
import { ValueField } from './value-field.tsx';

interface VariablesProps {
  draft: Draft;
  isReadOnly: boolean;
  found: readonly Found[];
  missing: readonly string[];
  mistakes: Mistakes;
}

const TYPES = VARIABLE_TYPES.map((value) => ({ value, label: variableTypes[value] }));

export function Variables({ draft, isReadOnly, found, missing, mistakes }: VariablesProps) {
  const { variables } = draft.content;
  const set = (next: readonly Variable[]): void => draft.change({ variables: next });
  const names = new Set(variables.map(({ name }) => name));
  // Variables of a layout are not in the text; the service reports them when missing.
  const asked = rootsFound([...found, ...missing.map((path) => ({ path: rootOf(path), type: 'string' as const }))]);
  const undeclared = isReadOnly
    ? []
    : rootsFound([...asked, ...rootsFound(found)]).filter(({ path }) => !names.has(path));
  const declare = (some: readonly Found[]): void =>
    set([...variables, ...some.map(({ path, type }) => ({ name: path, type, required: type !== 'boolean' }))]);
  return (
    <Stack gap="sm">
      {variables.length === 0 && <Text c="dimmed">{texts.empty}</Text>}
      {variables.length > 0 && (
        <ul className={classes.variables} aria-label={texts.label}>
          {variables.map((variable, index) => (
            <VariableRow
              // Names change while typing, and two may be equal for a moment.
              // biome-ignore lint/suspicious/noArrayIndexKey: the place is what a row is
              key={index}
              variable={variable}
              index={index}
              isReadOnly={isReadOnly}
              mistakes={mistakes.filter(({ field }) => field.startsWith(`variables[${index}]`))}
              onChange={(changes) =>
                set(variables.map((one, at) => (at === index ? ({ ...one, ...changes } as Variable) : one)))
              }
              onRemove={() => set(variables.filter((_, at) => at !== index))}
            />
          ))}
        </ul>
      )}
      {undeclared.length > 0 && <Suggestions undeclared={undeclared} declare={declare} />}
      {!isReadOnly && (
        <Group>
          <Button
            variant="default"
            leftSection={<IconPlus size={14} />}
            onClick={() => set([...variables, { name: '', type: 'string', required: false }])}
          >
            {texts.add}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

function Suggestions({ undeclared, declare }: { undeclared: readonly Found[]; declare(some: readonly Found[]): void }) {
  return (
    <div>
      <Text size="xs" c="dimmed" mb={4}>
        {texts.found}
      </Text>
      <Group gap="xs">
        {undeclared.map((one) => (
          <Button
            key={one.path}
            variant="light"
            leftSection={<IconPlus size={12} />}
            aria-label={texts.declare(one.path)}
            onClick={() => declare([one])}
          >
            {one.path}
          </Button>
        ))}
        {undeclared.length > 1 && (
          <Button variant="subtle" onClick={() => declare(undeclared)}>
            {texts.declareAll}
          </Button>
        )}
      </Group>
    </div>
  );
}

interface VariableRowProps {
  variable: Variable;
  index: number;
  isReadOnly: boolean;
  mistakes: Mistakes;
  onChange(changes: Partial<Variable>): void;
  onRemove(): void;
}

function VariableRow({ variable, index, isReadOnly, mistakes, onChange, onRemove }: VariableRowProps) {
  const { name, type, required } = variable;
  const wrong = (what: string): string | undefined =>
    mistakes.find(({ field }) => field === `variables[${index}].${what}`)?.message;
  return (
    <li className={classes.variable}>
      <TextInput
        label={texts.name}
        value={name}
        readOnly={isReadOnly}
        error={wrong('name')}
        maxLength={200}
        aria-label={texts.nameOf(index + 1)}
        onChange={({ currentTarget }) => onChange({ name: currentTarget.value })}
      />
      <Select
        label={texts.type}
        data={TYPES}
        value={type}
        disabled={isReadOnly}
        error={wrong('type')}
        aria-label={texts.typeOf(name)}
        onChange={(next) => onChange({ type: next as VariableType, default: undefined })}
      />
      <ValueField
        key={type}
        label={texts.default}
        fullLabel={texts.defaultOf(name)}
        type={type}
        isReadOnly={isReadOnly}
        error={wrong('default')}
        value={variable.default}
        onChange={(value) => onChange({ default: value })}
      />
      <Group justify="space-between" wrap="nowrap" mt="1.5rem">
        <Checkbox
          label={texts.required}
          checked={required}
          disabled={isReadOnly}
          aria-label={texts.requiredOf(name)}
          onChange={({ currentTarget }) => onChange({ required: currentTarget.checked })}
        />
        {!isReadOnly && (
          <ActionIcon aria-label={texts.remove(name)} onClick={onRemove}>
            <IconTrash size={15} />
          </ActionIcon>
        )}
      </Group>
    </li>
  );
}
