/** A random mix of events of every type, for messages with and without tags and templates, some of them days late. */
import { iso } from '../../src/base/clock.ts';
import { newId } from '../../src/base/ids.ts';
import type { Mode } from '../../src/base/mode.ts';
import { appendEvents, type EventType, eventBody, type NewEvent } from '../../src/events/events.ts';
import { readEventsOperation } from '../../src/events/read-store.ts';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import type { Database } from '../../src/storage/database.ts';
import { eachCall, type Transaction } from '../../src/storage/operation.ts';
import { openDirect } from '../../src/storage/sqlite/connection.ts';
import type { JsonObject } from './api.ts';
import { seedMail } from './seed-mail.ts';
import type { TempDatabase } from './temp-database.ts';

export interface EventMix {
  /** Adds a message with its Send event; returns its id. */
  addMessage(accountId: string, mode: Mode): Promise<string>;
  /** Appends this many events of existing messages in one transaction. */
  append(events: number): Promise<void>;
  templateOf(messageId: string): string;
  /** Runs a function in its own write transaction. */
  write<R>(run: (tx: Transaction) => Promise<R> | R): Promise<R>;
  close(): Promise<void>;
}

interface Mailed {
  accountId: string;
  mode: Mode;
  messageId: string;
  templateId: string | null;
}

const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;
const TAGS = [[], ['order'], ['order', 'night'], ['receipt'], ['order', 'order', 'b_2']];
const DOMAINS = [
  'example.com',
  'EXAMPLE.com',
  'mail.example.net',
  'xn--strae-oqa.example',
  'gmail.com',
  'Gmail.com',
  'web.de',
  'gmx.at',
];
const TYPES = [
  'Delivery',
  'Delivery',
  'DeliveryDelay',
  'Bounce',
  'Reject',
  'Complaint',
  'Open',
  'Click',
  'Unsubscribe',
];

/** From a millisecond to three days, each order of magnitude equally likely. */
const latency = (): number => (Math.random() < 0.05 ? 0 : Math.round(10 ** (Math.random() * 8.4)));

function detailOf(type: EventType): Record<string, unknown> {
  if (type === 'Delivery') return { delivery: { remoteHost: 'mx.example.com', latencyMs: latency() } };
  if (type === 'Bounce') return { bounce: { kind: pick(['hard', 'soft', 'block']), category: 'blocked' } };
  if (type === 'Reject') return { reject: { reason: pick(['suppressed', 'cancelled']) } };
  return {};
}

export interface Log {
  accountId: string;
  mode: Mode;
}

/** Returns the account's log as `GET /events` shows it. */
export async function logOf(database: Database, { accountId, mode }: Log): Promise<JsonObject[]> {
  const rows = await database.execute(readEventsOperation, {
    accountId,
    mode,
    order: 'desc',
    after: null,
    limit: 1_000_000,
    messageId: null,
    sinceMs: null,
    untilMs: null,
  });
  return rows.map(eventBody);
}

/** Times are in the days before `nowMs`; `temp` is written over a separate connection. */
export function eventMix(temp: TempDatabase, { nowMs, days }: { nowMs: number; days: number }): EventMix {
  const isServer = temp.database.dialect === 'postgres';
  const writer: Database = isServer ? temp.database : openDirect(dataDirectory(temp.folder).databaseFile);
  const mails: Mailed[] = [];
  const time = (): number => nowMs - Math.floor(Math.random() ** 3 * days * 86_400_000);
  const write = <R>(run: (tx: Transaction) => Promise<R> | R): Promise<R> =>
    writer.execute({ name: 'test.once', mode: 'write', run: eachCall<null, R>(run) }, null);
  return {
    write,
    addMessage: async (accountId, mode) => {
      const templateId = pick([null, 'tpl_a', 'tpl_b']);
      const email = { templateId, templateVersion: templateId === null ? null : 1 };
      const recipients = [`${newId('msg')}@${pick(DOMAINS)}`];
      const made = await seedMail(temp.database, {
        accountId,
        mode,
        nowMs: time(),
        tags: pick(TAGS),
        recipients,
        email,
      });
      const { messageId } = made.recipients[0]!;
      mails.push({ accountId, mode, messageId, templateId });
      return messageId;
    },
    append: async (events) => {
      const made = Array.from({ length: events }, (): NewEvent => {
        const { accountId, mode, messageId } = pick(mails);
        const type = pick(TYPES) as EventType;
        return { id: newId('evt'), type, accountId, mode, messageId, at: time(), detail: detailOf(type) };
      });
      await write((tx) => appendEvents(tx, made));
    },
    templateOf: (messageId) => mails.find((one) => one.messageId === messageId)?.templateId ?? '',
    close: async () => {
      if (!isServer) await writer.close();
    },
  };
}

/** Returns a query for all of these days. */
export function spanOf({ nowMs, days }: { nowMs: number; days: number }): string {
  return `since=${iso(nowMs - days * 86_400_000)}&until=${iso(nowMs + 1)}`;
}
