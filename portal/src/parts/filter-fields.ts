/** The lists with filters that can be saved, and the query parameters of their pages that belong to the filter. */
import type { Answer } from '../../../clients/typescript/src/call.ts';

export const FILTER_FIELDS = {
  messages: ['q', 'status', 'range', 'since', 'until', 'to', 'from', 'subject', 'template', 'tags', 'metadata'],
  inbound: ['route', 'outcome'],
  events: ['type', 'recipient', 'tag', 'message', 'since'],
  requests: ['status', 'method', 'key', 'code', 'message', 'since'],
  suppressions: ['email', 'reason'],
  audit: ['action', 'resource', 'resourceId', 'actorId', 'since', 'until'],
} as const satisfies Record<string, readonly string[]>;

export type SavedFilter = Answer<'listSavedFilters'>[number];
export type FilteredList = keyof typeof FILTER_FIELDS;

type Search = Readonly<Record<string, string | undefined>>;

/** Returns the fields of a page's URL that are set and belong to the filter. */
export function filterOf(list: FilteredList, search: Search): Record<string, string> {
  const fields: readonly string[] = FILTER_FIELDS[list];
  return Object.fromEntries(fields.flatMap((field) => (search[field] ? [[field, search[field]]] : [])));
}

/** Returns whether both filters of the list have the same fields and values. */
export function isSameFilter(list: FilteredList, a: Search, b: Search): boolean {
  const fields: readonly string[] = FILTER_FIELDS[list];
  return fields.every((field) => (a[field] ?? '') === (b[field] ?? ''));
}
