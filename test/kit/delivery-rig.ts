/**
 * A delivery with all its dependencies except the acceptance: a real database, blobs on disk, and a sink as relay by default. Messages are
 * stored by the real acceptance transaction, and then dispatched or left to be claimed.
 */
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Clock } from '../../src/base/clock.ts';
import { newId } from '../../src/base/ids.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Mode } from '../../src/base/mode.ts';
import { type Delivery, type DeliveryDeps, type Routing, startDelivery } from '../../src/delivery/delivery.ts';
import { type DeliveryJob, type EmailOptions, RETAIN_MS, type Retain } from '../../src/messages/messages.ts';
import { openDns } from '../../src/net/dns.ts';
import { openSourceAddresses } from '../../src/net/source-addresses.ts';
import { type AcceptedEmail, acceptOperation } from '../../src/send/acceptance.ts';
import type { Blobs } from '../../src/storage/blobs/blobs.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import { LEASE_MS } from '../../src/work/work.ts';
import { type FakeClock, fakeClock } from './fake-clock.ts';
import { type TempDatabase, tempDatabase } from './temp-database.ts';

export interface RigMail {
  to: string[];
  accountId?: string;
  mode?: Mode;
  source?: 'http' | 'smtp';
  from?: string;
  content?: string;
  options?: Partial<EmailOptions>;
  lifetimeMs?: number;
  sendAtMs?: number;
  retain?: Retain;
  /** Stores the content in a blob; the recorded size may differ. */
  blob?: boolean;
  sizeBytes?: number;
  /** Called between the transaction that leases a message and its dispatch. */
  beforeDispatch?: () => void;
}

export interface RigEvent {
  type: string;
  messageId: string;
  at: number;
  detail: Record<string, Record<string, unknown>>;
}

export interface Rig {
  storage: TempDatabase;
  clock: FakeClock;
  blobs: Blobs;
  delivery: Delivery;
  /** Stores an email without dispatching it; returns the ids of its messages. */
  store(mail: RigMail): Promise<string[]>;
  send(mail: RigMail): Promise<string[]>;
  /** Stops the current delivery, if running, and starts another one with the same data. */
  restart(deps?: Partial<DeliveryDeps>): Promise<void>;
  status(messageId: string): string;
  events(messageId?: string): RigEvent[];
  attempts(messageId: string): { number: number; outcome: string; reply: string; host: string }[];
  /** Returns rows of a query over a separate connection. */
  rows<T = Record<string, unknown>>(sql: string, ...params: (string | number)[]): T[];
  /** Changes the data over a separate connection. */
  tamper(sql: string, ...params: (string | number)[]): void;
  close(): Promise<void>;
}

export interface RigOptions {
  /** Port of a relay on loopback. */
  relayPort?: number;
  routing?: Partial<Routing>;
  deps?: Partial<DeliveryDeps>;
  /** Do not start the delivery until restart(). */
  idle?: boolean;
  clock?: Clock;
}

const LIFETIME_MS = 72 * 3_600_000;

function emailOf(mail: RigMail, stored: { nowMs: number; content: Buffer; blobKey: string | null }): AcceptedEmail {
  const { nowMs, content, blobKey } = stored;
  const from = mail.from ?? 'Shop <orders@shop.example>';
  const options: EmailOptions = {
    requireTls: false,
    smtpUtf8: false,
    eightBit: false,
    expiresAfterSeconds: (mail.lifetimeMs ?? LIFETIME_MS) / 1000,
    ...mail.options,
  };
  return {
    headerFrom: from,
    headerTo: JSON.stringify({ to: mail.to, cc: [] }),
    envelopeFrom: /<(.*)>/.exec(from)?.[1] ?? from,
    subject: 'Hello',
    headerMessageId: '<1@shop.example>',
    tags: '[]',
    metadata: '{}',
    options: JSON.stringify(options),
    templateId: null,
    templateVersion: null,
    sizeBytes: mail.sizeBytes ?? content.length,
    content: blobKey === null ? content : null,
    blobKey,
    clientAddress: null,
    traceparent: null,
    dsn: null,
    recipients: mail.to.map((email) => ({
      messageId: newId('msg', nowMs),
      sendEventId: newId('evt', nowMs),
      rejectEventId: newId('evt', nowMs),
      email,
      suppressionKey: email.toLowerCase(),
      addressHash: '',
      role: 'to' as const,
      lane: `${mail.accountId ?? 'acc_1'}/${email.slice(email.indexOf('@') + 1)}`,
      simulateSuppressed: false,
      dsn: null,
    })),
  };
}

