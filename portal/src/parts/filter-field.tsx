/** A text filter: the list updates when the user pauses typing, and the URL stores it. */
import { TextInput, type TextInputProps } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useState } from 'react';
import { useSearchState } from '../search-state.ts';

const PAUSE_MS = 300;

interface FilterFieldProps extends TextInputProps {
  /** The name of the query parameter. */
  name: string;
  label: string;
  width?: string;
}

export function FilterField({ name, label, width = '11rem', ...props }: FilterFieldProps) {
  const [search, setSearch] = useSearchState();
  const chosen = search[name] ?? '';
  const [typed, setTyped] = useState(chosen);
  const apply = useDebouncedCallback(
    (value: string) => setSearch({ [name]: value.trim() || undefined }, { typed: true }),
    PAUSE_MS,
  );
  // The URL may also change by the browser's back button or by a button that clears all filters.
  useEffect(() => setTyped((value) => (value.trim() === chosen ? value : chosen)), [chosen]);
  return (
    <TextInput
      label={label}
      value={typed}
      size="xs"
      style={{ flex: `1 1 ${width}`, minWidth: 0 }}
      {...props}
      onChange={({ currentTarget }) => {
        setTyped(currentTarget.value);
        apply(currentTarget.value);
      }}
    />
  );
}
