/** The filters of the log. Actions and types are suggested from the loaded entries; others can be typed. */
import { Autocomplete, Button, Group, Pill, TextInput } from '@mantine/core';
import { SavedFilters } from '../../parts/saved-filters.tsx';
import { useSearchState } from '../../search-state.ts';
import { audit } from '../../texts/audit.ts';
import type { AuditEntry } from './entry.ts';

const NAMES = ['action', 'resource', 'resourceId', 'actorId', 'since', 'until'] as const;

export function AuditFilters({ entries, isFiltered }: { entries: readonly AuditEntry[]; isFiltered: boolean }) {
  const [search, setSearch] = useSearchState();
  const known = (name: 'action' | 'resource'): string[] => [...new Set(entries.map((one) => one[name]))].sort();
  return (
    <Group gap="sm" align="end" mb="sm">
      <Autocomplete
        label={audit.action}
        placeholder={audit.actionPlaceholder}
        size="sm"
        w="14rem"
        data={known('action')}
        value={search.action ?? ''}
        onChange={(action) => setSearch({ action: action.trim() }, { typed: true })}
      />
      <Autocomplete
        label={audit.resource}
        placeholder={audit.resourcePlaceholder}
        size="sm"
        w="11rem"
        data={known('resource')}
        value={search.resource ?? ''}
        onChange={(resource) => setSearch({ resource: resource.trim() }, { typed: true })}
      />
      {(['since', 'until'] as const).map((name) => (
        <TextInput
          key={name}
          label={audit[name]}
          type="date"
          value={search[name] ?? ''}
          onChange={({ currentTarget }) => setSearch({ [name]: currentTarget.value })}
        />
      ))}
      {(['actorId', 'resourceId'] as const).map(
        (name) =>
          search[name] && (
            <Pill
              key={name}
              withRemoveButton
              size="lg"
              removeButtonProps={{ 'aria-label': audit.remove, 'aria-hidden': false, tabIndex: 0 }}
              onRemove={() => setSearch({ [name]: undefined })}
            >
              {search[name]}
            </Pill>
          ),
      )}
      <SavedFilters list="audit" size="sm" />
      {isFiltered && (
        <Button
          variant="subtle"
          size="sm"
          onClick={() => setSearch(Object.fromEntries(NAMES.map((name) => [name, undefined])))}
        >
          {audit.clear}
        </Button>
      )}
    </Group>
  );
}
