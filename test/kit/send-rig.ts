/**
 * POST /send on a real database, without the HTTP shell: a clock that stands still, a dispatch that records its messages, and a verified
 * domain.
 */

import { randomBytes } from 'node:crypto';
import path from 'node:path';
import type { Account } from '../../src/accounts/accounts.ts';
import type { Result } from '../../src/base/failure.ts';
import type { Mode } from '../../src/base/mode.ts';
import { type Settlement, settleOperation } from '../../src/delivery/record/settle.ts';
import { createTrackingLinks, createUnsubscribeLinks } from '../../src/engagement/engagement.ts';
import { parseStrictJson } from '../../src/http/strict-json.ts';
import { type Answer, createInFlightKeys } from '../../src/idempotency/idempotency.ts';
import { htmlToText } from '../../src/mail/html/html-text.ts';
import type { DeliveryJob } from '../../src/messages/messages.ts';
import type { MailOrigin } from '../../src/send/accept-emails.ts';
import { createSend, type SendDependencies } from '../../src/send/send.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { createRender, createTemplateSource } from '../../src/templates/templates.ts';
import { testAddressHash } from './address-hash.ts';
import { fakeClock } from './fake-clock.ts';
import { tempDatabase } from './temp-database.ts';

/** A body that is accepted. */
export const GOOD = { from: 'Shop <shop@verified.example>', to: 'a@example.com', subject: 'Hello', text: 'Hi' };

export function testAccount(id: string, settings: Partial<Account['settings']> = {}): Account {
  return {
    id,
    name: 'Test',
    plan: 'enterprise',
    status: 'active',
    approvedEmailBytes: 2_000_000,
    limits: {},
    protectionStatus: 'good',
    twoFactorRequired: false,
    timeZone: 'UTC',
    settings: { variables: {}, missingVariables: 'error', retainContent: '30d', defaultFrom: null, ...settings },
    createdAt: 0,
  };
}

export interface SendOptions {
  account?: Account;
  mode?: Mode;
  allowedSenders?: string[];
  key?: string;
  dryRun?: boolean;
  origin?: MailOrigin;
}

export async function sendRig(changes: Partial<SendDependencies> = {}) {
  const temp = await tempDatabase();
  const clock = fakeClock();
  const offered: DeliveryJob[] = [];
  const place = { secretKey: randomBytes(32), baseUrl: 'https://mail.test' };
  const unsubscribeLinks = createUnsubscribeLinks(place);
  const trackingLinks = createTrackingLinks(place);
  const templates = createTemplateSource({ database: temp.database, clock });
  const dependencies: SendDependencies = {
    database: temp.database,
    blobs: openDiskBlobs(path.join(temp.folder, 'blobs')),
    directDispatch: { hasCapacity: () => true, dispatch: (jobs) => offered.push(...jobs) },
    clock,
    addressHash: testAddressHash,
    inFlight: createInFlightKeys(),
    render: createRender(htmlToText),
    htmlToText,
    templates,
    unsubscribeLinks,
    trackingLinks,
    isVerified: async (_account, domain) => domain === 'verified.example',
    ...changes,
  };
  const sender = createSend(dependencies);
  const account = testAccount('acc_test');
  const send = (body: unknown, options: SendOptions = {}): Promise<Result<Answer>> => {
    const raw = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    return sender.send({
      caller: {
        account: options.account ?? account,
        mode: options.mode ?? 'live',
        allowedSenders: options.allowedSenders ?? [],
      },
      origin: options.origin ?? {},
      read: () => parseStrictJson(raw),
      ...(options.key !== undefined && { idempotency: { endpoint: '/send', key: options.key, bytes: () => raw } }),
      ...(options.dryRun === true && { dryRun: true }),
    });
  };
  return { ...temp, clock, offered, dependencies, sender, account, send, templates, unsubscribeLinks, trackingLinks };
}

export type SendRig = Awaited<ReturnType<typeof sendRig>>;

export interface SentData {
  messageId: string;
  headerMessageId: string;
  from: string;
  status: string;
  totalRecipients: number;
  recipients: { email: string; role: string; status: string; messageId: string }[];
}

/** Returns the data of an accepted send; throws if it was refused. */
export function dataOf(result: Result<Answer>): SentData {
  if (!result.ok) throw new Error(JSON.stringify(result.failure));
  return (JSON.parse(result.value.json) as { data: SentData }).data;
}

/** Reads rows directly from the database file, while the threads run. */
export async function rowsOf<T>(rig: SendRig, sql: string): Promise<T[]> {
  const { DatabaseSync } = await import('node:sqlite');
  const { prepareDataDirectory } = await import('../../src/storage/data-directory.ts');
  const connection = new DatabaseSync(prepareDataDirectory(rig.folder).databaseFile, { readOnly: true });
  try {
    return connection.prepare(sql).all() as T[];
  } finally {
    connection.close();
  }
}

/** Settles a dispatched message as the delivery does: with the remote server's reply, and a suppression. */
export async function settle(
  rig: SendRig,
  messageId: string,
  outcome: Pick<Settlement, 'to'> & Partial<Settlement>,
): Promise<void> {
  const job = rig.offered.find((one) => one.messageId === messageId);
  if (job === undefined) throw new Error(`${messageId} was not claimed`);
  const { seq, fence, accountId, mode, emailSeq, retain } = job;
  const settlement: Settlement = {
    seq,
    fence,
    accountId,
    mode,
    messageId,
    emailSeq,
    retain,
    atMs: rig.clock.now(),
    attempts: 1,
    attempt: null,
    nextAttemptAtMs: null,
    event: null,
    suppress: null,
    followedBy: null,
    sandboxOutcome: null,
    ...outcome,
  };
  const result = await rig.database.execute(settleOperation, [settlement]);
  if (result.lost.length > 0) throw new Error(`the lease of ${messageId} was lost`);
}
