/** Planted bugs in what the API returns: pages, cursors, searches and statistics. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_READERS: Readonly<Record<string, Planted>> = {
  'a cursor skips the first row of the next page': {
    file: 'http/paging.ts',
    find: 'const key = stoppedAt ?? (last === undefined ? page.after : keyOf(last));',
    replace: 'const key = stoppedAt ?? (last === undefined ? page.after : keyOf(rows.at(-1)!));',
    finds: /leaves out/,
  },
  'a cursor repeats the last event of the previous page': {
    file: 'events/read-store.ts',
    find: "  const [beyond, upTo] = page.order === 'asc' ? (['>', '<='] as const) : (['<', '>='] as const);\n  const bound =",
    replace:
      "  const [beyond, upTo] = page.order === 'asc' ? (['>=', '<='] as const) : (['<', '>='] as const);\n  const bound =",
    finds: /twice/,
  },
  'a cursor at the end of the log is lost': {
    file: 'http/paging.ts',
    find: 'const key = stoppedAt ?? (last === undefined ? page.after : keyOf(last));',
    replace: 'const key = stoppedAt ?? (last === undefined ? undefined : keyOf(last));',
    finds: /the log that was followed/,
  },
  'a page of messages repeats the last one of the previous page': {
    file: 'messages/api-store.ts',
    find: "add('m.id < ?', page.before);",
    replace: "add('m.id <= ?', page.before);",
    finds: /messages shows \d+ messages twice/,
  },
  'partial address search is case-sensitive': {
    file: 'storage/text-filter.ts',
    find: 'const wanted = asciiLower(part);',
    replace: 'const wanted = part;',
    finds: /the search for to=/,
  },
  'search by status matches earlier statuses': {
    file: 'messages/api-store.ts',
    find: "return `m.status = '${status}'${waits",
    replace: "return `m.status IN ('${status}', 'bounced')${waits",
    finds: /the search for status=/,
  },
  'statistics skip the event after each batch': {
    file: 'statistics/roll-up-store.ts',
    find: 'return { owner, from, to: { position, seq }, events,',
    replace: 'return { owner, from, to: { position, seq: seq + 1 }, events,',
    finds: /the statistics count/,
  },
  'statistics count a block as a soft bounce': {
    file: 'statistics/counts.ts',
    find: "if (type === 'Bounce') return BOUNCED[detail.bounce?.kind ?? 'soft'];",
    replace: "if (type === 'Bounce') return BOUNCED[detail.bounce?.kind === 'hard' ? 'hard' : 'soft'];",
    finds: /the statistics count/,
  },
  'statistics ignore late bounces': {
    file: 'statistics/counts.ts',
    find: "  Complaint: 'complained',\n",
    replace: '',
    finds: /the statistics count/,
  },
  'attempts of a message are listed newest first': {
    file: 'messages/api-store.ts',
    find: "'SELECT record FROM attempt WHERE account_id = ? AND message_id = ? ORDER BY number'",
    replace: "'SELECT record FROM attempt WHERE account_id = ? AND message_id = ? ORDER BY number DESC'",
    finds: /attempts, and has/,
  },
  'a timeline is cut after three events': {
    file: 'events/read-store.ts',
    find: 'AND v.account_id = ? AND v.mode = ? ORDER BY v.seq`,',
    replace: 'AND v.account_id = ? AND v.mode = ? ORDER BY v.seq LIMIT 3`,',
    finds: /the timeline of/,
  },
  'suppressions without an expiry are not listed': {
    file: 'suppressions/store.ts',
    find: '`SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND (expires_at IS NULL OR expires_at > ?)\n         AND (created_at < ? OR',
    replace:
      '`SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND (expires_at IS NOT NULL OR expires_at > ?)\n         AND (created_at < ? OR',
    finds: /the list of suppressions leaves out/,
  },
};
