/**
 * How an acceptance crosses to the storage thread: as one JSON list without names, the bytes beside it, and back only what the
 * thread decided. It is the hottest message of the program: cloned as it is, it cost 11 us of the serving thread and 6 us
 * of the storage thread, as JSON with names 4 and 4 (accept row of the benchmarks, 1.8 KB bodies).
 */
import type { UnpackedBytes, Wire } from '../storage/operation.ts';
import { notStored, sendAnswer } from './accept-rows.ts';
import type {
  Acceptance,
  AcceptanceResult,
  AcceptedEmail,
  AcceptedRecipient,
  RecipientAnswer,
} from './accept-store.ts';

type PackedRecipient = ReturnType<typeof packRecipient>;
type PackedEmail = ReturnType<typeof packEmail>;
type PackedAcceptance = ReturnType<typeof packAcceptance>;

function packRecipient(one: AcceptedRecipient) {
  return [
    one.messageId,
    one.sendEventId,
    one.rejectEventId,
    one.email,
    // Nearly always the address as it is.
    one.suppressionKey === one.email ? 0 : one.suppressionKey,
    one.role,
    one.lane,
    one.simulateSuppressed,
  ] as const;
}

function unpackRecipient(packed: PackedRecipient): AcceptedRecipient {
  const [messageId, sendEventId, rejectEventId, email, suppressionKey, role, lane, simulateSuppressed] = packed;
  return {
    messageId,
    sendEventId,
    rejectEventId,
    email,
    suppressionKey: suppressionKey === 0 ? email : suppressionKey,
    role,
    lane,
    simulateSuppressed,
  };
}

function packEmail(email: AcceptedEmail) {
  return [
    email.headerFrom,
    email.headerTo,
    email.envelopeFrom,
    email.subject,
    email.headerMessageId,
    email.tags,
    email.metadata,
    email.options,
    email.templateId,
    email.templateVersion,
    email.sizeBytes,
    email.content === null ? -1 : email.content.length,
    email.blobKey,
    email.recipients.map(packRecipient),
  ] as const;
}

function unpackEmail(packed: PackedEmail, bytes: UnpackedBytes): AcceptedEmail {
  return {
    headerFrom: packed[0],
    headerTo: packed[1],
    envelopeFrom: packed[2],
    subject: packed[3],
    headerMessageId: packed[4],
    tags: packed[5],
    metadata: packed[6],
    options: packed[7],
    templateId: packed[8],
    templateVersion: packed[9],
    sizeBytes: packed[10],
    content: packed[11] === -1 ? null : bytes.take(packed[11]),
    blobKey: packed[12],
    recipients: packed[13].map(unpackRecipient),
  };
}

function packAcceptance(one: Acceptance) {
  const { idempotency: key } = one;
  return [
    one.accountId,
    one.mode,
    one.source,
    one.nowMs,
    one.clockOffsetMs ?? 0,
    one.emails.map(packEmail),
    one.retain,
    one.contentUntilMs,
    one.sendAtMs,
    one.expiresAtMs,
    one.from,
    key && ([key.endpoint, key.key, key.bodyHash.length, key.status, key.expiresAtMs] as const),
    one.leaseUntilMs,
  ] as const;
}

function unpackAcceptance(packed: PackedAcceptance, bytes: UnpackedBytes): Acceptance {
  const emails = packed[5].map((email) => unpackEmail(email, bytes));
  const key = packed[11];
  return {
    accountId: packed[0],
    mode: packed[1],
    source: packed[2],
    nowMs: packed[3],
    clockOffsetMs: packed[4],
    emails,
    retain: packed[6],
    contentUntilMs: packed[7],
    sendAtMs: packed[8],
    expiresAtMs: packed[9],
    from: packed[10],
    idempotency: key && {
      endpoint: key[0],
      key: key[1],
      bodyHash: bytes.take(key[2]),
      status: key[3],
      expiresAtMs: key[4],
    },
    leaseUntilMs: packed[12],
  };
}

const CODES: Record<RecipientAnswer['status'], string> = { queued: 'q', scheduled: 's', suppressed: 'x' };
const STATUSES: Record<string, RecipientAnswer['status']> = { q: 'queued', s: 'scheduled', x: 'suppressed' };

/** A code for each recipient, in their order; with what is rarer behind it, a list. Empty: nothing was stored. */
type PackedResult = string | [codes: string, leased: [seq: number, emailSeq: number][], unkeptBlobKeys: string[]];

function packResult({ stored, recipients, leased, unkeptBlobKeys }: AcceptanceResult): PackedResult {
  if (!stored) return '';
  let codes = '';
  for (const { status } of recipients) codes += CODES[status];
  if (leased.length === 0 && unkeptBlobKeys.length === 0) return codes;
  return [codes, leased.map(({ seq, emailSeq }) => [seq, emailSeq]), unkeptBlobKeys];
}

function unpackResult(packed: PackedResult, acceptance: Acceptance): AcceptanceResult {
  if (packed === '') return notStored();
  const [codes, pairs, unkeptBlobKeys] = typeof packed === 'string' ? ([packed, [], []] as const) : packed;
  const result: AcceptanceResult = {
    stored: true,
    answer: '',
    recipients: [],
    leased: [],
    unkeptBlobKeys: [...unkeptBlobKeys],
  };
  let at = 0;
  for (const { recipients } of acceptance.emails) {
    for (const { email, role, messageId } of recipients) {
      const status = STATUSES[codes[at++]!]!;
      result.recipients.push({ email, role, status, messageId });
      // A lease is given with every copy that is due, or with none.
      const pair = status === 'queued' ? pairs[result.leased.length] : undefined;
      if (pair !== undefined) result.leased.push({ messageId, seq: pair[0], emailSeq: pair[1] });
    }
  }
  result.answer = sendAnswer(acceptance.from, result.recipients);
  return result;
}

export const acceptWire: Wire<Acceptance, AcceptanceResult> = {
  packArgs: (acceptance, bytes) => {
    for (const { content } of acceptance.emails) if (content !== null) bytes.add(content);
    if (acceptance.idempotency) bytes.add(acceptance.idempotency.bodyHash);
    return JSON.stringify(packAcceptance(acceptance));
  },
  unpackArgs: (packed, bytes) => unpackAcceptance(JSON.parse(packed as string) as PackedAcceptance, bytes),
  packResult,
  unpackResult: (packed, acceptance) => unpackResult(packed as PackedResult, acceptance),
};
