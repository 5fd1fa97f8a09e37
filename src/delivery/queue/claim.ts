/**
 * Claims due messages and reads everything that their attempts need. Live mail of an account that is suspended, or held by sending
 * protection, is not returned: it stays in the queue, without an attempt, until the account may send again. Held mail does not expire in
 * the meantime, unless its sender set a lifetime: the release extends its lifetime.
 */
import { LIFETIME_MS } from '../../base/backoff.ts';
import { sameAddressKey } from '../../mail/address.ts';
import { DELIVERY_WORK, type DeliveryJob, type EmailOptions } from '../../messages/messages.ts';
import { operation, type Transaction } from '../../storage/operation.ts';
import { rowset } from '../../storage/rows.ts';
import { type ListedAddress, suppressedUntil } from '../../suppressions/suppressions.ts';
import {
  type ClaimExtent,
  type ClaimLimits,
  type ClampDue,
  claim,
  clampDue,
  clockOffsetSql,
  finish,
  release,
  takenOf,
  type Work,
} from '../../work/work.ts';

export interface ClaimedJobs {
  jobs: DeliveryJob[];
  /** Includes rows on hold, which were given back. */
  taken: ClaimExtent;
}

export const claimOperation = operation(
  'delivery.claim',
  'write',
  async (tx, request: ClaimLimits): Promise<ClaimedJobs> => {
    const rows = await claim(tx, { kind: DELIVERY_WORK, ...request });
    const loaded = await load(tx, rows, request.nowMs);
    // A message that expired in the meantime bounces in the delivery, which does not send it either.
    const onHold = loaded.filter(({ isOnHold, expiresAtMs }) => isOnHold && expiresAtMs > request.nowMs);
    await releaseOnHold(tx, onHold, request.nowMs);
    const jobs = loaded.filter((one) => !onHold.includes(one)).map(({ job }) => job);
    return { jobs, taken: takenOf(rows) };
  },
);

/** Without the columns of the work row, and with `options` as JSON. */
type LoadedRow = Omit<DeliveryJob, 'options' | 'seq' | 'fence' | 'attempts' | 'crashes' | 'lane' | 'suppressed'> & {
  workSeq: number;
  options: string;
  clockOffsetMs: number;
  sendAt: number | null;
  accountStatus: string | null;
  protectionStatus: string | null;
};

interface Loaded {
  job: DeliveryJob;
  /** Its account is suspended, or sending protection holds the account's mail. */
  isOnHold: boolean;
  /** Unix ms at which the message expires although it is on hold. */
  expiresAtMs: number;
}

/** Loads messages in the order of the rows; ends a row without a message. The sandbox never reads the content. */
async function load(tx: Transaction, rows: readonly Work[], nowMs: number): Promise<Loaded[]> {
  if (rows.length === 0) return [];
  const work = rowset(tx, 'w', { seq: 'int', account_id: 'text', mode: 'text', subject: 'text' }, rows);
  const found = await tx.all<LoadedRow>(
    `SELECT w.seq AS "workSeq", m.account_id AS "accountId", m.mode, m.id AS "messageId", m.recipient, m.status,
       m.created_at AS "createdAt", m.send_at AS "sendAt", m.expires_at AS "expiresAt", ${clockOffsetSql('w')} AS "clockOffsetMs",
       m.email_seq AS "emailSeq", e.envelope_from AS "envelopeFrom", e.header_from AS "headerFrom",
       e.header_message_id AS "headerMessageId", e.traceparent, e.size_bytes AS "sizeBytes", e.options, e.retain, e.source,
       CASE WHEN w.mode = 'live' THEN e.content END AS content, e.content_digest AS "contentDigest", e.blob_key AS "blobKey", a.status AS "accountStatus",
       a.protection_status AS "protectionStatus"
     FROM ${work.sql} JOIN message m ON m.account_id = w.account_id AND m.mode = w.mode AND m.id = w.subject
       JOIN email e ON e.seq = m.email_seq LEFT JOIN account a ON a.id = w.account_id`,
    ...work.params,
  );
  const messages = new Map(found.map((row) => [row.workSeq, row]));
  const addressOf = ({ accountId, mode, recipient }: LoadedRow): ListedAddress => ({
    accountId,
    mode,
    email: sameAddressKey(recipient),
  });
  const untilMs = await suppressedUntil(tx, found.map(addressOf));
  // A message and its row are written and removed together; a row without its message must still not block the claims.
  await finish(
    tx,
    rows.filter((row) => !messages.has(row.seq)),
  );
  return rows.flatMap((row): Loaded[] => {
    const message = messages.get(row.seq);
    if (!message) return [];
    const { workSeq: seq, clockOffsetMs, sendAt, accountStatus, protectionStatus, options, ...rest } = message;
    const { fence, attempts, crashes, lane } = row;
    const job: DeliveryJob = {
      seq,
      fence,
      attempts,
      crashes,
      lane,
      ...rest,
      options: JSON.parse(options) as EmailOptions,
      ...(clockOffsetMs === 0 ? {} : { clockOffsetMs }),
      ...(untilMs(addressOf(message)) > nowMs ? { suppressed: true as const } : {}),
    };
    const isExtended = protectionStatus === 'held' && job.expiresAt - (sendAt ?? job.createdAt) >= LIFETIME_MS;
    const expiresAtMs = isExtended ? Number.POSITIVE_INFINITY : job.expiresAt;
    const isOnHold = row.mode === 'live' && (accountStatus === 'suspended' || protectionStatus === 'held');
    return [{ job, isOnHold, expiresAtMs }];
  });
}

/**
 * Live mail on hold is given back until this long after its claim, or up to twice as long, to spread its return. The end of the hold makes it
 * due.
 */
const ON_HOLD_RECHECK_MS = 120_000;

/** Gives rows on hold back, but not past the time at which the first of them expires. */
async function releaseOnHold(tx: Transaction, onHold: readonly Loaded[], nowMs: number): Promise<void> {
  if (onHold.length === 0) return;
  const jobs = onHold.map(({ job }) => job);
  const dueMs = nowMs + ON_HOLD_RECHECK_MS + (jobs[0]!.seq % 120) * 1000;
  await release(tx, jobs, Math.min(dueMs, ...onHold.map(({ expiresAtMs }) => expiresAtMs)));
}

/** Messages with the status `delayed` are excluded: the end of the pause that deferred them is not known here. */
const NOT_BEFORE = `(SELECT coalesce(m.send_at, 0) FROM message m WHERE m.account_id = work.account_id
  AND m.mode = work.mode AND m.id = work.subject AND m.status IN ('queued', 'scheduled'))`;
/** After the clock was set back, messages deferred by a pause are due. If the destination is still paused, they are deferred again. */
const NOT_BEFORE_IF_SET_BACK = `(SELECT CASE WHEN m.status = 'delayed' THEN 0 ELSE coalesce(m.send_at, 0) END
  FROM message m WHERE m.account_id = work.account_id AND m.mode = work.mode AND m.id = work.subject
  AND m.status IN ('queued', 'scheduled', 'delayed'))`;

/** Brings forward rows that are due later than any schedule allows; returns their number. */
export const clampDueOperation = operation('delivery.clampDue', 'write', (tx, clamp: ClampDue) =>
  clampDue(tx, { kind: DELIVERY_WORK, notBefore: clamp.isSetBack ? NOT_BEFORE_IF_SET_BACK : NOT_BEFORE }, clamp),
);
