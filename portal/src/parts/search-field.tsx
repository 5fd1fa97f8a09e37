/** A text filter: the list updates when the user pauses typing, and the URL stores it. */
import { TextInput, type TextInputProps } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useState } from 'react';
import { IconSearch } from '../icons.ts';
import { useSearchState } from '../search-state.ts';

const PAUSE_MS = 300;

interface SearchFieldProps extends TextInputProps {
  /** The query parameter. */
  name: string;
  label: string;
  width?: string;
  /** The main search of a list has an icon. */
  isMain?: boolean;
}

export function SearchField({ name, label, width = '11rem', isMain = false, ...props }: SearchFieldProps) {
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
      style={{ flexBasis: width }}
      leftSection={isMain && <IconSearch size={14} aria-hidden />}
      {...props}
      onChange={({ currentTarget }) => {
        setTyped(currentTarget.value);
        apply(currentTarget.value);
      }}
      onKeyDown={({ key, currentTarget }) => {
        if (key === 'Enter') setSearch({ [name]: currentTarget.value.trim() || undefined }, { typed: true });
      }}
    />
  );
}