export async function deliveryRig(options: RigOptions = {}): Promise<Rig> {
  const storage = await tempDatabase();
  const clock = fakeClock();
  const blobs = openDiskBlobs(path.join(storage.folder, 'rig-blobs'));
  const dns = openDns({ servers: [], timeoutMs: 500 });
  const port = options.relayPort ?? 1;
  const routing: Routing = {
    route: { kind: 'relay', relay: { host: '127.0.0.1', port, implicitTls: false } },
    dns,
    mxPort: 25,
    mxAllow: [],
    own: { name: 'postrider.test', addresses: [], hasRoutes: async () => false, inbound: () => undefined },
    sources: openSourceAddresses([]),
    ...options.routing,
  };
  const reader = new DatabaseSync(dataDirectory(storage.folder).databaseFile);
  reader.exec('PRAGMA busy_timeout = 5000');
  const start = (more: Partial<DeliveryDeps> = {}): Delivery =>
    startDelivery({
      database: storage.database,
      blobs,
      clock: options.clock ?? clock,
      log: silentLog,
      routing,
      hostname: 'postrider.test',
      keysFor: () => Promise.resolve(undefined),
      pollMs: 20,
      quarantineAfterMs: 0,
      random: () => 0.5,
      ...options.deps,
      ...more,
    });
  let delivery: Delivery | undefined = options.idle ? undefined : start();

  const store = async (mail: RigMail, leased: boolean): Promise<{ ids: string[]; jobs: DeliveryJob[] }> => {
    const nowMs = (options.clock ?? clock).now();
    const content = Buffer.from(
      mail.content ?? 'From: orders@shop.example\r\nSubject: Hello\r\nMessage-ID: <1@shop.example>\r\n\r\nHello\r\n',
    );
    const blobKey = mail.blob ? await blobs.put(content) : null;
    const email = emailOf(mail, { nowMs, content, blobKey });
    const accountId = mail.accountId ?? 'acc_1';
    const mode = mail.mode ?? 'live';
    const source = mail.source ?? 'http';
    const retain = mail.retain ?? '30d';
    const expiresAtMs = (mail.sendAtMs ?? nowMs) + (mail.lifetimeMs ?? LIFETIME_MS);
    const result = await storage.database.execute(acceptOperation, {
      accountId,
      mode,
      source,
      nowMs,
      clockOffsetMs: 0,
      emails: [email],
      retain,
      contentUntilMs: nowMs + RETAIN_MS[retain],
      sendAtMs: mail.sendAtMs ?? null,
      expiresAtMs,
      from: email.headerFrom,
      idempotency: null,
      leaseUntilMs: leased ? nowMs + LEASE_MS : null,
    });
    const jobs = result.leased.map((row): DeliveryJob => {
      const recipient = email.recipients.find((one) => one.messageId === row.messageId)!;
      return {
        seq: row.seq,
        fence: 1,
        attempts: 0,
        crashes: 0,
        lane: recipient.lane,
        accountId,
        mode,
        messageId: row.messageId,
        recipient: recipient.email,
        status: 'queued',
        createdAt: nowMs,
        expiresAt: expiresAtMs,
        emailSeq: row.emailSeq,
        envelopeFrom: email.envelopeFrom,
        headerFrom: email.headerFrom,
        headerMessageId: email.headerMessageId,
        sizeBytes: email.sizeBytes,
        options: JSON.parse(email.options) as EmailOptions,
        retain,
        source,
        content: email.content,
        blobKey,
        traceparent: email.traceparent ?? null,
      };
    });
    return { ids: email.recipients.map((one) => one.messageId), jobs };
  };

  const rows = <T>(sql: string, ...params: (string | number)[]): T[] => reader.prepare(sql).all(...params) as T[];
  return {
    storage,
    clock,
    blobs,
    get delivery() {
      if (!delivery) throw new Error('the delivery does not run');
      return delivery;
    },
    store: async (mail) => (await store(mail, false)).ids,
    send: async (mail) => {
      const leaseUntilMs = (options.clock ?? clock).now() + LEASE_MS;
      const { ids, jobs } = await store(mail, true);
      mail.beforeDispatch?.();
      delivery!.dispatch(jobs, leaseUntilMs);
      return ids;
    },
    restart: async (deps) => {
      await delivery?.stop();
      delivery = start(deps);
    },
    status: (messageId) =>
      rows<{ status: string }>('SELECT status FROM message WHERE id = ?', messageId)[0]?.status ?? '',
    events: (messageId) =>
      rows<{ type: string; message_id: string; at: number; detail: string }>(
        "SELECT type, message_id, at, detail FROM event WHERE ? IN (message_id, '') ORDER BY seq",
        messageId ?? '',
      ).map((row) => ({ type: row.type, messageId: row.message_id, at: row.at, detail: JSON.parse(row.detail) })),
    attempts: (messageId) =>
      rows<{ number: number; record: string }>(
        'SELECT number, record FROM attempt WHERE message_id = ? ORDER BY number',
        messageId,
      ).map((row) => ({ number: row.number, ...JSON.parse(row.record) })),
    rows,
    tamper: (sql, ...params) => {
      reader.prepare(sql).run(...params);
    },
    close: async () => {
      await delivery?.stop();
      dns.close();
      reader.close();
      await storage.close();
    },
  };
}
