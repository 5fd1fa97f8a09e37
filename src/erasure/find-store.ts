/**
 * Finds the rows that an erasure removes or changes. There is no index of recipients, because every send would have to maintain it: the
 * rows of the account are read in the order of their key, a limited number at a time, by the reader for searches.
 */
import type { Mode } from '../base/mode.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { createMentions, type Mentions } from './mentions.ts';

export type Key = readonly (string | number)[];

export interface Look {
  accountId: string;
  mode: Mode;
  /** The address in the spelling of the request. */
  address: string;
  /** Key of the last row that was examined; null at the start. */
  after: Key | null;
  /** Rows to examine. */
  rows: number;
  /** Rows to find. */
  limit: number;
}

/** The rows that were found, and where to continue; null at the end. */
interface Found<R> {
  found: R[];
  after: Key | null;
}

/** Filters rows in order until `limit` match; `keyOf` returns the key of a row. */
function select<R, F>(
  { after, rows: requested, limit }: Look,
  rows: readonly R[],
  of: { keyOf(row: R): Key; find(row: R): F | undefined },
): Found<F> {
  const found: F[] = [];
  let last = after;
  for (const row of rows) {
    const one = of.find(row);
    if (one !== undefined) found.push(one);
    last = of.keyOf(row);
    if (found.length >= limit) return { found, after: last };
  }
  return { found, after: rows.length < requested ? null : last };
}

export interface FoundMessage {
  id: string;
  emailSeq: number;
  /** The message is the recipient's own; if not, its email names the address in its header, its subject, or its metadata. */
  isOwn: boolean;
}

interface ScannedMessage {
  id: string;
  emailSeq: number;
  recipient: string;
  dsn: string | null;
  headerTo: string;
  subject: string;
  metadata: string;
  emailDsn: string | null;
}

export const findMessagesOperation = operation(
  'erasure.findMessages',
  'search',
  async (tx, look: Look): Promise<Found<FoundMessage>> => {
    const { accountId, mode, after, rows } = look;
    const mentions = createMentions(look.address);
    const scanned = await tx.all<ScannedMessage>(
      `SELECT m.id, m.email_seq AS "emailSeq", m.recipient, m.dsn, e.header_to AS "headerTo", e.subject, e.metadata, e.dsn AS "emailDsn"
       FROM message m JOIN email e ON e.seq = m.email_seq
       WHERE m.account_id = ? AND m.mode = ? AND m.id > ? ORDER BY m.id LIMIT ?`,
      accountId,
      mode,
      after?.[0] ?? '',
      rows,
    );
    const emails = new Set<number>();
    return select(look, scanned, {
      keyOf: ({ id }) => [id],
      find: ({ id, emailSeq, ...row }) => {
        const isOwn = mentions.isAddress(row.recipient);
        // One of the copies of an email is sufficient to clean it.
        if (!isOwn && emails.has(emailSeq)) return undefined;
        const isNamed = [row.headerTo, row.subject, row.metadata, row.emailDsn, row.dsn].some((text) =>
          mentions.has(text),
        );
        if (!isOwn && !isNamed) return undefined;
        emails.add(emailSeq);
        return { id, emailSeq, isOwn };
      },
    });
  },
);

/** SQL: the row of inbound mail has no record. */
export const WITHOUT_RECORD = `(status <> 'kept' OR NOT EXISTS (SELECT 1 FROM inbound_message i WHERE i.id = inbound_mail.id))`;

/**
 * Finds inbound mail from or to the address that has no record: it waits, Postrider could not process it, or its record was deleted before
 * its bytes.
 */
export const findReceivingOperation = operation(
  'erasure.findReceiving',
  'search',
  async (tx, look: Look): Promise<Found<{ id: string }>> => {
    const mentions = createMentions(look.address);
    const scanned = await tx.all<{ id: string; isFound: number; envelopeFrom: string; recipient: string }>(
      // The status is after the content in a row, so only that of the account's own mail is read.
      `SELECT id, CASE WHEN account_id = ? AND mode = ? THEN CASE WHEN ${WITHOUT_RECORD} THEN 1 ELSE 0 END ELSE 0 END AS "isFound",
         envelope_from AS "envelopeFrom", recipient
       FROM inbound_mail WHERE id > ? ORDER BY id LIMIT ?`,
      look.accountId,
      look.mode,
      look.after?.[0] ?? '',
      look.rows,
    );
    return select(look, scanned, {
      keyOf: ({ id }) => [id],
      find: ({ id, isFound, ...row }) => {
        if (isFound === 0) return undefined;
        return [row.envelopeFrom, row.recipient].some((text) => mentions.isAddress(text)) ? { id } : undefined;
      },
    });
  },
);

