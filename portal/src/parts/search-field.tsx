/** A text filter: the list updates when the user pauses typing, and the URL stores it. */
import { TextInput, type TextInputProps } from '@mantine/core';
import { IconSearch } from '../icons.ts';
import { useTypedFilter } from './typed-filter.ts';

interface SearchFieldProps extends TextInputProps {
  /** The query parameter. */
  name: string;
  label: string;
  width?: string;
  /** The main search of a list has an icon. */
  isMain?: boolean;
}

export function SearchField({ name, label, width = '11rem', isMain = false, ...props }: SearchFieldProps) {
  const { typed, type, apply } = useTypedFilter(name);
  return (
    <TextInput
      label={label}
      value={typed}
      style={{ flexBasis: width }}
      leftSection={isMain && <IconSearch size={14} aria-hidden />}
      {...props}
      onChange={({ currentTarget }) => type(currentTarget.value)}
      onKeyDown={({ key, currentTarget }) => {
        if (key === 'Enter') apply(currentTarget.value);
      }}
    />
  );
}
