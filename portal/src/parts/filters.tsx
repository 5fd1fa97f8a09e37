/** The filters above a list, stored in the page's URL: choices, dates, and texts, with saved filters and a button that clears all. */
import { Button, Select, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { IconFilter } from '../icons.ts';
import { useSearchState } from '../search-state.ts';
import { filters as texts } from '../texts/parts.ts';
import { FILTER_FIELDS, type FilteredList } from './filter-fields.ts';
import classes from './parts.module.css';
import { SavedFilters } from './saved-filters.tsx';

interface FiltersProps {
  label?: string;
  /** A list whose filters can be saved, or else the query parameters of the filters. */
  of: FilteredList | readonly string[];
  /** On a phone, only the first field is shown until the user asks for the others. */
  isLong?: boolean;
  children: ReactNode;
  /** The fields that few users need, below the others: a button opens them, and shows how many are set. */
  rare?: { fields: readonly string[]; content: ReactNode };
}

export function Filters({ label, of, isLong = false, children, rare }: FiltersProps) {
  const [search, setSearch] = useSearchState();
  const fields = typeof of === 'string' ? FILTER_FIELDS[of] : of;
  const isFiltered = fields.some((field) => Boolean(search[field]));
  const rareSet = rare?.fields.filter((field) => Boolean(search[field])).length ?? 0;
  const [isOpen, setOpen] = useState(rare === undefined ? isFiltered : rareSet > 0);
  const isClosed = isLong && !isOpen && !(rare !== undefined && isFiltered);
  return (
    <search aria-label={label} className={classes.filters} data-closed={isClosed || undefined}>
      {children}
      {(isLong || rare !== undefined) && (
        <Button
          className={rare === undefined ? classes.toggle : undefined}
          variant="default"
          size="sm"
          leftSection={rare !== undefined && <IconFilter size={14} aria-hidden />}
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          {rareSet > 0 ? texts.moreSet(rareSet) : texts.more}
        </Button>
      )}
      {typeof of === 'string' && <SavedFilters list={of} />}
      {isFiltered && (
        <Button
          variant="subtle"
          size="sm"
          onClick={() => setSearch(Object.fromEntries(fields.map((field) => [field, undefined])))}
        >
          {texts.clear}
        </Button>
      )}
      {rare !== undefined && isOpen && <div className={classes.rare}>{rare.content}</div>}
    </search>
  );
}

interface FieldProps {
  /** The query parameter. */
  name: string;
  label: string;
  width?: string;
}

interface ChoiceProps extends FieldProps {
  /** The choice that filters nothing, for example "Any status". */
  any: string;
  data: readonly (string | { value: string; label: string })[];
  /** Whether the list is filtered by the value of the URL even if it is not a choice, such as the id of a deleted key. */
  hasOthers?: boolean;
}

/** A value of the URL that is not a choice is displayed as it is, or as no filter if the list ignores it. */
export function FilterChoice({ name, label, width = '11rem', any, data, hasOthers = false }: ChoiceProps) {
  const [search, setSearch] = useSearchState();
  const stored = search[name] ?? '';
  const isKnown = stored === '' || data.some((one) => (typeof one === 'string' ? one : one.value) === stored);
  const chosen = isKnown || hasOthers ? stored : '';
  return (
    <Select
      label={label}
      data={[{ value: '', label: any }, ...data, ...(isKnown || !hasOthers ? [] : [stored])]}
      value={chosen}
      onChange={(value) => setSearch({ [name]: value || undefined })}
      style={{ flexBasis: width }}
    />
  );
}

export function FilterDate({ name, label, width = '9.5rem' }: FieldProps) {
  const [search, setSearch] = useSearchState();
  return (
    <TextInput
      type="date"
      label={label}
      value={search[name] ?? ''}
      onChange={({ currentTarget }) => setSearch({ [name]: currentTarget.value || undefined })}
      style={{ flexBasis: width }}
    />
  );
}