export const findInboundOperation = operation(
  'erasure.findInbound',
  'search',
  async (tx, look: Look): Promise<Found<{ id: string }>> => {
    const { accountId, mode, after, rows } = look;
    const mentions = createMentions(look.address);
    const scanned = await tx.all<{ id: string; envelopeFrom: string; recipient: string; headerFrom: string }>(
      `SELECT id, envelope_from AS "envelopeFrom", recipient, header_from AS "headerFrom" FROM inbound_message
       WHERE account_id = ? AND mode = ? AND id > ? ORDER BY id LIMIT ?`,
      accountId,
      mode,
      after?.[0] ?? '',
      rows,
    );
    return select(look, scanned, {
      keyOf: ({ id }) => [id],
      find: ({ id, ...row }) =>
        [row.envelopeFrom, row.recipient, row.headerFrom].some((text) => mentions.isAddress(text)) ? { id } : undefined,
    });
  },
);

/** A table whose texts may mention the address. */
export interface TextTable {
  name: string;
  /** SQL for the rows of an account and mode. */
  owned: string;
  /** Columns of the key. */
  key: readonly string[];
  /** Columns that may mention the address. */
  texts: readonly string[];
  /** A row whose key or whose text mentions the address is deleted; otherwise its texts are changed. */
  isDeleted: boolean;
}

export const TEXT_TABLES = {
  // Rows of successful requests contain no text of the request except a user agent without addresses.
  refusedRequests: {
    name: 'request_log',
    owned: 'account_id = ? AND mode = ? AND status >= 400',
    key: ['at', 'number', 'request_id'],
    texts: ['message', 'details', 'call'],
    isDeleted: true,
  },
  // A stored response prevents a second send, so it is kept without the address.
  responses: {
    name: 'idempotency',
    owned: 'account_id = ? AND mode = ?',
    key: ['endpoint', 'key'],
    texts: ['body'],
    isDeleted: false,
  },
  agentRequests: {
    name: 'agent_request',
    owned: 'account_id = ? AND mode = ?',
    key: ['id'],
    texts: ['call', 'result'],
    isDeleted: true,
  },
  savedFilters: {
    name: 'saved_filter',
    owned: 'account_id = ? AND mode = ?',
    key: ['id'],
    texts: ['name', 'query'],
    isDeleted: true,
  },
  webhookDeliveries: {
    name: 'webhook_delivery',
    owned: 'webhook_id IN (SELECT id FROM webhook WHERE account_id = ? AND mode = ?)',
    key: ['webhook_id', 'id'],
    texts: ['response_start', 'error', 'url', 'attempt_log'],
    isDeleted: false,
  },
} as const satisfies Record<string, TextTable>;
export type TextPart = keyof typeof TEXT_TABLES;

/** Whether a column of a row mentions the address. */
export function isMentioned(mentions: Mentions, row: Readonly<Record<string, unknown>>, columns: readonly string[]) {
  return columns.some((column) => typeof row[column] === 'string' && mentions.has(row[column]));
}

export const findTextsOperation = operation(
  'erasure.findTexts',
  'search',
  async (tx, { part, ...look }: Look & { part: TextPart }): Promise<Found<Key>> => {
    const { owned, name, key, texts }: TextTable = TEXT_TABLES[part];
    const mentions = createMentions(look.address);
    const columns = [...key, ...texts].join(', ');
    const rows =
      part === 'webhookDeliveries'
        ? await deliveries(tx, look, columns)
        : await tx.all<TextRow>(...afterKey(look, `SELECT ${columns} FROM ${name} WHERE ${owned}`, key));
    const keyOf = (row: TextRow): Key => key.map((column) => row[column]!);
    return select(look, rows, {
      keyOf,
      find: (row) => (isMentioned(mentions, row, [...key, ...texts]) ? keyOf(row) : undefined),
    });
  },
);

type TextRow = Record<string, string | number>;

function afterKey(
  { accountId, mode, after, rows }: Look,
  sql: string,
  key: readonly string[],
): [sql: string, ...params: SqlValue[]] {
  const columns = key.join(', ');
  const condition = after === null ? '' : `AND (${columns}) > (${key.map(() => '?').join(', ')})`;
  return [`${sql} ${condition} ORDER BY ${columns} LIMIT ?`, accountId, mode, ...(after ?? []), rows];
}

/** Reads the records of one webhook after the other, each a range of the table's key. */
async function deliveries(
  tx: Transaction,
  { accountId, mode, after, rows: limit }: Look,
  columns: string,
): Promise<TextRow[]> {
  const [fromWebhook = '', afterId = ''] = (after ?? []) as [string?, string?];
  const webhooks = await tx.all<{ id: string }>(
    'SELECT id FROM webhook WHERE account_id = ? AND mode = ? AND id >= ? ORDER BY id',
    accountId,
    mode,
    fromWebhook,
  );
  const rows: TextRow[] = [];
  for (const { id } of webhooks) {
    if (rows.length >= limit) break;
    const found = await tx.all<TextRow>(
      `SELECT ${columns} FROM webhook_delivery WHERE webhook_id = ? AND id > ? ORDER BY id LIMIT ?`,
      id,
      id === fromWebhook ? afterId : '',
      limit - rows.length,
    );
    rows.push(...found);
  }
  return rows;
}
