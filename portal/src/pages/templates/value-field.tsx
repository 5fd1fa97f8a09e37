/** A field for the value of a variable. Invalid text stays in the field with a message, and changes nothing. */
import { Select, Textarea, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import { values as texts } from '../../texts/templates.ts';
import type { VariableType } from './content.ts';
import { textOf, typedValue } from './values.ts';

interface ValueFieldProps {
  label: string;
  /** For screen readers, if the label alone is ambiguous. */
  fullLabel?: string;
  type: VariableType;
  value: unknown;
  isReadOnly?: boolean;
  hint?: string | undefined;
  error?: string | undefined;
  onChange(value: unknown): void;
}

const BOOLEANS = [
  { value: '', label: texts.none },
  { value: 'true', label: texts.yes },
  { value: 'false', label: texts.no },
];

export function ValueField({ label, fullLabel, type, value, isReadOnly, hint, error, onChange }: ValueFieldProps) {
  const [text, setText] = useState(textOf(value));
  const typed = typedValue(text, type);
  const given = textOf(value);
  // A new value from outside, for example another sample set, replaces the text.
  useEffect(() => {
    if (typed === undefined || textOf(typed.value) !== given) setText(given);
  }, [given]);
  const changed = (next: string): void => {
    setText(next);
    const read = typedValue(next, type);
    if (read !== undefined) onChange(read.value);
  };
  const named = { label, ...(fullLabel && { 'aria-label': fullLabel }) };
  const shared = { ...named, description: hint, error: typed === undefined ? texts.invalid[type] : error };
  if (type === 'boolean')
    return (
      <Select {...shared} data={BOOLEANS} value={text} disabled={isReadOnly} onChange={(next) => changed(next ?? '')} />
    );
  const field = {
    ...shared,
    value: text,
    readOnly: isReadOnly,
    placeholder: texts.none,
    onChange: (event: { currentTarget: { value: string } }) => changed(event.currentTarget.value),
  };
  if (type === 'array' || type === 'object') return <Textarea {...field} autosize minRows={1} maxRows={8} />;
  return <TextInput {...field} inputMode={type === 'number' ? 'decimal' : undefined} />;
}
