/** Planted bugs that only overlapping transactions or a change of the primary can show. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_OVERLAPPING: Readonly<Record<string, Planted>> = {
  'a claim does not lock the selected rows': {
    file: 'work/store.ts',
    find: "${options.freeOnly ? `AND leased = ${LEASED.free}` : ''} ORDER BY due LIMIT ? ${skipLocked(tx)}",
    replace: "${options.freeOnly ? `AND leased = ${LEASED.free}` : ''} ORDER BY due LIMIT ?",
  },
  'nodes wait for row locks of each other': {
    file: 'nodes/nodes.ts',
    find: 'WHERE seen_at <= ? ${skipLocked(tx)}',
    replace: 'WHERE seen_at <= ?',
    finds: /a deadlock: DELETE FROM node/,
  },
};
