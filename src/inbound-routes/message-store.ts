/**
 * Stores the messages of inbound routes with their event data. A message is recorded once, in one transaction with its event, its webhooks,
 * and the deletion of its work row. The bytes stay in src/inbound until their content expires. The text is then removed from the record,
 * and the remaining record and the event are kept as long as other events. Retention uses real time in both modes.
 */
import { timeOfId } from '../base/ids.ts';
import type { Mode, Owner } from '../base/mode.ts';
import { appendEvents, inboundTopic } from '../events/events.ts';
import type {
  InboundLease,
  keepInboundOperation,
  NewInbound,
  RecordedFindings,
  removeRecordedOperation,
  storeKeptOperation,
} from '../inbound/inbound.ts';
import { parseAddress, sameAddressKey } from '../mail/address.ts';
import { batch, findOperation, operation, runWithin, type Transaction } from '../storage/operation.ts';
import { insertMany, rowset, table } from '../storage/rows.ts';

// Imported individually: the index of src/inbound would load more modules than a database thread needs.
const inboundOperations = {
  end: () => findOperation('inbound.keep') as typeof keepInboundOperation,
  store: () => findOperation('inbound.storeKept') as typeof storeKeptOperation,
  remove: () => findOperation('inbound.removeRecorded') as typeof removeRecordedOperation,
};

/** Whether a message caused an event, or the reason why not: an event would cause a loop. */
export type InboundOutcome = 'event' | 'auto-reply' | 'own-mail' | 'too-many-hops';

const INBOUND_MESSAGE = table('inbound_message', {
  id: 'text',
  accountId: 'text',
  mode: 'text',
  routeId: 'text',
  outcome: 'text',
  receivedAt: 'int',
  envelopeFrom: 'text',
  recipient: 'text',
  headerFrom: 'text',
  subject: 'text',
  sizeBytes: 'int',
  inReplyTo: 'text?',
  toEvents: 'int',
  detail: 'text',
  files: 'text',
  hasContent: 'int',
});

/** A parsed message that is about to be recorded. */
export interface ReadInbound {
  id: string;
  accountId: string;
  mode: Mode;
  routeId: string;
  /** Unix ms, by the clock of its mode. */
  receivedAtMs: number;
  envelopeFrom: string;
  recipient: string;
  headerFrom: string;
  subject: string;
  sizeBytes: number;
  /** Content of the event, without `inReplyTo`. */
  content: Record<string, unknown>;
  /** JSON of MailFile[]. */
  files: string;
  eventId: string;
  /**
   * The reason to create no event, if it is known without a query. If null, an event is created unless the account sent the message itself.
   */
  dropped: Exclude<InboundOutcome, 'event' | 'own-mail'> | null;
  headerMessageId: string | null;
  /** Message-IDs that the message replies to, the nearest first. */
  references: readonly string[];
  /** The messageId after the + in the local part of the address. */
  namedMessageId: string | null;
}

interface Recorded {
  id: string;
  outcome: InboundOutcome;
  inReplyTo: string | null;
  eventId: string | null;
}

/** Returns the messages that the account sent with this Message-ID, those of the newest email first. */
async function messagesWith(
  tx: Transaction,
  { accountId, mode }: ReadInbound,
  headerMessageId: string,
): Promise<{ id: string; recipient: string }[]> {
  return tx.all(
    `SELECT m.id, m.recipient FROM email e JOIN message m ON m.account_id = e.account_id AND m.mode = e.mode AND m.email_seq = e.seq
     WHERE substr(e.header_message_id, 1, 200) = substr(CAST(? AS TEXT), 1, 200) AND e.header_message_id = ?
       AND e.account_id = ? AND e.mode = ? ORDER BY e.seq DESC, m.id LIMIT 50`,
    headerMessageId,
    headerMessageId,
    accountId,
    mode,
  );
}

/**
 * Returns whether the account sent this message and it has looped back. A message that was sent to this address exactly once was only
 * delivered.
 */
async function hasLoopedBack(tx: Transaction, mail: ReadInbound): Promise<boolean> {
  const sent = mail.headerMessageId === null ? [] : await messagesWith(tx, mail, mail.headerMessageId);
  const address = sameAddressKey(mail.recipient);
  return sent.length > 0 && sent.filter(({ recipient }) => sameAddressKey(recipient) === address).length !== 1;
}

/** Returns the id of the sent message with the first known Message-ID of the references; null if none is known. */
async function repliedByReference(tx: Transaction, mail: ReadInbound): Promise<string | null> {
  for (const reference of mail.references) {
    const found = await messagesWith(tx, mail, reference);
    // If the email had several recipients, the message to the recipient who replies is preferred.
    const own = sentTo(found, mail.envelopeFrom) ?? sentTo(found, addressOf(mail.headerFrom)) ?? found[0];
    if (own) return own.id;
  }
  return null;
}

