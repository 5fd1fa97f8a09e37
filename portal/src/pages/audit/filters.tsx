/** The filters of the log. Actions and types are suggested from the loaded entries; others can be typed. */
import { Autocomplete, Pill } from '@mantine/core';
import { FilterDate, Filters } from '../../parts/filters.tsx';
import { useTypedFilter } from '../../parts/typed-filter.ts';
import { useSearchState } from '../../search-state.ts';
import { audit } from '../../texts/audit.ts';
import type { AuditEntry } from './entry.ts';

const PLACEHOLDERS = { action: audit.actionPlaceholder, resource: audit.resourcePlaceholder };

export function AuditFilters({ entries }: { entries: readonly AuditEntry[] }) {
  const [search, setSearch] = useSearchState();
  return (
    <Filters of="audit" isLong>
      {(['action', 'resource'] as const).map((name) => (
        <Suggested key={name} name={name} values={entries.map((one) => one[name])} />
      ))}
      <FilterDate name="since" label={audit.since} />
      <FilterDate name="until" label={audit.until} />
      {(['actorId', 'resourceId'] as const).map(
        (name) =>
          search[name] && (
            <Pill
              key={name}
              withRemoveButton
              size="lg"
              removeButtonProps={{ 'aria-label': audit.remove, 'aria-hidden': false, tabIndex: 0 }}
              onRemove={() => setSearch({ [name]: undefined })}
              style={{ flex: 'none' }}
            >
              {search[name]}
            </Pill>
          ),
      )}
    </Filters>
  );
}

function Suggested({ name, values }: { name: 'action' | 'resource'; values: readonly string[] }) {
  const { typed, type, apply } = useTypedFilter(name);
  return (
    <Autocomplete
      label={audit[name]}
      placeholder={PLACEHOLDERS[name]}
      size="sm"
      data={[...new Set(values)].sort()}
      value={typed}
      onChange={type}
      onOptionSubmit={apply}
      style={{ flexBasis: '11rem' }}
    />
  );
}
