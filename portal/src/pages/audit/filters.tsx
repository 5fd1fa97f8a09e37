/** The filters of the log. Actions and types are suggested from the loaded entries; others can be typed. */
import { Autocomplete, Pill } from '@mantine/core';
import { FilterDate, Filters } from '../../parts/filters.tsx';
import { useSearchState } from '../../search-state.ts';
import { audit } from '../../texts/audit.ts';
import type { AuditEntry } from './entry.ts';

const PLACEHOLDERS = { action: audit.actionPlaceholder, resource: audit.resourcePlaceholder };

export function AuditFilters({ entries }: { entries: readonly AuditEntry[] }) {
  const [search, setSearch] = useSearchState();
  return (
    <Filters of="audit" isLong>
      {(['action', 'resource'] as const).map((name) => (
        <Autocomplete
          key={name}
          label={audit[name]}
          placeholder={PLACEHOLDERS[name]}
          size="sm"
          data={[...new Set(entries.map((one) => one[name]))].sort()}
          value={search[name] ?? ''}
          onChange={(value) => setSearch({ [name]: value.trim() }, { typed: true })}
          style={{ flexBasis: '12rem' }}
        />
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
