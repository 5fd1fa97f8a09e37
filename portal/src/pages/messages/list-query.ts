/**
 * Converts the filters of the message list between the page's URL and the API's query. Ranges such as the last 24 hours stay relative in
 * the URL; the query has their start time.
 */
import { useMemo } from 'react';
import type { Query } from '../../api.ts';
import { useSearchState } from '../../search-state.ts';
import { STATUSES, searchTerms } from './search-syntax.ts';

export type MessageQuery = Query<'listMessages'>;

export const TEXT_FILTERS = ['to', 'from', 'subject'] as const;
/** The filters that few users need. */
export const MORE_FILTERS = [...TEXT_FILTERS, 'template', 'tags', 'metadata'] as const;
const ALL = ['q', 'status', 'range', 'since', 'until', ...MORE_FILTERS] as const;

const HOUR_MS = 3_600_000;
const RANGES_MS: Readonly<Record<string, number>> = { '24h': 24 * HOUR_MS, '7d': 168 * HOUR_MS, '30d': 720 * HOUR_MS };
const MINUTE_MS = 60_000;

function rangeStart(range: string | undefined): string | undefined {
  if (range === 'today') return new Date(new Date().setHours(0, 0, 0, 0)).toISOString();
  const lengthMs = RANGES_MS[range ?? ''];
  if (lengthMs === undefined) return undefined;
  return new Date(Math.floor((Date.now() - lengthMs) / MINUTE_MS) * MINUTE_MS).toISOString();
}

/** Converts the value of a date and time field to a time. */
function timeOf(local: string | undefined): string | undefined {
  const ms = Date.parse(local ?? '');
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}

export const listed = (text: string | undefined, separator: string): string[] =>
  (text ?? '').split(separator).filter((one) => one !== '');

/** Pairs have the form name=value. */
export const isPair = (text: string): boolean => /^[^=]+=/.test(text);

function metadataOf(text: string | undefined): MessageQuery {
  const pairs = listed(text, '\n').filter(isPair);
  return Object.fromEntries(
    pairs.map((pair) => [`metadata.${pair.slice(0, pair.indexOf('='))}`, pair.slice(pair.indexOf('=') + 1)]),
  );
}

type Search = ReturnType<typeof useSearchState>[0];

function queryOf(search: Search): MessageQuery {
  const { to, from, subject, template } = search;
  const status = STATUSES.find((one) => one === search.status);
  // A filter of its own field outweighs the search field.
  const { text: q, tags, ...typed } = searchTerms(search.q ?? '');
  const tag = [...new Set([...listed(search.tags, ','), ...tags])];
  const times =
    search.range === 'between'
      ? { since: timeOf(search.since), until: timeOf(search.until) }
      : { since: rangeStart(search.range) };
  const fields = Object.fromEntries(Object.entries({ status, to, from, subject, template }).filter(([, one]) => one));
  const query = { q, ...typed, ...fields, tag: tag.length > 0 ? tag : undefined, ...times };
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  return { ...Object.fromEntries(given), ...metadataOf(search.metadata) } as MessageQuery;
}

export function useListQuery() {
  const [search, change] = useSearchState();
  const own = JSON.stringify(ALL.map((name) => search[name] ?? ''));
  const query = useMemo(() => queryOf(search), [own]);
  return {
    search,
    change,
    query,
    isFiltered: ALL.some((name) => Boolean(search[name])),
    clear: () => change(Object.fromEntries(ALL.map((name) => [name, undefined]))),
  };
}
