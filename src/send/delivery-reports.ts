/**
 * Sends the delivery reports (RFC 3461, RFC 3464) that submitters requested: one for each event that its message's sender is notified
 * of. The work is written with the event; the key of the report is the event's id, so a retry after a crash is not a second report.
 *
 * Parameters of RFC 3461 are not passed on to the next server. The outcome is what its server replied: `delivered` if that was an MX
 * host of the recipient, `relayed` if it was a relay of the operator.
 */
import { deliveryDelayMs, jitter } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import { randomText } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import { type Address, parseAddress } from '../mail/address.ts';
import {
  composeDeliveryReport,
  type DeliveryReport,
  type ReportAction,
  type ReturnedMessage,
} from '../mail/compose/delivery-report.ts';
import { textField } from '../mail/compose/header.ts';
import { endOfHeader } from '../mail/mime/header-fields.ts';
import type { EmailDsn, MessageDsn } from '../messages/messages.ts';
import { BlobDamaged, type Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import { isFreeOnly } from '../work/work.ts';
import { type ClaimedReport, claimReportsOperation, settleReportOperation } from './delivery-report-store.ts';
import type { SystemMailer } from './system-mail.ts';

const ROUND_MS = 1_000;
const LEASE_MS = 60_000;
const BATCH = 20;
/** More than three days, since a report is retried by the schedule of a delivery. */
const MOST_RETRIES = 20;
/** A larger message is returned by its header alone, like Postfix above its `bounce_size_limit`. */
const MOST_RETURNED_BYTES = 1_000_000;
const MOST_HEADER_BYTES = 64_000;

export interface DeliveryReportDeps {
  database: Database;
  blobs: Pick<Blobs, 'get'>;
  clock: Clock;
  log: Log;
  /** Name of this service, for Reporting-MTA. */
  hostname: string;
  /** Hosts of the configured relays. */
  relays: readonly string[];
  mail: Pick<SystemMailer, 'sender' | 'sendDeliveryReport'>;
  everyMs?: number;
}

export function startDeliveryReports(deps: DeliveryReportDeps): Rounds {
  return startRounds({
    name: 'delivery reports',
    everyMs: deps.everyMs ?? ROUND_MS,
    log: deps.log,
    round: (isStopping) => sendDue(deps, isStopping),
  });
}

async function sendDue(deps: DeliveryReportDeps, isStopping: () => boolean): Promise<void> {
  const { database, clock, log } = deps;
  while (!isStopping()) {
    const freeOnly = isFreeOnly(database.state());
    const limits = { nowMs: clock.now(), leaseMs: LEASE_MS, limit: BATCH, quarantined: true, freeOnly };
    const due = await database.execute(claimReportsOperation, limits);
    for (const claimed of due) {
      const { seq, fence, messageId, attempts } = claimed;
      let againAtMs: number | null = null;
      try {
        await sendOne(deps, claimed);
      } catch (error) {
        const isLast = attempts >= MOST_RETRIES;
        log[isLast ? 'error' : 'warn']({ messageId, error: (error as Error).message }, 'delivery report not sent');
        if (!isLast) againAtMs = clock.now() + jitter(deliveryDelayMs(attempts + 1), Math.random());
      }
      await database.execute(settleReportOperation, { lease: { seq, fence }, againAtMs });
    }
    if (due.length < BATCH) return;
  }
}

async function sendOne(deps: DeliveryReportDeps, claimed: ClaimedReport): Promise<void> {
  const { clock, log, mail } = deps;
  const { accountId, messageId, eventId, envelopeFrom, isSenderSuppressed } = claimed;
  const to = parseAddress(envelopeFrom);
  if (!to.ok || isSenderSuppressed) {
    const reason = to.ok ? 'the envelope sender is suppressed' : `the envelope sender ${to.reason}`;
    log.info({ accountId, messageId, eventId, reason }, 'delivery report skipped');
    return;
  }
  const from = mail.sender ?? postmasterOf(to.value);
  const nowMs = clock.now();
  const reportId = `<${randomText(26)}@${from.domain}>`;
  const report = composeDeliveryReport({
    ...reportOf(claimed, deps),
    from: { ...from, name: 'Mail Delivery System' },
    to: to.value,
    messageId: reportId,
    dateMs: nowMs,
    original: {
      subject: claimed.subject,
      messageId: claimed.headerMessageId,
      returned: await returnedMessage(deps.blobs, claimed),
    },
  });
  await mail.sendDeliveryReport({ key: eventId, from, to: to.value, messageId: reportId, report });
  log.info({ accountId, messageId, eventId, action: actionOf(claimed, deps) }, 'delivery report sent');
}

/** A service without a host name sends from the domain of the original sender. */
function postmasterOf({ domain }: Address): Address {
  return { name: '', local: 'postmaster', domain, address: `postmaster@${domain}` };
}

/** Fields of an event's detail that a report repeats; see event-schema.ts. */
interface Failure {
  category: string;
  smtpCode: number | null;
  enhancedCode: string | null;
  reply: string | null;
  remoteHost: string | null;
  advice: string;
}

interface EventDetail {
  delivery?: { remoteHost: string | null; reply: string | null };
  deliveryDelay?: Failure;
  bounce?: Failure;
  reject?: { advice: string };
}

function actionOf({ eventType, detail }: ClaimedReport, { relays }: Pick<DeliveryReportDeps, 'relays'>): ReportAction {
  if (eventType === 'DeliveryDelay') return 'delayed';
  if (eventType !== 'Delivery') return 'failed';
  const { delivery } = JSON.parse(detail) as EventDetail;
  return relays.includes(delivery?.remoteHost ?? '') ? 'relayed' : 'delivered';
}

function reportOf(
  claimed: ClaimedReport,
  deps: DeliveryReportDeps,
): Omit<DeliveryReport, 'from' | 'to' | 'messageId' | 'dateMs' | 'original'> {
  const { recipient, createdAt, eventAt, expiresAt } = claimed;
  const { envid } = JSON.parse(claimed.emailDsn ?? '{}') as EmailDsn;
  const { originalRecipient } = JSON.parse(claimed.messageDsn) as MessageDsn;
  const action = actionOf(claimed, deps);
  const { delivery, deliveryDelay, bounce, reject } = JSON.parse(claimed.detail) as EventDetail;
  const failure = bounce ?? deliveryDelay;
  return {
    action,
    reportingMta: deps.hostname,
    envid,
    arrivalMs: createdAt,
    recipient,
    originalRecipient,
    status: failure ? failureStatus(action, failure) : reject ? '5.7.1' : successStatus(delivery?.reply),
    remoteMta: failure?.remoteHost ?? delivery?.remoteHost ?? null,
    diagnostic: reject ? 'the recipient is on the suppression list' : (failure?.reply ?? delivery?.reply ?? null),
    isReply: failure ? failure.smtpCode !== null : reject === undefined,
    lastAttemptMs: eventAt,
    willRetryUntilMs: action === 'delayed' && bounce === undefined ? expiresAt : undefined,
    advice: failure?.advice ?? reject?.advice,
  };
}

function successStatus(reply: string | null | undefined): string {
  return /^2\d\d (2\.\d{1,3}\.\d{1,3})\b/.exec(reply ?? '')?.[1] ?? '2.0.0';
}

/** RFC 3463 codes for failures whose reply has none. */
const STATUS_SUBJECTS: Readonly<Record<string, string>> = {
  'mailbox-not-found': '1.1',
  'domain-not-found': '1.2',
  'mailbox-full': '2.2',
  'content-rejected': '6.0',
  blocked: '7.1',
  policy: '7.1',
  expired: '4.7',
  'rate-limited': '3.2',
  greylisted: '7.1',
};

/** The class follows the action: 5 for a failure, 4 for a delay. An expired message has 5.4.7, whatever the last reply was. */
function failureStatus(action: ReportAction, { category, enhancedCode }: Failure): string {
  const statusClass = action === 'failed' ? '5' : '4';
  const subject = category === 'expired' ? undefined : /^[45]\.(\d{1,3}\.\d{1,3})$/.exec(enhancedCode ?? '')?.[1];
  return `${statusClass}.${subject ?? STATUS_SUBJECTS[category] ?? '0.0'}`;
}

/** RET applies to failures only (RFC 3461 §4.3). Content that is no longer kept, or damaged, is replaced by the fields in its record. */
async function returnedMessage(blobs: Pick<Blobs, 'get'>, claimed: ClaimedReport): Promise<ReturnedMessage> {
  const { ret } = JSON.parse(claimed.emailDsn ?? '{}') as EmailDsn;
  const content = await contentOf(blobs, claimed);
  if (content === undefined) return { headersOnly: true, content: recordedHeader(claimed) };
  const isFailure = claimed.eventType === 'Bounce' || claimed.eventType === 'Reject';
  if (ret === 'full' && isFailure && content.length <= MOST_RETURNED_BYTES) return { headersOnly: false, content };
  return { headersOnly: true, content: boundedHeader(content) };
}

/** Returns the content; undefined if it is no longer kept, or is damaged. The report is sent in any case. */
async function contentOf(blobs: Pick<Blobs, 'get'>, claimed: ClaimedReport): Promise<Buffer | undefined> {
  const { content, blobKey } = claimed;
  if (content !== null) return Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  if (blobKey === null) return undefined;
  try {
    return await blobs.get(blobKey);
  } catch (error) {
    if (error instanceof BlobDamaged) return undefined;
    throw error;
  }
}

/** The header fields up to a limit, cut between lines. */
function boundedHeader(content: Buffer): Buffer {
  const header = content.subarray(0, endOfHeader(content).headerEnd);
  if (header.length <= MOST_HEADER_BYTES) return header;
  return header.subarray(0, header.lastIndexOf('\r\n', MOST_HEADER_BYTES) + 2);
}

function recordedHeader({ headerFrom, headerTo, subject, headerMessageId }: ClaimedReport): Buffer {
  const { to, cc } = JSON.parse(headerTo) as { to: string[]; cc: string[] };
  const fields = [
    textField('From', headerFrom),
    ...(to.length > 0 ? [textField('To', to.join(', '))] : []),
    ...(cc.length > 0 ? [textField('Cc', cc.join(', '))] : []),
    textField('Subject', subject),
    textField('Message-ID', headerMessageId),
  ];
  return Buffer.from(fields.join(''), 'latin1');
}
