/** Planted bugs of what the API shows: pages, cursors, searches and statistics. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_READERS: Readonly<Record<string, Planted>> = {
  'a cursor passes over the first row of the next page': {
    file: 'http/paging.ts',
    find: 'const key = stoppedAt ?? (last === undefined ? page.after : keyOf(last));',
    replace: 'const key = stoppedAt ?? (last === undefined ? page.after : keyOf(rows.at(-1)!));',
    finds: /leaves out/,
  },
  'a cursor repeats the last event of the page before': {
    file: 'events/read-store.ts',
    find: "  const [beyond, upTo] = page.order === 'asc' ? (['>', '<='] as const) : (['<', '>='] as const);\n  const bound =",
    replace:
      "  const [beyond, upTo] = page.order === 'asc' ? (['>=', '<='] as const) : (['<', '>='] as const);\n  const bound =",
    finds: /twice/,
  },
  'a follower at the end of the log loses its place': {
    file: 'http/paging.ts',
    find: 'const key = stoppedAt ?? (last === undefined ? page.after : keyOf(last));',
    replace: 'const key = stoppedAt ?? (last === undefined ? undefined : keyOf(last));',
    finds: /the log that was followed/,
  },
  'a search passes over what lies at the end of a part': {
    file: 'messages/api-store.ts',
    find: "add('m.id >= ?', page.lowestId);",
    replace: "add('m.id > ?', page.lowestId);",
    finds: /search for/,
  },
  'a part of an address is compared with its case': {
    file: 'messages/api-store.ts',
    find: 'params.push(...spellings, asciiLower(page.to));',
    replace: 'params.push(...spellings, page.to);',
    finds: /the search for to=/,
  },
  'a search by status finds what had it before': {
    file: 'messages/api-store.ts',
    find: "return `m.status = '${status}'${waits",
    replace: "return `m.status IN ('${status}', 'bounced')${waits",
    finds: /the search for status=/,
  },
  'statistics count a step twice': {
    file: 'statistics/roll-up-store.ts',
    find: 'if (!(await moveCursor(tx, owner, { from, to }))) return false;',
    replace: 'await moveCursor(tx, owner, { from, to: step.isLast ? to : from });',
    finds: /the statistics count/,
  },
  'statistics take a block for a soft bounce': {
    file: 'statistics/counts.ts',
    find: "if (type === 'Bounce') return BOUNCED[detail.bounce?.kind ?? 'soft'];",
    replace: "if (type === 'Bounce') return BOUNCED[detail.bounce?.kind === 'hard' ? 'hard' : 'soft'];",
    finds: /the statistics count/,
  },
  'statistics take a late bounce for none': {
    file: 'statistics/counts.ts',
    find: "  Complaint: 'complained',\n",
    replace: '',
    finds: /the statistics count/,
  },
  'the attempts of a message are shown newest first': {
    file: 'messages/api-store.ts',
    find: "'SELECT record FROM attempt WHERE account_id = ? AND message_id = ? ORDER BY number'",
    replace: "'SELECT record FROM attempt WHERE account_id = ? AND message_id = ? ORDER BY number DESC'",
    finds: /attempts, and has/,
  },
  'a message that was delivered still shows its next attempt': {
    file: 'messages/state-machine.ts',
    find: 'next_attempt_at = made.next_attempt_at,',
    replace: 'next_attempt_at = coalesce(made.next_attempt_at, message.next_attempt_at),',
    finds: /and shows a next attempt/,
  },
  'suppressions that never end are not listed': {
    file: 'suppressions/store.ts',
    find: '`SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND (expires_at IS NULL OR expires_at > ?)\n         AND (created_at < ? OR',
    replace:
      '`SELECT ${COLUMNS} FROM suppression WHERE account_id = ? AND mode = ? AND (expires_at IS NOT NULL OR expires_at > ?)\n         AND (created_at < ? OR',
    finds: /the list of suppressions leaves out/,
  },
};
