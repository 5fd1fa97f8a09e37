/** Planted bugs that need several nodes on a shared database. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_NODES: Readonly<Record<string, Planted>> = {
  'a node that lost power holds the migration lock': {
    file: 'storage/postgres/migrate.ts',
    find: '; SET LOCAL idle_in_transaction_session_timeout = ${IDLE_MS}',
    replace: '',
    finds: /not come to its end/,
  },
  'a claim takes work that another node has leased': {
    file: 'work/store.ts',
    find: 'held = 0 AND due <= ${now.sql} ${since.sql} AND ${condition}',
    replace: 'held = 0 AND (due <= ${now.sql} OR leased > 0) ${since.sql} AND ${condition}',
    finds: /another copy after/,
  },
  'leases expire by the local clock': {
    file: 'storage/operation.ts',
    find: "? { sql: '(SELECT now_ms())', params: [] }",
    replace: "? { sql: 'CAST(? AS BIGINT)', params: [Date.now()] }",
    finds: /another copy after|not come to its end/,
  },
  'work that is passed in memory is not leased': {
    file: 'work/enqueue.ts',
    find: '      due: row.dueMs,\n      leased: row.isLeased ? LEASED.taken : LEASED.free,',
    replace: '      due: row.isLeased ? 0 : row.dueMs,\n      leased: LEASED.free,',
    finds: /another copy after/,
  },
  'the idempotency record is not part of the transaction': {
    file: 'send/acceptance.ts',
    find: 'insertMany(tx, IDEMPOTENCY, rows.records),',
    replace: "tx.dialect === 'postgres' ? [] : insertMany(tx, IDEMPOTENCY, rows.records),",
    finds: /^key .* messages to/,
  },
  'idempotency keys are unique per node only': {
    file: 'send/acceptance.ts',
    find: 'if (text !== undefined && inUse.has(text)) return notStored();',
    replace: 'if (inUse.has(text) && calls.length > 1) return notStored();',
    also: {
      file: 'send/acceptance.ts',
      find: 'insertMany(tx, IDEMPOTENCY, rows.records),',
      replace: "insertMany(tx, IDEMPOTENCY, rows.records, 'ON CONFLICT DO NOTHING'),",
    },
    finds: /^key .* messages to/,
  },
  'a result is recorded although its lease was lost': {
    file: 'work/store.ts',
    find: 'return [...bySeq].flatMap(([seq, { one }]) => (ended.has(seq) || moved.has(seq) ? [one] : []));',
    replace: 'return [...bySeq].map(([, { one }]) => one);',
    finds: /result could not be recorded|another copy after/,
  },
  'a node that lost its lease continues to the final dot': {
    file: 'delivery/attempt/attempt.ts',
    find: "const holds = (): boolean => group.every((item) => item.state !== 'running' || engine.holds(item));",
    replace: 'const holds = (): boolean => true;',
    finds: /another copy after|and it counts/,
  },
  'work of a dead node is never taken over': {
    file: 'work/store.ts',
    find: "${options.freeOnly ? `AND leased = ${LEASED.free}` : ''}",
    replace: "${tx.dialect === 'postgres' ? `AND leased = ${LEASED.free}` : ''}",
    finds: /not come to its end/,
  },
  'pauses are not shared between nodes': {
    file: 'delivery/destinations/shared-pauses.ts',
    find: '    if (unwritten.has(destination)) return;\n',
    replace: '    if (isLoaded) return;\n',
    finds: /it asked for|its time is over|^left at/,
  },
  'each node has the full connection limit of a destination': {
    file: 'delivery/destinations/limits.ts',
    find: 'if (share === 1) return limits;',
    replace: 'if (share <= 1) return limits;',
    finds: /of a node whose share is/,
  },
  'due work without a notification is not polled': {
    file: 'work/engine.ts',
    find: "await this.#wakeUp.sleep(this.#pollMs, 'nudge');",
    replace: "await this.#wakeUp.sleep(2_147_483_647, 'nudge');",
    finds: /not come to its end/,
  },
};