/** Some servers rewrite the envelope sender, for example with SRS; the From header then still has the address of the sender. */
function addressOf(headerFrom: string): string {
  const from = parseAddress(headerFrom);
  return from.ok ? from.value.address : '';
}

function sentTo<T extends { recipient: string }>(messages: readonly T[], address: string): T | undefined {
  const key = sameAddressKey(address);
  return address === '' ? undefined : messages.find(({ recipient }) => sameAddressKey(recipient) === key);
}

async function repliedMessage(tx: Transaction, mail: ReadInbound): Promise<string | null> {
  const named =
    mail.namedMessageId === null
      ? undefined
      : await tx.get<{ id: string }>(
          'SELECT id FROM message WHERE account_id = ? AND mode = ? AND id = ?',
          mail.accountId,
          mail.mode,
          mail.namedMessageId,
        );
  return named?.id ?? repliedByReference(tx, mail);
}

/** `acceptedMs` is the real time of acceptance, in Unix ms: the clock of a sandbox can be years ahead. */
async function recordOne(tx: Transaction, mail: ReadInbound, acceptedMs: number): Promise<Recorded> {
  const { id, accountId, mode, routeId, recipient, subject, headerFrom } = mail;
  const inReplyTo = await repliedMessage(tx, mail);
  const outcome = mail.dropped ?? ((await hasLoopedBack(tx, mail)) ? 'own-mail' : 'event');
  const route = await tx.get<{ events: number; webhookId: string | null }>(
    'SELECT events, webhook_id AS "webhookId" FROM inbound_route WHERE id = ?',
    routeId,
  );
  const at = mail.receivedAtMs;
  const own = { recipient, from: headerFrom, subject, tags: [], metadata: {} };
  await insertMany(tx, INBOUND_MESSAGE, [
    {
      id,
      accountId,
      mode,
      routeId,
      outcome,
      receivedAt: acceptedMs,
      envelopeFrom: mail.envelopeFrom,
      recipient,
      headerFrom,
      subject,
      sizeBytes: mail.sizeBytes,
      inReplyTo,
      toEvents: route?.events ?? 0,
      files: mail.files,
      hasContent: 1,
      detail: JSON.stringify({ ...own, inbound: { ...mail.content, inReplyTo } }),
    },
  ]);
  if (outcome !== 'event') return { id, outcome, inReplyTo, eventId: null };
  const topics = [...(route?.events === 1 ? ['Inbound'] : []), ...(route?.webhookId ? [inboundTopic(routeId)] : [])];
  await appendEvents(tx, [
    { id: mail.eventId, type: 'Inbound', accountId, mode, messageId: id, at, detail: own, topics },
  ]);
  return { id, outcome, inReplyTo, eventId: mail.eventId };
}

export interface RecordedInbound extends RecordedFindings {
  outcomes: InboundOutcome[];
}

/** Records messages whose work rows are still leased. */
export const recordInboundOperation = batch(
  'inboundRoutes.record',
  'write',
  async (tx, calls: readonly { lease: InboundLease; mail: ReadInbound }[][]): Promise<RecordedInbound[]> => {
    const results: RecordedInbound[] = [];
    for (const found of calls) {
      const leases = found.map(({ lease }) => lease);
      const lost = await runWithin(tx, inboundOperations.end(), leases);
      const outcomes: InboundOutcome[] = [];
      for (const { lease, mail } of found)
        if (!lost.includes(lease.seq)) outcomes.push((await recordOne(tx, mail, mail.receivedAtMs)).outcome);
      results.push({ lost, blobKeys: [], outcomes });
    }
    return results;
  },
);

export const simulateInboundOperation = operation(
  'inboundRoutes.simulate',
  'write',
  async (tx, { stored, mail }: { stored: NewInbound; mail: ReadInbound }): Promise<Recorded> => {
    await runWithin(tx, inboundOperations.store(), stored);
    return recordOne(tx, mail, stored.nowMs);
  },
);

export interface InboundMessage {
  id: string;
  accountId: string;
  mode: Mode;
  routeId: string;
  outcome: InboundOutcome;
  /** Unix ms, by the clock of its mode. */
  receivedAt: number;
  envelopeFrom: string;
  recipient: string;
  headerFrom: string;
  subject: string;
  sizeBytes: number;
  inReplyTo: string | null;
  /** JSON of MailFile[]. */
  files: string;
  hasContent: number;
}

const COLUMNS = `i.id, i.account_id AS "accountId", i.mode, i.route_id AS "routeId", i.outcome, i.received_at AS "receivedAt",
  i.envelope_from AS "envelopeFrom", i.recipient, i.header_from AS "headerFrom", i.subject, i.size_bytes AS "sizeBytes",
  i.in_reply_to AS "inReplyTo", i.files, i.has_content AS "hasContent"`;

/** The row has the real time. The id of a sandbox message has the time of the sandbox clock. */
function shown<R extends InboundMessage>(row: R): R {
  return row.mode === 'sandbox' ? { ...row, receivedAt: timeOfId(row.id) ?? row.receivedAt } : row;
}

export interface InboundPage extends Owner {
  before: string | null;
  limit: number;
  routeId: string | null;
  outcome: InboundOutcome | null;
}

/** Lists messages, newest first. */
export const listInboundOperation = operation('inboundRoutes.listMail', 'read', async (tx, page: InboundPage) => {
  const { accountId, mode, before, routeId, outcome, limit } = page;
  const rows = await tx.all<InboundMessage>(
    `SELECT ${COLUMNS} FROM inbound_message i WHERE i.account_id = ? AND i.mode = ? AND i.id < ?
       AND i.route_id = coalesce(CAST(? AS TEXT), i.route_id) AND i.outcome = coalesce(CAST(? AS TEXT), i.outcome)
     ORDER BY i.id DESC LIMIT ?`,
    accountId,
    mode,
    before ?? 'inb_~',
    routeId,
    outcome,
    limit,
  );
  return rows.map(shown);
});

interface FoundInboundMessage extends InboundMessage {
  /** JSON of the content of its event. */
  detail: string;
  eventId: string | null;
}

/** Finds a message of any account, with the content of its event. Callers have the id from a signed link, or must compare the account. */
export const findInboundMessageOperation = operation(
  'inboundRoutes.findMail',
  'read',
  async (tx, id: string): Promise<FoundInboundMessage | undefined> => {
    const row = await tx.get<FoundInboundMessage>(
      `SELECT ${COLUMNS}, i.detail, (SELECT v.id FROM event v WHERE v.message_id = i.id AND v.account_id = i.account_id
         AND v.mode = i.mode AND v.type = 'Inbound') AS "eventId" FROM inbound_message i WHERE i.id = ?`,
      id,
    );
    return row && shown(row);
  },
);

/** Returns the part of a record that is kept after the content expires. */
function withoutContent(detail: string): string {
  const { inbound, ...own } = JSON.parse(detail) as { inbound: Record<string, unknown> };
  const removed = { headers: [], text: null, html: null, replyText: null, attachments: [] };
  return JSON.stringify({ ...own, inbound: { ...inbound, ...removed } });
}

export interface InboundBatch {
  beforeMs: number;
  limit: number;
}

/** Removes the content of messages received before this time from their records. Returns the number of messages. */
export const forgetInboundOperation = operation(
  'inboundRoutes.forgetContent',
  'write',
  async (tx, { beforeMs, limit }: InboundBatch): Promise<number> => {
    const rows = await tx.all<{ id: string; detail: string }>(
      'SELECT id, detail FROM inbound_message WHERE has_content = 1 AND received_at < ? ORDER BY received_at LIMIT ?',
      beforeMs,
      limit,
    );
    const changed = rows.map(({ id, detail }) => ({ id, detail: withoutContent(detail) }));
    const requested = rowset(tx, 'requested', { id: 'text', detail: 'text' }, changed);
    await tx.run(
      `UPDATE inbound_message SET detail = requested.detail, has_content = 0 FROM ${requested.sql} WHERE inbound_message.id = requested.id`,
      ...requested.params,
    );
    return rows.length;
  },
);

/**
 * Deletes the records of messages received before this time, with their events and the bytes that are still stored. Returns the number of
 * records, and the blobs that no row refers to anymore.
 */
export const removeInboundMessagesOperation = operation(
  'inboundRoutes.removeMail',
  'write',
  async (tx, { beforeMs, limit }: InboundBatch): Promise<{ count: number; blobKeys: string[] }> => {
    const rows = await tx.all<{ id: string; account_id: string; mode: Mode }>(
      `DELETE FROM inbound_message WHERE id IN
         (SELECT id FROM inbound_message WHERE received_at < ? ORDER BY received_at LIMIT ?) RETURNING id, account_id, mode`,
      beforeMs,
      limit,
    );
    for (const { id, account_id, mode } of rows)
      await tx.run('DELETE FROM event WHERE message_id = ? AND account_id = ? AND mode = ?', id, account_id, mode);
    const ids = rows.map(({ id }) => id);
    return { count: rows.length, blobKeys: await runWithin(tx, inboundOperations.remove(), ids) };
  },
);
